"""The commands that talk to a dokimos server."""

import json
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from dokimos import Dataset, Example
from dokimos._cli.main import run_command
from dokimos.experiment._run_loading import list_runs, load_run
from dokimos.experiment._run_lock import RunLock

EVALS = """
from dokimos import Example, Experiment
from dokimos.evaluators import ExactMatch

examples = [Example.of("a", "A"), Example.of("b", "?"), Example.of("c", "C")]
experiment = Experiment(examples, str.upper, [ExactMatch()], name="shout")
"""
CANDIDATE = "0199f3a2-0000-7000-8000-000000000001"
BASELINE = "0199f3a2-0000-7000-8000-000000000002"
VERDICT = {
    "status": "FAIL", "passed": False, "candidateRunId": CANDIDATE, "baselineRunId": BASELINE,
    "pairing": "positional", "baselinePassRate": 0.88, "candidatePassRate": 0.82, "passRateDelta": -0.06,
    "significant": True, "improvedCount": 3, "regressedCount": 5, "unchangedCount": 40, "addedCount": 0,
    "removedCount": 0,
    "regressedEvaluators": [
        {"evaluator": "faith|fulness", "baselineMean": 0.91, "candidateMean": 0.7, "delta": -0.21,
         "pValue": 0.011}
    ],
    "cases": [{"index": "item-3", "input": "What opens *when*?", "evaluatorDrops": [
        {"evaluator": "faith|fulness", "baselineMean": 1.0, "candidateMean": 0.0, "delta": -1.0}]}],
    "casesTruncated": False,
}  # fmt: skip

DEFAULTS = {
    "alpha": 0.05, "correction": "westfall-young", "pairing": "auto", "severity": "auto",
    "severityMargin": 0.15, "detectDrop": 0.05, "onNoBaseline": "pass", "onRemovedEvaluator": "fail",
    "failOnRemovedItems": False, "failOnErrors": True,
}  # fmt: skip
"""The options of a gate on this machine."""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("RUN_DIR", "SERVER_URL", "PROJECT_NAME", "API_KEY"):
        monkeypatch.delenv(f"DOKIMOS_{name}", raising=False)
    monkeypatch.setenv("GITHUB_OUTPUT", str(tmp_path / "output"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "evals.py").write_text(EVALS)
    yield tmp_path
    sys.modules.pop("evals", None)


def read(url, path):
    with urllib.request.urlopen(f"{url}/api/v1{path}", timeout=20) as reply:
        return json.load(reply)


def output_ids(workplace):
    line = (workplace / "output").read_text().splitlines()[-1]
    return line.removeprefix("server_run_ids=").split(",")


# run, resume, push, spool


def test_run_reports_to_the_server_that_is_named(workplace, live_server, capsys):
    run_command(["run", "evals.py", "--server", live_server, "--project", "demo"])
    printed = capsys.readouterr()
    assert f"Reporting to {live_server}, project 'demo'." in printed.err
    [run_id] = output_ids(workplace)
    assert f"  server   {run_id}" in printed.out
    run = read(live_server, f"/runs/{run_id}")
    assert (run["projectName"], run["experimentName"], run["totalItems"]) == ("demo", "shout", 3)


def test_run_reports_to_the_server_of_the_environment(workplace, live_server, monkeypatch, capsys):
    monkeypatch.setenv("DOKIMOS_SERVER_URL", live_server)
    monkeypatch.setenv("DOKIMOS_PROJECT_NAME", "ci")
    run_command(["run", "evals.py", "-q"])
    assert f"Reporting to {live_server}" in capsys.readouterr().err
    assert read(live_server, f"/runs/{output_ids(workplace)[0]}")["status"] == "SUCCESS"


def test_run_reports_nowhere_unless_it_is_told_to(workplace, live_server, monkeypatch, capsys):
    monkeypatch.setenv("DOKIMOS_SERVER_URL", live_server)
    run_command(["run", "evals.py", "-q"])
    monkeypatch.setenv("DOKIMOS_PROJECT_NAME", "ci")
    run_command(["run", "evals.py", "-q", "--no-server"])
    assert "Reporting" not in capsys.readouterr().err
    assert read(live_server, "/projects") == []


def test_run_with_half_a_server_says_what_is_missing(capsys):
    assert run_command(["run", "evals.py", "--server", "http://localhost:1"]) == 2
    assert "--project or DOKIMOS_PROJECT_NAME" in capsys.readouterr().err


def test_resumed_run_continues_on_its_server(workplace, live_server, capsys):
    run_command(["run", "evals.py", "-q", "--fail-fast", "--server", live_server, "--project", "demo"])
    run_command(["resume", "latest", "-q"])
    ids = {line for line in (workplace / "output").read_text().splitlines()}
    assert len(ids) == 1
    run = read(live_server, f"/runs/{output_ids(workplace)[0]}")
    assert (run["status"], run["totalItems"]) == ("SUCCESS", 3)


def test_run_of_a_server_that_is_away_can_be_replayed(workplace, live_server, capsys):
    status = run_command(["run", "evals.py", "-q", "--server", "http://127.0.0.1:9", "--project", "demo"])
    assert status == 0
    assert "dokimos spool replay .dokimos/spool" in capsys.readouterr().err
    assert run_command(["spool", "replay", "--server", "http://127.0.0.1:9"]) == 1
    assert "items sent: 0, kept: 3" in capsys.readouterr().out
    assert run_command(["spool", "replay", "--server", live_server]) == 0
    assert "items sent: 3, kept: 0; runs started: 1" in capsys.readouterr().out
    assert run_command(["spool", "replay", "--server", live_server]) == 0
    [experiment] = read(live_server, "/projects/demo/experiments")
    assert experiment["latestRun"]["status"] == "SUCCESS"


def test_push_sends_a_finished_run_once(workplace, live_server, capsys):
    run_command(["run", "evals.py", "-q", "-o", "out.json"])
    capsys.readouterr()
    for argument in ("latest", "latest", "out.json"):
        assert run_command(["push", argument, "--server", live_server, "--project", "demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == lines[1]
    assert lines[0].endswith("shout, 3 items")
    [run_id] = output_ids(workplace)
    run = read(live_server, f"/runs/{run_id}")
    assert (run["status"], run["totalItems"], run["passedItems"]) == ("SUCCESS", 3, 2)


def test_push_completes_what_was_reported(workplace, live_server, capsys):
    run_command(["run", "evals.py", "-q", "--server", live_server, "--project", "demo"])
    run_command(["push", "latest", "--server", live_server, "--project", "demo"])
    lines = (workplace / "output").read_text().splitlines()
    assert lines[0] == lines[1]


def test_a_run_that_was_pushed_is_found_by_the_gate_and_stays_as_it_was(workplace, live_server, capsys):
    run_command(["run", "evals.py", "-q"])
    [listed] = list_runs(Path(".dokimos/runs"))
    before = load_run(listed.folder)
    push = ["push", "latest", "--server", live_server, "--project"]
    assert run_command([*push, "demo"]) == 0
    [run_id] = output_ids(workplace)
    assert run_command(["gate", "latest", "--server", live_server]) == 0
    assert "no baseline: demo/shout" in capsys.readouterr().out
    [run] = load_run(listed.folder).runs
    assert run.server_run_ids == (run_id,)
    assert replace(load_run(listed.folder), runs=()) == replace(before, runs=())
    assert run.item_results == before.runs[0].item_results
    [again] = list_runs(Path(".dokimos/runs"))
    assert again.status is listed.status is not None

    size = again.size_bytes
    run_command([*push, "demo"])
    assert list_runs(Path(".dokimos/runs"))[0].size_bytes == size
    run_command([*push, "another"])
    assert read(live_server, f"/runs/{output_ids(workplace)[0]}")["projectName"] == "another"


def test_push_does_not_need_to_write_the_folder_of_the_run(workplace, live_server, capsys):
    run_command(["run", "evals.py", "-q"])
    [listed] = list_runs(Path(".dokimos/runs"))
    lock = RunLock(listed.folder)
    try:
        assert run_command(["push", "latest", "--server", live_server, "--project", "demo"]) == 0
    finally:
        lock.release()
    assert load_run(listed.folder).server_run_ids == ()


def test_a_push_that_is_interrupted_says_how_to_go_on(live_server, capsys, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    run_command(["run", "evals.py", "-q"])
    monkeypatch.setattr("dokimos.client._push.push_result", interrupt)
    assert run_command(["push", "latest", "--server", live_server, "--project", "demo"]) == 130
    told = capsys.readouterr().err
    assert "latest was not sent whole; dokimos push latest with the same options sends the rest" in told
    assert told.endswith("Interrupted.\n")


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("localhost:8080", "must start with"),
        ("http://", "names no host"),
        ("http://x:99999", "has the port"),
    ],
)
def test_a_url_that_is_none_is_shown_as_it_was_typed(url, fault, capsys):
    assert run_command(["datasets", "list", "--server", url]) == 2
    message = capsys.readouterr().err
    assert fault in message
    assert message.endswith(f"; it is {url!r}.\n")


def test_push_names_what_is_missing(capsys):
    assert run_command(["push", "latest"]) == 2
    assert "--server URL or DOKIMOS_SERVER_URL" in capsys.readouterr().err
    assert run_command(["push", "latest", "--server", "http://localhost:1"]) == 2
    assert "--project NAME or DOKIMOS_PROJECT_NAME" in capsys.readouterr().err


# gate


class GateServer:
    def __init__(self, **changes):
        self.verdict = {**VERDICT, **changes}
        self.asked = None

    def __call__(self, request):
        if request.method == "GET":
            return {"id": CANDIDATE, "experimentId": "e-1", "experimentName": "faq", "projectName": "demo"}
        self.path, self.asked = request.raw_path, json.loads(request.body)
        return self.verdict


def test_gate_asks_the_server_and_fails(workplace, serve, capsys):
    fake = GateServer()
    with serve(fake) as server:
        status = run_command(
            ["gate", CANDIDATE, "--server", server.url, "--branch", "main", "-o", "out/verdict.md"]
        )
    assert status == 1
    assert fake.path == "/api/v1/experiments/e-1/gate"
    assert fake.asked == {**DEFAULTS, "candidateRunId": CANDIDATE, "baselineBranch": "main"}
    out = capsys.readouterr().out
    assert "Eval gate FAILED: demo/faq vs main, pass rate 88.0 % -> 82.0 %." in out
    assert f"{server.url}/api/v1/experiments/e-1/runs/{CANDIDATE}/diff?baselineRunId={BASELINE}" in out
    markdown = (workplace / "out" / "verdict.md").read_text()
    assert "❌ Eval gate failed" in markdown
    assert r"faith\|fulness" in markdown
    assert r"- row `item-3` (What opens \*when\*?): faith" in markdown
    assert run_command(["gate", "report", ".dokimos/verdicts"]) == 1


def test_gate_passes_and_inconclusive_has_its_exit_code(serve, capsys):
    def check(**changes):
        with serve(GateServer(**changes)) as server:
            return run_command(["gate", "--server", server.url, "--candidate", CANDIDATE, "-q"])

    assert check(status="PASS", passed=True) == 0
    assert check(status="NO_BASELINE", passed=True, pairing="none", baselinePassRate=None) == 0
    assert check(status="FAIL", passed=False, inconclusive=True) == 4
    assert "INCONCLUSIVE" in capsys.readouterr().out


def test_gate_sends_the_options_of_the_command_with_their_defaults(serve):
    fake = GateServer()
    with serve(fake) as server:
        options = ["--alpha", "0.01", "--fail-on-removed-items", "--require-power", "0.8", "-b", BASELINE]
        run_command(["gate", CANDIDATE, "--server", server.url, "-q", *options])
    assert fake.asked == {
        **DEFAULTS, "candidateRunId": CANDIDATE, "baselineRunId": BASELINE, "alpha": 0.01,
        "failOnRemovedItems": True, "requirePower": 0.8,
    }  # fmt: skip


def test_gate_sends_the_options_that_only_a_server_has(serve):
    fake = GateServer()
    with serve(fake) as server:
        flags = ["--skip-failed-baselines", "--refuse-changed-evaluators"]
        run_command(["gate", CANDIDATE, "--server", server.url, "-q", *flags])

    assert fake.asked["skipFailedBaselines"] is fake.asked["refuseChangedEvaluators"] is True


def test_gate_says_that_the_baseline_is_a_bad_one_even_where_it_is_quiet(serve, workplace, capsys):
    warning = "The baseline failed the gate itself: pin a good run, or set skipFailedBaselines."
    fake = GateServer(
        status="PASS", passed=True, inconclusive=False, regressedEvaluators=[], cases=[], regressedCount=0,
        warnings=[warning, "Other."], baselineWarnings=[warning], baselineReason="It is the latest run.",
    )  # fmt: skip
    shown = warning.replace("skipFailedBaselines", "--skip-failed-baselines")
    with serve(fake) as server:
        options = ["--server", server.url, "-o", "verdict.md"]
        assert run_command(["gate", CANDIDATE, "-q", *options]) == 0
        printed = capsys.readouterr()
        assert run_command(["gate", CANDIDATE, *options]) == 0
    assert printed.err == f"Warning: {shown}\n"
    assert "Warning" not in printed.out
    spoken = capsys.readouterr()
    assert (f"  Warning: {shown}\n" in spoken.out, spoken.err) == (True, "")
    assert "skip-failed-baselines" in (workplace / "verdict.md").read_text()


def test_gate_on_this_machine_says_so_too(workplace, capsys):
    run_command(["run", "evals.py", "-q", "--fail-fast"])
    stopped = list_runs(Path(".dokimos/runs"))[0].run_id
    run_command(["run", "evals.py", "-q"])
    capsys.readouterr()
    assert run_command(["gate", "latest", "-b", stopped, "-q"]) == 0
    printed = capsys.readouterr()
    assert printed.err == (
        "Warning: The baseline's run did not end (stopped), so what it measured may not be whole.\n"
    )
    assert printed.out.startswith("Eval gate")


def test_gate_takes_a_result_that_was_reported(serve, live_server):
    run_command(["run", "evals.py", "-q", "--server", live_server, "--project", "demo"])
    fake = GateServer(status="PASS", passed=True)
    with serve(fake) as server:
        assert run_command(["gate", "latest", "-q", "--server", server.url]) == 0
    assert read(live_server, f"/runs/{fake.asked['candidateRunId']}")["totalItems"] == 3


@pytest.mark.parametrize("answer", [web.Response(status=409), {"passed": True}, [], None])
def test_gate_that_cannot_be_asked_never_passes(serve, answer):
    def reply(request):
        if request.method == "GET":
            return {"experimentId": "e-1"}
        if isinstance(answer, web.Response):
            return web.json_response({"message": "The run is RUNNING"}, status=409)
        return answer

    with serve(reply) as server:
        assert run_command(["gate", CANDIDATE, "--server", server.url]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["gate", CANDIDATE, "--server", "http://localhost:1", "--rerun", "evals.py"],
            "--rerun is for results",
        ),
        (["gate", CANDIDATE, "--candidate", CANDIDATE], "Name the run once"),
        (["gate", "--server", "http://localhost:1"], "Name the run of the server"),
        (["gate", CANDIDATE, "--branch", "main"], "add --server URL"),
        (
            ["gate", CANDIDATE, "--skip-failed-baselines"],
            "--skip-failed-baselines is for runs of a server: add --server URL",
        ),
        (["gate", CANDIDATE, "-o", "x.html", "--server", "http://localhost:1"], "as .json or .md"),
        (["gate", "-q"], "Name the result to check"),
    ],
)
def test_gate_options_that_do_not_fit_are_named(arguments, message, capsys):
    assert run_command(arguments) == 2
    assert message in capsys.readouterr().err


def test_gate_of_a_result_that_was_not_reported_says_how_to_send_it(capsys):
    run_command(["run", "evals.py", "-q"])
    assert run_command(["gate", "latest", "--server", "http://localhost:1"]) == 2
    assert "The candidate latest was not reported to a server; dokimos push latest" in capsys.readouterr().err


def test_gate_takes_a_baseline_that_was_reported(serve, live_server, capsys):
    run_command(["run", "evals.py", "-q", "--server", live_server, "--project", "demo", "-o", "base.json"])
    with serve(fake := GateServer()) as server:
        run_command(["gate", CANDIDATE, "-q", "--server", server.url, "-b", "latest"])
    assert read(live_server, f"/runs/{fake.asked['baselineRunId']}")["totalItems"] == 3
    run_command(["run", "evals.py", "-q"])
    capsys.readouterr()
    assert run_command(["gate", CANDIDATE, "--server", server.url, "-b", "latest"]) == 2
    assert "The baseline latest was not reported to a server" in capsys.readouterr().err
    run_command(["gate", "base.json", "-q", "--update-baseline", "-b", "baseline.json"])
    capsys.readouterr()
    assert run_command(["gate", CANDIDATE, "--server", server.url, "-b", "baseline.json"]) == 2
    assert "baseline.json is a baseline file, and a server compares runs" in capsys.readouterr().err


# datasets


class DatasetServer:
    """The documented routes of data sets."""

    def __init__(self):
        self.versions = {}

    def __call__(self, request):
        path = request.raw_path.partition("?")[0].removeprefix("/api/v1/datasets")
        parts = path.strip("/").split("/") if path.strip("/") else []
        if not parts:
            return self.create(request) if request.method == "POST" else self.list()
        versions = self.versions.get(parts[0])
        if versions is None:
            return web.json_response({"message": "Dataset not found"}, status=404)
        if request.method == "POST":
            versions.append(json.loads(request.body)["items"])
            return web.json_response(self.describe(parts[0], len(versions)), status=201)
        number = len(versions) if parts[2] == "latest" else int(parts[2])
        if parts[-1] != "items":
            return self.describe(parts[0], number)
        page, size = int(request.query["page"]), int(request.query["size"])
        items = [
            {
                "ordinal": place,
                "metadata": None,
                "expectedOutputs": None,
                **item,
                "id": f"id-{number}-{place}",
            }
            for place, item in enumerate(versions[number - 1])
        ]
        return {"content": items[page * size : (page + 1) * size]}

    def create(self, request):
        name = json.loads(request.body)["name"]
        if name in self.versions:
            return web.json_response({"message": "exists"}, status=409)
        self.versions[name] = []
        return web.json_response({"name": name}, status=201)

    def list(self):
        return [
            {"name": name, "latestVersion": len(versions) or None, "description": None,
             "latestItemCount": len(versions[-1]) if versions else 0}
            for name, versions in self.versions.items()
        ]  # fmt: skip

    def describe(self, name, number):
        return {"datasetName": name, "version": number, "itemCount": len(self.versions[name][number - 1])}


def write_data(path, *answers):
    Dataset([Example.of(f"q{n}", answer, id=f"i{n}") for n, answer in enumerate(answers)], "qa").save(path)


@pytest.fixture
def dataset_server(serve):
    with serve(DatasetServer()) as server:
        yield server


def test_datasets_are_pushed_pulled_and_listed(workplace, dataset_server, capsys):
    url = dataset_server.url
    assert run_command(["datasets", "list", "--server", url]) == 0
    assert "no data sets" in capsys.readouterr().out
    write_data(workplace / "qa.json", "yes", "no")
    assert run_command(["datasets", "push", "qa.json", "--server", url]) == 0
    assert capsys.readouterr().out == "dataset://qa@1   2 items\n"
    write_data(workplace / "qa.json", "yes", "maybe", "new")
    run_command(["datasets", "push", "qa.json", "--name", "qa", "--server", url])
    assert "dataset://qa@2   3 items" in capsys.readouterr().out
    run_command(["datasets", "list", "--server", url])
    assert capsys.readouterr().out.split() == ["qa", "@2", "3", "items"]
    assert run_command(["datasets", "pull", "qa@1", "--server", url]) == 0
    assert [example.expected_output for example in Dataset.load("qa.jsonl")] == ["yes", "no"]
    assert run_command(["datasets", "pull", "qa@2", "--server", url]) == 2
    assert "--force" in capsys.readouterr().err
    assert run_command(["datasets", "pull", "qa", "-o", "latest.csv", "--server", url]) == 0
    assert len(Dataset.load("latest.csv")) == 3


def test_datasets_are_compared(workplace, capsys):
    write_data(workplace / "a.json", "yes", "no", "same")
    Dataset(
        [Example.of("q0", "yes", id="i0"), Example.of("q1", "NO", id="i1"), Example.of("new", "x", id="i9")]
    ).save(workplace / "b.json")
    assert run_command(["datasets", "diff", "a.json", "b.json"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out == [
        "+ i9", "- i2", "~ i1: expectedOutputs", "1 added, 1 removed, 1 changed, 1 unchanged.",
    ]  # fmt: skip
    assert run_command(["datasets", "diff", "a.json", "a.json"]) == 0


def test_file_is_compared_with_a_version(workplace, dataset_server, capsys):
    write_data(workplace / "qa.json", "yes", "no")
    run_command(["datasets", "push", "qa.json", "--server", dataset_server.url])
    capsys.readouterr()
    assert run_command(["datasets", "diff", "qa@1", "qa@latest", "--server", dataset_server.url]) == 0
    assert "0 added, 0 removed, 0 changed, 2 unchanged." in capsys.readouterr().out


def test_file_is_compared_by_inputs_with_a_version_that_has_other_ids(workplace, dataset_server, capsys):
    write_data(workplace / "qa.json", "yes", "no", "same")
    run_command(["datasets", "push", "qa.json", "--server", dataset_server.url])
    write_data(workplace / "qa.json", "yes", "NO", "same", "new")
    capsys.readouterr()
    assert run_command(["datasets", "diff", "qa@1", "qa.json", "--server", dataset_server.url]) == 1
    assert capsys.readouterr().out.splitlines() == [
        '+ {"input": "q3"}',
        '~ {"input": "q1"}: expectedOutputs',
        "1 added, 0 removed, 1 changed, 2 unchanged.",
    ]


def test_a_file_that_is_missing_is_named_beside_the_dataset_that_is(workplace, live_server, capsys):
    assert run_command(["datasets", "diff", "gone.json", "qa@1", "--server", live_server]) == 2
    assert "Dataset not found: gone.json; there is no file 'gone.json' either" in capsys.readouterr().err


def test_datasets_name_the_missing_server(capsys):
    assert run_command(["datasets", "list"]) == 2
    assert "DOKIMOS_SERVER_URL" in capsys.readouterr().err


def test_gate_of_a_real_server(workplace, live_server, capsys):
    run = ["run", "evals.py", "-q", "--server", live_server, "--project", "demo"]
    run_command(run)
    assert run_command(["gate", "latest", "--server", live_server]) == 0
    assert "Eval gate has no baseline: demo/shout" in capsys.readouterr().out
    rows = ", ".join(f"Example.of('q{n}', 'Q{n}')" for n in range(12))
    text = EVALS.replace("examples = [", f"examples = [{rows}] or [")
    (workplace / "evals.py").write_text(text)
    for task, status in (("str.upper", 0), ("str.lower", 1)):
        (workplace / "evals.py").write_text(text.replace("str.upper", task).replace("shout", "many"))
        sys.modules.pop("evals", None)
        run_command(run)
        assert run_command(["gate", "latest", "--server", live_server, "-o", "verdict.md"]) == status
    assert "  12 items got worse, such as item-0 ('q0'), item-1 ('q1'), item-2 ('q2').\n" in (
        capsys.readouterr().out
    )
    assert "❌ Eval gate failed: demo/many" in (workplace / "verdict.md").read_text()
    assert "n = 12, 12 worse and 0 better" in (workplace / "verdict.md").read_text()


ENDING = """
import os, pathlib, signal
from dokimos import Example, Experiment
from dokimos.evaluators import ExactMatch

def answer(question):
    marker = pathlib.Path("ended")
    if question == "q30" and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.{signal})
    return question.upper()

examples = [Example.of(f"q{{number}}", f"Q{{number}}") for number in range(60)]
experiment = Experiment(examples, answer, [ExactMatch()], name="ended", runs=2)
"""


def dokimos(*arguments, folder):
    return subprocess.run(
        [sys.executable, "-m", "dokimos", *arguments], cwd=folder, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("signal", "status"), [("SIGKILL", "RUNNING"), ("SIGINT", "CANCELLED")])
def test_run_that_is_ended_is_complete_once_it_is_resumed(workplace, live_server, signal, status):
    (workplace / "evals.py").write_text(ENDING.format(signal=signal))
    ended = dokimos("run", "evals.py", "--server", live_server, "--project", "demo", folder=workplace)
    assert ended.returncode in (-9, 130)
    [experiment] = read(live_server, "/projects/demo/experiments")
    [run] = read(live_server, f"/experiments/{experiment['id']}/runs")
    assert run["status"] == status
    if signal == "SIGINT":  # what had been reported is there, whether or not the run is ever resumed
        assert run["itemCount"] >= 30
    resumed = dokimos("resume", "latest", folder=workplace)
    assert resumed.returncode == 0, resumed.stderr
    [after] = read(live_server, f"/experiments/{experiment['id']}/runs")
    assert (after["id"], after["status"]) == (run["id"], "SUCCESS")
    assert (after["itemCount"], after["passedCount"]) == (120, 120)


def test_interrupted_run_of_a_server_that_is_away_is_in_the_spool(workplace, live_server):
    (workplace / "evals.py").write_text(ENDING.format(signal="SIGINT"))
    dokimos("run", "evals.py", "--server", "http://127.0.0.1:9", "--project", "demo", folder=workplace)
    assert dokimos("spool", "replay", "--server", live_server, folder=workplace).returncode == 0
    [experiment] = read(live_server, "/projects/demo/experiments")
    [run] = read(live_server, f"/experiments/{experiment['id']}/runs")
    assert run["status"] == "CANCELLED"
    assert run["itemCount"] >= 30


def test_datasets_of_a_real_server(workplace, live_server, capsys):
    write_data(workplace / "qa.json", "yes", "no")
    push = ["datasets", "push", "qa.json", "--name", "q/a", "--server", live_server]
    for expected in ("dataset://q/a@1   2 items", "dataset://q/a@1   2 items, unchanged"):
        assert run_command(push) == 0
        assert capsys.readouterr().out == f"{expected}\n"
    write_data(workplace / "qa.json", "yes", "NO")
    run_command(push)
    capsys.readouterr()
    assert run_command(["datasets", "diff", "q/a@1", "q/a@latest", "--server", live_server]) == 1
    assert capsys.readouterr().out.endswith("0 added, 0 removed, 1 changed, 1 unchanged.\n")
    text = EVALS.replace("Experiment(examples", "Experiment(Dataset.load('dataset://q/a@2')")
    (workplace / "evals.py").write_text(f"from dokimos import Dataset\n{text}")
    environment = ["--server", live_server, "--project", "demo"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOKIMOS_SERVER_URL", live_server)
        run_command(["run", "evals.py", "-q", *environment])
    run = read(live_server, f"/runs/{output_ids(workplace)[0]}")
    assert (run["datasetVersion"], run["totalItems"]) == (2, 2)
    assert all(item["datasetItemId"] for item in run["items"]["content"])
