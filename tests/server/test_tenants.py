"""Random calls of tenants, of all roles, of members of projects: nobody sees or changes what it may not.

What may be seen and changed is said by a model in plain Python (`access_model`). The calls are made from the
description of the API, so a new route takes part as soon as it exists; triggers of the database report each
row that a call has changed (`change_log`).
"""

import asyncio
import gc
import json
import os
import random
import re
from urllib.parse import quote, urlencode

import pytest
from sqlalchemy import select
from tests.server import access_model, change_log
from tests.server.access_model import ADMIN, EDITOR, VIEWER, Caller, Model
from tests.server.tenant_calls import ENDLESS_READS, FIXED_KEYS, OTHER_ROUTES, bodies_of

from dokimos._http.address_policy import AddressPolicy
from dokimos.server._db.trace_tables import TRACES
from dokimos.server._online_settings import OnlineSettings
from dokimos.server._services.accounts.principal import ANONYMOUS
from dokimos.server._services.comparisons.run_comparison import compare_stored_runs

ADMIN_KEY = "admin-key"
WRONG_KEY = "no"
LONG = "DOKIMOS_LONG_TESTS"
CALLS = 200_000 if LONG in os.environ else 14_400
"""Calls of all walks together: each finds planted faults that 10,000 calls without an aim find."""
TENANTS = ("tenant-ada", "tenant-bob", "tenant-cyd")
NAMES = ("name-a", "name-b", "name-c", "common/ö")
"""Of projects and of data sets; each tenant may have one of each name."""
SETTINGS = [{}, {"require_auth_for_reads": True}, {"read_only_shared_rows": True}]
PART = re.compile(r"\{(\w+)\}")
WRITES = ("post", "put", "patch", "delete")
NOBODY = "018f0000-0000-7000-8000-000000000000"
TABLES = {
    "experimentId": "experiments", "runId": "runs", "candidateRunId": "runs", "baselineRunId": "runs",
    "itemId": "items", "commentId": "run_comments", "keyId": "api_keys", "memberId": "api_keys",
    "datasetItemId": "dataset_items", "lineageId": "dataset_items", "viewId": "saved_views",
    "projectId": "projects", "webhookId": "alert_webhooks", "deliveryId": "alert_deliveries",
    "connectionId": "llm_connections",
    "jobId": "judge_jobs", "ruleId": "trace_eval_rules", "alertId": "trace_alerts",
}  # fmt: skip
"""Whose ids stand in a part of a path or of a body. A new kind of id is added here."""


ENDINGS = (
    "delete /api/v1/projects/{name}",
    "delete /api/v1/experiments/{experimentId}",
    "delete /api/v1/runs/{runId}",
    "delete /api/v1/datasets/{name}",
)
"""What takes much away with it, and is done less often: a world in which little is left shows little."""
OF_THE_SERVER = ("/metrics",)
"""Large answers about the server itself, which are read less often."""
EARLY = 800
"""Calls at the beginning of a walk."""
MOST_TRIES = 30
"""Rows that are looked at for one that fits."""

QUIET = OnlineSettings(alert_poll_seconds=86_400.0)
"""What alerts on traces note by themselves would look as if the caller of the moment had changed it."""


class _ComparerInProcess:
    """Compares in this process: starting another one for each walk would take longer than the walk."""

    database = None

    async def compare(self, job):
        return await self.database.read(lambda connection: compare_stored_runs(connection, job))

    async def close(self):
        pass


async def _claim_nothing(self):
    return []


async def _score_nothing(self):
    return False


@pytest.fixture
def comparer(monkeypatch):
    comparer = _ComparerInProcess()
    monkeypatch.setattr("dokimos.server._app.ComparisonProcess", lambda settings: comparer)
    # What is deleted is removed in the background, which would look as if a caller had changed it.
    for name in ("_PURGE_SECONDS", "RETENTION_DELAY_SECONDS"):
        monkeypatch.setattr(f"dokimos.server._workers.maintenance.{name}", 1e6)
    monkeypatch.setattr("dokimos.server._workers.alert_delivery._TIDY_SECONDS", 1e6)
    # So is what is sent; test calls are sent by the request.
    monkeypatch.setattr("dokimos.server._workers.alert_delivery.AlertDelivery._claim", _claim_nothing)
    monkeypatch.setattr("dokimos.server._workers.judging.JudgeWorker._claim", _score_nothing)
    monkeypatch.setattr("dokimos.server._workers.online_matching.OnlineMatching.match", _score_nothing)
    monkeypatch.setattr("dokimos.server._workers.online_scoring.OnlineScoring._begin", _score_nothing)
    return comparer


class World:
    """A server, its callers, and all that there is on it."""

    def __init__(self, serve, comparer, seed, **settings):
        self.random = random.Random(seed)
        policy = AddressPolicy.parse("127.0.0.1")
        self.api = serve(
            api_key=ADMIN_KEY,
            address_policy=policy,
            encryption_keys=("passphrase",),
            online=QUIET,
            **settings,
        )
        self.app = self.api.app
        self.database = comparer.database = self.app.state.database
        self.callers = self._create_callers()
        self.model = Model(self.callers, read_only_shared_rows=settings.get("read_only_shared_rows", False))
        self.names = list(NAMES)
        self.traces = []
        self.tenants = (*TENANTS, None)
        self.fixed_keys = {caller.key_id for caller in self.callers} - {None}
        self.ids = {name: [] for name in change_log.TABLES}
        self.calls = 0
        self.events = []
        self.principals = {}
        self.done, self.statuses = set(), set()
        self.reads, self.writes = self._read_routes()

    def _create_callers(self):
        callers = [Caller("key of the environment", ADMIN_KEY, "ADMIN")]
        for tenant in (*TENANTS, None):  # what a tenant makes first is its own, and not below what is shared
            # Several without a role of their own: what they may do comes from their projects alone.
            for number, role in enumerate(("NONE", "NONE", "VIEWER", "EDITOR", "ADMIN")):
                body = {"name": f"key {tenant} {role}", "role": role, "tenantId": tenant}
                answer = self.api.post(
                    "/api/v1/api-keys", json=body, headers={"Authorization": f"Bearer {ADMIN_KEY}"}
                ).json()
                name = f"{role} {number} of {tenant or 'all'}"
                key_id = answer["apiKey"]["id"]
                callers.append(
                    Caller(name, answer["key"], role, tenant, key_id=key_id, is_restricted=bool(tenant))
                )
        callers.append(Caller("anonymous", None, "VIEWER", is_restricted=True))
        callers.append(Caller("wrong key", WRONG_KEY, "VIEWER", is_restricted=True))
        return callers

    def _read_routes(self):
        headers = {"Authorization": f"Bearer {ADMIN_KEY}"}
        paths = self.api.get("/openapi.json", headers=headers).json()["paths"]
        reads = [
            (
                path,
                {
                    each["name"]: each["required"]
                    for each in methods["get"].get("parameters", ())
                    if each["in"] == "query"
                },
            )
            for path, methods in paths.items()
            if "get" in methods and path not in ENDLESS_READS
        ]
        writes = {
            f"{method} {path}" for path, methods in paths.items() for method in methods if method in WRITES
        }
        writes -= set(OTHER_ROUTES)
        missing = writes ^ set(bodies_of(self, self.callers[0]))
        assert not missing, f"tests/server/tenant_calls.py must call exactly what there is: {missing}"
        return reads, sorted(writes)

    async def walk(self, steps):
        """Let random callers do random things."""
        await self.database.write(change_log.install)
        publish = self.app.state.events.publish
        self.app.state.events.publish = lambda id, event: (self.events.append(event), publish(id, event))
        gc.freeze()  # the application, which each collection would look through
        try:
            async with change_log.Reader(self.app.state.settings) as self.log:
                await self._load_rows()
                await self._begin()
                for _ in range(steps):
                    await self._step()
        finally:
            gc.unfreeze()

    async def _load_rows(self):
        """Learn of the keys, which are there before the log begins."""

        await self.database.write(
            lambda connection: connection.exec_driver_sql("UPDATE api_keys SET name = name").close()
        )
        for change in await self.log.read():
            self._learn(change)

    async def _begin(self):
        """Let there be projects of all and of each tenant, and members of them."""
        for caller in self.callers:
            if caller.role < EDITOR or caller is self.callers[0]:
                continue
            for name in NAMES[:2]:
                await self.make(caller, "post /api/v1/datasets", name=name)
                await self.make(caller, f"post /api/v1/datasets/{name}/versions")
                nothing = {"datasetName": None, "datasetVersion": None}
                await self.make(caller, f"post /api/v1/projects/{name}/runs", **nothing)
                run = self.ids["runs"][-1]
                await self.make(caller, f"post /api/v1/runs/{run}/items")
                item = self.ids["items"][-1]
                await self.make(caller, f"post /api/v1/runs/{run}/comments", itemId=item)
                comment = self.ids["run_comments"][-1]
                await self.make(caller, f"patch /api/v1/runs/{run}/comments/{comment}")
                await self.make(caller, f"put /api/v1/runs/{run}/items/{item}/annotation")
                await self.make(caller, f"patch /api/v1/runs/{run}", status="SUCCESS")
            await self.make(caller, "post /api/v1/llm-connections")
            connection = self.ids["llm_connections"][-1]
            await self.make(caller, f"post /api/v1/llm-connections/{connection}/test")
            project = self.model.rows["runs"][run]["project_id"]
            await self.make(caller, f"post /api/v1/projects/{project}/alert-webhooks")
            hook = f"/api/v1/projects/{project}/alert-webhooks/{self.ids['alert_webhooks'][-1]}"
            await self.make(caller, f"post {hook}/test")
            rules = f"post /api/v1/projects/{project}/trace-eval-rules"
            judge = {"type": "contains", "params": {"values": ["a"]}}
            await self.make(caller, rules, evaluator=judge, connectionId=None, criteria=None)
            own = self.ids["trace_eval_rules"][-1:]
            alerts = f"post /api/v1/projects/{project}/trace-alerts"
            members = {"kind": "CHANGE", "metric": "SCORE", "reference": 0.5, "limit": None, "filter": None}
            if own and self.model.rows["trace_eval_rules"][own[0]]["project_id"] == project:
                await self.make(caller, alerts, **members, ruleId=own[0])
        for caller in self.callers:
            if caller.role <= VIEWER and caller.key_id is not None:
                owner = next(
                    each for each in self.callers[::-1] if each.tenant == caller.tenant and each.role >= ADMIN
                )
                for name, role in (("name-a", "EDITOR"), ("name-b", self.random.choice(["VIEWER", "ADMIN"]))):
                    await self.make(owner, f"put /api/v1/projects/{name}/members/{caller.key_id}", role=role)

    async def make(self, caller, route, **members):
        """Make a call that must not fail where there is anything, with some members of the body said here."""
        method, path = route.split()
        pattern = self._pattern(method, path)
        self._mark(caller)
        body = {**bodies_of(self, caller)[pattern](), **members}
        status, _ = await self.call(caller, pattern, path, body)
        assert status < 300 or status in (403, 409), (caller, route, body, status)

    def _pattern(self, method, path):
        for route in self.writes:
            expression = PART.sub("[^/]+", route.split()[1])
            if route.startswith(f"{method} ") and re.fullmatch(expression, path):
                return route
        raise AssertionError(path)

    async def _step(self):
        caller = self.random.choice(self.callers)
        if caller.token == WRONG_KEY and self.random.random() < 0.7:
            return  # what it is refused does not depend on what there is
        self._mark(caller)
        if self.random.random() < 0.55:  # most queries that could show too much are of reads
            path, parameters = self.random.choice(self.reads)
            if path in OF_THE_SERVER and self.random.random() < 0.7:
                path, parameters = self.random.choice(self.reads)
            values = self._aim(caller, path, None)
            query = {name: self.part(name) for name, is_required in parameters.items() if is_required}
            chosen = {
                name: make()
                for name, make in self._filters().items()
                if name in parameters and self.random.random() < 0.1
            }
            answer = await self.call(
                caller, f"get {path}", f"{_fill(path, values)}?{urlencode(query | chosen)}", None
            )
            if not chosen:
                self._check_list(caller, path, values, *answer)
        else:
            route = self._choose_write()
            body = bodies_of(self, caller)[route]()
            path = route.split()[1]
            values = self._aim(caller, path, body)
            if route in FIXED_KEYS and caller.sees_all and values["keyId"] in self.fixed_keys:
                return  # nobody takes the keys of the callers away who may
            before = self._target(values)
            status, _ = await self.call(caller, route, _fill(path, values), body)
            if status == 403 and before is not None:
                assert not self.model.may_write(caller, before), (caller, route, values, body)

    def _choose_write(self):
        """A route that changes something, more often one that has not worked yet: some need much first.

        That is so above all at the beginning, since the rest of the walk reads what they have made.
        """
        rest = [route for route in self.writes if route not in self.done]
        bias = 0.7 if self.calls < EARLY else 0.3
        route = self.random.choice(rest if rest and self.random.random() < bias else self.writes)
        if route in ENDINGS and self.random.random() < 0.7:
            return self.random.choice(self.writes)
        return route

    def _filters(self):
        """What a caller may use to find out what it does not see."""
        tables = ("projects", "experiments", "runs", "items", "run_comments", "datasets", "dataset_items")
        return {
            "search": lambda: self.part("search"),
            "limit": lambda: self.random.randint(1, 3),
            "after": lambda: self.random.choice(self.ids[self.random.choice(tables)][-40:] or [NOBODY]),
        }

    def _mark(self, caller):
        self.calls += 1
        caller.marker = f"mark{self.calls}"

    async def call(self, caller, route, path, body):
        method = route.split()[0].upper()
        headers = list(caller.headers)
        if self.random.random() < 0.2:
            headers.append((b"idempotency-key", self.random.choice((b"k", b"l"))))
        self.model.note_sent(caller, f"{path} {json.dumps(body)}")
        status, text = await _request(self.app, method, path, headers, body)
        # A run that ended gets a verdict in the background.
        await self.app.state.comparisons.wait_until_idle()
        call = (caller, method, path, body, status)
        assert status < 500, (call, text)
        changes = await self.log.read()
        for change in changes:
            self._learn(change)
        for change in changes:
            assert self.model.may_change(caller, change, changes), (call, change)
        for change in changes:
            self.model.apply_roles(change)
        if path in ("/api/v1/traces", "/v1/traces") and body is not None:
            await self._learn_traces(caller)
        self._check_answer(caller, path, body, text, call)
        await self._check_events()
        self.statuses.add(status)
        if status < 300:
            self.done.add(route)
        return status, text

    def _learn(self, change):
        self.model.apply(change)
        if change.kind == "I" and "id" in change.row:
            self.ids[change.table].append(change.row["id"])

    async def _learn_traces(self, caller):
        """Learn of traces, which are in a database of their own, and whether the caller may store them."""
        last = self.traces[-1] if self.traces else NOBODY
        query = select(TRACES.c.id, TRACES.c.tenant_id, TRACES.c.project_id, TRACES.c.trace_id)
        query = query.where(TRACES.c.id > last).order_by(TRACES.c.id)
        for row in await self.app.state.traces.read(lambda connection: connection.execute(query).all()):
            place = access_model.Place(row.tenant_id, row.project_id)
            assert self.model.may_write(caller, place), (caller, row)
            for atom in (row.id, row.trace_id):
                self.model.atoms.setdefault(atom, set()).add(place)
            self.traces.append(row.id)

    def _check_answer(self, caller, path, body, text, call):
        if caller.sees_all:
            return
        found = set(access_model.ATOM.findall(text))
        found -= set(access_model.ATOM.findall(f"{path} {json.dumps(body)}"))
        if "/traces/" in path:  # a span shows the project that it named itself, whether there is one or not
            found -= {atom for atom in found if atom.startswith("name-")}
        leaked = {atom for atom in found if not self.model.sees_atom(caller, atom)}
        assert not leaked, (call, leaked, [self.model.atoms.get(atom) for atom in leaked], text)

    async def _check_events(self):
        """Everybody is told of what it sees, and of nothing else."""
        events, self.events[:] = list(self.events), []
        for event in events:
            for caller in self.callers:
                if caller.sees_all or event.kind == "reload":
                    continue
                is_told = event.is_visible_to(await self._principal(caller))
                if event.project_id is not None:
                    places = [access_model.Place(tenant, event.project_id) for tenant in event.tenants]
                    assert is_told == all(self.model.sees(caller, place) for place in places), (caller, event)
                elif is_told:  # which may be some calls later, when the project has lost the data set
                    assert {None, caller.tenant}.issuperset(event.tenants) or not caller.is_restricted
                    pairs = {(project, event.data.get("datasetId")) for project in caller.projects}
                    assert caller.role >= VIEWER or pairs & self.model.known_once, (caller, event)

    async def _principal(self, caller):
        keys = self.app.state.keys
        if self.principals.get("changes") != keys.changes:
            self.principals = {"changes": keys.changes}
        if caller.name not in self.principals:
            known = None if caller.key_id is None else await keys.identify(caller.token, "")
            self.principals[caller.name] = known or ANONYMOUS
        return self.principals[caller.name]

    def _check_list(self, caller, path, values, status, text):
        """What a caller may see, it does see."""
        if status == 401:
            assert caller.token in (None, WRONG_KEY)
            return
        if path in ("/api/v1/projects", "/api/v1/datasets"):
            table = path.rpartition("/")[2]
            visible = {
                row["id"]
                for row in self.model.rows[table].values()
                if row["deleted_at"] is None and self.model.sees(caller, self.model.place(table, row))
            }
            assert {each["id"] for each in json.loads(text)} == visible, (caller, path)
        if path == "/api/v1/projects":
            for project in json.loads(text):
                count = sum(
                    row["project_id"] == project["id"]
                    and row["deleted_at"] is None
                    and self.model.sees(caller, self.model.place("runs", row))
                    for row in self.model.rows["runs"].values()
                )
                assert project["runCount"] == count, (caller, project)
        if path == "/api/v1/runs/{runId}":
            row = self.model.rows["runs"].get(values["runId"])
            is_visible = (
                row is not None
                and row["deleted_at"] is None
                and self.model.sees(caller, self.model.place("runs", row))
            )
            assert status == (200 if is_visible else 404), (caller, row)

    def _target(self, values):
        """Where the run or the experiment of a path is, while it is there; comments are their authors'."""
        if "commentId" in values:
            return None
        for name in ("runId", "experimentId"):
            row = self.model.rows[TABLES[name]].get(values.get(name))
            if row is not None and self.model.is_alive(TABLES[name], row):
                return self.model.place(TABLES[name], row)
        return None

    def _aim(self, caller, path, body):
        """Values for the parts of a path that mostly belong together."""
        values = {name: self.part(name, caller) for name in PART.findall(path)}
        if self.random.random() < 0.15:
            return values
        rows, body = self.model.rows, body or {}
        run = values.get("candidateRunId") or body.get("candidateRunId") or body.get("runId")
        if "experimentId" in values and run in rows["runs"]:
            values["experimentId"] = rows["runs"][run]["experiment_id"]
        for part, table in (("itemId", "items"), ("commentId", "run_comments"), ("jobId", "judge_jobs")):
            row = rows[table].get(values.get(part) or body.get(part))
            if "runId" in values and row is not None:
                values["runId"] = row["run_id"]
        delivery = rows["alert_deliveries"].get(values.get("deliveryId"))
        if delivery is not None:
            values["webhookId"] = delivery["webhook_id"]
        if values.get("ruleId") in rows["trace_eval_rules"]:
            values["projectId"] = rows["trace_eval_rules"][values["ruleId"]]["project_id"]
        if values.get("alertId") in rows["trace_alerts"]:
            values["projectId"] = rows["trace_alerts"][values["alertId"]]["project_id"]
        if values.get("webhookId") in rows["alert_webhooks"]:
            values["projectId"] = rows["alert_webhooks"][values["webhookId"]]["project_id"]
        return values

    def part(self, name, caller=None):
        """Some value of a part of a path, of a query or of a body; mostly one that the caller sees."""
        if name == "label":
            return self.random.choice(["tone", "grade"])
        if name in ("name", "projectName", "datasetName"):
            return self.random.choice(self.names)
        if name == "version":
            return self.random.choice(["1", "2", "latest"])
        if name == "traceId":
            return self.random.choice(self.traces[-40:] or [NOBODY])
        if name == "spanId":
            return f"{1:016x}"
        if name == "search":
            return f"mark{self.random.randint(1, self.calls)}"
        assert name in TABLES, f"tests/server/test_tenants.py does not know whose ids {name} means"
        table = TABLES[name]
        known = self.ids[table]
        if name == "memberId" and self.random.random() < 0.7:
            known = sorted(self.fixed_keys)
        if not known or self.random.random() < 0.03:
            return NOBODY
        chosen = self._choose_row(table, known, caller)
        return self.model.rows[table][chosen]["lineage_id"] if name == "lineageId" else chosen

    def _choose_row(self, table, known, caller):
        """A row that the caller sees, often one that is there and it must not see, seldom one that is gone.

        Most rows are gone with their run or project: what is done to these says little about the caller.
        """
        aim = self.random.choices(("seen", "hidden", "any"), (70, 25, 5))[0]
        chosen = self.random.choice(known)
        for _ in range(0 if aim == "any" else MOST_TRIES):
            row = self.model.rows[table].get(chosen)
            if row is not None and self.model.is_alive(table, row):
                is_seen = caller is None or self.model.sees(caller, self.model.place(table, row))
                if is_seen == (aim == "seen"):
                    break
            chosen = self.random.choice(known[-40:] if self.random.random() < 0.5 else known)
        return chosen


def _fill(path, values):
    return PART.sub(lambda match: quote(values[match[1]], safe=""), path)


async def _request(app, method, path, headers, body):
    """Call the application itself, without a client: that would take as long as the server does."""
    content = b"" if body is None else json.dumps(body).encode()
    path, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json"), *headers],
        "client": ("127.0.0.1", 1), "server": ("localhost", 80),
    }  # fmt: skip
    messages = [{"type": "http.request", "body": content, "more_body": False}]
    status, parts = 0, []

    async def receive():
        if messages:
            return messages.pop()
        await asyncio.Event().wait()  # nobody hangs up

    async def send(message):
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, b"".join(parts).decode()


@pytest.mark.parametrize("way", ["edit", "promote"])
def test_what_an_administrator_makes_of_a_tenants_version_stays_that_tenants(serve, way):
    """For whoever sees all rows, a tenant's version of a shared dataset is the latest one."""
    api = serve(api_key=ADMIN_KEY)
    admin = {"Authorization": f"Bearer {ADMIN_KEY}"}
    ada, bob = (
        {"Authorization": f"Bearer {api.post('/api/v1/api-keys', json=body, headers=admin).json()['key']}"}
        for body in ({"name": tenant, "role": "EDITOR", "tenantId": tenant} for tenant in TENANTS[:2])
    )

    def post(path, body, headers=admin):
        answer = api.post(f"/api/v1/{path}", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        return answer.json()

    post("datasets", {"name": "shared"})
    for headers in (admin, ada):
        post("datasets/shared/versions", {"items": [{"inputs": {"q": 1}}]}, headers)
    if way == "edit":
        changes = {"changes": [{"op": "add", "inputs": {"q": "new"}}]}
        post("datasets/shared/versions/latest/edits", changes)
    else:
        run = post("projects/chat/runs", {"experimentName": "qa"})["runId"]
        item = {"inputs": {}, "actualOutputs": {}, "expectedOutputs": {}, "evalResults": [], "success": True}
        post(f"runs/{run}/items", {"items": [item]})
        item_id = api.get(f"/api/v1/runs/{run}", headers=admin).json()["items"]["content"][0]["id"]
        post("datasets/promote", {"datasetName": "shared", "items": [{"itemResultId": item_id}]})

    for headers, version in ((admin, 3), (ada, 3), (bob, 1)):
        answer = api.get("/api/v1/datasets/shared/versions/latest", headers=headers)
        assert answer.json()["version"] == version


@pytest.mark.timeout(7200 if LONG in os.environ else 900)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_nobody_sees_or_changes_what_it_may_not(serve, comparer, settings):
    steps = CALLS // (2 * len(SETTINGS))
    world = World(serve, comparer, seed=1, **settings)

    world.api.portal.call(world.walk, steps)

    # The walk must reach what it is about: things that are done, refused and not found.
    assert {200, 201, 204, 403, 404, 409} <= world.statuses
    # A gate, for one, needs two runs that have ended in an experiment that nobody has deleted meanwhile.
    missing = set(world.writes) - world.done
    assert len(missing) <= len(world.writes) // 10, missing
