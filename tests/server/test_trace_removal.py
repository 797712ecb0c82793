"""Traces that people delete, themselves or with their project."""

import pytest
from sqlalchemy import func, select
from tests.server.server_process import wait_until
from tests.server.trace_server import export, open_traces, run, span, trace_id

from dokimos.server._db.trace_tables import REMOVED_PROJECTS, SPANS, TRACES
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.projects.projects import delete_project, find_or_create_project
from dokimos.server._services.traces.trace_removals import note_removed_project

ADMIN = {"Authorization": "Bearer secret"}


def read(api, query, database="traces"):
    """The rows of a query on the traces of a server."""

    async def read_rows():
        return await getattr(api.app.state, database).read(lambda c: run(c, query).all())

    return api.portal.call(read_rows)


def count(api, table):
    return read(api, select(func.count()).select_from(table))[0][0]


def sweep(api, spans):
    """Remove what was deleted, which the server's own worker may do too, until so many spans are left."""

    def is_done():
        api.portal.call(api.app.state.trace_sweeper.remove_deleted)
        return count(api, SPANS) == spans

    wait_until(is_done, f"{spans} spans are left")


def send(api, *spans, project=None, **options):
    assert api.post("/v1/traces", json=export(*spans, project=project), **options).status_code == 200


def start_project(api, name, **options):
    answer = api.post(f"/api/v1/projects/{name}/runs", json={"experimentName": "qa"}, **options)
    assert answer.status_code == 201


def add_key(api, name, role="EDITOR", tenant=None):
    body = {"name": name, "role": role, **({} if tenant is None else {"tenantId": tenant})}
    key = api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()["key"]
    return {"Authorization": f"Bearer {key}"}


def test_a_deleted_trace_is_gone_at_once_and_its_spans_soon(api):
    send(api, span(1, 1), span(1, 2))
    send(api, span(2, 1))
    identifier = read(api, select(TRACES.c.id).where(TRACES.c.span_count == 2))[0].id
    assert api.delete(f"/api/v1/traces/{identifier}").status_code == 204
    assert api.delete(f"/api/v1/traces/{identifier}").status_code == 404
    sweep(api, spans=1)
    entry = api.get("/api/v1/audit-log", params={"action": "trace.delete"}).json()[0]
    assert entry["target"]["id"] == identifier


def test_a_trace_is_deleted_by_its_trace_id_where_one_has_it(serve):
    api = serve(api_key="secret")
    ada, bob = add_key(api, "ada", tenant="ada"), add_key(api, "bob", tenant="bob")
    for tenant in (ada, bob):
        send(api, span(1, 1), headers=tenant)
    path = f"/api/v1/traces/{trace_id(1)}"
    answer = api.delete(path, headers=ADMIN)
    assert (answer.status_code, "several tenants" in answer.text) == (409, True)
    assert api.delete(path, headers=ada).status_code == 204
    entry = api.get("/api/v1/audit-log", params={"action": "trace.delete"}, headers=ADMIN).json()[0]
    [row] = [each for each in read(api, select(TRACES)) if each.tenant_id == "ada"]
    assert (entry["target"]["id"], row.deleted_at is None) == (row.id, False)
    assert api.delete(path, headers=ada).status_code == 404
    assert api.get(path, headers=bob).status_code == 200
    assert api.delete(path, headers=ADMIN).status_code == 204


def test_only_editors_who_see_a_trace_delete_it(serve):
    api = serve(api_key="secret")
    ada, bob = add_key(api, "ada", tenant="ada"), add_key(api, "bob", tenant="bob")
    viewer = add_key(api, "viewer", role="VIEWER", tenant="ada")
    send(api, span(1, 1), headers=ada)
    path = f"/api/v1/traces/{read(api, select(TRACES.c.id))[0].id}"
    assert api.delete(path).status_code == 401
    assert api.delete(path, headers=viewer).status_code == 403
    assert api.delete(path, headers=bob).status_code == 404
    assert api.delete("/api/v1/traces/7", headers=ada).status_code == 400
    assert api.delete(path, headers=ada).status_code == 204


def test_a_deleted_project_takes_its_traces_along(api):
    start_project(api, "chat")
    send(api, span(1, 1), span(1, 2), project="chat")
    send(api, span(2, 1))
    assert api.delete("/api/v1/projects/chat").status_code == 204
    assert [row.span_count for row in read(api, select(TRACES).where(SYSTEM.sees(TRACES)))] == [1]
    sweep(api, spans=1)
    # What comes later for a name that nobody has any more belongs to no project.
    send(api, span(3, 1), project="chat")
    assert {row.project_id for row in read(api, select(TRACES))} == {None}


def test_a_tenant_does_not_delete_a_shared_project_with_traces_of_another(serve):
    api = serve(api_key="secret")
    ada, bob = add_key(api, "ada", tenant="ada"), add_key(api, "bob", tenant="bob")
    start_project(api, "chat", headers=ADMIN)
    send(api, span(1, 1), project="chat", headers=bob)
    answer = api.delete("/api/v1/projects/chat", headers=ada)
    assert answer.status_code == 409
    assert "traces of other tenants" in answer.text
    assert api.delete("/api/v1/projects/chat", headers=ADMIN).status_code == 204


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_what_a_killed_server_left_of_a_deletion_is_completed_or_forgotten(
    database_settings, monkeypatch, is_deleted
):
    async with open_traces(**database_settings) as server:
        project = await server.database.write(lambda c: find_or_create_project(c, SYSTEM, "chat"))
        await server.send(span(1, 1), project="chat")
        await server.traces.write(lambda c: note_removed_project(c, project.id))
        if is_deleted:
            await server.database.write(lambda c: delete_project(c, SYSTEM, "chat"))
            await server.send(span(2, 1), project="chat")  # whose project the server still remembers
    async with open_traces(**database_settings) as server:
        assert await server.sweeper.remove_deleted() == (2 if is_deleted else 0)
        assert len(await server.read(select(TRACES))) == (0 if is_deleted else 1)
        assert len(await server.read(select(REMOVED_PROJECTS))) == 1
        monkeypatch.setattr("dokimos.server._services.traces.trace_removals._LATE", 0)
        monkeypatch.setattr("dokimos.server._services.traces.trace_removals._UNDECIDED", 0)
        await server.sweeper.remove_deleted()
        assert await server.read(select(REMOVED_PROJECTS)) == []
