"""Work that one server at a time does, of all those that share a database."""

import asyncio
import os
import subprocess
import sys

import asyncpg
import pytest
from sqlalchemy import text

from dokimos.server import ServerSettings
from dokimos.server._db import postgres_claims
from dokimos.server._db.claims import wait_until_free
from dokimos.server._db.database import DatabaseUnavailable, open_database

NAMES = ["purge", "a'b\"; --", "\U0001f600" * 300, ""]


@pytest.fixture
async def servers(postgres_database):
    """The databases of two servers."""
    databases = [open_database(ServerSettings(database_url=postgres_database)) for _ in range(2)]
    for database in databases:
        await database.open()
    yield databases
    for database in databases:
        await database.close()


async def is_free(database, name="purge"):
    async with database.claim(name) as is_ours:
        return is_ours


@pytest.mark.parametrize("name", NAMES)
async def test_one_server_at_a_time_has_a_claim(servers, name):
    first, second = servers
    async with first.claim(name) as is_ours:
        assert is_ours
        assert not await is_free(second, name)
        assert not await is_free(first, name), "nor has it another task of the same server"
        assert await is_free(second, f"{name}.")
    assert await is_free(second, name)
    assert await is_free(first, name)


async def test_sqlite_has_claims_too(tmp_path):
    database = open_database(ServerSettings(data_dir=tmp_path))
    async with database.claim("purge") as is_ours:
        assert is_ours
        assert not await is_free(database)
    assert await is_free(database)


async def test_an_error_gives_a_claim_back(servers):
    first, second = servers
    with pytest.raises(KeyError):
        async with first.claim("purge"):
            raise KeyError
    assert await is_free(second)


async def test_whoever_is_cancelled_gives_a_claim_back(servers):
    first, second = servers

    async def hold():
        async with first.claim("purge"):
            held.set()
            await asyncio.Event().wait()

    held = asyncio.Event()
    task = asyncio.create_task(hold())
    await held.wait()
    task.cancel()
    await asyncio.wait([task])
    await wait_until_free(second, "purge")

    for turns in range(20):  # also in the middle of asking for it
        task = asyncio.create_task(hold())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await wait_until_free(second, "purge")
        await wait_until_free(first, "purge")
    assert await is_free(second)


async def test_many_tasks_of_many_servers_never_work_at_once(servers):
    at_work, done = 0, 0

    async def work(database):
        nonlocal at_work, done
        while True:
            async with database.claim("purge") as is_ours:
                if is_ours:
                    at_work += 1
                    assert at_work == 1
                    await asyncio.sleep(0)
                    at_work -= 1
                    done += 1
                    return
            await wait_until_free(database, "purge")

    await asyncio.gather(*(work(servers[number % 2]) for number in range(8)))

    assert done == 8


async def test_a_server_that_is_gone_has_no_claims(servers):
    first, second = servers
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dokimos claims'"
    async with first.claim("purge"):
        await second.read(lambda connection: connection.execute(text(end)).all())
        await wait_until_free(second, "purge")
    assert await is_free(first), "it has a new session"


async def test_a_session_that_ends_as_it_is_used_is_lost_and_no_error_of_the_work(servers, monkeypatch):
    """The driver says so in several ways, by how much of the end has arrived."""
    first, _ = servers

    async def fail(*arguments):
        raise asyncpg.InternalClientError("cannot switch to state 11; another operation (2) is in progress")

    async with first.claim("purge"):
        monkeypatch.setattr(asyncpg.Connection, "fetchval", fail)
    monkeypatch.undo()
    await wait_until_free(first, "purge")  # in a new session, once PostgreSQL has noticed


STANDS_STILL = """
import asyncio, os, signal, sys
from dokimos.server import ServerSettings
from dokimos.server._db import postgres_claims
from dokimos.server._db.database import open_database

async def main():
    database = open_database(ServerSettings(database_url=sys.argv[1]))
    await database.open()
    async with database.claim("purge") as is_ours:
        assert is_ours
        os.kill(os.getpid(), signal.SIGSTOP)

postgres_claims._LEASE_SECONDS = 2
asyncio.run(main())
"""


@pytest.mark.timeout(300)
async def test_a_server_that_stands_still_keeps_no_claim(postgres_database):
    code = [sys.executable, "-c", STANDS_STILL, postgres_database]
    frozen = subprocess.Popen(code, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    other = open_database(ServerSettings(database_url=postgres_database))
    try:
        _, status = await asyncio.to_thread(os.waitpid, frozen.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), "it has the claim, and stands still"
        await other.open()
        await wait_until_free(other, "purge")
    finally:
        await other.close()
        frozen.kill()
        frozen.wait()


async def test_a_server_gives_signs_of_life_while_it_has_a_claim(servers, monkeypatch):
    monkeypatch.setattr(postgres_claims, "_SIGN_SECONDS", 0.01)
    first, second = servers
    last = "SELECT query_start FROM pg_stat_activity WHERE application_name = 'dokimos claims'"

    async def find_last_sign():
        return await second.read(lambda connection: connection.execute(text(last)).scalar())

    async with first.claim("purge"):
        signs = {await find_last_sign()}
        while len(signs) < 4:
            await asyncio.sleep(0)
            signs.add(await find_last_sign())
        assert not await is_free(second)


async def test_a_server_that_closes_its_database_has_no_claims(servers):
    first, second = servers
    await first.claim("purge").__aenter__()
    await first.close()
    assert await is_free(second)
    with pytest.raises(DatabaseUnavailable):
        await is_free(first)


async def test_a_database_that_is_away_is_an_error_and_no_claim(own_postgres):
    database = open_database(ServerSettings(database_url=own_postgres.url))
    await database.open()
    assert await is_free(database)
    own_postgres.stop()
    for _ in range(2):
        with pytest.raises(DatabaseUnavailable):
            await is_free(database)
    own_postgres.start()
    assert await is_free(database)
    await database.close()
