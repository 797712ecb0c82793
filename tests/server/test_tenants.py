"""Random calls of four tenants, of all roles: nobody sees or changes a row that is not its own or shared."""

import json
import os
import random
import re

import pytest
from sqlalchemy import select
from tests.server.tenant_calls import ENDLESS_READS, INTO_RUNS, KEYS, OTHER_ROUTES, bodies_of

from dokimos.server._db.tables import DATASET_ITEMS, DATASET_VERSIONS, ITEMS, METADATA, RUNS

ADMIN = "admin-key"
LONG = "DOKIMOS_LONG_TESTS"
TENANTS = ("ada", "bob", "cyd", "dee")
ROLES = ("VIEWER", "EDITOR", "ADMIN")
OWNED = tuple(table for table in METADATA.sorted_tables if "tenant_id" in table.c)
PARTS = ((ITEMS, RUNS, ITEMS.c.run_id), (DATASET_ITEMS, DATASET_VERSIONS, DATASET_ITEMS.c.version_id))
"""Tables without a tenant of their own, and those whose tenant is theirs."""
NAME = re.compile(r"\{(\w+)\}")
WRITES = ("post", "put", "patch", "delete")
NOBODY = "018f0000-0000-7000-8000-000000000000"


@pytest.fixture(autouse=True)
def _deleted_rows_stay(monkeypatch):
    """What is deleted is removed in the background, which would look as if a caller had changed it."""
    monkeypatch.setattr("dokimos.server._workers.maintenance._PURGE_SECONDS", 1e6)


class Caller:
    """A key, or none, and what may be seen with it."""

    def __init__(self, name, headers, tenant=None, *, is_restricted=False):
        self.name = name
        self.headers = headers
        self.tenant = tenant
        self.is_restricted = is_restricted

    @property
    def marker(self):
        """What every text contains that this caller writes; all of a tenant's keys write the same."""
        return f"marker-of-{self.tenant or 'everyone'}"

    def __repr__(self):
        return self.name


class World:
    """A server, its callers, and the ids and names that any of them has met."""

    def __init__(self, serve, seed, **settings):
        self.random = random.Random(seed)
        self.settings = settings
        self.api = serve(api_key=ADMIN, **settings)
        self.callers_keys = {}
        self.callers = [Caller("legacy key", {"Authorization": f"Bearer {ADMIN}"})]
        self.callers += [self._create_caller(role, None) for role in ROLES]
        self.callers += [self._create_caller(role, tenant) for tenant in TENANTS for role in ROLES]
        self.callers += [Caller("anonymous", {}, is_restricted=True)]
        self.callers += [Caller("wrong key", {"Authorization": "Bearer no"}, is_restricted=True)]
        ids = ("experimentId", "runId", "itemId", "commentId", "keyId", "lineageId", "datasetItemId")
        self.ids = {name: set() for name in ids}
        self.owners = {}
        """The run of each item and comment, and the experiment of each run: most calls name both."""
        self.names = ["shared", "common/ö", *(f"own-{tenant}" for tenant in TENANTS)]
        self.done = set()
        """The routes that have done what they were asked, at least once."""
        paths = self.api.get("/openapi.json", headers=self.callers[0].headers).json()["paths"]
        self.reads = {path: methods["get"] for path, methods in paths.items() if "get" in methods}
        for path in ENDLESS_READS:
            del self.reads[path]
        self.writes = {
            f"{method} {path}" for path, methods in paths.items() for method in methods if method in WRITES
        } - set(OTHER_ROUTES)
        missing = self.writes ^ set(bodies_of(self, self.callers[0]))
        assert not missing, f"tests/server/tenant_calls.py must call exactly what there is: {missing}"

    def _create_caller(self, role, tenant):
        body = {"name": f"marker-of-{tenant or 'everyone'}", "role": role, "tenantId": tenant}
        answer = self.api.post(
            "/api/v1/api-keys", json=body, headers={"Authorization": f"Bearer {ADMIN}"}
        ).json()
        headers = {"Authorization": f"Bearer {answer['key']}"}
        self.callers_keys.setdefault(tenant, []).append(answer["apiKey"]["id"])
        return Caller(f"{role} of {tenant or 'all'}", headers, tenant, is_restricted=tenant is not None)

    def begin(self):
        """Let each tenant, and one whom all see, have a row of each kind."""
        for caller in self.callers:
            if not caller.name.startswith("EDITOR"):
                continue
            name = f"own-{caller.tenant}" if caller.is_restricted else "shared"
            self.make(caller, "post /api/v1/datasets", name, name=name)
            self.make(caller, "post /api/v1/datasets/{name}/versions", name)
            nothing = {"datasetName": None, "datasetVersion": None}
            self.make(caller, "post /api/v1/projects/{name}/runs", name, **nothing)
            self.make(caller, "post /api/v1/runs/{runId}/items", name)
            self.make(caller, "get /api/v1/runs/{runId}", name)
            self.make(caller, "post /api/v1/runs/{runId}/comments", name, itemId=None)
            self.make(caller, "put /api/v1/runs/{runId}/items/{itemId}/annotation", name)
            items = [{"itemResultId": max(self.ids["itemId"])}]
            self.make(caller, "post /api/v1/datasets/promote", name, datasetName=name, items=items)
            self.make(caller, "patch /api/v1/runs/{runId}", name, status="SUCCESS")

    def make(self, caller, route, target, /, **members):
        """Call a route for what was made last, with some members of the body as they are said here."""
        values = {"name": target} | {key: max(known) for key, known in self.ids.items() if known}
        path = NAME.sub(lambda match: values[match[1]], route.split()[1])
        body = {**bodies_of(self, caller)[route](), **members} if route in self.writes else None
        status = self.call(caller, route, path, body)
        assert status < 300, (caller, route, body, status)

    def step(self):
        """Let some caller do something, and check what it sees and what changed."""
        caller = self.random.choice(self.callers)
        if self.random.random() < 0.4:
            path = self.random.choice(sorted(self.reads))
            query = [
                f"{each['name']}={self.part(each['name'])}"
                for each in self.reads[path].get("parameters", ())
                if each["in"] == "query" and each["required"]
            ]
            return self.call(caller, f"get {path}", f"{self.aim(path)}?{'&'.join(query)}", None)
        route = self.random.choice(sorted(self.writes))
        body = bodies_of(self, caller)[route]()
        path = route.split()[1]
        path = NAME.sub(self.aim_at_key(caller), path) if route in KEYS else self.aim(path, body)
        if not caller.is_restricted and path.endswith("/promote"):
            # Whoever sees all rows may show those of one tenant to all; that is not what is looked for here.
            body["items"][0]["itemResultId"] = NOBODY
        if route in INTO_RUNS and self.is_shared_run(path):
            # What a tenant writes into a run that all see, all see: it has no business there.
            body = json.loads(json.dumps(body).replace(caller.marker, "marker-of-everyone"))
        return self.call(caller, route, path, body)

    def is_shared_run(self, path):
        query = select(RUNS.c.id).where(RUNS.c.id == path.split("/")[4], RUNS.c.tenant_id.is_(None))
        return bool(self.read(query))

    def call(self, caller, route, path, body):
        before = self.foreign_rows(caller)
        method = route.split()[0].upper()
        headers = dict(caller.headers)
        if self.random.random() < 0.3:
            headers["Idempotency-Key"] = self.random.choice("kl")
        answer = self.api.request(method, path, headers=headers, json=body)
        # A run that ended gets a verdict in the background, which is a change of its tenant's row.
        self.api.portal.call(self.api.app.state.comparisons.wait_until_idle)
        call = (caller, method, path, body, answer.status_code)
        assert answer.status_code < 500, (call, answer.text)
        if caller.is_restricted:
            for tenant in TENANTS:
                if tenant != caller.tenant:
                    assert f"marker-of-{tenant}" not in answer.text, call
            assert self.foreign_ids(caller).isdisjoint(self._new_ids(answer.text, path, body)), call
            assert self.foreign_rows(caller) == before, call
        if answer.is_success:
            self.done.add(route)
        self.learn(answer)
        return answer.status_code

    def aim(self, path, body=None):
        """Put values into a path that mostly belong together, and to the run that the body names."""
        values = {name: self.part(name) for name in NAME.findall(path)}
        run = (body or {}).get("candidateRunId") or (body or {}).get("runId")
        aims = [("runId", values.get(name)) for name in ("itemId", "commentId")] + [("experimentId", run)]
        for name, part in aims:
            if name in values and part is not None and self.random.random() < 0.8:
                values[name] = self.owners.get(part, values[name])
        return NAME.sub(lambda match: values[match[1]], path)

    def aim_at_key(self, caller):
        """A key that the walk has made; for a tenant also one that another tenant or everyone calls with."""
        others = [
            key
            for tenant, keys in self.callers_keys.items()
            for key in keys
            if caller.is_restricted and tenant != caller.tenant
        ]
        own = {key for keys in self.callers_keys.values() for key in keys}
        made = sorted(self.ids["keyId"] - own)
        return self.random.choice(made if made and self.random.random() < 0.6 else [*others, NOBODY])

    def part(self, name):
        """Some value of a part of a path."""
        name = "runId" if name.endswith("RunId") else name
        if self.ids.get(name):
            return self.random.choice(sorted(self.ids[name]))
        if name in ("name", "projectName"):
            return self.random.choice(self.names).replace("/", "%2F")
        return self.random.choice(["1", "2", "latest"]) if name == "version" else NOBODY

    def learn(self, answer):
        if answer.headers.get("content-type", "").startswith("application/json"):
            self._learn(answer.json(), None)

    def _learn(self, value, run):
        if isinstance(value, list):
            for each in value:
                self._learn(each, run)
        elif isinstance(value, dict):
            run = value["id"] if "experimentId" in value and "items" in value else value.get("runId", run)
            for key, each in value.items():
                self._learn(each, run)
                if key in self.ids and isinstance(each, str):
                    self.ids[key].add(each)
            if "experimentId" in value and "items" in value:
                self.owners[value["id"]] = value["experimentId"]
            for name, sign in (
                ("experimentId", "latestRun"), ("itemId", "evalResults"), ("commentId", "body"),
                ("keyId", "lastUsedAt"), ("datasetItemId", "lineageId"),
            ):  # fmt: skip
                if sign in value and isinstance(value.get("id"), str):
                    self.ids[name].add(value["id"])
                    self.owners.setdefault(value["id"], run)

    def read(self, query):
        database = self.api.app.state.database
        return self.api.portal.call(database.read, lambda connection: connection.execute(query).all())

    def foreign_rows(self, caller):
        """All rows with their values that the caller must not see, those of others."""
        if not caller.is_restricted:
            return None
        queries = [(table, select(table), table.c.tenant_id) for table in OWNED]
        queries += [
            (
                table,
                select(table, owner.c.tenant_id.label("tenant_id")).join(owner, key == owner.c.id),
                owner.c.tenant_id,
            )
            for table, owner, key in PARTS
        ]
        # Those of annotations that are shared have an empty text as their tenant.
        is_foreign = [
            query.where(tenant.is_not(None), tenant != "").order_by(table.c.id)
            for table, query, tenant in queries
        ]
        return [row for query in is_foreign for row in self.read(query) if row.tenant_id != caller.tenant]

    def foreign_ids(self, caller):
        return {row.id for row in self.foreign_rows(caller)}

    def _new_ids(self, text, path, body):
        """The identifiers of an answer that were not in the request, which errors may repeat."""
        request = path + json.dumps(body)
        return {found for found in re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", text)} - {
            found for found in re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", request)
        }


@pytest.mark.parametrize(
    "settings", [{}, {"require_auth_for_reads": True}, {"read_only_shared_rows": True}], ids=str
)
def test_nobody_sees_or_changes_a_foreign_row(serve, settings):
    walk(World(serve, seed=1, **settings), steps=150)


@pytest.mark.parametrize("way", ["edit", "promote"])
def test_what_an_administrator_makes_of_a_tenants_version_stays_that_tenants(serve, way):
    """For whoever sees all rows, a tenant's version of a shared dataset is the latest one."""
    world = World(serve, seed=1)
    admin, ada, bob = (
        next(caller for caller in world.callers if caller.name == name)
        for name in ("legacy key", "EDITOR of ada", "EDITOR of bob")
    )
    world.make(admin, "post /api/v1/datasets", "shared", name="shared")
    world.make(admin, "post /api/v1/datasets/{name}/versions", "shared")
    world.make(ada, "post /api/v1/datasets/{name}/versions", "shared")
    if way == "edit":
        path = "/api/v1/datasets/shared/versions/latest/edits"
        body = {"changes": [{"op": "add", "inputs": {"q": "new"}}]}
    else:
        world.make(
            admin, "post /api/v1/projects/{name}/runs", "shared", datasetName=None, datasetVersion=None
        )
        world.make(admin, "post /api/v1/runs/{runId}/items", "shared")
        world.make(admin, "get /api/v1/runs/{runId}", "shared")
        path = "/api/v1/datasets/promote"
        body = {"datasetName": "shared", "items": [{"itemResultId": max(world.ids["itemId"])}]}

    assert world.call(admin, "post", path, body) == 201

    for caller, version in ((admin, 3), (ada, 3), (bob, 1)):
        path = "/api/v1/datasets/shared/versions/latest"
        assert world.api.get(path, headers=caller.headers).json()["version"] == version
        world.call(caller, "get", f"{path}/items", None)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(LONG not in os.environ, reason=f"takes an hour; set {LONG}=1")
@pytest.mark.parametrize("seed", range(20))
def test_nobody_sees_or_changes_a_foreign_row_in_long_walks(serve, seed):
    walk(World(serve, seed), steps=2_000)


def walk(world, steps):
    world.begin()
    statuses = [world.step() for _ in range(steps)]
    # The walk must reach what it is about: things that are done, refused and not found.
    for status in (200, 201, 204, 403, 404):
        assert status in statuses, statuses
    if steps > 1000:
        # A gate, for one, needs two runs that have ended in an experiment that nobody has deleted meanwhile.
        assert len(world.writes - world.done) <= 2, world.writes - world.done
