"""Reads that take too long, many at once, and clients that hang up meanwhile."""

import asyncio
import socket
from contextlib import suppress

import pytest
from sqlalchemy import literal, select, text

from dokimos.server._db.database import Lane, ReadersBusy, ReadTooSlow
from dokimos.server._services.runs import item_pages

PATIENCE = 60.0
"""Seconds after which a test counts as hanging; what it waits for takes no time to speak of."""


def endless(*_):
    """A condition that no row ever meets or fails: a search that takes for ever."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT count(*) FROM n"
    return text(f"({numbers}) = 0")


def run_for_ever(connection):
    connection.execute(select(endless()))


def read_one(connection):
    return connection.execute(select(literal(1))).scalar_one()


def call(client, coroutine_function):
    """Run a coroutine in the event loop of a server."""

    async def run():
        async with asyncio.timeout(PATIENCE):
            return await coroutine_function(client.app.state.database)

    return client.portal.call(run)


async def be_stopped(database, lane=Lane.PAGE):
    """Run a query without end until it is stopped for its length: on a loaded machine it may wait as long."""
    while True:
        with suppress(ReadersBusy):
            with pytest.raises(ReadTooSlow):
                await database.read(run_for_ever, lane)
            return


async def be_answered(database, query, lane=Lane.PAGE):
    """Run a short query until it is answered: on a loaded machine even that takes longer than the limit."""
    while True:
        with suppress(ReadersBusy, ReadTooSlow):
            return await database.read(query, lane)


def get_from_reader(client, path, **params):
    """Ask until a reader takes the question, for which it may wait too long on a loaded machine."""
    while True:
        answer = client.get(path, params=params)
        if "The server is busy with other reads" not in answer.text:
            return answer


def post(client, path, body):
    """Send a body; on a loaded machine even what a change looks up may take longer than the limit."""
    while (answer := client.post(path, json=body)).status_code == 503:
        continue
    return answer


@pytest.fixture
def slow_run(serve, monkeypatch):
    """A function that starts a server with settings, and returns it with a run whose search never ends."""

    def start(**settings):
        client = serve(**settings)
        run = post(client, "/api/v1/projects/chat/runs", {"experimentName": "qa"}).json()["runId"]
        item = {"inputs": {"q": 1}, "actualOutputs": {"a": 1}}
        assert post(client, f"/api/v1/runs/{run}/items", {"items": [item]}).status_code == 201
        monkeypatch.setattr(item_pages, "contains", endless)
        return client, run

    return start


@pytest.mark.parametrize("lane", [Lane.PAGE, Lane.SEARCH])
def test_a_read_without_end_is_stopped_and_its_reader_serves_on(serve, lane):
    client = serve(read_timeout=0.2)

    async def read(database):
        for _ in range(6):  # more than there are readers
            await be_stopped(database, lane)
        return await be_answered(database, read_one, lane)

    assert call(client, read) == 1


def test_postgresql_itself_stops_what_nobody_waits_for(serve, database_settings):
    if "data_dir" in database_settings:
        pytest.skip("SQLite runs in this process, where the tests of readers see it")
    client = serve(read_timeout=0.3)
    running = text(
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT (WITH%'"
    )

    async def read(database):
        reads = [database.read(run_for_ever, lane) for lane in (Lane.PAGE, Lane.SEARCH)]
        await asyncio.gather(*reads, return_exceptions=True)
        count = None
        while count != 0:
            count = await be_answered(database, lambda connection: connection.execute(running).scalar_one())
        return count

    assert call(client, read) == 0


def test_work_is_not_limited(serve):
    client = serve(read_timeout=0.2)

    async def read(database):
        work = asyncio.create_task(database.read(run_for_ever, Lane.WORK))
        await be_stopped(database)  # as long as this one takes, the work has taken too
        is_running = not work.done()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return is_running

    assert call(client, read)


def test_a_read_that_waited_for_a_connection_all_the_time_is_not_called_slow(serve, database_settings):
    if "data_dir" in database_settings:
        pytest.skip("the readers of SQLite have a connection each")
    client = serve(read_timeout=0.5, pool_size=1)

    async def read(database):
        has_connection = asyncio.Event()

        def hold_the_connection(connection):
            has_connection.set()
            run_for_ever(connection)

        work = asyncio.create_task(database.read(hold_the_connection, Lane.WORK))
        await has_connection.wait()
        ends = await asyncio.gather(
            *(database.read(read_one, lane) for lane in (Lane.PAGE, Lane.SEARCH)), return_exceptions=True
        )
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return {type(end) for end in ends}

    assert call(client, read) == {ReadersBusy}


def test_items_whose_key_takes_too_long_to_be_looked_up_are_answered_with_503(slow_run, monkeypatch):
    client, run = slow_run()

    async def identify(*_):
        raise ReadTooSlow(10, Lane.PAGE)

    monkeypatch.setattr(client.app.state.keys, "identify", identify)
    for path in (f"/api/v1/runs/{run}/items", "/api/v1/projects/chat/runs"):
        answer = client.post(path, json={}, headers={"Authorization": "Bearer x"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_pages_without_end_hold_up_nobody_who_sends_a_key(serve):
    client = serve(read_timeout=0, api_key="own")
    client.app.state.keys._loaded_at = float("-inf")  # as it is every few seconds

    async def identify(database):
        pages = [asyncio.create_task(database.read(run_for_ever)) for _ in range(8)]
        await asyncio.sleep(0)  # they have begun, or wait before the one for the keys
        try:
            return await client.app.state.keys.identify("own", "192.0.2.1")
        finally:
            for page in pages:
                page.cancel()
            await asyncio.gather(*pages, return_exceptions=True)

    assert call(client, identify).id == "system"


def test_searches_without_end_leave_readers_to_pages_and_work(serve):
    client = serve(read_timeout=0)

    async def read(database):
        searches = [asyncio.create_task(database.read(run_for_ever, Lane.SEARCH)) for _ in range(30)]
        answers = [await database.read(read_one, lane) for lane in (Lane.PAGE, Lane.WORK) * 10]
        for search in searches:
            search.cancel()
        ends = await asyncio.gather(*searches, return_exceptions=True)
        # What was cancelled holds no reader any more, else this would wait for ever.
        answers.append(await database.read(read_one, Lane.SEARCH))
        return answers, ends

    answers, ends = call(client, read)
    assert answers == [1] * 21
    assert all(isinstance(end, asyncio.CancelledError) for end in ends)


def test_a_read_that_waited_for_others_all_the_time_is_not_called_slow(serve):
    client = serve(read_timeout=3)

    async def read(database):
        hogs = [asyncio.create_task(database.read(run_for_ever, Lane.WORK)) for _ in range(20)]
        ends = set()
        while len(ends) < 2:  # on a loaded machine, the first may wait for a reader for as long as the others
            limited = [asyncio.create_task(database.read(run_for_ever, Lane.SEARCH)) for _ in range(20)]
            ends |= {type(end) for end in await asyncio.gather(*limited, return_exceptions=True)}
        for hog in hogs:
            hog.cancel()
        await asyncio.gather(*hogs, return_exceptions=True)
        return ends

    assert call(client, read) == {ReadTooSlow, ReadersBusy}


def test_a_search_that_takes_too_long_is_refused_with_advice(slow_run):
    client, run = slow_run(read_timeout=3)

    answer = get_from_reader(client, f"/api/v1/runs/{run}", search="needle")

    assert answer.status_code == 400
    assert answer.json()["error"] == "Bad Request"
    assert answer.json()["message"] == (
        "Searching for this took longer than 3 seconds and was stopped. "
        "Narrow what is searched with other filters, or raise DOKIMOS_READ_TIMEOUT_SECONDS."
    )
    while (answer := client.get(f"/api/v1/runs/{run}")).status_code == 503:
        continue  # on a loaded machine even this takes longer than the limit
    assert answer.json()["items"]["totalElements"] == 1


def test_a_page_that_takes_too_long_is_503_and_says_when_to_try_again(slow_run, monkeypatch):
    client, run = slow_run(read_timeout=3)
    monkeypatch.setitem(item_pages._OUTCOMES, "failed", endless())

    answer = get_from_reader(client, f"/api/v1/runs/{run}", outcome="failed")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["message"] == (
        "Reading this took longer than 3 seconds and was stopped; ask for a smaller page, or try again later."
    )


def test_a_client_that_hangs_up_gives_its_reader_back(listen_on_database, monkeypatch):
    port = listen_on_database(read_timeout=0)
    run = (
        send(port, "POST", "/api/v1/projects/chat/runs", b'{"experimentName":"qa"}').split(b'"')[-2].decode()
    )
    items = b'{"items":[{"inputs":{"q":"hay"},"actualOutputs":{}}]}'
    assert b"201 Created" in send(port, "POST", f"/api/v1/runs/{run}/items", items)
    page = f"/api/v1/runs/{run}?search="
    contains = item_pages.contains
    monkeypatch.setattr(
        item_pages, "contains", lambda column, text: (endless if text == "ever" else contains)(column, text)
    )

    connections = [begin(port, "GET", page + "ever") for _ in range(10)]
    for connection in connections:
        connection.close()

    # Two searches at once are let in, and those never end by themselves.
    assert b'"totalElements":1' in send(port, "GET", page + "hay")


def begin(port, method, path, body=b""):
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    connection.sendall(head.encode() + b"\r\n" + body)
    return connection


def send(port, method, path, body=b""):
    with begin(port, method, path, body) as connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))
