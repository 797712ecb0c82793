"""The audit log: a row for each change, in its transaction, and for what was refused."""

import csv
import io
import json
import time
from dataclasses import replace

import pytest
from sqlalchemy import select
from tests.server.test_access import ADMIN, ITEM, OWN_PAGE, bearer, make_key, sign_in, start

from dokimos.server import ServerSettings
from dokimos.server._api.http.access import Access, rule_of
from dokimos.server._api.http.error_responses import list_routes
from dokimos.server._db.audit_tables import AUDIT_LOG
from dokimos.server._db.database import open_database
from dokimos.server._db.tables import PROJECTS
from dokimos.server._services.accounts.principal import command_line
from dokimos.server._services.audit.audit_actions import Target, action_of, target_of
from dokimos.server._services.audit.audit_log import (
    AuditEntry,
    Outcome,
    add_entry,
    purge_entries,
    record_action,
)
from dokimos.server._services.audit.audit_trail import AuditTrail
from dokimos.server._workers.audit import purge_audit_log
from dokimos.server._workers.row_ages import AgeClock

WRITES = ("POST", "PUT", "PATCH", "DELETE")
NOBODY = "018f0000-0000-7000-8000-000000000000"


def read_log(api, headers=ADMIN, **query):
    answer = api.get("/api/v1/audit-log", params={"limit": 2000, **query}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def latest(api, action, headers=ADMIN):
    [row, *_] = read_log(api, headers, action=action)
    return row


def write(api, change):
    return api.portal.call(api.app.state.unaudited_database.write, change)


def test_a_change_has_a_row_with_who_what_and_from_where(serve):
    api = serve(api_key="admin-key")
    key = make_key(api, "EDITOR")
    run = start(api, headers=key).json()["runId"]
    answer = api.delete(f"/api/v1/runs/{run}", headers={**key, "X-Request-Id": "build-17/step.3"})
    assert answer.headers["x-request-id"] == "build-17/step.3"

    row = latest(api, "run.delete")

    [editor] = api.get("/api/v1/api-keys", headers=ADMIN).json()
    assert row["principal"] == {"kind": "key", "id": editor["id"], "name": "key"}
    assert row["target"] == {"kind": "run", "id": run, "name": None}
    assert (row["outcome"], row["status"], row["count"]) == ("ok", 204, 1)
    assert row["address"] == "testclient"
    assert row["requestId"] == "build-17/step.3"
    [project] = api.get("/api/v1/projects").json()
    assert row["projectId"] == project["id"]
    created = latest(api, "run.create")
    assert created["target"] == {"kind": "run", "id": run, "name": None}
    assert created["status"] == 201


def test_every_writing_route_leaves_a_row_when_it_is_refused_and_when_it_works(serve, monkeypatch):
    """Walks over all routes, so that a new one is looked at too."""
    monkeypatch.setattr("dokimos.server._services.audit.audit_trail._MAX_OF_ADDRESS", 1000)
    monkeypatch.setattr("dokimos.server._services.audit.audit_trail._MAX_STRANGERS", 1000)
    api = serve(api_key="admin-key")
    viewer = make_key(api, "VIEWER")
    routes = [
        (method, route)
        for route in list_routes(api.app)
        for method in route.methods
        if method in WRITES and rule_of(route.endpoint) is not Access.PUBLIC
    ]
    assert len(routes) > 20
    for method, route in routes:
        path = route.path.replace("{version}", "1").replace("{name}", "nothing")
        while "{" in path:
            path = path.replace(path[path.index("{") : path.index("}") + 1], NOBODY)
        action = action_of(method, route.path)
        for headers, kind in (({}, "anonymous"), (viewer, "key")):
            before = {outcome: count(api, action, kind, outcome) for outcome in ("ok", "refused")}
            answer = api.request(method, path, headers=headers, json={})
            # What is a viewer's own (a view, a session) it may change.
            assert kind == "key" or answer.status_code == 401, (method, path)
            before["ok" if answer.is_success else "refused"] += 1
            for outcome, number in before.items():
                assert count(api, action, kind, outcome) == number, (method, path, outcome)
        before = count(api, action)
        api.request(method, path, headers=ADMIN, json={"items": [ITEM]})
        assert count(api, action) == before + 1, (method, path)


def count(api, action, principal=None, outcome=None):
    query = {"action": action, "principal": principal, "outcome": outcome}
    rows = read_log(api, **{name: value for name, value in query.items() if value is not None})
    return sum(row["count"] for row in rows if row["action"] == action)


def test_what_is_undone_has_no_row_of_success(serve):
    api = serve(api_key="admin-key")
    start(api, headers=ADMIN)
    body = {"name": "capitals"}
    assert api.post("/api/v1/datasets", json=body, headers=ADMIN).status_code == 201
    assert api.post("/api/v1/datasets", json=body, headers=ADMIN).status_code == 409

    rows = read_log(api, action="dataset.create")

    assert [(row["outcome"], row["status"], row["details"]) for row in rows] == [
        ("refused", 409, {"reason": "conflict"}),
        ("ok", 201, {}),
    ]


def test_the_row_is_in_the_transaction_of_the_change(serve, monkeypatch):
    """Where the row cannot be written, nothing is changed."""
    api = serve(api_key="admin-key")

    def fail(*_, **__):
        raise RuntimeError("no row")

    monkeypatch.setattr("dokimos.server._services.audit.audited_database.add_entry", fail)
    answer = start(api, headers=ADMIN)
    monkeypatch.undo()

    assert answer.status_code == 500
    assert answer.json()["requestId"] == answer.headers["x-request-id"]
    assert api.get("/api/v1/projects").json() == []
    [row] = read_log(api, action="run.create")
    assert (row["outcome"], row["status"]) == ("failed", 500)


def test_batches_of_items_are_counted_in_one_row(serve):
    api = serve(api_key="admin-key")
    editor = make_key(api, "EDITOR")
    runs = [start(api, headers=editor).json()["runId"] for _ in range(2)]
    for run in runs:
        for number in range(5):
            headers = {**editor, "Idempotency-Key": str(number)}
            for _ in range(2):  # a repeat changes nothing
                answer = api.post(f"/api/v1/runs/{run}/items", json={"items": [ITEM]}, headers=headers)
                assert answer.status_code == 201
    api.post(f"/api/v1/runs/{runs[0]}/items", json={"items": [ITEM]}, headers=ADMIN)

    rows = read_log(api, action="run.item.create")

    assert sorted((row["target"]["id"], row["principal"]["kind"], row["count"]) for row in rows) == sorted(
        [(runs[0], "key", 5), (runs[1], "key", 5), (runs[0], "system", 1)]
    )
    assert all(row["projectId"] is not None and row["lastTime"] >= row["time"] for row in rows)
    # What is counted stays counted: the rows are changed once more.
    api.post(f"/api/v1/runs/{runs[0]}/items", json={"items": [ITEM]}, headers=ADMIN)
    rows = read_log(api, action="run.item.create", principal="system")
    assert [row["count"] for row in rows] == [2]


def test_a_batch_that_is_refused_does_not_count_as_stored(serve):
    api = serve(api_key="admin-key")
    run = start(api, headers=ADMIN).json()["runId"]
    path = f"/api/v1/runs/{run}/items"
    api.post(path, json={"items": [ITEM]}, headers=ADMIN)
    api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"}, headers=ADMIN)
    for _ in range(3):
        assert api.post(path, json={"items": [ITEM]}, headers=ADMIN).status_code == 409

    rows = read_log(api, action="run.item.create")

    assert sorted((row["outcome"], row["count"]) for row in rows) == [("ok", 1), ("refused", 3)]


def test_refusals_are_recorded_with_their_reason(serve):
    api = serve(api_key="admin-key", allowed_hosts=("testserver",))
    editor = make_key(api, "EDITOR", "ada")
    assert start(api, headers={}).status_code == 401
    assert start(api, headers=bearer("wrong")).status_code == 401
    assert api.get("/api/v1/api-keys", headers=editor).status_code == 403
    assert api.delete(f"/api/v1/runs/{NOBODY}", headers=editor).status_code == 404
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert start(api, headers=foreign).status_code == 403
    assert api.get("/api/v1/projects", headers={"Host": "evil.example"}).status_code == 400
    assert api.get("/api/v1/projects/none/experiments", headers=ADMIN).status_code == 404

    rows = {
        (row["action"], row["status"], row["details"].get("reason"), row["principal"]["kind"], row["count"])
        for row in read_log(api, outcome="refused")
    }

    assert rows == {
        ("run.create", 401, "unauthorized", "anonymous", 2),
        ("api-key.read", 403, "role", "key", 1),
        ("run.delete", 404, "not-found", "key", 1),
        ("run.create", 403, "foreign-origin", "anonymous", 1),
        ("unknown", 400, "host", "anonymous", 1),
    }


def test_too_many_wrong_keys_are_recorded(serve):
    api = serve(api_key="admin-key", failed_logins_per_minute=2)
    admin = make_key(api, "ADMIN")
    statuses = [start(api, headers=bearer(f"wrong-{number}")).status_code for number in range(4)]
    assert statuses == [401, 401, 429, 429]
    rows = read_log(api, admin, outcome="refused")
    assert sorted((row["status"], row["count"]) for row in rows) == [(401, 2), (429, 2)]


def test_signing_in_and_out_and_keys_are_recorded(serve):
    api = serve(api_key="admin-key")
    make_key(api, "ADMIN", "ada")
    [key] = api.get("/api/v1/api-keys", headers=ADMIN).json()
    sign_in(api, "wrong")
    sign_in(api)
    api.delete("/api/v1/session", headers=OWN_PAGE)
    api.post(f"/api/v1/api-keys/{key['id']}/disable", headers=ADMIN)
    api.delete(f"/api/v1/api-keys/{key['id']}", headers=ADMIN)

    rows = read_log(api)
    found = [(row["action"], row["principal"]["kind"], row["outcome"]) for row in reversed(rows)]
    of_keys = [row for row in rows if row["action"].startswith("api-key.")]

    assert found[0] == ("server.start", "worker", "ok")
    assert sorted(found[1:]) == [
        ("api-key.create", "system", "ok"),
        ("api-key.delete", "system", "ok"),
        ("api-key.disable", "system", "ok"),
        ("session.begin", "anonymous", "refused"),
        ("session.begin", "system", "ok"),
        ("session.end", "system", "ok"),
    ]
    assert {json.dumps(row["target"], sort_keys=True) for row in of_keys} == {
        json.dumps({"id": key["id"], "kind": "api-key", "name": "key"}, sort_keys=True)
    }
    assert {row["tenantId"] for row in of_keys} == {"ada"}
    assert of_keys[-1]["details"] == {"role": "ADMIN"}


def test_members_are_recorded_with_their_role(serve):
    api = serve(api_key="admin-key")
    make_key(api, "VIEWER")
    [key] = api.get("/api/v1/api-keys", headers=ADMIN).json()
    start(api, headers=ADMIN)
    path = f"/api/v1/projects/chat/members/{key['id']}"
    assert api.put(path, json={"role": "EDITOR"}, headers=ADMIN).status_code == 200
    assert api.delete(path, headers=ADMIN).status_code == 204

    rows = read_log(api, action="project.member")

    assert [(row["action"], row["details"]) for row in rows] == [
        ("project.member.delete", {}),
        ("project.member.set", {"role": "EDITOR"}),
    ]
    assert {row["target"]["id"] for row in rows} == {key["id"]}
    assert all(row["projectId"] is not None for row in rows)


def test_the_start_and_the_stop_of_a_server_are_recorded(serve, database_settings):
    serve(api_key="admin-key").__exit__(None, None, None)
    api = serve(api_key="admin-key", require_auth_for_reads=True)

    rows = read_log(api, action="server")

    assert [row["action"] for row in rows] == ["server.start", "server.stop", "server.start"]
    assert rows[0]["details"]["requireAuthForReads"] is True
    assert rows[0]["details"]["ownKey"] is True
    assert "admin-key" not in json.dumps(rows)


def test_what_the_server_does_by_itself_is_recorded(serve, monkeypatch):
    from dokimos.server._workers.maintenance import Reaper

    api = serve(api_key="admin-key")
    run = start(api, headers=ADMIN).json()["runId"]
    reaper = Reaper(api.app.state.database, hours=-1)

    assert api.portal.call(reaper.sweep) == [run]

    row = latest(api, "run.completed")
    assert row["principal"]["kind"] == "worker"
    assert (row["target"]["kind"], row["target"]["id"]) == ("run", run)


def test_an_uploaded_version_has_one_row_however_many_parts_it_has(serve):
    api = serve(api_key="admin-key")
    api.post("/api/v1/datasets", json={"name": "capitals"}, headers=ADMIN)
    items = [{"inputs": {"q": f"{number} " * 50}} for number in range(700)]
    path = "/api/v1/datasets/capitals/versions"
    assert api.post(path, json={"items": items}, headers=ADMIN).status_code == 201
    assert api.post(path, json={"items": []}, headers=ADMIN).status_code == 400

    rows = read_log(api, action="dataset.version.create")

    assert [(row["outcome"], row["status"], row["count"]) for row in rows] == [
        ("refused", 400, 1),
        ("ok", 201, 1),
    ]
    assert rows[0]["target"]["name"] == rows[1]["target"]["name"] == "capitals"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"principal": "anonymous"}, ["run.create"]),
        ({"principal": "key"}, ["run.comment.create", "run.delete"]),
        ({"principal": "worker"}, ["server.start"]),
        ({"action": "run"}, ["run.comment.create", "run.create", "run.delete"]),
        ({"action": "run.create"}, ["run.create"]),
        ({"action": "run.cre"}, []),
        ({"target": "chat"}, ["run.create"]),
        ({"target": NOBODY}, ["run.delete"]),
        ({"outcome": "refused"}, ["run.create", "run.delete"]),
        ({"project": "chat"}, ["run.comment.create", "run.create"]),
        ({"project": "100% \\ 'x"}, []),
        ({"from": "2100-01-01T00:00:00Z"}, []),
        ({"to": "2000-01-01T00:00:00Z"}, []),
        ({"from": "2000-01-01", "to": "2100-01-01", "action": "api-key"}, ["api-key.create"]),
        ({"search": "TESTCLIENT", "outcome": "refused"}, ["run.create", "run.delete"]),
        ({"search": "%"}, []),
    ],
    ids=str,
)
def test_filters(serve, query, expected):
    api = serve(api_key="admin-key")
    editor = make_key(api, "EDITOR")
    run = start(api, headers=ADMIN).json()["runId"]
    api.post(f"/api/v1/runs/{run}/comments", json={"body": "hm"}, headers=editor)
    api.delete(f"/api/v1/runs/{NOBODY}", headers=editor)
    start(api, headers={})

    assert sorted({row["action"] for row in read_log(api, **query)}) == expected


def test_pages(serve):
    api = serve(api_key="admin-key")
    for number in range(7):
        start(api, experiment=f"qa-{number}", headers=ADMIN)
    whole = read_log(api)
    assert [row["time"] for row in whole] == sorted((row["time"] for row in whole), reverse=True)

    pages, after = [], {}
    while page := api.get("/api/v1/audit-log", params={"limit": 3, **after}, headers=ADMIN).json():
        pages += page
        after = {"after": page[-1]["id"]}

    assert pages == whole
    assert read_log(api, sort="time,asc") == whole[::-1]
    for query in ({"limit": 0}, {"limit": 5000}, {"after": NOBODY}, {"outcome": "great"}, {"from": "soon"}):
        assert api.get("/api/v1/audit-log", params=query, headers=ADMIN).status_code == 400, query


@pytest.mark.parametrize("moment", ["soon", "yesterday", "2026-13-01", "2026-11-22T25:00:00Z", ""])
def test_a_time_that_is_none_is_refused_with_what_one_looks_like(serve, moment):
    refused = serve().get("/api/v1/audit-log", params={"to": moment})
    assert (refused.status_code, refused.json()["message"]) == (
        400,
        "to: must be a time in ISO 8601, such as 2026-11-22T09:30:00Z",
    )


def test_only_administrators_read_it_and_those_of_a_tenant_see_their_tenant_alone(serve):
    api = serve(api_key="admin-key")
    ada, bob = make_key(api, "ADMIN", "ada"), make_key(api, "ADMIN", "bob")
    for headers in ({}, make_key(api, "EDITOR"), make_key(api, "VIEWER", "ada")):
        for path in ("/api/v1/audit-log", "/api/v1/audit-log/export"):
            assert api.get(path, headers=headers).status_code in (401, 403)
    start(api, "shared", headers=ADMIN)
    run = start(api, "of-ada", headers=ada).json()["runId"]
    start(api, "of-bob", headers=bob)
    api.delete(f"/api/v1/runs/{run}", headers=bob)  # not found, for bob
    api.delete(f"/api/v1/runs/{run}", headers=ADMIN)
    api.delete(f"/api/v1/runs/{run}", headers={})

    def seen(headers):
        # Keys were created for both tenants, and some of them have tried to read the log.
        return {
            (row["action"], row["outcome"], row["tenantId"])
            for row in read_log(api, headers)
            if not row["action"].startswith(("api-key.", "audit-log."))
        }

    assert seen(ada) == {
        ("run.create", "ok", "ada"),
        ("run.delete", "ok", "ada"),
    }
    assert seen(bob) == {("run.create", "ok", "bob"), ("run.delete", "refused", "bob")}
    assert ("run.create", "ok", None) in seen(ADMIN)
    assert {("run.delete", "refused", None), ("run.delete", "refused", "bob")} <= seen(ADMIN)
    exported = api.get("/api/v1/audit-log/export", headers=bob).text
    assert "of-ada" not in exported
    assert {json.loads(line)["tenantId"] for line in exported.splitlines()} == {"bob"}


def test_rows_can_be_neither_changed_nor_deleted_through_the_api(serve):
    api = serve(api_key="admin-key")
    start(api, headers=ADMIN)
    [row, *_] = before = read_log(api)
    for method in WRITES:
        for path in ("/api/v1/audit-log", f"/api/v1/audit-log/{row['id']}", "/api/v1/audit-log/export"):
            assert api.request(method, path, headers=ADMIN, json={}).status_code in (404, 405)
    ids = {row["id"] for row in read_log(api)}
    assert {row["id"] for row in before} <= ids


def test_exports(serve):
    api = serve(api_key="admin-key")
    start(api, project='=HYPERLINK("evil.example")', headers=ADMIN)
    start(api, project='Zoë, "quoted"', headers=ADMIN)

    lines = api.get("/api/v1/audit-log/export", params={"action": "run"}, headers=ADMIN)
    table = api.get("/api/v1/audit-log/export", params={"action": "run", "format": "csv"}, headers=ADMIN)

    assert lines.headers["content-type"].startswith("application/x-ndjson")
    assert [json.loads(line) for line in lines.text.splitlines()] == read_log(api, action="run")
    assert table.headers["content-disposition"] == 'attachment; filename="audit-log.csv"'
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [row["action"] for row in rows] == ["run.create", "run.create"]
    assert [row["principalKind"] for row in rows] == ["system", "system"]
    assert not any(cell.startswith("=") for row in rows for cell in row.values())
    api.delete('/api/v1/projects/=HYPERLINK("evil.example")', headers=ADMIN)
    query = {"action": "project", "format": "csv"}
    table = api.get("/api/v1/audit-log/export", params=query, headers=ADMIN)
    [row] = csv.DictReader(io.StringIO(table.text))
    assert row["targetName"] == '\'=HYPERLINK("evil.example")'


def test_an_export_reads_all_pages(serve, monkeypatch):
    monkeypatch.setattr("dokimos.server._api.audit.audit_answers._ROWS", 3)
    api = serve(api_key="admin-key")
    for number in range(8):
        start(api, experiment=f"qa-{number}", headers=ADMIN)
    text = api.get("/api/v1/audit-log/export", headers=ADMIN).text
    assert [json.loads(line)["id"] for line in text.splitlines()] == [row["id"] for row in read_log(api)]


def test_old_rows_are_removed(serve):
    api = serve(api_key="admin-key")
    start(api, headers=ADMIN)
    database = api.app.state.unaudited_database
    count = len(read_log(api))
    for days in (-1.0, 365.0):
        api.portal.call(purge_audit_log, database, days, AgeClock())
        assert len(read_log(api)) == count

    api.portal.call(purge_audit_log, database, 0.0, AgeClock())

    [row] = read_log(api)
    assert row["action"] == "audit-log.purge"
    assert row["details"] == {"rows": count, "olderThanDays": 0.0}


def test_a_clock_that_is_set_forward_removes_no_row_before_its_time(serve):
    api = serve(api_key="admin-key")
    start(api, headers=ADMIN)
    database, begin = api.app.state.unaudited_database, time.time()
    passed = {"wall": 0.0, "monotonic": 0.0}
    clock = AgeClock(wall=lambda: begin + passed["wall"], monotonic=lambda: passed["monotonic"])
    count = len(read_log(api))

    passed.update(wall=400 * 86_400.0, monotonic=60.0)
    api.portal.call(purge_audit_log, database, 365.0, clock)

    assert len(read_log(api)) == count
    passed.update(monotonic=366 * 86_400.0)
    api.portal.call(purge_audit_log, database, 365.0, clock)
    assert [row["action"] for row in read_log(api)] == ["audit-log.purge"]


def test_rows_are_removed_in_small_steps(serve, monkeypatch):
    monkeypatch.setattr("dokimos.server._services.audit.audit_log.PURGE_ROWS", 2)
    api = serve(api_key="admin-key")
    for number in range(4):
        start(api, experiment=f"qa-{number}", headers=ADMIN)
    steps = []
    while removed := write(api, lambda connection: purge_entries(connection, 0.0)):
        steps.append(removed)
    assert max(steps) == 2
    assert len(steps) > 1


def test_a_command_records_what_it_does(database_settings):
    import asyncio

    async def run():
        database = open_database(ServerSettings(**database_settings))
        await database.open()
        who = command_line("ops")
        await database.write(lambda c: record_action(c, "db.restore", who, details={"projects": 3}))
        rows = await database.read(lambda c: c.execute(select(AUDIT_LOG)).all())
        await database.close()
        return rows

    [row] = asyncio.run(run())
    assert (row.principal_kind, row.principal_id, row.action) == ("command", "ops", "db.restore")
    assert json.loads(row.details) == {"projects": 3}


def test_rows_survive_the_project_that_they_are_about(serve):
    api = serve(api_key="admin-key")
    start(api, headers=ADMIN)
    api.delete("/api/v1/projects/chat", headers=ADMIN)
    write(api, lambda connection: connection.execute(PROJECTS.delete()).rowcount)
    assert [row["action"] for row in read_log(api, target="chat")] == ["project.delete"]


class Database:
    """Keeps what is written, or is away."""

    def __init__(self):
        self.is_away = False
        self.writes = 0

    async def write(self, change, *, background=False):
        from dokimos.server._db.database import DatabaseUnavailable

        if self.is_away:
            raise DatabaseUnavailable("away")
        self.writes += 1


def refusal(address="192.0.2.1", action="run.create", kind="anonymous", **fields):
    return AuditEntry(
        principal_kind=kind,
        principal_id=kind,
        address=address,
        action=action,
        outcome=Outcome.REFUSED,
        status=401,
        **fields,
    )


def test_a_flood_of_refusals_takes_a_bounded_number_of_entries():
    trail = AuditTrail()
    for number in range(50_000):
        target = Target("run", id=str(number % 977))
        trail.count(refusal(f"192.0.{number % 256}.{number // 256}", target=target))
    assert trail.waiting_count <= 101
    assert sum(counted.times for counted in trail._counted.values()) == 50_000


def test_one_address_cannot_take_all_the_entries_of_strangers():
    trail = AuditTrail()
    for number in range(1000):
        trail.count(refusal(action=f"a{number}"))
    trail.count(refusal("192.0.2.2"))
    entries = {(entry.address, entry.action): counted.times for entry, counted in trail._counted.items()}
    assert len(entries) == 22
    assert entries["192.0.2.1", "*"] == 980
    assert entries["192.0.2.2", "run.create"] == 1


async def test_what_could_not_be_written_is_written_later():
    from dokimos.server._db.database import DatabaseUnavailable

    trail, database = AuditTrail(), Database()
    trail.count(refusal())
    database.is_away = True
    with pytest.raises(DatabaseUnavailable):
        await trail.flush(database)
    database.is_away = False
    await trail.flush(database)
    await trail.flush(database)  # nothing new: nothing is written
    assert database.writes == 1
    trail.count(refusal())
    await trail.flush(database)
    assert database.writes == 2


def test_a_count_whose_write_was_cancelled_is_written_again(serve):
    """The server may stop while the counts are on their way, and does not know whether they arrived."""
    api = serve(api_key="admin-key")
    trail = api.app.state.audit_trail
    database = api.app.state.unaudited_database

    async def write_twice():
        trail.count(refusal())
        await trail.flush(database)
        [counted] = trail._counted.values()
        counted.times_on_disk = 0
        trail.count(refusal())
        await trail.flush(database)

    api.portal.call(write_twice)
    [row] = read_log(api, outcome="refused")
    assert row["count"] == 2


@pytest.mark.parametrize(
    ("method", "route", "action", "target"),
    [
        ("POST", "/api/v1/projects/{name}/runs", "run.create", Target("project", name="n")),
        ("DELETE", "/api/v1/runs/{runId}", "run.delete", Target("run", id="i")),
        ("PATCH", "/api/v1/runs/{runId}/description", "run.description.update", Target("run", id="i")),
        ("PUT", "/api/v1/runs/{runId}/items/{itemId}/annotation", "run.item.annotation.set",
         Target("item", id="j")),
        ("POST", "/api/v1/api-keys/{keyId}/disable", "api-key.disable", Target("api-key", id="k")),
        ("POST", "/api/v1/datasets/promote", "dataset.promote", Target("dataset")),
        ("GET", "/api/v1/projects/{name}/settings", "project.settings.read", Target("project", name="n")),
        ("PUT", "/api/v1/experiments/{experimentId}/baseline", "experiment.baseline.set",
         Target("experiment", id="e")),
        ("POST", None, "unknown", Target()),
    ],
)  # fmt: skip
def test_actions_and_targets_come_from_the_route(method, route, action, target):
    parameters = {"name": "n", "runId": "i", "itemId": "j", "keyId": "k", "experimentId": "e"}
    assert action_of(method, route) == action
    assert target_of(route, parameters) == target


@pytest.mark.parametrize("form", ["{}", "urn:uuid:{}", "{{{}}}", "hex"])
def test_an_id_is_recorded_as_the_tables_have_it_in_whichever_form_it_came(serve, form):
    api = serve(api_key="admin-key")
    run = start(api, headers=ADMIN).json()["runId"]
    written = run.replace("-", "") if form == "hex" else form.format(run.upper())

    sent = api.post(f"/api/v1/runs/{written}/items", json={"items": [ITEM]}, headers=ADMIN)

    assert sent.status_code == 201
    assert latest(api, "run.item.create")["target"]["id"] == run
    assert api.delete(f"/api/v1/runs/{written}", headers=ADMIN).status_code == 204
    [row] = read_log(api, target=run, action="run.delete")
    assert row["target"] == {"kind": "run", "id": run, "name": None}


def test_a_name_with_a_slash_is_recorded_as_it_is(serve):
    api = serve(api_key="admin-key")
    start(api, project="a%2Fb", headers=ADMIN)
    api.delete("/api/v1/projects/a%2Fb", headers=ADMIN)
    assert latest(api, "project.delete")["target"]["name"] == "a/b"


def test_many_rows_are_listed_in_time(serve):
    """A page of a long log reads an index, not the log."""
    api = serve(api_key="admin-key")
    entry = refusal(kind="key")

    def fill(connection):
        for number in range(3000):
            add_entry(connection, replace(entry, address=f"10.0.0.{number % 250}"))

    write(api, fill)
    assert len(read_log(api, limit=2000)) == 2000
    assert len(read_log(api, principal="key", limit=5)) == 5
