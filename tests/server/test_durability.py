"""What was acknowledged is on disk: killed servers, full disks, databases that go away."""

import os
import random
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient
from tests.server.killed_clients import PROMOTED, Progress, PromotingClient, RunClient, sending
from tests.server.server_process import execute, wait_until

from dokimos.server import ServerSettings, create_app
from dokimos.server._api import health_routes

KILLS = 60 if "DOKIMOS_LONG_TESTS" in os.environ else 3


def test_a_server_that_is_killed_loses_and_doubles_nothing(process):
    """Clients send, end and promote runs at once, and the server is killed at random moments."""
    pick = random.Random(7)
    progress = Progress()
    clients = [*(RunClient(number, progress) for number in range(3)), PromotingClient(progress)]
    for _ in range(KILLS):
        server = process()
        with sending(clients, server):
            progress.wait_for(pick.randrange(1, 40))
            server.kill()
    server = process()
    for client in clients:
        client.check(server)
    for client in clients:  # nothing is stuck: each goes on to its end
        client.finish(server)
        client.check(server)


ROWS_UNDER_WAY = """
SELECT COUNT(*) FROM dataset_items JOIN dataset_versions ON dataset_versions.id = version_id
WHERE version IS NULL AND dataset_versions.created_at > {}
"""
NEWEST_LEFT = "SELECT COALESCE(MAX(created_at), 0) FROM dataset_versions WHERE version IS NULL"


def counts_more(settings, query, count):
    return execute(settings, query)[0][0] > count


def test_a_server_that_is_killed_in_the_middle_of_a_promotion_keeps_all_of_it_or_nothing(
    process, database_settings
):
    """The moment is told by how many items of the new version are stored."""
    pick = random.Random(9)
    client = PromotingClient(Progress())
    server = process()
    client.go_on(server)
    for _ in range(KILLS):
        ((left,),) = execute(database_settings, NEWEST_LEFT)
        share = pick.randrange(PROMOTED // 2)
        with sending([client], server):
            query = ROWS_UNDER_WAY.format(left)
            wait_until(partial(counts_more, database_settings, query, share), "a promotion")
            server.kill()
        server = process()
        client.check(server)
    client.finish(server)
    client.check(server)


def test_a_stop_finishes_the_requests_that_have_begun(process):
    server = process()
    progress = Progress()
    client = RunClient(0, progress)
    with sending([client], server):
        progress.wait_for(20)
        code, log = server.stop()
    assert code == 0, log
    assert "Traceback" not in log
    client.check(process())


def start_run(api, **headers):
    answer = api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["runId"]


def send(api, run, questions=("q",), **headers):
    items = [
        {"inputs": {"q": question}, "actualOutputs": {}, "expectedOutputs": {}, "evalResults": []}
        for question in questions
    ]
    return api.post(f"/api/v1/runs/{run}/items", json={"items": items}, headers=headers)


def count(api, run):
    answer = api.get(f"/api/v1/runs/{run}").json()
    assert answer["totalItems"] == answer["items"]["totalElements"] == len(answer["items"]["content"])
    return answer["totalItems"]


@pytest.fixture
def sqlite_api(tmp_path):
    """A client of an open server on SQLite."""
    settings = ServerSettings(host="127.0.0.1", data_dir=tmp_path)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


def test_a_full_disk_refuses_writes_keeps_reading_and_recovers(sqlite_api):
    run = start_run(sqlite_api)
    assert send(sqlite_api, run).status_code == 201
    set_pages(sqlite_api, "page_count")
    for _ in range(3):
        refused = send(sqlite_api, run, ["x" * 1_000_000], **{"Idempotency-Key": "big"})
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "5"
        assert "nothing of this was stored" in refused.json()["message"]
    assert count(sqlite_api, run) == 1

    set_pages(sqlite_api, "1073741823")
    assert send(sqlite_api, run, ["x" * 1_000_000], **{"Idempotency-Key": "big"}).status_code == 201
    assert send(sqlite_api, run, ["x" * 1_000_000], **{"Idempotency-Key": "big"}).status_code == 201
    assert count(sqlite_api, run) == 2


def set_pages(api, pages):
    """Let the database file grow no further than so many pages, as a full disk would."""

    def change(connection):
        number = connection.exec_driver_sql("PRAGMA page_count").scalar() if pages == "page_count" else pages
        connection.exec_driver_sql(f"PRAGMA max_page_count={number}")

    api.portal.call(api.app.state.database.write, change)


def test_writes_that_share_a_commit_with_one_that_fills_the_disk_are_stored_or_refused(sqlite_api):
    run = start_run(sqlite_api)
    set_pages(sqlite_api, "page_count")
    with ThreadPoolExecutor(8) as threads:
        answers = list(
            threads.map(lambda n: send(sqlite_api, run, ["x" * (400_000 if n % 2 else 1)]), range(16))
        )
    set_pages(sqlite_api, "1073741823")
    assert {answer.status_code for answer in answers} <= {201, 503}
    assert count(sqlite_api, run) == sum(answer.status_code == 201 for answer in answers)


def test_a_file_that_another_process_locks_is_waited_for(sqlite_api, tmp_path):
    run = start_run(sqlite_api)
    other = sqlite3.connect(tmp_path / "server.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(send, sqlite_api, run)
        assert count(sqlite_api, run) == 0  # reading does not wait
        other.execute("COMMIT")
        assert sending.result().status_code == 201
    other.close()


def test_a_file_that_stays_locked_is_answered_with_503(sqlite_api, tmp_path, monkeypatch):
    run = start_run(sqlite_api)

    def hurry(connection):
        connection.exec_driver_sql("PRAGMA busy_timeout=1")

    sqlite_api.portal.call(sqlite_api.app.state.database.write, hurry)
    other = sqlite3.connect(tmp_path / "server.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert send(sqlite_api, run).status_code == 503
    other.execute("COMMIT")
    other.close()
    assert send(sqlite_api, run).status_code == 201
    assert count(sqlite_api, run) == 1


def test_a_database_that_goes_away_and_comes_back(own_postgres, monkeypatch):
    seconds = [1000.0]
    monkeypatch.setattr(health_routes, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    settings = ServerSettings(host="127.0.0.1", database_url=own_postgres.url, api_key="k", pool_timeout=2)
    with TestClient(create_app(settings), raise_server_exceptions=False) as api:
        api.headers["Authorization"] = "Bearer k"
        run = start_run(api)
        assert send(api, run, **{"Idempotency-Key": "first"}).status_code == 201
        own_postgres.stop()
        for _ in range(3):
            refused = send(api, run, **{"Idempotency-Key": "second"})
            assert refused.status_code == 503, refused.text
            assert refused.headers["retry-after"] == "5"
            assert api.get(f"/api/v1/runs/{run}").status_code == 503
        seconds[0] += 29
        health = api.get("/actuator/health")
        assert health.status_code == 200  # for 30 seconds
        assert health.json()["components"]["db"]["status"] == "DOWN"
        seconds[0] += 2
        assert api.get("/actuator/health").status_code == 503
        assert api.get("/actuator/health/liveness").status_code == 200
        assert api.get("/actuator/health/readiness").status_code == 503
        own_postgres.start()
        assert send(api, run, **{"Idempotency-Key": "second"}).status_code == 201
        assert send(api, run, **{"Idempotency-Key": "first"}).status_code == 201
        assert count(api, run) == 2
        assert api.get("/actuator/health").json()["components"]["db"]["status"] == "UP"
        assert api.get("/actuator/health/readiness").status_code == 200


def test_a_database_that_was_restarted_is_used_by_the_next_request(own_postgres):
    settings = ServerSettings(host="127.0.0.1", database_url=own_postgres.url)
    with TestClient(create_app(settings), raise_server_exceptions=False) as api:
        run = start_run(api)
        with ThreadPoolExecutor(8) as threads:  # on several connections, of which all are lost
            before = list(threads.map(lambda n: send(api, run, [f"before {n}"]), range(30)))
        own_postgres.stop()
        own_postgres.start()
        after = [send(api, run, [f"after {n}"]) for n in range(12)]
        assert [answer.status_code for answer in (*before, *after)] == [201] * 42
        assert count(api, run) == 42


def test_two_servers_that_start_at_once_on_one_database_share_it(postgres_database):
    settings = ServerSettings(host="127.0.0.1", database_url=postgres_database)
    with ExitStack() as stack, ThreadPoolExecutor(2) as threads:
        clients = [TestClient(create_app(settings), raise_server_exceptions=False) for _ in range(2)]
        for each in threads.map(lambda client: client.__enter__(), clients):  # both migrate
            stack.callback(each.__exit__, None, None, None)
        runs = list(
            threads.map(lambda n: start_run(clients[n % 2], **{"Idempotency-Key": f"{n // 2}"}), range(8))
        )
        assert len(set(runs)) == 4
        answers = list(threads.map(lambda n: send(clients[n % 2], runs[0], [str(n)]), range(30)))
        assert {answer.status_code for answer in answers} == {201}
        page = clients[0].get(f"/api/v1/runs/{runs[0]}").json()
        assert page["totalItems"] == 30
        assert [item["ordinal"] for item in page["items"]["content"]] == list(range(30))


def test_ending_deleting_and_starting_at_once_never_fails(serve):
    """Locks that are taken in different orders must not end in an error of the server."""
    api = serve()
    run = start_run(api)

    def act(number):
        kind = number % 4
        if kind == 0:
            return api.post("/api/v1/projects/chat/runs", json={"experimentName": f"e{number % 3}"})
        if kind == 1:
            return api.patch(
                f"/api/v1/runs/{run}", json={"status": "FAILED" if number % 8 == 1 else "RUNNING"}
            )
        if kind == 2:
            return send(api, run)
        return api.delete("/api/v1/projects/chat" if number % 20 == 3 else f"/api/v1/runs/{run}")

    with ThreadPoolExecutor(6) as threads:
        statuses = {answer.status_code for answer in threads.map(act, range(80))}
    assert statuses <= {200, 201, 204, 404, 409}, statuses


def test_a_batch_of_many_items_with_ordinals_can_be_sent_again(api):
    size = 20_000
    run = start_run(api)
    items = [
        {"inputs": {}, "actualOutputs": {}, "expectedOutputs": {}, "evalResults": [], "ordinal": number}
        for number in range(size)
    ]
    for _ in range(2):
        answer = api.post(f"/api/v1/runs/{run}/items", json={"items": items})
        assert answer.status_code == 201, answer.text
    assert api.get(f"/api/v1/runs/{run}?size=1").json()["totalItems"] == size
