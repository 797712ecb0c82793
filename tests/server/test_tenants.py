"""Random calls of four tenants, of all roles: nobody sees or changes a row that is not its own or shared."""

import json
import os
import random
import re

import pytest
from sqlalchemy import select

from dokimos.server._db.tables import DATASETS, EXPERIMENTS, PROJECTS, RUNS

ADMIN = "admin-key"
LONG = "DOKIMOS_LONG_TESTS"
TENANTS = ("ada", "bob", "cyd", "dee")
ROLES = ("VIEWER", "EDITOR", "ADMIN")
OWNED = (PROJECTS, EXPERIMENTS, RUNS, DATASETS)
PATH_OF_WRITES = re.compile(r"\{(\w+)\}")


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
        self.callers = [Caller("legacy key", {"Authorization": f"Bearer {ADMIN}"})]
        self.callers += [self._create_caller(role, None) for role in ROLES]
        self.callers += [self._create_caller(role, tenant) for tenant in TENANTS for role in ROLES]
        self.callers += [Caller("anonymous", {}, is_restricted=True)]
        self.callers += [Caller("wrong key", {"Authorization": "Bearer no"}, is_restricted=True)]
        self.ids = {"experimentId": set(), "runId": set(), "itemId": set(), "keyId": set()}
        self.names = ["shared", "common/ö", *(f"own-{tenant}" for tenant in TENANTS)]
        description = self.api.get("/openapi.json", headers=self.callers[0].headers).json()
        self.reads = [path for path, methods in description["paths"].items() if "get" in methods]
        self.reads.remove("/api/v1/events")  # has no end; its own tests show who is told what

    def _create_caller(self, role, tenant):
        body = {"name": f"marker-of-{tenant or 'everyone'}", "role": role, "tenantId": tenant}
        answer = self.api.post(
            "/api/v1/api-keys", json=body, headers={"Authorization": f"Bearer {ADMIN}"}
        ).json()
        headers = {"Authorization": f"Bearer {answer['key']}"}
        return Caller(f"{role} of {tenant or 'all'}", headers, tenant, is_restricted=tenant is not None)

    def step(self):
        """Let some caller do something, and check what it sees and what changed."""
        caller = self.random.choice(self.callers)
        before = self.foreign_rows(caller)
        method, path, body = self.choose(caller)
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
        self.learn(answer)
        return answer.status_code

    def choose(self, caller):
        """Return a call: one of every route that reads, or a write with odd aims."""
        pick = self.random.choice
        if self.random.random() < 0.5:
            path = pick(self.reads)
            return "GET", PATH_OF_WRITES.sub(lambda match: self.part(match[1]), path), None
        text = caller.marker
        item = {
            "inputs": {"q": text},
            "actualOutputs": {"a": text},
            "expectedOutputs": {},
            "evalResults": [{"name": text, "score": 1.0, "success": pick([True, False]), "reason": text}],
        }
        start = {"experimentName": pick(["qa", "rag"]), "name": text, "metadata": {"m": text}, "tags": [text]}
        run, experiment, project = self.part("runId"), self.part("experimentId"), self.part("name")
        return pick(
            [
                ("POST", f"/api/v1/projects/{project}/runs", start),
                ("POST", f"/api/v1/projects/{project}/runs", start),
                ("POST", f"/api/v1/runs/{run}/items", {"items": [item, {**item, "ordinal": pick([0, 7])}]}),
                ("POST", f"/api/v1/runs/{run}/items", {"items": [item]}),
                ("PATCH", f"/api/v1/runs/{run}", {"status": pick(["SUCCESS", "FAILED", "RUNNING"])}),
                ("PATCH", f"/api/v1/runs/{run}/description", {"notes": text, "tags": [text]}),
                ("PUT", f"/api/v1/experiments/{experiment}/baseline", {"runId": pick([run, None])}),
                ("POST", f"/api/v1/runs/{run}/comments", {"body": text}),
                ("DELETE", f"/api/v1/runs/{run}", None),
                ("DELETE", f"/api/v1/experiments/{experiment}", None),
                ("DELETE", f"/api/v1/projects/{project}", None),
            ]
        )

    def part(self, name):
        """Some value of a part of a path."""
        name = "runId" if name.endswith("RunId") else name
        if self.ids.get(name):
            return self.random.choice(sorted(self.ids[name]))
        if name in ("name", "projectName"):
            return self.random.choice(self.names).replace("/", "%2F")
        return "018f0000-0000-7000-8000-000000000000"

    def learn(self, answer):
        if answer.headers.get("content-type", "").startswith("application/json"):
            self._learn(answer.json())

    def _learn(self, value):
        if isinstance(value, list):
            for each in value:
                self._learn(each)
        elif isinstance(value, dict):
            for key, each in value.items():
                self._learn(each)
                if key in self.ids and isinstance(each, str):
                    self.ids[key].add(each)
            if "latestRun" in value:
                self.ids["experimentId"].add(value["id"])
            if "evalResults" in value:
                self.ids["itemId"].add(value["id"])

    def read(self, query):
        database = self.api.app.state.database
        return self.api.portal.call(database.read, lambda connection: connection.execute(query).all())

    def foreign_rows(self, caller):
        """All rows with their values that the caller must not see, those of others."""
        if not caller.is_restricted:
            return None
        return [
            row
            for table in OWNED
            for row in self.read(select(table).where(table.c.tenant_id.is_not(None)).order_by(table.c.id))
            if row.tenant_id != caller.tenant
        ]

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
    walk(World(serve, seed=1, **settings), steps=120)


@pytest.mark.slow
@pytest.mark.skipif(LONG not in os.environ, reason=f"takes an hour; set {LONG}=1")
@pytest.mark.parametrize("seed", range(20))
def test_nobody_sees_or_changes_a_foreign_row_in_long_walks(serve, seed):
    walk(World(serve, seed), steps=2_000)


def walk(world, steps):
    statuses = [world.step() for _ in range(steps)]
    # The walk must reach what it is about: things that are done, refused and not found.
    for status in (200, 201, 204, 403, 404):
        assert status in statuses, statuses
