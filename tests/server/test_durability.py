"""What was acknowledged is on disk: killed servers, full disks, databases that go away."""

import contextlib
import os
import random
import signal
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from starlette.testclient import TestClient

from dokimos.server import ServerSettings, create_app

KILLS = 60 if "DOKIMOS_LONG_TESTS" in os.environ else 3


class Client:
    """Sends runs as documented clients do, again and again with the same keys until they are acknowledged."""

    def __init__(self, number):
        self.name = f"client-{number}"
        self.position = 0
        self.sent = 0
        self.run = None
        self.acknowledged = {}
        """The questions of each run that the server has acknowledged."""
        self.ended = set()

    def work(self, server):
        """Send until the server is gone."""
        with contextlib.suppress(OSError, ValueError, ConnectionError):
            while True:
                self.step(server)

    def step(self, server):
        """Repeat the current request until it is answered; go on only then."""
        stage = self.position % 12
        number = self.position // 12
        if stage == 0:
            status, answer = server.call(
                "POST",
                f"/projects/{self.name}/runs",
                {"experimentName": "qa"},
                key=f"run-{number}",
            )
            assert status == 201, answer
            self.run = answer["runId"]
            self.acknowledged.setdefault(self.run, [])
        elif stage < 11:
            questions = [f"{number}-{stage}-{each}" for each in range(3)]
            items = [
                {
                    "inputs": {"q": question},
                    "actualOutputs": {},
                    "expectedOutputs": {},
                    "evalResults": [{"name": "e", "score": 1.0, "success": True}],
                }
                for question in questions
            ]
            status, answer = server.call(
                "POST", f"/runs/{self.run}/items", {"items": items}, key=f"batch-{number}-{stage}"
            )
            assert status == 201, answer
            self.acknowledged[self.run] += questions
        else:
            status, answer = server.call("PATCH", f"/runs/{self.run}", {"status": "SUCCESS"})
            assert status == 200, answer
            self.ended.add(self.run)
        self.position += 1

    def check(self, server):
        """All that was acknowledged is there once; of the request under way all or nothing."""
        for run, questions in self.acknowledged.items():
            _, answer = server.call("GET", f"/runs/{run}?size=2000")
            stored = [item["input"]["q"] for item in answer["items"]["content"]]
            assert stored[: len(questions)] == questions
            assert len(set(stored)) == len(stored)
            assert len(stored) - len(questions) in ((0,) if run in self.ended else (0, 3))
            assert answer["totalItems"] == answer["passedItems"] == len(stored)
            if run in self.ended:
                assert answer["status"] == "SUCCESS"
        _, experiments = server.call("GET", f"/projects/{self.name}/experiments")
        if isinstance(experiments, list) and experiments:
            runs = server.call("GET", f"/experiments/{experiments[0]['id']}/runs")[1]
            assert len(runs) - len(self.acknowledged) in (0, 1)


def test_a_server_that_is_killed_loses_and_doubles_nothing(process):
    """Three clients send at once, and the server is killed at random moments."""
    pick = random.Random(7)
    clients = [Client(number) for number in range(3)]
    for _ in range(KILLS):
        server = process()
        threads = [threading.Thread(target=client.work, args=(server,)) for client in clients]
        target = sum(client.position for client in clients) + pick.randrange(1, 40)
        for thread in threads:
            thread.start()
        while sum(client.position for client in clients) < target:  # a moment told by progress, not by time
            assert any(thread.is_alive() for thread in threads)
            time.sleep(pick.random() / 500)
        server.kill()
        for thread in threads:
            thread.join()
    server = process()
    for client in clients:
        client.check(server)
    for client in clients:  # no run is stuck: each goes on to its end
        while client.position % 12:
            client.step(server)
        client.check(server)
        assert client.ended == set(client.acknowledged)


def test_a_stop_finishes_the_requests_that_have_begun(process):
    server = process()
    client = Client(0)
    failures = []

    def work():
        try:
            while True:
                client.step(server)
        except OSError:
            return
        except AssertionError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while client.position < 20:
        time.sleep(0.001)
    code, log = server.stop()
    thread.join()
    assert (code, failures) == (-signal.SIGTERM, []), log  # it ends by the signal, after its work
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


def test_a_database_that_goes_away_and_comes_back(own_postgres):
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
        health = api.get("/actuator/health")
        assert health.status_code == 200  # for 30 seconds
        assert health.json()["components"]["db"]["status"] == "DOWN"
        api.app.state.health._last_seen -= 60
        assert api.get("/actuator/health").status_code == 503
        assert api.get("/actuator/health/liveness").status_code == 200
        assert api.get("/actuator/health/readiness").status_code == 503
        own_postgres.start()
        assert send(api, run, **{"Idempotency-Key": "second"}).status_code == 201
        assert send(api, run, **{"Idempotency-Key": "first"}).status_code == 201
        assert count(api, run) == 2
        assert api.get("/actuator/health").json()["components"]["db"]["status"] == "UP"
        assert api.get("/actuator/health/readiness").status_code == 200


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
