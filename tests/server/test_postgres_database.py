"""Connections to PostgreSQL that the database has closed."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import pytest
from sqlalchemy import text

from dokimos.server import ServerSettings
from dokimos.server._db import postgres_database
from dokimos.server._db.database import DatabaseUnavailable, open_database


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


def wait_for_end(url, process):
    """Wait until a connection is gone, as a server does nothing that is frozen."""

    async def wait():
        connection = await asyncpg.connect(url)
        while await connection.fetchval("SELECT 1 FROM pg_stat_activity WHERE pid = $1", process):
            await asyncio.sleep(0.01)  # between two looks
        await connection.close()

    with ThreadPoolExecutor(1) as thread:  # the event loop of the database stands still
        thread.submit(asyncio.run, wait()).result()


async def test_a_transaction_of_a_frozen_server_ends(database_settings, monkeypatch):
    url = database_settings["database_url"]
    database = open_database(ServerSettings(**database_settings))
    await database.open()  # which migrates it
    await database.close()
    monkeypatch.setattr(postgres_database, "_ABANDONED_SECONDS", 3.0)
    await database.open()
    await database.write(lambda connection: connection.execute(text("CREATE TABLE kept (n int)")) and None)

    def freeze(connection):
        connection.execute(text("INSERT INTO kept VALUES (1)"))
        wait_for_end(url, connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
        connection.execute(text("INSERT INTO kept VALUES (2)"))

    with pytest.raises(DatabaseUnavailable):
        await database.write(freeze)
    await database.write(lambda c: c.execute(text("INSERT INTO kept VALUES (3)")) and None)
    kept = await database.read(lambda c: c.execute(text("SELECT n FROM kept")).scalars().all())
    await database.close()

    assert kept == [3]


async def test_a_server_that_freezes_before_it_runs_what_it_has_prepared_ends(database_settings, monkeypatch):
    url = database_settings["database_url"]
    database = open_database(ServerSettings(**database_settings))
    await database.open()
    await database.write(lambda connection: connection.execute(text("CREATE TABLE kept (n int)")) and None)

    async def hold(name):
        """A transaction for which PostgreSQL waits, and which does not count as idle."""
        connection = await asyncpg.connect(url, server_settings={"application_name": name})
        await connection.execute("BEGIN; INSERT INTO kept VALUES (1)")
        await connection.prepare("SELECT n FROM kept")
        return connection

    async def list_held():
        query = (
            "SELECT application_name FROM pg_stat_activity "
            "WHERE state = 'active' AND wait_event = 'ClientRead'"
        )
        return await database.read(lambda connection: connection.execute(text(query)).scalars().all())

    frozen, other = await hold(postgres_database._POOL), await hold("somebody else's")
    while len(await list_held()) < 2:
        await asyncio.sleep(0.01)  # until PostgreSQL waits for both
    await database.end_abandoned()
    assert sorted(await list_held()) == ["dokimos pool", "somebody else's"]

    monkeypatch.setattr(postgres_database, "_ABANDONED_SECONDS", 0.0)
    await database.end_abandoned()
    while "dokimos pool" in await list_held():
        await asyncio.sleep(0.01)  # until PostgreSQL has ended it
    assert await list_held() == ["somebody else's"]
    frozen.terminate()
    other.terminate()
    await database.close()
