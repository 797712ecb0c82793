"""Several servers on one PostgreSQL: each piece of work is done once, and one that dies is not missed."""

import asyncio
import http.client
import itertools
import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient
from tests.server.event_watcher import Watcher
from tests.server.gate_runs import diff, end, gate, items_of, run_of, send, start
from tests.server.server_process import PATIENT, Process, execute, wait_until
from tests.server.test_comparisons import CountingComparer, engine_of, use, wait_for_verdicts
from tests.server.trace_server import export, span

from dokimos.server import ServerSettings, create_app
from dokimos.server._api.accounts import key_ring
from dokimos.server._db.tables import RUNS
from dokimos.server._services.comparisons import comparisons, stored_comparisons
from dokimos.server._services.errors import UnavailableError
from dokimos.server._services.traces import trace_projects
from dokimos.server._workers import maintenance

ADMIN = {"Authorization": "Bearer admin-key"}
DAY = 86_400_000_000


@pytest.fixture
def settings(postgres_database):
    return {"host": "127.0.0.1", "database_url": postgres_database}


@pytest.fixture
def replicas(settings):
    """A function that starts so many servers in this process, and returns their clients."""
    with ExitStack() as stack:

        def begin(count=2, **more):
            apps = [create_app(ServerSettings(**{**PATIENT, **settings, **more})) for _ in range(count)]
            clients = [stack.enter_context(TestClient(app, raise_server_exceptions=False)) for app in apps]
            for client in clients:  # what the framework builds at the first request, two threads cannot build
                client.get("/api/v1/projects")
            return clients

        yield begin


@pytest.fixture
def processes(settings):
    """A function that starts servers in processes of their own, all at once."""
    started = []

    def begin(count=1, before="", **more):
        with ThreadPoolExecutor(count) as threads:
            new = list(threads.map(lambda _: Process({**settings, **more}, before), range(count)))
        started.extend(new)
        return new

    yield begin
    for each in started:
        each.kill()


@pytest.fixture
def has_waiter(monkeypatch):
    """Set as soon as a server waits for what another one computes."""
    event = threading.Event()
    wait = comparisons.wait_until_free

    async def note_and_wait(*arguments):
        event.set()
        await wait(*arguments)

    monkeypatch.setattr(comparisons, "wait_until_free", note_and_wait)
    return event


@pytest.fixture
def event_kinds(monkeypatch):
    """The kinds of the events about comparisons, from all servers of this process."""
    kinds = []
    announce = stored_comparisons.announce_run

    def note(connection, kind, *arguments, **more):
        kinds.append(kind)
        announce(connection, kind, *arguments, **more)

    monkeypatch.setattr(stored_comparisons, "announce_run", note)
    return kinds


def pair_of(api):
    """Two runs with their verdicts."""
    runs = run_of(api, items_of([1.0] * 10)), run_of(api, items_of([1.0] * 10))
    wait_for_verdicts(api)
    return runs


def test_servers_that_start_at_once_on_an_empty_database_all_start(processes, settings):
    servers = processes(3)

    run = servers[0].call("POST", "/projects/chat/runs", {"experimentName": "qa"})[1]["runId"]

    for server in servers:
        assert server.call("GET", f"/runs/{run}")[0] == 200
    assert len(execute(settings, "SELECT version_num FROM alembic_version")) == 1


def test_a_pair_that_two_servers_are_asked_for_is_computed_once(replicas, has_waiter, event_kinds):
    first, second = replicas()
    before, now = pair_of(first)
    comparers = [use(api, CountingComparer(engine_of(api)._comparer)) for api in (first, second)]
    event_kinds.clear()
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(gate, first, now, alpha=0.01)]
        while not comparers[0].jobs:
            pass
        asked.append(threads.submit(gate, second, now, alpha=0.01))
        assert has_waiter.wait(60)
        assert diff(second, before, now).status_code == 200, "what waits holds up nothing else"
        for comparer in comparers:
            comparer.go.set()
        answers = [each.result() for each in asked]

    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert [len(comparer.jobs) for comparer in comparers] == [1, 0]
    assert event_kinds == ["comparison.ready"]


def test_a_verdict_that_two_servers_compute_is_computed_stored_and_told_once(
    replicas, has_waiter, event_kinds
):
    first, second = replicas()
    run_of(first, items_of([1.0] * 10))
    wait_for_verdicts(first)
    now = start(first)
    send(first, now, items_of([1.0] * 10))
    comparers = [use(api, CountingComparer(engine_of(api)._comparer)) for api in (first, second)]
    event_kinds.clear()
    end(first, now)
    while not comparers[0].jobs:
        pass
    second.portal.call(engine_of(second).judge_missing, 0.0, 3600.0)
    assert has_waiter.wait(60)
    for comparer in comparers:
        comparer.go.set()
    wait_for_verdicts(second)
    wait_for_verdicts(first)

    assert [len(comparer.jobs) for comparer in comparers] == [1, 0]
    assert event_kinds == ["comparison.ready", "verdict.ready"]
    query = select(RUNS.c.verdict).where(RUNS.c.id == now)
    assert first.portal.call(first.app.state.database.read, lambda c: c.execute(query).scalar()) == "PASS"


def test_a_gate_that_skips_failed_baselines_waits_for_a_verdict_that_another_server_computes(
    replicas, has_waiter
):
    first, second = replicas()
    good = run_of(first, items_of([1.0] * 20))
    wait_for_verdicts(first)
    comparer = use(first, CountingComparer(engine_of(first)._comparer))
    run_of(first, items_of([0.0] * 20))
    while not comparer.jobs:
        pass
    now = start(second)
    send(second, now, items_of([0.0] * 20))
    end(second, now)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(gate, second, now, skipFailedBaselines=True)
        assert has_waiter.wait(60)
        comparer.go.set()
        answer = asked.result().json()

    assert (answer["status"], answer["baselineRunId"]) == ("FAIL", good)


def test_a_comparison_that_fails_at_one_server_is_tried_by_the_other(replicas, has_waiter):
    first, second = replicas()
    _, now = pair_of(first)

    class Failing(CountingComparer):
        async def compare(self, job):
            self.jobs.append(job)
            await asyncio.to_thread(self.go.wait)
            raise UnavailableError("killed")

    comparer = use(first, Failing(engine_of(first)._comparer))
    with ThreadPoolExecutor(2) as threads:
        failing = threads.submit(gate, first, now, alpha=0.01)
        while not comparer.jobs:
            pass
        asked = threads.submit(gate, second, now, alpha=0.01)
        assert has_waiter.wait(60)
        comparer.go.set()
        assert failing.result().status_code == 503
        assert asked.result().json()["status"] == "PASS"


LOCKS = """
SELECT COUNT(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND application_name = 'dokimos claims' AND pg_locks.granted
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the process that compares in /proc")
def test_a_server_that_is_killed_in_the_middle_of_a_comparison_leaves_it_to_the_others(processes, settings):
    first, second = processes(2)
    runs = [process_run(first) for _ in range(2)]
    path = f"/experiments/{first.call('GET', f'/runs/{runs[0]}')[1]['experimentId']}/gate"
    body = {"candidateRunId": runs[1], "alpha": 0.01}
    wait_until(lambda: verdicts(settings) == 2, "the verdicts")
    children = [path.read_text().split() for path in Path(f"/proc/{first.pid}/task").glob("*/children")]
    (child,) = map(int, itertools.chain.from_iterable(children))  # each belongs to the thread that began it
    os.kill(child, signal.SIGSTOP)
    wait_until(lambda: execute(settings, LOCKS) == [(0,)], "the end of all claims")
    with ThreadPoolExecutor(2) as threads:
        lost = threads.submit(first.call, "POST", path, body)
        wait_until(lambda: execute(settings, LOCKS) == [(1,)], "the claim")
        asked = threads.submit(second.call, "POST", path, body)
        first.process.kill()
        os.kill(child, signal.SIGKILL)  # it would keep the log of the server open
        status, answer = asked.result()
        assert isinstance(lost.exception(), OSError)

    assert (status, answer["status"]) == (200, "PASS")


def process_run(server, score=1.0, **call):
    """A run of a process that has ended."""
    run = server.call("POST", "/projects/chat/runs", {"experimentName": "qa"}, **call)[1]["runId"]
    items = {"items": items_of([score] * 10)}
    assert server.call("POST", f"/runs/{run}/items", items, **call)[0] == 201
    assert server.call("PATCH", f"/runs/{run}", {"status": "SUCCESS"}, **call)[0] == 200
    return run


def verdicts(settings):
    return execute(settings, "SELECT COUNT(*) FROM runs WHERE verdict IS NOT NULL")[0][0]


@pytest.mark.parametrize("how", ["disable", "delete"])
def test_a_key_that_is_taken_away_stops_at_all_servers(replicas, monkeypatch, how):
    monkeypatch.setattr(key_ring, "_RELOAD_SECONDS", 3600.0)  # nothing but the notification ends it
    first, second = replicas(api_key="admin-key")
    key, made = new_key(first)
    wait_until(lambda: second.get("/api/v1/api-keys", headers=key).status_code == 200, "the new key")

    path = f"/api/v1/api-keys/{made['id']}"
    answer = (
        first.delete(path, headers=ADMIN) if how == "delete" else first.post(f"{path}/disable", headers=ADMIN)
    )
    assert answer.status_code < 300

    assert first.get("/api/v1/api-keys", headers=key).status_code == 401
    wait_until(lambda: second.get("/api/v1/api-keys", headers=key).status_code == 401, "its end")


def test_a_key_that_is_taken_away_stops_also_where_the_notification_is_lost(replicas, monkeypatch):
    first, second = replicas(api_key="admin-key")
    key, made = new_key(first)
    assert second.get("/api/v1/api-keys", headers=ADMIN).status_code == 200
    monkeypatch.setattr(second.app.state.keys, "expire", lambda: None)
    first.delete(f"/api/v1/api-keys/{made['id']}", headers=ADMIN)
    ring = second.app.state.keys
    ring._loaded_at -= key_ring._RELOAD_SECONDS  # that time later

    assert key_ring._RELOAD_SECONDS <= 5
    assert second.get("/api/v1/api-keys", headers=key).status_code == 401


def test_what_one_server_is_to_redact_the_others_redact_as_well(replicas, monkeypatch):
    monkeypatch.setattr(trace_projects, "_SECONDS", 1e6)  # what a server knows, it takes for true that long
    first, second = replicas()
    heard, hub = [], second.app.state.events
    publish = hub.publish
    monkeypatch.setattr(hub, "publish", lambda id, event: (heard.append(event.run_id), publish(id, event)))
    names = itertools.count()

    def is_listening():
        start(first, project=f"p{next(names)}")
        return any(heard)

    wait_until(is_listening, "the second server listens")
    run = start(first, project="chat")
    wait_until(lambda: run in heard, "it hears of the run, and so of its project")
    assert second.post("/v1/traces", json=export(span(1, 1), project="chat")).json() == {}

    rules = {"rules": [{"name": "secrets", "keys": ["secret"]}]}
    path = "/api/v1/projects/chat/redaction-rules"
    assert first.put(path, json=rules).status_code == 200
    numbers = itertools.count(2)

    def is_redacted():
        spans = export(span(next(numbers), 1, secret="swordfish"), project="chat")
        assert second.post("/v1/traces", json=spans).json() == {}
        [rule] = first.get(path).json()["rules"]
        return rule["replacedCount"] > 0

    wait_until(is_redacted, "the second server knows of the rules")


@pytest.mark.parametrize(("expires", "loads"), [(False, 1), (True, 2)])
async def test_keys_that_were_read_before_another_server_changed_them_are_read_again(expires, loads):
    class Database:
        async def read(self, query, lane):
            queries.append(query.__code__)
            if len(queries) == 1 and expires:
                ring.expire()  # the notification comes while the rows of before are on their way
            return {}

    queries = []
    ring = key_ring.KeyRing(Database(), ServerSettings(host="127.0.0.1"))
    for _ in range(3):
        await ring.identify("key", "address")

    assert len(queries) == loads * len(set(queries))


def new_key(api, role="ADMIN"):
    body = {"name": "k", "role": role}
    answer = api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()
    return {"Authorization": f"Bearer {answer['key']}"}, answer["apiKey"]


def test_a_session_that_is_signed_out_ends_its_streams_at_other_servers(processes):
    first, second = processes(2, api_key="admin-key")
    cookie = sign_in(first)
    watcher = Watcher(second.address, {"Cookie": cookie})
    watcher.read_until("ready")
    assert (
        first.call("DELETE", "/session", headers={"Cookie": cookie, "Sec-Fetch-Site": "same-origin"})[0]
        == 204
    )
    while (event := watcher.read()) is not None:
        assert event[0] == "reload"
    watcher.close()


def sign_in(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    body = json.dumps({"key": "admin-key"})
    connection.request("POST", "/api/v1/session", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    cookie = answer.getheader("set-cookie").partition(";")[0]
    connection.close()
    return cookie


def send_at_once(requests):
    """The answers to requests, each a client with a path, a body and an `Idempotency-Key`."""
    begin = threading.Barrier(len(requests))

    def call(request):
        api, path, body, key = request
        begin.wait()
        return api.post(f"/api/v1{path}", json=body, headers={"Idempotency-Key": key})

    with ThreadPoolExecutor(len(requests)) as threads:
        return list(threads.map(call, requests))


def test_one_key_at_two_servers_at_once_is_one_run_and_one_batch(replicas):
    servers = replicas()
    items = {"items": items_of([1.0] * 3)}
    for turn in range(20):
        body = {"experimentName": f"experiment {turn // 2}"}
        answers = send_at_once(
            [(api, f"/projects/p{turn // 4}/runs", body, f"run {turn}") for api in servers]
        )
        (run,) = {answer.json()["runId"] for answer in answers}
        answers = send_at_once([(api, f"/runs/{run}/items", items, "batch") for api in servers])
        assert [answer.status_code for answer in answers] == [201, 201]
        assert servers[turn % 2].get(f"/api/v1/runs/{run}").json()["totalItems"] == 3
    assert sum(project["runCount"] for project in servers[0].get("/api/v1/projects").json()) == 20


def test_one_key_with_two_bodies_at_two_servers_at_once_is_one_of_them_and_a_conflict(replicas):
    servers = replicas()
    run = start(servers[0])
    for turn in range(20):
        batches = [{"items": items_of([1.0])}, {"items": items_of([1.0, 0.0])}]
        runs = [{"experimentName": "one"}, {"experimentName": "two"}]
        for path, bodies in ((f"/runs/{run}/items", batches), ("/projects/keyed/runs", runs)):
            requests = [(api, path, body, f"turn {turn}") for api, body in zip(servers, bodies, strict=True)]
            answers = send_at_once(requests)
            assert sorted(answer.status_code for answer in answers) == [201, 409]
    assert servers[0].get("/api/v1/projects?search=keyed").json()[0]["runCount"] == 20


def test_what_a_killed_server_was_uploading_is_removed_by_another(processes, settings):
    first, second = processes(2)
    assert first.call("POST", "/datasets", {"name": "large"})[0] == 201
    content = b"".join(b'{"input": "question %d"}\n' % number for number in range(100_000))
    path, kind = "/datasets/large/versions", "application/x-ndjson"
    with ThreadPoolExecutor(1) as threads:
        lost = threads.submit(first.send, "POST", path, content, kind)
        wait_until(lambda: count_rows(settings, "dataset_items") > 1000, "the upload")
        first.kill()
        assert isinstance(lost.exception(), OSError)
    status, answer = second.call("GET", "/datasets/large")
    assert (status, answer["versions"]) == (200, [])
    assert second.send("POST", path, content[:1000].rpartition(b"\n")[0], kind)[0] == 201

    older = "UPDATE dataset_versions SET created_at = created_at - 3600000000 WHERE version IS NULL"
    execute(settings, older)
    processes()  # it looks for such rows when it starts, and every half a minute
    wait_until(lambda: count_rows(settings, "dataset_versions") == 1, "the rows that were left")
    assert [each["version"] for each in second.call("GET", "/datasets/large")[1]["versions"]] == [1]


def count_rows(settings, table):
    return execute(settings, f"SELECT COUNT(*) FROM {table}")[0][0]


def test_one_server_at_a_time_removes_rows(replicas):
    first, second = replicas()
    run = start(first)
    database, settings = second.app.state.database, second.app.state.settings

    async def remove_while_claimed():
        async with first.app.state.database.claim("removing rows"):
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(removing(), loop))

    async def removing():
        return await maintenance.remove_rows(database, settings)

    async def loop_of_second():
        return asyncio.get_running_loop()

    loop = second.portal.call(loop_of_second)
    assert not first.portal.call(remove_while_claimed)
    first.delete(f"/api/v1/runs/{run}")
    wait_until(lambda: second.portal.call(removing), "its turn")
    query = select(RUNS.c.id)
    assert second.portal.call(database.read, lambda c: c.execute(query).all()) == []


CLOCK = """
import time
ask = time.time_ns
time.time_ns = lambda: ask() + {0} * 86_400_000_000_000
time.time = lambda: time.time_ns() / 1e9
"""


def test_a_server_whose_clock_is_off_does_as_the_others(processes, settings):
    (right,) = processes(stale_run_hours=0)
    young, quiet = (
        right.call("POST", "/projects/chat/runs", {"experimentName": name})[1]["runId"]
        for name in ("young", "quiet")
    )
    execute(settings, f"UPDATE runs SET last_activity_at = last_activity_at - {2 * DAY} WHERE id = '{quiet}'")
    (fast,) = processes(before=CLOCK.format(3))
    (slow,) = processes(before=CLOCK.format(-3), stale_run_hours=0)

    wait_until(lambda: right.call("GET", f"/runs/{quiet}")[1]["status"] == "FAILED", "the quiet run")
    assert right.call("GET", f"/runs/{young}")[1]["status"] == "RUNNING"

    servers = (fast, slow, right, fast, slow)
    runs = [process_run(server) for server in servers]
    experiment = right.call("GET", f"/runs/{runs[0]}")[1]["experimentId"]
    listed = slow.call("GET", f"/experiments/{experiment}/runs")[1]
    assert [run["id"] for run in listed] == runs[::-1]
    for before, now in itertools.pairwise(runs):
        answer = right.call("POST", f"/experiments/{experiment}/gate", {"candidateRunId": now})[1]
        assert answer["baselineRunId"] == before
    _, log = fast.stop()
    assert "The clock of this machine differs by 259200 seconds from that of PostgreSQL" in log
