"""What a command prints about a run is the same, whether it keeps all items or only those that it shows."""

import re
import sys

import pytest

from dokimos._cli import item_blocks, presentation, suite_run
from dokimos._cli.main import run_command
from dokimos.experiment._kept_items import KeptItems

EXPERIMENT = """
from dokimos import Dataset, Example, Experiment, evaluator
from dokimos.evaluators import ExactMatch

KINDS = ["pass", "fail", "task error", "warning", "error", "skip", "parts error", "other"]
dataset = Dataset([Example.of(f"{kind} {n}", "right") for n in range(4) for kind in KINDS], name="kinds")

def task(question):
    if question.startswith("task error"):
        raise ConnectionError(f"no answer to {question[-1]}")
    return "wrong" if question.startswith("fail") else "right"

@evaluator(name="Soft", threshold=0.5, fail_on_error=False)
def soft(case):
    if case.inputs["input"].startswith("warning"):
        raise ValueError("only a warning")
    return 1.0

@evaluator(name="Hard", threshold=0.5)
def hard(case):
    if case.inputs["input"].startswith("error"):
        raise KeyError("hard")
    return 1.0

@evaluator(name="Parts", thresholds={"a": 0.5})
def parts(case):
    if case.inputs["input"].startswith("parts error"):
        raise RuntimeError("no parts")
    return {"a": 1.0, "b": 0.25}

@evaluator(name="Skipped", thresholds={"a": 0.5})
def skips(case):
    return {"a": None}

def make():
    return Experiment(dataset, task, [ExactMatch(), soft, hard, parts], name="kinds")

def skipped():
    return Experiment(dataset, task, [ExactMatch(), skips], name="skipped")

def broken():
    def task(question):
        raise ConnectionError("endpoint is down")
    return Experiment(dataset, task, [ExactMatch()], name="down")

def chosen():
    def choose(example):
        if example.inputs["input"].startswith("error"):
            raise LookupError("no evaluators")
        return [ExactMatch()]
    return Experiment(dataset, task, choose, name="chosen")

def several():
    return Experiment(dataset, task, [ExactMatch(), soft, hard], name="several", runs=2)
"""
KINDS = ["pass", "fail", "task error"]
VOLATILE = re.compile(r"\d{8}-\d{6}-\w+|[\d.]+ (?:ms|s|min)\b|[\d.]+ µs")
COMMANDS = [
    ["make"],
    ["make", "--debug"],
    ["make", "-v"],
    ["make", "-q"],
    ["make", "--fail-under", "Hard=0.9", "--fail-under", "0.2", "--fail-under", "Parts.b=0.2"],
    ["make", "--max-errors", "2"],
    ["make", "--fail-fast"],
    ["make", "--allow-errors", "100"],
    ["broken", "--debug"],
    ["chosen"],
    ["skipped"],
    ["several", "-v"],
]


SUITE = """
name: kinds
agent: kinds:task
evaluations:
  metrics:
    - {type: standard, metric: equality}
    - {type: standard, metric: f1_score, enabled: false}
test_cases:
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DOKIMOS_RUN_DIR", raising=False)
    (tmp_path / "kinds.py").write_text(EXPERIMENT)
    cases = [
        f"  - {{name: {kind} {n}, input: {kind} {n}, ground_truth: right}}\n"
        for n in range(4)
        for kind in KINDS
    ]
    (tmp_path / "suite.yaml").write_text(SUITE + "".join(cases))
    yield
    sys.modules.pop("kinds", None)


def run(capsys, *arguments):
    """Return what a command prints, apart from times and the id of the run, and its exit code."""
    code = run_command(list(arguments))
    printed = capsys.readouterr()
    return VOLATILE.sub("…", printed.out), VOLATILE.sub("…", printed.err), code


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_what_is_printed_of_a_run_does_not_depend_on_which_items_it_keeps(command, capsys, monkeypatch):
    target, *options = command
    general = [option for option in options if option == "--debug"]
    shared = [option for option in options if option in ("-v", "-q")]
    start = [*general, "run", f"kinds.py:{target}", *(one for one in options if one not in general)]
    resume = [*general, "resume", "latest", *shared]
    few = run(capsys, *start), run(capsys, *resume)
    monkeypatch.setattr(KeptItems, "of", lambda *_: KeptItems.ALL)
    assert (run(capsys, *start), run(capsys, *resume)) == few


@pytest.mark.parametrize(
    ("target", "options", "kept"),
    [
        ("make", [], 20),
        ("make", ["-o", "report.json"], 32),
        ("make", ["--fail-fast"], 2),
        ("skipped", [], 8),
        ("skipped", ["-o", "report.json"], 32),
    ],
)
def test_items_that_passed_are_kept_only_where_a_report_wants_them(target, options, kept, monkeypatch):
    """Also where a metric lacked data on each of them, which is said once for all."""
    results = []
    show = presentation.Presentation.show

    def record(self, result):
        results.append(result)
        return show(self, result)

    monkeypatch.setattr(presentation.Presentation, "show", record)
    run_command(["run", f"kinds.py:{target}", *options])
    assert len(results[0].item_results) == kept


SUITES = [
    ["test", "suite.yaml"],
    ["test", "suite.yaml", "-v"],
    ["test", "suite.yaml", "--runs", "2"],
    ["test", "suite.yaml", "--fail-fast"],
    ["test", "suite.yaml", "-n", "5", "--allow-errors", "100"],
    ["test", "suite.yaml", "--max-errors", "1"],
    ["test", "suite.yaml", "-o", "report.md"],
    ["test", "suite.yaml", "-q"],
    ["test", "suite.yaml", "-q", "--strict"],
    ["test", "suite.yaml", "-q", "--runs", "2"],
    ["test", "suite.yaml", "-q", "--allow-errors", "100"],
    ["--debug", "test", "suite.yaml", "-q"],
    ["run", "suite.yaml", "-q"],
]


@pytest.mark.parametrize("start", SUITES, ids=" ".join)
def test_what_is_printed_of_a_suite_does_not_depend_on_which_cases_it_keeps(start, capsys, monkeypatch):
    few = run(capsys, *start)
    monkeypatch.setattr(KeptItems, "of", lambda *_: KeptItems.ALL)
    assert run(capsys, *start) == few
    assert re.search(r"[1248] passed", few[0])


def test_what_is_printed_of_a_resumed_suite_does_not_depend_on_which_cases_it_keeps(capsys, monkeypatch):
    run_command(["test", "suite.yaml", "-q"])
    capsys.readouterr()
    few = run(capsys, "resume", "latest", "-v")
    monkeypatch.setattr(KeptItems, "of", lambda *_: KeptItems.ALL)
    assert run(capsys, "resume", "latest", "-v") == few
    assert few[0].count('Test: "') == 12


def test_a_case_that_cannot_be_printed_is_said_at_the_end_and_ends_no_run(capsys, monkeypatch):
    render = item_blocks.render_item

    def fail(item, *rest, **options):
        if item.example.inputs["input"] == "pass 1":
            raise ValueError("no text")
        return render(item, *rest, **options)

    monkeypatch.setattr(item_blocks, "render_item", fail)
    printed, error, code = run(capsys, "test", "suite.yaml", "-j", "1")

    assert printed.count('Test: "') == 3
    assert "ValueError: no text" in error
    assert code != 0


@pytest.mark.parametrize(
    ("options", "kept"),
    [(["-q"], 8), ([], 8), (["-o", "report.json"], 12), (["-q", "-o", "report.json"], 12)],
)
def test_cases_that_passed_are_kept_only_where_they_are_reported(options, kept, monkeypatch):
    results = []
    show = suite_run._print

    def record(result, *rest, **keywords):
        results.append(result)
        show(result, *rest, **keywords)

    monkeypatch.setattr(suite_run, "_print", record)
    run_command(["test", "suite.yaml", *options])
    assert len(results[0].item_results) == kept
