"""Runs that are reported to a real server, and to servers that misbehave."""

import asyncio
import json
import threading
from dataclasses import replace

import pytest
from aiohttp import web

from dokimos import Example, Experiment, evaluate, evaluator
from dokimos.client import ServerReporter, _delivery, replay_spool
from dokimos.errors import ConfigurationError
from dokimos.evaluators import ExactMatch
from dokimos.reporting import ReportedItem, RunEnd, RunOutcome, RunStart

PATIENCE = 60
RUN_ID = "0199f3a2-0000-7000-8000-000000000001"


@pytest.fixture
def read(live_server):
    """A function that returns a JSON answer of the server."""
    import urllib.request

    def get(path):
        with urllib.request.urlopen(f"{live_server}/api/v1{path}", timeout=20) as reply:
            return json.load(reply)

    return get


made = []
"""The reporters of a test."""


@pytest.fixture(autouse=True)
def _closed_reporters():
    """No reporter goes on in the tests after this one, whose servers may get the port of its server."""
    yield
    while made:
        made.pop().close()


def reporter_for(url, **settings):
    made.append(ServerReporter(server_url=url, project_name="demo", **settings))
    return made[-1]


def examples(count):
    return [Example.of(f"q{number}", f"Q{number}", id=f"item-{number}") for number in range(count)]


def run_with(reporter, count=3, **settings):
    settings = {"name": "shout", "quiet": True, "journal": False, **settings}
    return evaluate(examples(count), str.upper, [ExactMatch()], reporters=[reporter], **settings)


def spooled(folder):
    return [json.loads(line) for line in (folder / "failed-items.ndjson").read_bytes().splitlines()]


class FakeServer:
    """What a server has received, and how it answers items."""

    def __init__(self, answer_items=lambda body, number: None):
        self.answer_items = answer_items
        self.items, self.statuses, self.keys, self.posts = [], [], [], 0

    def __call__(self, request):
        if request.raw_path.endswith("/runs") and request.method == "POST":
            return {"runId": RUN_ID}
        body = json.loads(request.body)
        if request.method == "PATCH":
            self.statuses.append(body["status"])
            return {"status": "updated"}
        self.posts += 1
        self.keys.append(request.headers["Idempotency-Key"])
        refusal = self.answer_items(body["items"], self.posts)
        if refusal is not None:
            return refusal
        self.items += body["items"]
        return web.json_response({"status": "ok"}, status=201)


def refuse(status, message="no", **headers):
    return web.json_response({"message": message}, status=status, headers=headers)


# A real server


def test_run_is_on_the_server(live_server, read):
    with reporter_for(live_server) as reporter:
        result = run_with(reporter, 25)
    [run_id] = result.server_run_ids
    run = read(f"/runs/{run_id}?size=50")
    assert (run["status"], run["totalItems"], run["passedItems"]) == ("SUCCESS", 25, 25)
    assert (run["experimentName"], run["projectName"]) == ("shout", "demo")
    item = run["items"]["content"][3]
    assert (item["input"], item["actualOutput"]) == ({"input": "q3"}, {"output": "Q3"})
    assert item["evalResults"][0]["evaluatorName"] == "Exact Match"
    assert item["metadata"]["dokimos"]["id"] == "item-3"
    assert reporter.failed_item_count == 0
    assert not result.notices


def test_repeats_are_one_run(live_server, read):
    with reporter_for(live_server) as reporter:
        result = run_with(reporter, 4, runs=3)
    [run_id] = result.server_run_ids
    run = read(f"/runs/{run_id}?size=50")
    assert (run["status"], run["totalItems"]) == ("SUCCESS", 12)
    places = [(item["ordinal"], item["repetition"]) for item in run["items"]["content"]]
    assert sorted(places) == [(ordinal, repeat) for ordinal in range(4) for repeat in range(3)]


def test_errored_item_has_its_error_and_does_not_pass(live_server, read):
    def answer(question):
        if question == "q1":
            raise ValueError("no idea")
        return question.upper()

    with reporter_for(live_server) as reporter:
        result = evaluate(
            examples(2), answer, [ExactMatch()], reporters=[reporter], quiet=True, journal=False
        )
    run = read(f"/runs/{result.server_run_ids[0]}")
    assert (run["totalItems"], run["passedItems"]) == (2, 1)
    assert "no idea" in run["items"]["content"][1]["error"]


def test_item_with_a_failed_evaluator_does_not_pass(live_server, read):
    @evaluator
    def broken(case):
        raise ValueError("cannot judge")

    with reporter_for(live_server) as reporter:
        result = evaluate(
            examples(1), str.upper, [ExactMatch(), broken], reporters=[reporter], quiet=True, journal=False
        )
    assert result.pass_count == 0
    run = read(f"/runs/{result.server_run_ids[0]}")
    assert run["passedItems"] == 0
    assert "cannot judge" in run["items"]["content"][0]["error"]


def test_several_scores_of_an_evaluator_have_their_names(live_server, read):
    @evaluator(thresholds={"grounded": 0.5, "short": 0.1})
    def facts(case):
        return {"grounded": 1.0, "short": 0.25}

    with reporter_for(live_server) as reporter:
        result = evaluate(examples(1), str.upper, [facts], reporters=[reporter], quiet=True, journal=False)
    [item] = read(f"/runs/{result.server_run_ids[0]}")["items"]["content"]
    names = [result.name for result in result.item_results[0].eval_results]
    assert [score["evaluatorName"] for score in item["evalResults"]] == names
    assert all("." in name for name in names)


def test_odd_values_arrive_with_one_warning(live_server, read, caplog):
    deep = []
    for _ in range(500):
        deep = [deep]
    data = [
        Example(
            {"input": "a\0b", "k\0ey": float("nan"), "deep": deep, "half \ud83d": "\ud83d"},
            {"output": float("inf")},
            id=f"odd-{number}",
        )
        for number in range(3)
    ]

    @evaluator(name="n" * 300)
    def named(case):
        return 1.0

    with reporter_for(live_server) as reporter:
        result = evaluate(
            data, lambda example: {"output": 2**80}, [named], name="x/y\n" + "z" * 300,
            reporters=[reporter], quiet=True, journal=False,
        )  # fmt: skip
    assert reporter.failed_item_count == 0
    run = read(f"/runs/{result.server_run_ids[0]}")
    assert run["totalItems"] == 3
    assert len(run["experimentName"]) == 255
    item = run["items"]["content"][0]
    assert item["input"]["input"] == "a\0b"
    assert item["input"]["k\\u0000ey"] == "NaN"
    assert item["expectedOutput"] == {"output": "Infinity"}
    assert len(item["evalResults"][0]["evaluatorName"]) == 255
    told = [record.getMessage() for record in caplog.records if record.name == "dokimos"]
    assert sum("NaN" in line for line in told) == 1
    assert sum("255 characters were shortened" in line for line in told) == 1
    assert sum("keys with NUL" in line for line in told) == 1


def test_resumed_run_continues_the_same_run(live_server, read, tmp_path):
    data = [Example.of("a", "A"), Example.of("b", "?"), Example.of("c", "C")]
    experiment = Experiment(data, str.upper, [ExactMatch()], quiet=True, run_dir=tmp_path)
    with reporter_for(live_server) as reporter:
        stopped = replace(experiment, reporters=[reporter]).run(fail_fast=True)
    [run_id] = stopped.server_run_ids
    assert read(f"/runs/{run_id}")["status"] == "FAILED"
    with reporter_for(live_server) as reporter:
        resumed = replace(experiment, reporters=[reporter]).run(resume=stopped.run_id)
    assert resumed.server_run_ids == (run_id,)
    run = read(f"/runs/{run_id}")
    assert (run["status"], run["totalItems"], run["passedItems"]) == ("SUCCESS", 3, 2)
    assert [item["input"]["input"] for item in run["items"]["content"]] == ["a", "b", "c"]


def test_experiments_may_share_a_reporter(live_server, read):
    with reporter_for(live_server) as reporter:
        results = []
        threads = [threading.Thread(target=lambda: results.append(run_with(reporter, 30))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ids = {run_id for result in results for run_id in result.server_run_ids}
    assert len(ids) == 3
    assert [read(f"/runs/{run_id}")["totalItems"] for run_id in ids] == [30, 30, 30]


def test_evaluators_and_origin_are_sent(serve):
    fake = FakeServer()
    with serve(fake) as server, reporter_for(server.url) as reporter:
        run_with(reporter, 2, metadata={"model": "m-1"})
        body = json.loads(server.received[0].body)
    [info] = body["evaluators"]
    assert info == info | {
        "name": "Exact Match",
        "rangeLow": 0,
        "rangeHigh": 1,
        "direction": "HIGHER_IS_BETTER",
    }
    assert info["fingerprint"]
    assert body["plannedItems"] == 2
    assert body["metadata"] == {"model": "m-1"}
    assert body["provenance"]["datasetSize"] == 2


# Servers that misbehave


def test_dead_server_does_not_break_a_run(nobody, tmp_path):
    reporter = reporter_for(nobody, spool_directory=tmp_path)
    result = run_with(reporter, 25)
    assert result.pass_count == 25
    assert result.server_run_ids == ()
    assert reporter.failed_item_count == 25
    [warning] = result.notices
    assert "ServerReporter" in warning
    assert f"dokimos spool replay {tmp_path}" in warning
    first, *batches, end = spooled(tmp_path)
    assert first["start"]["run"]["experimentName"] == "shout"
    assert first["start"]["runId"].startswith("local-")
    assert first["start"]["runId"].removeprefix("local-").isdigit()
    assert sum(len(line["items"]) for line in batches) == 25
    assert end["end"].items() >= {"runId": first["start"]["runId"], "status": "SUCCESS"}.items()


def test_dead_server_without_a_spool_counts(nobody):
    reporter = reporter_for(nobody)
    result = run_with(reporter, 3, runs=2)
    assert reporter.failed_item_count == 6
    assert "spool_directory" in result.notices[0]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_failure_that_passes_is_retried_with_the_same_key(serve, status):
    fake = FakeServer(lambda items, number: refuse(status) if number < 3 else None)
    with serve(fake) as server, reporter_for(server.url) as reporter:
        run_with(reporter)
    assert reporter.failed_item_count == 0
    assert len(fake.items) == 3
    assert fake.posts == 3
    assert len(set(fake.keys)) == 1
    assert fake.statuses == ["SUCCESS"]


def test_three_attempts_are_made(serve):
    failures = []
    fake = FakeServer(lambda items, number: refuse(500))
    with (
        serve(fake) as server,
        reporter_for(server.url, on_item_delivery_failure=failures.append) as reporter,
    ):
        run_with(reporter)
    assert fake.posts == 3
    assert reporter.failed_item_count == 3
    [failure] = failures
    assert (failure.run_id, failure.item_count) == (RUN_ID, 3)
    assert [item["ordinal"] for item in failure.items] == [0, 1, 2]
    assert "500" in failure.reason


def test_attempts_can_be_set(serve):
    fake = FakeServer(lambda items, number: refuse(500))
    with serve(fake) as server, reporter_for(server.url, attempts=1) as reporter:
        run_with(reporter)
    assert fake.posts == 1


@pytest.mark.parametrize("status", [401, 403, 404, 409])
def test_refusal_is_final(serve, status):
    fake = FakeServer(lambda items, number: refuse(status))
    with serve(fake) as server, reporter_for(server.url) as reporter:
        result = run_with(reporter)
    assert fake.posts == 1
    assert reporter.failed_item_count == 3
    assert str(status) in result.notices[0]
    assert ("set DOKIMOS_API_KEY" in result.notices[0]) == (status in (401, 403))


def test_refused_item_costs_that_item_only(serve, tmp_path):
    def answer(items, number):
        for place, item in enumerate(items):
            if item["ordinal"] in (2, 5):
                return refuse(400, f"items[{place}].evalResults[0].score: must be a finite number")
        return None

    fake = FakeServer(answer)
    with serve(fake) as server, reporter_for(server.url, spool_directory=tmp_path) as reporter:
        run_with(reporter, 8)
    assert sorted(item["ordinal"] for item in fake.items) == [0, 1, 3, 4, 6, 7]
    assert reporter.failed_item_count == 2
    assert len(set(fake.keys)) == len(fake.keys)  # a key stands for one body
    assert [item["ordinal"] for line in spooled(tmp_path) for item in line["items"]] == [2, 5]


def test_batch_that_is_refused_without_a_place_is_divided(serve):
    fake = FakeServer(lambda items, number: refuse(413) if len(items) > 2 else None)
    with serve(fake) as server, reporter_for(server.url) as reporter:
        run_with(reporter, 9)
    assert len(fake.items) == 9
    assert reporter.failed_item_count == 0


def test_connection_that_breaks_is_retried(serve):
    cut = []

    def answer(request):
        if request.raw_path.endswith("/items") and not cut:
            cut.append(request)
            return None
        return fake(request)

    fake = FakeServer()
    with serve(answer) as server, reporter_for(server.url) as reporter:
        run_with(reporter)
    assert cut
    assert len(fake.items) == 3
    assert reporter.failed_item_count == 0


def test_long_run_goes_in_larger_batches(serve):
    fake = FakeServer()
    with serve(fake) as server, reporter_for(server.url) as reporter:
        run_with(reporter, 3000, parallelism=8)
    assert sorted(item["ordinal"] for item in fake.items) == list(range(3000))
    assert fake.posts < 300
    assert fake.statuses == ["SUCCESS"]


def test_items_still_waiting_when_closed_are_spooled(serve, tmp_path):
    """A server that never answers: what it was sent, and what waits behind it, is in the spool."""
    release = threading.Event()

    def answer(request):
        if request.raw_path.endswith("/items"):
            return None if release.is_set() else _Never()
        return fake(request)

    fake = FakeServer()
    with serve(answer) as server:
        reporter = reporter_for(server.url, spool_directory=tmp_path, attempts=1)
        handle = reporter.begin(RunStart(run_id="r"))
        for index in range(40):
            reporter.report_item(handle, ReportedItem(index, Example.of("a")))
        reporter.end(handle, RunEnd(outcome=RunOutcome.INTERRUPTED))
        reporter._delivery.close(0.2)
    *batches, end = spooled(tmp_path)
    assert sorted(item["ordinal"] for line in batches for item in line["items"]) == list(range(40))
    assert end["end"].items() >= {"runId": RUN_ID, "status": "CANCELLED"}.items()
    assert reporter.failed_item_count == 40


def test_items_are_given_up_once_where_a_reporter_is_closed_twice(serve, tmp_path):
    """As `close` and the end of the process do, while the thread still waits for the server's answer."""
    is_sending, release = threading.Event(), threading.Event()

    def answer(items, number):
        is_sending.set()
        return _Held(release)

    with serve(FakeServer(answer)) as server:
        reporter = reporter_for(server.url, spool_directory=tmp_path, attempts=1)
        handle = reporter.begin(RunStart(run_id="r"))
        reporter.report_item(handle, ReportedItem(0, Example.of("a")))
        assert is_sending.wait(PATIENCE)
        reporter._delivery.close(0.0)
        reporter._delivery.close(0.0)
        release.set()
    assert reporter.failed_item_count == 1
    (batch,) = spooled(tmp_path)
    assert [item["ordinal"] for item in batch["items"]] == [0]


def test_a_reporter_that_is_used_again_has_one_thread(serve):
    """The thread that was sending when the reporter was closed ends, and lets the next one work."""
    is_sending, release = threading.Event(), threading.Event()

    def answer(items, number):
        if number > 1:
            return None
        is_sending.set()
        return _Held(release)

    def report(reporter, count):
        handle = reporter.begin(RunStart(run_id="r"))
        for index in range(count):
            reporter.report_item(handle, ReportedItem(index, Example.of("a")))
        return handle

    fake = FakeServer(answer)
    with serve(fake) as server, reporter_for(server.url) as reporter:
        report(reporter, 1)
        assert is_sending.wait(PATIENCE)
        first = reporter._delivery._thread
        reporter._delivery.close(0.0)
        handle = report(reporter, 20)
        second = reporter._delivery._thread
        release.set()
        first.join(PATIENCE)
        assert not first.is_alive()
        reporter.end(handle, RunEnd(outcome=RunOutcome.FINISHED))
        assert second is not first
    assert [item["ordinal"] for item in fake.items][-20:] == list(range(20))


class _Never(web.Response):
    async def prepare(self, request):
        await asyncio.sleep(3600)


class _Held(web.Response):
    """An answer that is sent when the test says so."""

    def __init__(self, release):
        super().__init__(text="{}", content_type="application/json", status=201)
        self._release = release

    async def prepare(self, request):
        await asyncio.to_thread(self._release.wait, PATIENCE)
        return await super().prepare(request)


# The spool


def test_replay_sends_everything_once(nobody, live_server, read, tmp_path):
    run_with(reporter_for(nobody, spool_directory=tmp_path), 25, runs=2)
    content = (tmp_path / "failed-items.ndjson").read_bytes()
    done = replay_spool(tmp_path, server_url=live_server)
    assert (done.sent_items, done.kept_items, done.started_runs, done.ended_runs) == (50, 0, 1, 1)
    assert done.is_complete
    [experiment] = read("/projects/demo/experiments")
    [run] = read(f"/experiments/{experiment['id']}/runs")
    assert (run["status"], run["itemCount"]) == ("SUCCESS", 50)
    (tmp_path / "failed-items.ndjson").write_bytes(content)
    assert replay_spool(tmp_path, server_url=live_server).is_complete
    [again] = read(f"/experiments/{experiment['id']}/runs")
    assert (again["id"], again["itemCount"], again["status"]) == (run["id"], 50, "SUCCESS")


def test_replay_opens_a_run_that_has_ended(live_server, read, tmp_path):
    with reporter_for(live_server) as reporter:
        [run_id] = run_with(reporter).server_run_ids
    item = {"inputs": {}, "actualOutputs": {}, "evalResults": [], "success": True, "ordinal": 9}
    lines = [{"runId": run_id, "items": [item]}, {"runId": run_id, "items": [item | {"ordinal": 8}]}]
    (tmp_path / "failed-items.ndjson").write_text("\n".join(map(json.dumps, lines)))
    done = replay_spool(tmp_path, server_url=live_server)
    assert (done.sent_items, done.problems) == (2, [])
    run = read(f"/runs/{run_id}")
    assert (run["status"], run["totalItems"]) == ("SUCCESS", 5)
    assert not list(tmp_path.glob("*.ndjson"))


def test_replay_keeps_what_fails(serve, tmp_path):
    fake = FakeServer(lambda items, number: refuse(404) if items[0]["ordinal"] == 1 else None)
    lines = [{"runId": RUN_ID, "items": [{"ordinal": number}]} for number in range(3)]
    text = "".join(f"{json.dumps(line)}\n" for line in lines) + '{"runId": "cut'
    (tmp_path / "failed-items.ndjson").write_text(text)
    with serve(fake) as server:
        done = replay_spool(tmp_path, server_url=server.url)
    assert (done.sent_items, done.kept_items, len(done.problems)) == (2, 1, 2)
    kept = (tmp_path / "failed-items.ndjson").read_text().splitlines()
    assert kept == [json.dumps(lines[1]), '{"runId": "cut']


def test_replay_says_once_why_a_run_could_not_be_started(serve, nobody, tmp_path):
    run_with(reporter_for(nobody, spool_directory=tmp_path))
    with serve(lambda request: refuse(401)) as server:
        done = replay_spool(tmp_path, server_url=server.url)
    [problem] = done.problems
    assert (done.kept_items, "401 Unauthorized" in problem) == (3, True)


def test_replay_to_a_dead_server_keeps_everything(nobody, tmp_path):
    run_with(reporter_for(nobody, spool_directory=tmp_path), 25)
    before = spooled(tmp_path)
    done = replay_spool(tmp_path, server_url=nobody)
    assert (done.sent_items, done.kept_items) == (0, 25)
    assert spooled(tmp_path) == before


def test_replay_that_was_killed_is_taken_up(live_server, read, tmp_path, nobody):
    run_with(reporter_for(nobody, spool_directory=tmp_path), 5)
    (tmp_path / "failed-items.ndjson").rename(tmp_path / "replaying-1234.ndjson")
    assert replay_spool(tmp_path, server_url=live_server).sent_items == 5


# Settings


def test_environment(monkeypatch):
    monkeypatch.setenv("DOKIMOS_SERVER_URL", "https://dokimos.example.com/")
    monkeypatch.setenv("DOKIMOS_PROJECT_NAME", "support")
    reporter = ServerReporter.from_environment(attempts=2)
    assert (reporter.server_url, reporter.project_name) == ("https://dokimos.example.com", "support")


@pytest.mark.parametrize("missing", ["DOKIMOS_SERVER_URL", "DOKIMOS_PROJECT_NAME"])
def test_environment_must_be_complete(monkeypatch, missing):
    monkeypatch.setenv("DOKIMOS_SERVER_URL", "https://dokimos.example.com/")
    monkeypatch.setenv("DOKIMOS_PROJECT_NAME", "support")
    monkeypatch.delenv(missing)
    with pytest.raises(ConfigurationError, match=missing):
        ServerReporter.from_environment()


@pytest.mark.parametrize(
    "settings", [{"server_url": " "}, {"server_url": "localhost"}, {"project_name": ".."}, {"attempts": 0}]
)
def test_settings_are_checked(settings):
    with pytest.raises(ConfigurationError):
        ServerReporter(**{"server_url": "http://localhost:1", "project_name": "p", **settings})


def test_full_queue_waits_while_the_server_takes_items(serve, monkeypatch):
    """A run that is faster than the server is held up, and loses nothing."""
    monkeypatch.setattr(_delivery, "MOST_QUEUE_BYTES", 20_000)
    fake = FakeServer()
    largest = []
    with serve(fake) as server, reporter_for(server.url) as reporter:
        handle = reporter.begin(RunStart(run_id="r"))
        for index in range(1000):
            reporter.report_item(handle, ReportedItem(index, Example.of("a" * 200)))
            largest.append(reporter._delivery._bytes)
        reporter.flush()
    assert max(largest) <= 20_000
    assert sorted(item["ordinal"] for item in fake.items) == list(range(1000))


def test_full_queue_of_a_server_that_takes_nothing_goes_to_the_spool(serve, monkeypatch, tmp_path):
    monkeypatch.setattr(_delivery, "MOST_QUEUE_BYTES", 20_000)
    monkeypatch.setattr(_delivery, "STALLED_SECONDS", 0.05)

    def answer(request):
        return _Never() if request.raw_path.endswith("/items") else {"runId": RUN_ID}

    with serve(answer) as server:
        reporter = reporter_for(server.url, spool_directory=tmp_path, attempts=1)
        handle = reporter.begin(RunStart(run_id="r"))
        for index in range(300):
            reporter.report_item(handle, ReportedItem(index, Example.of("a" * 200)))
        reporter._delivery.close(0.0)
    ordinals = [item["ordinal"] for line in spooled(tmp_path) for item in line["items"]]
    assert sorted(ordinals) == list(range(300))
    assert reporter.failed_item_count == 300


def test_callback_that_fails_harms_nothing(serve):
    def fail(failure):
        raise ValueError("my own mistake")

    fake = FakeServer(lambda items, number: refuse(403))
    with serve(fake) as server, reporter_for(server.url, on_item_delivery_failure=fail) as reporter:
        result = run_with(reporter)
    assert reporter.failed_item_count == 3
    assert result.pass_count == 3


def test_server_asks_for_a_wait_and_gets_it(serve, monkeypatch):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    real = _delivery.open_server_api

    def open_api(*arguments, **settings):
        api = real(*arguments, **settings)
        api.sleep = sleep
        return api

    monkeypatch.setattr(_delivery, "open_server_api", open_api)
    fake = FakeServer(lambda items, number: refuse(429, **{"Retry-After": "7"}) if number == 1 else None)
    with serve(fake) as server, reporter_for(server.url) as reporter:
        run_with(reporter)
    assert waits == [7.0]
    assert len(fake.items) == 3


def test_two_processes_write_one_spool(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    from dokimos.client._spool import append_lines, items_line

    line = items_line(RUN_ID, [b'{"ordinal":1}'] * 50, "key")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: append_lines(tmp_path, [line]), range(64)))
    assert len(spooled(tmp_path)) == 64


def test_evaluators_that_are_known_at_the_end_only_are_sent_then(live_server, read):
    """A function that chooses evaluators for each example, as in suites."""
    with reporter_for(live_server) as reporter:
        result = evaluate(
            examples(2), str.upper, lambda example: [ExactMatch(threshold=0.9)], reporters=[reporter],
            quiet=True, journal=False,
        )  # fmt: skip
    [info] = read(f"/runs/{result.server_run_ids[0]}")["evaluators"]
    assert (info["name"], info["threshold"], info["direction"]) == ("Exact Match", 0.9, "HIGHER_IS_BETTER")
    assert info["fingerprint"] == result.evaluators[0].fingerprint
    assert info["scoreCount"] == 2


def test_full_spool_loses_items_loudly_and_keeps_what_it_has(
    nobody, live_server, read, tmp_path, caplog, monkeypatch
):
    for seconds in ("BATCH_SECONDS", "PACE_SECONDS"):  # a run is one batch: a small one might find room
        monkeypatch.setattr(_delivery, seconds, 600.0)
    reporter = reporter_for(nobody, spool_directory=tmp_path, max_spool_bytes=5000)
    first, second = run_with(reporter, 3), run_with(reporter, 40)

    kept = [item["ordinal"] for line in spooled(tmp_path) for item in line.get("items", ())]
    assert kept == [0, 1, 2]
    assert reporter.failed_item_count == 43
    assert "lost" not in first.warnings[0]
    assert sum("Items are being lost" in text for text in caplog.messages) == 1
    assert f"40 of them are lost. The spool {tmp_path} has reached its limit" in second.warnings[0]
    assert "max_spool_bytes" in second.warnings[0]

    done = replay_spool(tmp_path, server_url=live_server)

    assert (done.sent_items, done.ended_runs) == (3, 2)
    again = run_with(reporter, 2)  # there is room again
    assert "lost" not in again.warnings[0]


def test_spool_without_room_for_anything_still_ends(nobody, tmp_path):
    reporter = reporter_for(nobody, spool_directory=tmp_path, max_spool_bytes=0)
    result = run_with(reporter)
    assert reporter.failed_item_count == 3
    assert "3 of them are lost" in result.warnings[0]
    assert not any("items" in line for line in spooled(tmp_path))


@pytest.mark.parametrize("value", ["x", "-1", "1.5"])
def test_limit_of_the_spool_that_cannot_be_used_is_refused(monkeypatch, value):
    monkeypatch.setenv("DOKIMOS_MAX_SPOOL_MIB", value)
    with pytest.raises(ConfigurationError, match="DOKIMOS_MAX_SPOOL_MIB must be a whole number"):
        reporter_for("http://localhost:1")


def test_limit_of_the_spool_comes_from_the_environment(monkeypatch):
    assert reporter_for("http://localhost:1")._delivery.most_spool_bytes == 2**30
    monkeypatch.setenv("DOKIMOS_MAX_SPOOL_MIB", "5")
    assert reporter_for("http://localhost:1")._delivery.most_spool_bytes == 5 * 2**20


def test_score_without_a_verdict_is_one_on_the_server(serve, live_server, read):
    @evaluator
    def length(actual_output):
        return float(len(actual_output)) / 10

    with reporter_for(live_server) as reporter:
        result = evaluate(
            examples(3), str.upper, [length], name="length", reporters=[reporter], quiet=True, journal=False
        )
    run = read(f"/runs/{result.server_run_ids[0]}")
    assert result.pass_rate is None
    assert (run["totalItems"], run["passedItems"], run["passRate"], run["informationalCount"]) == (
        3,
        0,
        None,
        3,
    )
    assert [item["evalResults"][0]["success"] for item in run["items"]["content"]] == [None] * 3

    fake = FakeServer()
    with serve(fake) as server, reporter_for(server.url) as reporter:
        evaluate(examples(1), str.upper, [length], reporters=[reporter], quiet=True, journal=False)
    score = fake.items[0]["evalResults"][0]
    assert (score["success"], score["judged"]) == (True, False)  # a server that knows only `success`
