"""Connections to PostgreSQL that the database has closed."""

import asyncio

import asyncpg
import pytest

from dokimos.server._db import postgres_database


@pytest.fixture
def database_settings(postgres_database):
    return {"database_url": postgres_database}


def end_connections(url):
    """End all connections to the database but this one, as a restart of PostgreSQL does."""

    async def end():
        connection = await asyncpg.connect(url)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        await connection.close()

    asyncio.run(end())


def test_an_idle_connection_that_was_ended_costs_no_request(api, database_settings, monkeypatch):
    monkeypatch.setattr(postgres_database, "_IDLE_SECONDS", 0.0)
    assert api.get("/api/v1/projects").status_code == 200

    end_connections(database_settings["database_url"])

    assert api.get("/api/v1/projects").status_code == 200


def test_connections_that_ended_a_moment_ago_cost_one_request_at_most(api, database_settings, monkeypatch):
    monkeypatch.setattr(postgres_database, "_IDLE_SECONDS", 3600.0)
    assert api.get("/api/v1/projects").status_code == 200

    end_connections(database_settings["database_url"])

    assert api.get("/api/v1/projects").status_code in (200, 503)  # 200 where a worker met the end before
    assert api.get("/api/v1/projects").status_code == 200


def test_a_statement_that_was_never_sent_is_tried_again(api, monkeypatch):
    """A connection may turn out to be closed only when it is used: nothing has reached PostgreSQL."""
    run_change, lost = postgres_database._run_change, []

    def lose_first(engine, change):
        if not lost:
            lost.append(change)
            raise asyncpg.InterfaceError("connection is closed")
        return run_change(engine, change)

    monkeypatch.setattr(postgres_database, "_run_change", lose_first)
    answer = api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"})

    assert (answer.status_code, len(lost)) == (201, 1)
    assert [project["runCount"] for project in api.get("/api/v1/projects").json()] == [1]
