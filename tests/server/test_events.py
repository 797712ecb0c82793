"""The stream of what changes: who is told what, going on after a break, and how it ends."""

import asyncio
import concurrent.futures
import itertools
import json
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from urllib.parse import quote

import pytest
from tests.server import shapes
from tests.server.event_watcher import Watcher
from tests.server.server_process import PATIENT, Process, execute

from dokimos.server import ServerSettings, create_app
from dokimos.server._api import event_stream
from dokimos.server._serve import Server, configure_uvicorn, listen
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.errors import UnavailableError
from dokimos.server._services.event_hub import EventHub, new_event_id
from dokimos.server._services.events import Event, EventKind, EventScope

ADMIN = {"Authorization": "Bearer admin-key"}
ITEM = {
    "inputs": {"q": "secret-question"},
    "actualOutputs": {"a": "secret-answer"},
    "expectedOutputs": {},
    "evalResults": [{"name": "exact", "score": 1.0, "success": True}],
}


@pytest.fixture
def processes(database_settings):
    """A function that starts a server in a process of its own."""
    started = []

    def start(**settings):
        started.append(Process({**database_settings, **settings}))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def servers(database_settings):
    """A function that starts a server in a thread, as `dokimos serve` runs it."""
    with ExitStack() as stack:

        def start(**settings):
            chosen = {"host": "127.0.0.1", "port": 0, **PATIENT, **database_settings, **settings}
            return stack.enter_context(ThreadedServer(ServerSettings(**chosen)))

        yield start


@pytest.fixture
def watch():
    """A function that begins to watch a server; its first event has been read."""
    with ExitStack() as stack:

        def begin(server, headers=None, *, first="ready", **query):
            watcher = Watcher(server.address, headers, **query)
            stack.callback(watcher.close)
            assert watcher.answer.status == 200, watcher.answer.read()
            watcher.read_until(first)
            return watcher

        yield begin


class ThreadedServer:
    """A server as `dokimos serve` runs it, in a thread.

    On PostgreSQL, what was stored just before a watcher came may be told of after `ready`, and so may be that
    a server has started, by a `reload`.
    """

    call, send = Process.call, Process.send

    def __init__(self, settings):
        self._listener = listen(settings)
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.app = create_app(settings)
        self.hub = self.app.state.events
        self.database = self.app.state.database.dialect
        self._started = threading.Event()
        config = configure_uvicorn(self.app, settings)
        self._server = Server(config, self.app, self._note_start)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],))

    def _note_start(self):
        self._loop = asyncio.get_running_loop()
        self._started.set()

    def __enter__(self):
        self._thread.start()
        assert self._started.wait(60)
        return self

    def __exit__(self, *error):
        self.stop()
        self._listener.close()

    def stop(self):
        """End it, as a signal does."""
        self._server.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive()

    def run_in_loop(self, function):
        """Call a function in the event loop of the server."""
        done = concurrent.futures.Future()
        self._loop.call_soon_threadsafe(lambda: done.set_result(function()))
        return done.result(60)

    def publish(self, count):
        """Publish events, and let the server send them."""

        def publish_some():
            for _ in range(100):
                self.hub.publish(new_event_id(), Event(kind=EventKind.DATASET_DELETED))

        for _ in range(count // 100):
            self.run_in_loop(publish_some)

    def connect_without_reading(self):
        lazy = socket.socket()
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = self.address.removeprefix("http://").split(":")
        lazy.connect((host, int(port)))
        lazy.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        while not self.run_in_loop(lambda: self.hub.subscriber_count):
            time.sleep(0.01)  # between two questions
        return lazy


def start_run(server, project="chat", experiment="qa", headers=None):
    status, answer = server.call(
        "POST", f"/projects/{quote(project, safe='')}/runs", {"experimentName": experiment}, headers=headers
    )
    assert status == 201, answer
    return answer["runId"]


def names_of(events):
    return [name for name, _ in events if name != "reload"]


def read_next(watcher):
    """The next event that is not about the start of a server."""
    while (event := watcher.read()) is not None and event[0] == "reload":
        pass
    return event


def test_what_happens_to_a_run_is_told_by_ids_and_counts(servers, watch):
    server = servers()
    watcher = watch(server)

    run = start_run(server)
    events = watcher.read_until("run.created")
    assert names_of(events) == ["project.created", "experiment.created", "run.created"]
    created = events[-1][1]
    ids = {name: created[name] for name in ("projectId", "experimentId", "runId")}
    assert created == {**ids, "runId": run, "status": "RUNNING"}

    server.call("POST", f"/runs/{run}/items", {"items": [ITEM, ITEM]})
    counts = {"itemCount": 2, "passedCount": 2, "judgedCount": 2, "erroredCount": 0}
    assert read_next(watcher) == ("run.items", {**ids, **counts})

    server.call("PATCH", f"/runs/{run}/description", {"name": "a secret name"})
    assert read_next(watcher) == ("run.updated", {**ids, "status": "RUNNING"})

    server.call("PATCH", f"/runs/{run}", {"status": "SUCCESS"})
    assert read_next(watcher) == ("run.completed", {**ids, "status": "SUCCESS", **counts})
    assert read_next(watcher) == ("verdict.ready", {**ids, "verdict": "NO_BASELINE"})

    server.call("DELETE", f"/runs/{run}")
    assert read_next(watcher) == ("run.deleted", ids)


def test_comparisons_people_and_datasets_are_told_of(servers, watch):
    server = servers()
    runs = [start_run(server) for _ in range(2)]
    watcher = watch(server)
    for run in runs:
        server.call("POST", f"/runs/{run}/items", {"items": [ITEM] * 3})
    untold = set(runs)
    while untold:  # of items that come right after others, half a second later
        name, data = read_next(watcher)
        untold -= {data["runId"]} if name == "run.items" else set()
    for run in runs:
        server.call("PATCH", f"/runs/{run}", {"status": "SUCCESS"})
        events = [event for event in watcher.read_until("verdict.ready") if event[0] != "reload"]
    assert names_of(events) == ["run.completed", "comparison.ready", "verdict.ready"]
    assert events[1][1]["runId"] == runs[1]
    assert events[1][1]["baselineRunId"] == runs[0]

    item = server.call("GET", f"/runs/{run}")[1]["items"]["content"][0]["id"]
    path = f"/runs/{run}/items/{item}/annotation"
    server.call("PUT", path, {"verdict": "CORRECT", "note": "a secret note"})
    server.call("DELETE", path)
    _, comment = server.call("POST", f"/runs/{run}/comments", {"body": "a secret comment", "itemId": item})
    server.call("DELETE", f"/runs/{run}/comments/{comment['id']}")
    ids = {name: events[1][1][name] for name in ("projectId", "experimentId", "runId")}
    about = {**ids, "itemId": item}
    assert read_next(watcher) == ("annotation.changed", about)
    assert read_next(watcher) == ("annotation.deleted", about)
    assert read_next(watcher) == ("comment.created", {**about, "commentId": comment["id"]})
    assert read_next(watcher) == ("comment.deleted", {**about, "commentId": comment["id"]})

    _, dataset = server.call("POST", "/datasets", {"name": "capitals"})
    server.call("POST", "/datasets/capitals/versions", {"items": [{"inputs": {"q": "secret"}}]})
    server.call("DELETE", "/datasets/capitals")
    about = {"datasetId": dataset["id"]}
    assert read_next(watcher) == ("dataset.created", about)
    assert read_next(watcher) == ("dataset.version.created", {**about, "version": 1, "itemCount": 1})
    assert read_next(watcher) == ("dataset.deleted", about)

    experiment = ids["experimentId"]
    server.call("PUT", f"/experiments/{experiment}/baseline", {"runId": run})
    assert read_next(watcher)[1]["baselineRunId"] == run
    server.call("DELETE", f"/experiments/{experiment}")
    server.call("DELETE", "/projects/chat")
    assert [read_next(watcher)[0] for _ in range(2)] == ["experiment.deleted", "project.deleted"]


def test_the_headers_keep_proxies_from_holding_events_back(servers, watch):
    server = servers()
    watcher = watch(server)
    headers = watcher.answer.headers
    assert headers["Content-Type"].split(";")[0] == "text/event-stream"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Accel-Buffering"] == "no"
    with closing(Watcher(server.address)) as other:
        assert other.read_lines() == ["retry: 2000"]


def test_many_batches_make_few_events_and_the_last_one_has_all_counts(servers, watch):
    server = servers()
    run = start_run(server)
    watcher = watch(server, run=run)

    start = time.monotonic()
    for _ in range(60):
        server.call("POST", f"/runs/{run}/items", {"items": [ITEM]})
    counts = [0]
    while counts[-1] < 60:
        name, data = read_next(watcher)
        if name == "run.created":  # on PostgreSQL it may arrive after the watcher has
            continue
        assert name == "run.items"
        counts.append(data["itemCount"])
    assert counts == sorted(counts)
    assert len(counts) - 1 <= 2 + 2 * (time.monotonic() - start)


def test_a_stream_goes_on_after_a_break_without_a_gap(servers, watch):
    server = servers()
    watcher = watch(server)
    first = start_run(server)
    watcher.read_until("run.created")
    watcher.close()
    runs = [start_run(server) for _ in range(20)]

    again = watch(server, {"Last-Event-ID": watcher.last_id}, first="run.created")
    told = [runs[0]]
    while told[-1] != runs[-1]:
        name, data = read_next(again)
        if name == "run.created":
            told.append(data["runId"])
    assert told == runs
    assert first not in told


def test_a_stream_that_ended_before_its_first_event_goes_on_too(servers, watch):
    server = servers()
    start_run(server)
    watcher = watch(server)
    watcher.close()
    run = start_run(server)
    with closing(Watcher(server.address, {"Last-Event-ID": watcher.last_id})) as again:
        while (event := again.read())[1].get("runId") != run:
            assert event[0] != "reload" or server.database != "sqlite"
        assert event[0] == "run.created"


@pytest.mark.parametrize("last", ["nonsense", "0000000000000000", "x" * 5000])
def test_where_the_missed_events_are_unknown_the_client_is_told_to_reload(servers, watch, last):
    server = servers()
    start_run(server)
    watcher = watch(server, {"Last-Event-ID": last}, first="reload")
    run = start_run(server)
    name, event = read_next(watcher)
    while event.get("runId") != run:
        name, event = read_next(watcher)
    assert name.startswith("run.")


def test_only_what_was_committed_is_told(servers, watch):
    server = servers()
    run = start_run(server)
    watcher = watch(server)
    bad = {**ITEM, "evalResults": [{"name": "exact", "score": "x", "success": True}]}
    assert server.call("POST", f"/runs/{run}/items", {"items": [ITEM, bad]})[0] == 400
    missing = {"experimentName": "other", "datasetName": "none", "datasetVersion": 1}
    assert server.call("POST", "/projects/other/runs", missing)[0] == 404  # after its project was inserted
    assert server.call("PATCH", f"/runs/{run}", {"status": "EVALUATING"})[0] == 409
    assert server.call("PATCH", f"/runs/{run}", {"status": "FAILED"})[0] == 200
    # What was stored just before the watcher came may be told of after `ready`.
    told = names_of(watcher.read_until("run.completed"))
    assert set(told) <= {"project.created", "experiment.created", "run.created", "run.completed"}
    assert told.count("project.created") <= 1


def test_filters_leave_what_is_asked_for_and_what_removes_it(servers, watch):
    server = servers()
    everything = watch(server)
    run, other = start_run(server), start_run(server, experiment="other")
    foreign = start_run(server, project="sales/ö%")
    while everything.read_until("run.created")[-1][1]["runId"] != foreign:
        pass
    experiment = server.call("GET", f"/runs/{run}")[1]["experimentId"]
    watchers = {
        "project": watch(server, project="chat"),
        "experiment": watch(server, experiment=experiment),
        "run": watch(server, run=run),
        "all three": watch(server, project="chat", experiment=experiment, run=run),
        "foreign": watch(server, project="sales/ö%"),
    }
    server.call("POST", "/datasets", {"name": "capitals"})
    for each in (run, other, foreign):
        server.call("PATCH", f"/runs/{each}/description", {"name": "x"})
    second = start_run(server)
    server.call("DELETE", "/projects/chat")
    server.call("DELETE", "/projects/sales%2F%C3%B6%25")

    def told(name):
        return [data.get("runId") for kind, data in watchers[name].read_until("project.deleted")][:-1]

    expected = {
        "project": [run, other, second],
        "experiment": [run, second],
        "run": [run],
        "all three": [run],
        "foreign": [foreign],
    }
    assert {name: [each for each in told(name) if each] for name in watchers} == expected


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("run=nonsense", 400),
        ("experiment=1", 400),
        ("project=missing", 404),
        ("run=018f0000-0000-7000-8000-000000000000", 404),
        ("experiment=018f0000-0000-7000-8000-000000000000", 404),
    ],
)
def test_what_cannot_be_watched_is_refused_with_the_documented_body(api, query, status):
    answer = api.get(f"/api/v1/events?{query}")
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "message", "timestamp"}


def test_a_run_of_another_experiment_is_refused(api):
    runs = [
        api.post("/api/v1/projects/chat/runs", json={"experimentName": name}).json()["runId"] for name in "ab"
    ]
    experiment = api.get(f"/api/v1/runs/{runs[0]}").json()["experimentId"]
    assert api.get(f"/api/v1/events?experiment={experiment}&run={runs[1]}").status_code == 404
    api.post("/api/v1/projects/sales/runs", json={"experimentName": "c"})
    assert api.get(f"/api/v1/events?project=sales&experiment={experiment}").status_code == 404


def test_head_is_answered_and_ends(api):
    answer = api.head("/api/v1/events")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_the_number_of_watchers_is_limited(servers, watch):
    server = servers(max_event_streams=2)
    first, second = watch(server), watch(server)
    with closing(Watcher(server.address)) as refused:
        body = json.loads(refused.answer.read())
        assert refused.answer.status == 503
        assert refused.answer.headers["Retry-After"]
        assert "DOKIMOS_MAX_EVENT_STREAMS" in body["message"]

    first.close()
    run = start_run(server)  # writing goes on
    while (again := Watcher(server.address)).answer.status == 503:  # until the server has seen that it left
        again.close()
    assert second.read_until("run.created")[-1][1]["runId"] == run
    again.close()


def test_one_caller_leaves_room_for_the_others(servers, watch, wait_until):
    server = servers(api_key="admin-key", max_event_streams=5, max_event_streams_per_caller=2)
    keys = []
    for name in ("a", "b"):
        body = {"name": name, "role": "VIEWER"}
        key = server.call("POST", "/api-keys", body, headers=ADMIN)[1]["key"]
        keys.append({"Authorization": f"Bearer {key}"})
    open_streams = [watch(server, keys[0]) for _ in range(2)]

    refused = Watcher(server.address, keys[0])
    assert refused.answer.status == 503
    assert refused.answer.getheader("Retry-After") == "1"
    problem = json.loads(refused.answer.read())
    assert shapes.problems(problem, shapes.ERROR) == []
    assert "DOKIMOS_MAX_EVENT_STREAMS_PER_CALLER" in problem["message"]
    refused.close()
    watch(server, keys[1])
    # Without a key of their own, callers count by their address, whoever they say they are.
    watch(server, ADMIN)
    watch(server)
    full = Watcher(server.address, keys[1])
    assert full.answer.status == 503
    assert "DOKIMOS_MAX_EVENT_STREAMS allows" in full.answer.read().decode()
    full.close()

    open_streams[0].close()
    server.publish(100)
    wait_until(lambda: server.run_in_loop(lambda: server.hub.subscriber_count) < 5)
    watch(server, keys[0])


def test_a_share_of_no_limit_is_all_streams():
    hub = EventHub(3, 0)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(hub.subscribe(SYSTEM, EventScope(), None, owner="a"))
        with pytest.raises(UnavailableError, match="DOKIMOS_MAX_EVENT_STREAMS allows"):
            hub.check_capacity("b")


def test_watchers_take_no_place_of_other_requests(servers, watch):
    server = servers(max_requests=3)
    for _ in range(10):
        watch(server)
    assert server.call("GET", "/projects") == (200, [])


def test_a_member_is_told_of_its_projects_alone_and_no_longer_than_it_is_one(servers, watch):
    server = servers(api_key="admin-key", require_auth_for_reads=True)
    body = {"name": "ci", "role": "NONE", "projects": [{"project": "chat", "role": "VIEWER"}]}
    _, key = server.call("POST", "/api-keys", body, headers=ADMIN)
    headers = {"Authorization": f"Bearer {key['key']}"}
    watcher = watch(server, headers)

    start_run(server, "secret", headers=ADMIN)
    server.call("POST", "/datasets", {"name": "secret"}, headers=ADMIN)
    start_run(server, "chat", headers=ADMIN)
    told = watcher.read_until("run.created")
    (chat,) = server.call("GET", "/projects", headers=headers)[1]
    assert {data["projectId"] for name, data in told if name != "reload"} == {chat["id"]}

    server.call("DELETE", f"/projects/chat/members/{key['apiKey']['id']}", headers=ADMIN)
    start_run(server, "chat", headers=ADMIN)
    rest = list(iter(watcher.read, None))  # which ends, or this does not
    assert "run.created" not in [name for name, _ in rest]


def test_four_tenants_and_the_anonymous_see_their_own_and_the_shared(servers, watch):
    """Each of them does all that is told of; nobody hears of another tenant's rows."""
    server = servers(api_key="admin-key")
    tenants = ("ada", "bob", "cyd", "dee")
    keys = {None: ADMIN}
    for tenant in tenants:
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        _, answer = server.call("POST", "/api-keys", body, headers=ADMIN)
        keys[tenant] = {"Authorization": f"Bearer {answer['key']}"}
    shared = start_run(server, "shared", headers=ADMIN)
    server.call("POST", f"/runs/{shared}/items", {"items": [ITEM]}, headers=ADMIN)
    item = server.call("GET", f"/runs/{shared}", headers=ADMIN)[1]["items"]["content"][0]["id"]
    server.call("POST", "/datasets", {"name": "common"}, headers=ADMIN)
    watchers = {name: watch(server, headers) for name, headers in keys.items()}
    watchers["anonymous"] = watch(server)
    server.call("PATCH", f"/runs/{shared}/description", {"name": "all before this"}, headers=ADMIN)
    for watcher in watchers.values():
        watcher.read_until("run.updated")

    own_runs = {}
    for tenant in (*tenants, None):
        headers = keys[tenant]

        def call(method, path, body=None, headers=headers):
            status, answer = server.call(method, path, body, headers=headers)
            assert status < 300, (path, answer)

        runs = own_runs[tenant] = [
            start_run(server, project, headers=headers) for project in ("shared", f"of-{tenant}")
        ]
        for run in runs:
            call("POST", f"/runs/{run}/items", {"items": [ITEM]})
            call("POST", f"/runs/{run}/comments", {"body": "x"})
        call("POST", f"/runs/{shared}/comments", {"body": "x"})
        call("PUT", f"/runs/{shared}/items/{item}/annotation", {"verdict": "CORRECT"})
        call("POST", "/datasets/common/versions", {"items": [{"inputs": {"q": tenant}}]})
        call("DELETE", f"/projects/of-{tenant}")
        if tenant is None:  # what everybody sees, at the end
            call("PATCH", f"/runs/{shared}/description", {"name": "the end"})

    told = {}
    for name, watcher in watchers.items():
        told[name] = list(
            itertools.takewhile(lambda event: event[0] != "run.updated", iter(watcher.read, None))
        )
    for name, events in told.items():
        runs = {data["runId"] for _, data in events if "runId" in data} - {shared}
        visible = {None, name} if name in tenants else {None}
        if name is None:
            visible = set(own_runs)
        assert runs == {run for owner in visible for run in own_runs[owner]}, name
        kinds = [kind for kind, _ in events]
        for kind in ("project.created", "project.deleted", "dataset.version.created", "annotation.changed"):
            assert kinds.count(kind) == len(visible), (name, kind)
        assert kinds.count("comment.created") == 3 * len(visible), name
        assert "secret" not in json.dumps(events)


def test_a_tenant_is_not_told_of_what_is_below_its_rows_and_not_its_own(servers, watch):
    """A comment of one tenant on a shared run, and one without a tenant on a tenant's run."""
    server = servers(api_key="admin-key")
    key = server.call("POST", "/api-keys", {"name": "a", "role": "EDITOR", "tenantId": "ada"}, headers=ADMIN)[
        1
    ]["key"]
    ada = {"Authorization": f"Bearer {key}"}
    run = start_run(server, "of-ada", headers=ada)
    shared = start_run(server, "shared", headers=ADMIN)
    anonymous, own = watch(server), watch(server, ada)
    server.call("PATCH", f"/runs/{shared}/description", {"name": "all before this"}, headers=ADMIN)
    for watcher in (anonymous, own):
        watcher.read_until("run.updated")
    server.call("POST", f"/runs/{run}/comments", {"body": "x"}, headers=ADMIN)
    server.call("POST", f"/runs/{shared}/comments", {"body": "x"}, headers=ada)
    server.call("PATCH", f"/runs/{shared}/description", {"name": "x"}, headers=ADMIN)
    assert [kind for kind, _ in anonymous.read_until("run.updated")] == ["run.updated"]
    assert [data["runId"] for _, data in own.read_until("run.updated")] == [run, shared, shared]


def test_where_reading_needs_a_key_so_do_events(servers):
    server = servers(api_key="admin-key", require_auth_for_reads=True)
    for headers, status in (({}, 401), ({"Authorization": "Bearer wrong"}, 401), (ADMIN, 200)):
        with closing(Watcher(server.address, headers)) as watcher:
            assert watcher.answer.status == status


@pytest.mark.parametrize("how", ["disable", "delete"])
def test_a_key_that_is_taken_away_ends_its_streams_before_the_next_event(servers, watch, how):
    server = servers(api_key="admin-key")
    _, answer = server.call("POST", "/api-keys", {"name": "a", "role": "VIEWER"}, headers=ADMIN)
    watcher = watch(server, {"Authorization": f"Bearer {answer['key']}"})
    path = f"/api-keys/{answer['apiKey']['id']}"
    if how == "disable":
        server.call("POST", f"{path}/disable", headers=ADMIN)
    else:
        server.call("DELETE", path, headers=ADMIN)
    start_run(server, headers=ADMIN)
    assert read_next(watcher) is None


def test_a_session_that_is_signed_out_ends_its_streams_before_the_next_event(servers, watch):
    server = servers(api_key="admin-key", require_auth_for_reads=True)
    cookie = sign_in(server)
    watcher = watch(server, {"Cookie": cookie})
    start_run(server, headers=ADMIN)
    assert read_next(watcher)[0] == "project.created"
    watcher.read_until("run.created")
    assert (
        server.call("DELETE", "/session", headers={"Cookie": cookie, "Sec-Fetch-Site": "same-origin"})[0]
        == 204
    )
    start_run(server, headers=ADMIN)
    assert read_next(watcher) is None


def test_the_first_key_ends_the_streams_of_an_open_server(servers, watch):
    """Who watched everything is now anonymous, and connects again as such."""
    server = servers()
    watcher = watch(server)
    _, answer = server.call("POST", "/api-keys", {"name": "a", "role": "ADMIN"})
    start_run(server, headers={"Authorization": f"Bearer {answer['key']}"})
    assert read_next(watcher) is None


def sign_in(server):
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        body = json.dumps({"key": "admin-key"})
        connection.sendall(
            f"POST /api/v1/session HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
        )
        head = connection.makefile().read().split("\n\n")[0]
    return next(line.split(": ")[1].split(";")[0] for line in head.splitlines() if "et-cookie" in line)


def test_the_server_ends_at_once_with_open_streams(processes, watch):
    server = processes(stop_timeout=600)  # for which a stream that hangs holds it up, and `stop` gives up
    watchers = [watch(server) for _ in range(5)]
    code, log = server.stop()
    assert code in (0, -signal.SIGTERM)
    assert ("Traceback" in log, "ERROR" in log) == (False, False), log
    for watcher in watchers:
        while watcher.read() is not None:
            pass


@pytest.fixture
def server_in_thread(servers):
    """An open server in a thread of this process, whose hub tests can reach.

    What hangs holds up its end for longer than `stop` waits.
    """
    return servers(stop_timeout=600)


def test_a_client_that_does_not_read_is_dropped_and_slows_nobody(server_in_thread, wait_until):
    with server_in_thread.connect_without_reading() as lazy:
        while server_in_thread.run_in_loop(lambda: server_in_thread.hub.subscriber_count):
            server_in_thread.publish(1000)  # until the buffers of the connection are full, and its queue
        with closing(Watcher(server_in_thread.address)) as other:
            other.read_until("ready")
            server_in_thread.publish(100)
            assert [read_next(other)[0] for _ in range(100)] == ["dataset.deleted"] * 100
        wait_until(lambda: is_cut_off(lazy))


def is_cut_off(connection):
    """Whether the other side has ended a connection, after what it had sent before."""
    try:
        connection.settimeout(0.1)
        while connection.recv(1 << 20):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def test_a_client_that_does_not_read_does_not_hold_up_the_end(server_in_thread):
    with server_in_thread.connect_without_reading():
        for _ in range(400):  # more than the buffers of the connection take, less than drops it
            server_in_thread.publish(100)
            if not server_in_thread.run_in_loop(lambda: server_in_thread.hub.subscriber_count):
                break
        with server_in_thread.connect_without_reading():
            server_in_thread.publish(400)
            server_in_thread.stop()


def test_a_quiet_stream_is_kept_alive_by_comments(server_in_thread, monkeypatch):
    monkeypatch.setattr(event_stream, "_CHECK_SECONDS", 0.05)
    monkeypatch.setattr(event_stream, "_HEARTBEAT_SECONDS", 0.1)
    with closing(Watcher(server_in_thread.address)) as watcher:
        while watcher.read()[0] != "ready":
            pass
        heartbeats = 0
        while heartbeats < 3:
            heartbeats += any(line.startswith(": ") for line in watcher.read_lines())
    assert heartbeats == 3


def skip_on_sqlite(request):
    if "postgresql" not in request.node.callspec.id:
        pytest.skip("SQLite has one server")


def test_two_servers_on_one_database_tell_each_others_events(request, processes, watch):
    skip_on_sqlite(request)
    first, second = processes(), processes()
    here, there = watch(first), watch(second)
    runs = [start_run(server) for server in (first, second, first, second)]
    orders = []
    for watcher in (here, there):
        told = []
        while len(told) < len(runs):
            name, data = read_next(watcher)
            if name == "run.created":
                told.append(data["runId"])
        orders.append(told)
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == sorted(runs)

    here.close()  # goes on at the other server
    run = start_run(first)
    assert there.read_until("run.created")[-1][1]["runId"] == run
    again = watch(second, {"Last-Event-ID": here.last_id}, first="run.created")
    assert read_next(again)[0] == "ready"
    first.call("POST", f"/runs/{run}/items", {"items": [ITEM]})
    assert read_next(again)[1]["itemCount"] == 1


def test_notifications_that_are_not_ours_and_long_names_do_no_harm(postgres_database, watch):
    """The longest names that a tenant can have, many events at once, and somebody else on the channel."""
    tenant = "\U0001f600" * 255
    settings = {"database_url": postgres_database}
    server = Process({**settings, "api_key": "admin-key"})
    try:
        _, answer = server.call(
            "POST", "/api-keys", {"name": "a", "role": "EDITOR", "tenantId": tenant}, headers=ADMIN
        )
        key = {"Authorization": f"Bearer {answer['key']}"}
        watcher, other = watch(server, key), watch(server)
        for payload in (
            "",
            "x",
            "[]",
            "{}",
            "7",
            "[7]",
            '[["a", ["no.such.kind", [], null, null, null, {}]]]',
        ):
            execute(settings, f"SELECT pg_notify('dokimos_events', '{payload}')")
        with ThreadPoolExecutor(8) as pool:
            runs = list(pool.map(lambda _: start_run(server, headers=key), range(60)))
        told = []
        while len(told) < len(runs):
            name, data = read_next(watcher)
            if name == "run.created":
                told.append(data["runId"])
        assert sorted(told) == sorted(runs)
        shared = start_run(server, "shared", headers=ADMIN)
        assert other.read_until("run.created")[-1][1]["runId"] == shared
    finally:
        server.kill()


def test_a_key_that_is_taken_away_at_another_server_ends_streams_soon(request, servers, watch):
    skip_on_sqlite(request)
    first = servers(api_key="admin-key")
    _, answer = first.call("POST", "/api-keys", {"name": "a", "role": "VIEWER"}, headers=ADMIN)
    second = servers(api_key="admin-key")
    watcher = watch(second, {"Authorization": f"Bearer {answer['key']}"})
    first.call("DELETE", f"/api-keys/{answer['apiKey']['id']}", headers=ADMIN)
    assert read_next(watcher) is None  # without any event, at the next check


def test_watchers_are_told_to_reload_when_the_database_was_away(own_postgres, watch):
    server = Process({"database_url": own_postgres.url})
    try:
        watcher = watch(server)
        start_run(server)
        last = watcher.read_until("run.created") and watcher.last_id
        own_postgres.stop()
        own_postgres.start()
        watcher.read_until("reload")
        while (started := server.call("POST", "/projects/chat/runs", {"experimentName": "qa"}))[0] != 201:
            time.sleep(0.1)  # the database is coming back
        run = started[1]["runId"]
        assert watcher.read_until("run.created")[-1][1]["runId"] == run
        # What was before the gap cannot be gone on from.
        with closing(Watcher(server.address, {"Last-Event-ID": last})) as again:
            assert again.read()[0] == "reload"
    finally:
        server.kill()
