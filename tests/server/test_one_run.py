"""A run is one run of the server: reported, replayed from a spool, pushed, resumed, in any order."""

import json
import urllib.request
from dataclasses import replace
from itertools import permutations

import pytest

from dokimos import Example, Experiment
from dokimos.client import ServerReporter, push_result, replay_spool
from dokimos.evaluators import Contains, ExactMatch
from dokimos.experiment._merging import merge_results
from dokimos.experiment._run_loading import load_run
from dokimos.exporters._base import export
from dokimos.exporters._json import load_result

NOWHERE = "http://127.0.0.1:9"
DATA = [Example.of("a", "A"), Example.of("b", "?"), Example.of("c", "C")]
EXPERIMENT = Experiment(DATA, str.upper, [ExactMatch()], name="shout", quiet=True, runs=2)


@pytest.fixture
def url(port):
    return f"http://127.0.0.1:{port}"


@pytest.fixture
def read(url):
    """A function that returns a JSON answer of the server."""

    def get(path):
        with urllib.request.urlopen(f"{url}/api/v1{path}", timeout=20) as reply:
            return json.load(reply)

    return get


@pytest.fixture
def runs(read):
    """A function that returns the runs that the server has of the experiment."""

    def list_runs():
        [experiment] = read("/projects/demo/experiments")
        return read(f"/experiments/{experiment['id']}/runs")

    return list_runs


def run_with(url, folder, spool=None, **settings):
    reporter = ServerReporter(server_url=url, project_name="demo", spool_directory=spool, attempts=1)
    with reporter:
        return replace(EXPERIMENT, reporters=[reporter], run_dir=folder).run(**settings)


def push(url, result):
    return push_result(result, server_url=url, project_name="demo")


def state_of(run):
    """What would change if the run was opened and ended again."""
    return {name: run[name] for name in ("id", "status", "completedAt", "startedAt", "itemCount", "passRate")}


@pytest.mark.parametrize("order", list(permutations(["replay", "push", "push report"])), ids="-".join)
def test_a_run_that_the_server_missed_is_one_run_whatever_sends_it(url, runs, tmp_path, order):
    spool = tmp_path / "spool"
    result = run_with(NOWHERE, tmp_path, spool)
    report = export(result, tmp_path / "report.json")
    steps = {
        "replay": lambda: replay_spool(spool, server_url=url),
        "push": lambda: push(url, load_run(tmp_path / result.run_id)),
        "push report": lambda: push(url, load_result(report)),
    }
    seen = []
    for step in order:
        steps[step]()
        [run] = runs()
        seen.append(state_of(run))
    assert seen[0] == seen[1] == seen[2]
    assert (run["itemCount"], run["status"], run["passedCount"]) == (6, "SUCCESS", 4)
    assert _milliseconds(run["startedAt"]) == _milliseconds(result.provenance.started_at)
    assert _milliseconds(run["completedAt"]) >= _milliseconds(run["startedAt"])


def _milliseconds(text):
    from datetime import datetime

    return round(datetime.fromisoformat(text).timestamp() * 1000)


def test_a_run_that_was_reported_and_is_pushed_again_does_not_change(url, runs, tmp_path):
    result = run_with(url, tmp_path)
    [before] = runs()
    for pushed in (result, load_run(tmp_path / result.run_id)):
        assert push(url, pushed) == before["id"]
    assert runs() == [before]


def test_a_push_completes_a_run_of_which_items_are_missing_or_differ(url, runs, read, tmp_path):
    result = run_with(url, tmp_path)
    [run] = runs()
    path = f"/runs/{run['id']}"
    send(url, "PATCH", path, {"status": "RUNNING"})
    item = {"inputs": {}, "expectedOutputs": {}, "actualOutputs": {}, "evalResults": [], "ordinal": 1}
    send(url, "POST", f"{path}/items", {"items": [item]})
    send(url, "PATCH", path, {"status": "CANCELLED"})

    assert push(url, result) == run["id"]

    [after] = runs()
    assert (after["status"], after["itemCount"], after["passedCount"]) == ("SUCCESS", 6, 4)
    assert read(path)["items"]["content"][1]["actualOutput"]


def send(url, method, path, body):
    request = urllib.request.Request(
        f"{url}/api/v1{path}",
        method=method,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20):
        pass


@pytest.mark.parametrize("first", ["live", "away"])
def test_a_resumed_run_is_the_same_run_however_it_began(url, runs, tmp_path, first):
    spool = tmp_path / "spool"
    stopped = run_with(url if first == "live" else NOWHERE, tmp_path, spool, fail_fast=True)
    resumed = run_with(url, tmp_path, spool, resume=stopped.run_id)
    [run] = runs()
    assert (run["status"], run["itemCount"], run["passedCount"]) == ("SUCCESS", 6, 4)
    if first == "away":
        # It began when its first process did.
        assert _milliseconds(run["startedAt"]) == _milliseconds(stopped.provenance.started_at)
    push(url, resumed)
    assert runs() == [run]


def test_a_run_that_was_replayed_and_is_resumed_goes_on(url, runs, tmp_path):
    spool = tmp_path / "spool"
    stopped = run_with(NOWHERE, tmp_path, spool, fail_fast=True)
    replay_spool(spool, server_url=url)
    [before] = runs()
    assert before["status"] == "FAILED"
    resumed = run_with(url, tmp_path, spool, resume=stopped.run_id)
    [after] = runs()
    assert resumed.server_run_ids == (before["id"],)
    assert (after["id"], after["status"], after["itemCount"]) == (before["id"], "SUCCESS", 6)


def test_old_lines_of_the_spool_do_not_undo_what_came_later(url, runs, tmp_path):
    """The first process was cut off from the server; the second one, which resumed the run, was not."""
    spool = tmp_path / "spool"
    fails = [True]

    def answer(question):
        if question == "b" and fails:
            raise ValueError("not yet")
        return question.upper()

    experiment = Experiment(DATA, answer, [ExactMatch()], name="shout", quiet=True, run_dir=tmp_path)
    with ServerReporter(server_url=NOWHERE, project_name="demo", spool_directory=spool, attempts=1) as away:
        stopped = replace(experiment, reporters=[away]).run(fail_fast=True)
    fails.clear()
    with ServerReporter(server_url=url, project_name="demo", spool_directory=spool) as reporter:
        replace(experiment, reporters=[reporter]).run(resume=stopped.run_id, retry_errors=True)
    [before] = runs()

    done = replay_spool(spool, server_url=url)

    assert done.is_complete
    assert runs() == [before]
    assert (before["status"], before["erroredCount"]) == ("SUCCESS", 0)


def test_what_is_made_of_a_result_is_a_run_of_its_own(url, runs, tmp_path):
    result = run_with(url, tmp_path)
    [whole] = runs()
    rescored = Experiment.rescore(result, [Contains(values=["A"])])
    part = result.filter(lambda item: item.index == 0)

    ids = [push(url, each) for each in (rescored, part, rescored, part)]

    assert ids[:2] == ids[2:]
    assert len({whole["id"], *ids}) == 3
    [unchanged] = [run for run in runs() if run["id"] == whole["id"]]
    assert unchanged == whole


def test_shards_and_their_merged_result_are_runs_of_their_own(url, runs, tmp_path):
    shards = [run_with(url, tmp_path, shard=(number, 2)) for number in (1, 2)]
    before = runs()

    merged = merge_results(shards)
    run_id = push(url, merged)

    assert push(url, merged) == run_id
    assert len(before) == 2
    [new] = [run for run in runs() if run not in before]
    assert (new["id"], new["itemCount"]) == (run_id, 6)


def test_runs_of_one_experiment_are_as_many_as_there_were(url, runs, tmp_path):
    for _ in range(3):
        run_with(url, tmp_path)
    assert len(runs()) == 3


def test_a_run_that_was_deleted_on_the_server_is_sent_anew(url, runs, tmp_path):
    result = run_with(url, tmp_path)
    [deleted] = runs()
    request = urllib.request.Request(f"{url}/api/v1/runs/{deleted['id']}", method="DELETE")
    with urllib.request.urlopen(request, timeout=20):
        pass
    new = push(url, result)
    [run] = runs()
    assert (run["id"], run["itemCount"], run["status"]) == (new, 6, "SUCCESS")
    assert new != deleted["id"]
