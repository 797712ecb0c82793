"""The command line from outside: what it prints, writes and exits with."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dokimos._cli.main import run_command

ANSWERS = """id,input,expected_output,actual_output,topic
loans,How many days are books lent?,28,28.0,loans
fines,How high is the fine?,10,12,money
cards,Who signs?,a parent,A parent.,cards
"""

EXPERIMENT = """
from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import ExactMatch

examples = [Example.of(f"q{i}", f"Q{i}", id=f"id{i}", parity=str(i % 2)) for i in range(10)]
dataset = Dataset(examples, name="letters")
experiment = Experiment(dataset, str.upper, [ExactMatch()], name="upper")
nothing = 3

def make():
    return experiment

def broken():
    def task(example):
        raise ConnectionError("endpoint is down")
    return Experiment(dataset, task, [ExactMatch()], name="down")

def unjudged():
    return Experiment(dataset, str.upper, [ExactMatch(threshold=None)])
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DOKIMOS_RUN_DIR", raising=False)
    (tmp_path / "answers.csv").write_text(ANSWERS)
    (tmp_path / "evals.py").write_text(EXPERIMENT)
    yield tmp_path
    sys.modules.pop("evals", None)


def dokimos(*arguments):
    return run_command(list(arguments))


def test_recorded_outputs_are_scored_by_the_evaluators_given(capsys):
    assert dokimos("run", "answers.csv", "-e", "numeric:relative_tolerance=0.01", "-e", "f1_score") == 1
    printed = capsys.readouterr().out
    assert "answers · 3 items" in printed
    assert "Numeric" in printed
    assert "33.3 %" in printed
    assert "The output is not a number: 'A parent.'" in printed or "not a number" in printed


def test_without_an_evaluator_a_data_file_is_refused_with_advice(capsys):
    assert dokimos("run", "answers.csv") == 2
    assert "say with -e how to score it" in capsys.readouterr().err


def test_all_report_formats_are_written_from_one_run(workplace, capsys):
    names = ["r.json", "r.html", "r.md", "r.csv", "r.junit.xml"]
    outputs = [argument for name in names for argument in ("-o", f"out/{name}")]
    assert dokimos("run", "evals.py", *outputs) == 0
    assert sorted(p.name for p in (workplace / "out").iterdir()) == sorted(names)
    assert json.loads((workplace / "out" / "r.json").read_text())["summary"]["passRate"] == 1.0


def test_an_unknown_report_format_is_refused_before_anything_runs(workplace, capsys):
    assert dokimos("run", "evals.py", "-o", "report.docx") == 2
    assert "docx" in capsys.readouterr().err
    assert not (workplace / ".dokimos").exists()


@pytest.mark.parametrize("target", ["evals.py", "evals.py:experiment", "evals.py:make", "evals:make"])
def test_a_target_is_an_experiment_or_a_function_that_returns_one(target):
    assert dokimos("run", target, "-q") == 0


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("evals.py:nope", "It has the experiment experiment"),
        ("evals.py:experimnt", "Did you mean 'experiment'?"),
        ("evals.py:nothing", "is not an Experiment but int"),
        ("missing.py", "There is no file missing.py"),
        ("no_such_module:experiment", "cannot be imported"),
        ("missing.jsonl", "No such file"),
    ],
)
def test_a_target_that_is_not_there_is_a_usage_error(target, message, capsys):
    assert dokimos("run", target, "-e", "exact_match") == 2
    assert message in capsys.readouterr().err


def test_an_error_in_the_users_file_names_its_line(workplace, capsys):
    (workplace / "bad.py").write_text("x = 1\ny = x / 0\n")
    assert dokimos("run", "bad.py") == 2
    assert "ZeroDivisionError: division by zero (bad.py:2)" in capsys.readouterr().err


def test_fail_under_lists_every_miss_and_exits_with_1(capsys):
    arguments = ("run", "answers.csv", "-e", "numeric", "--fail-under", "0.9", "--fail-under", "Numeric=0.8")
    assert dokimos(*arguments) == 1
    printed = capsys.readouterr().out
    assert "pass rate 33.3 % is below 90.0 %" in printed
    assert "Numeric 0.5000 is below 0.8" in printed


def test_fail_under_that_is_reached_exits_with_0():
    assert dokimos("run", "evals.py", "--fail-under", "100%", "-q") == 0


def test_a_rate_that_is_just_reached_exits_with_0(workplace):
    rows = "".join(f"q,{'a' if place < 21 else 'b'},a\n" for place in range(30))
    (workplace / "thirty.csv").write_text(f"input,actual_output,expected_output\n{rows}")
    assert dokimos("run", "thirty.csv", "-e", "exact_match", "--fail-under", "70%", "-q") == 0
    assert dokimos("run", "thirty.csv", "-e", "exact_match", "--fail-under", "71%", "-q") == 1


def test_fail_under_where_nothing_was_judged_is_a_usage_error(capsys):
    assert dokimos("run", "evals.py:unjudged", "--fail-under", "0.5") == 2
    assert "nothing was judged" in capsys.readouterr().err


def test_a_run_whose_every_item_errored_exits_with_3(capsys):
    assert dokimos("run", "evals.py:broken") == 3
    assert "endpoint is down" in capsys.readouterr().out


def test_max_errors_stops_and_names_the_common_error(capsys):
    assert dokimos("run", "evals.py:broken", "--max-errors", "2") == 3
    captured = capsys.readouterr()
    assert "more items errored than max_errors=2" in captured.err
    assert "endpoint is down" in captured.err
    assert "3 items" in captured.out


def test_limit_filter_and_ids_choose_the_items(capsys):
    dokimos("run", "evals.py", "--filter", "parity=1", "-n", "3")
    assert "upper · 3 items" in capsys.readouterr().out
    dokimos("run", "evals.py", "--filter", "id:id[0-3]")
    assert "upper · 4 items" in capsys.readouterr().out
    assert dokimos("run", "evals.py", "--filter", "parity=7") == 2


def test_columns_are_renamed_only_when_asked(workplace, capsys):
    (workplace / "other.csv").write_text("question,answer,reply\n1+1?,2,2\n")
    assert dokimos("run", "other.csv", "-e", "exact_match") == 2
    assert "columns" in capsys.readouterr().err
    renamed = ["question=input", "answer=expected_output", "reply=actual_output"]
    columns = [argument for column in renamed for argument in ("--columns", column)]
    assert dokimos("run", "other.csv", "-e", "exact_match", *columns, "--fail-under", "1.0") == 0


def test_shards_are_merged_into_the_whole(capsys):
    for number in "123":
        dokimos("run", "evals.py", "--shard", f"{number}/3", "-o", f"s{number}.json", "-q")
    capsys.readouterr()
    assert dokimos("merge", "s1.json", "s2.json", "s3.json", "-o", "all.json") == 0
    assert "10 items" in capsys.readouterr().out
    assert dokimos("merge", "s1.json", "s3.json") == 2
    assert "shard 2/3" in capsys.readouterr().err
    assert dokimos("merge", "s1.json", "s2.json", "s3.json", "s2.json") == 2
    assert "is in both" in capsys.readouterr().err


def test_a_run_is_listed_shown_exported_rescored_and_pruned(workplace, capsys):
    dokimos("run", "evals.py", "-q")
    capsys.readouterr()
    assert dokimos("list") == 0
    listed = capsys.readouterr().out
    run_id = listed.split()[0]
    assert "completed" in listed
    assert dokimos("show", run_id) == 0
    assert "upper · 10 items" in capsys.readouterr().out
    assert dokimos("show", "latest", "--item", "id3") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("id3 | passed")
    assert "  output           Q3\n" in shown
    assert dokimos("show", "latest", "--item", "id3", "--json") == 0
    assert json.loads(capsys.readouterr().out)["actualOutputs"] == {"output": "Q3"}
    assert dokimos("show", "latest", "--item", "id99") == 2
    assert dokimos("export", run_id, "-o", "again.json") == 0
    assert dokimos("export", run_id, "--format", "csv") == 0
    assert "input,expected_output,actual_output,success" in capsys.readouterr().out
    assert dokimos("rescore", "again.json", "-e", "regex:pattern=^Q", "--fail-under", "1.0") == 0
    assert dokimos("list", "--prune", "--keep", "0") == 0
    assert not list((workplace / ".dokimos" / "runs").iterdir())


def test_a_run_that_is_not_there_says_which_are(capsys):
    dokimos("run", "evals.py", "-q")
    assert dokimos("show", "20990101") == 2
    assert "The last ones there are: 20" in capsys.readouterr().err


def test_a_misspelt_column_is_a_fault_of_the_command_and_other_members_are_listed(workplace, capsys):
    Path("slip.csv").write_text("input,ground_thruth\na,b\n")
    Path("more.jsonl").write_text('{"input": "a", "topic": "x", "metrics": {"accuracy": 1}}\n')

    assert dokimos("run", "slip.csv", "-e", "exact_match") == 2
    assert "Did you mean 'ground_truth'?" in capsys.readouterr().err
    assert dokimos("validate", "slip.csv", "--columns", "ground_thruth=metadata.ground_thruth") == 0
    assert "1 with metadata.ground_thruth" in capsys.readouterr().out
    assert dokimos("validate", "more.jsonl") == 0
    out = capsys.readouterr().out
    assert "1 with metadata.topic" in out
    assert "1 with metadata.metrics" in out


def test_validate_counts_what_is_in_a_data_set(workplace, capsys):
    assert dokimos("validate", "answers.csv") == 0
    printed = capsys.readouterr().out
    assert "answers: 3 examples" in printed
    assert "3 with recorded outputs" in printed
    (workplace / "bad.jsonl").write_text('{"input": "a"}\n{"input": \n')
    assert dokimos("validate", "bad.jsonl") == 2
    assert "bad.jsonl:2" in capsys.readouterr().err


def test_init_writes_a_project_that_runs_and_overwrites_nothing(capsys):
    assert dokimos("init", "desk") == 0
    assert dokimos("run", "desk/evals.py", "-o", "desk/out/report.html") == 0
    assert dokimos("init", "desk") == 2
    assert "nothing was written" in capsys.readouterr().err


def test_evaluators_are_listed_and_explained(capsys):
    assert dokimos("evaluators") == 0
    assert "exact_match" in capsys.readouterr().out
    assert dokimos("evaluators", "numeric") == 0
    assert "relative_tolerance (number; default 0.0)" in capsys.readouterr().out
    assert dokimos("evaluators", "recall") == 0
    assert dokimos("evaluators", "ToolGraph") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "contexts ids or texts that were retrieved, best first" in shown
    assert "also called context, retrieved, retrieval_context, retrieved_contexts" in shown
    assert "expected_outputs={'relevant': ['Goods can be returned within 30 days.']}" in shown
    assert dokimos("evaluators", "numeric", "--schema") == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Numeric"
    assert dokimos("evaluators", "numreic") == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell, capsys):
    assert dokimos("completion", shell) == 0
    assert "_DOKIMOS_COMPLETE" in capsys.readouterr().out


def test_a_mistyped_command_suggests_the_right_one(capsys):
    assert dokimos("evaluator") == 2
    assert "Did you mean 'evaluators'?" in capsys.readouterr().err


def test_debug_shows_the_traceback():
    with pytest.raises(Exception, match=r"There is no file missing\.py"):
        dokimos("run", "missing.py", "--debug")


def test_quiet_prints_one_line(capsys):
    dokimos("run", "evals.py", "-q")
    captured = capsys.readouterr()
    assert captured.out.strip().splitlines() == ["✓ 100.0 % passed (10/10)"]
    assert captured.err == ""


def test_a_terminal_without_utf8_gets_ascii_signs(workplace):
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "dokimos", "run", "answers.csv", "-e", "numeric"],
        capture_output=True, env=environment, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1  # one of the expected outputs is not a number
    assert b"x 33.3 % passed (1/3)" in done.stdout
    assert b"\x1b" not in done.stdout + done.stderr
    done.stdout.decode("ascii")


SLOW = """
import pathlib, time
from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import ExactMatch

def task(example):
    with open("calls.txt", "a") as file:
        file.write(example.id + "\\n")
    if int(example.input) >= 3 and not pathlib.Path("fast").exists():
        time.sleep(600)  # the call that hangs
    return example.input

dataset = Dataset([Example.of(str(i), str(i), id=f"id{i}") for i in range(6)])
experiment = Experiment(dataset, task, [ExactMatch()])
"""


def test_ctrl_c_reports_what_there_is_exits_130_and_resume_does_the_rest(workplace, wait_until):
    (workplace / "slow.py").write_text(SLOW)
    process = subprocess.Popen(
        [sys.executable, "-m", "dokimos", "run", "slow.py", "-o", "partial.json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    calls = workplace / "calls.txt"
    wait_until(lambda: calls.exists() and "id3" in calls.read_text())
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - start < 60
    assert process.returncode == 130
    assert "3 items" in out
    assert "interrupted" in out
    assert "dokimos resume 20" in err
    assert json.loads((workplace / "partial.json").read_text())["summary"]["totalExamples"] == 3

    (workplace / "fast").touch()
    done = subprocess.run(
        [sys.executable, "-m", "dokimos", "resume", "latest", "-o", "whole.json"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((workplace / "whole.json").read_text())["summary"]["passCount"] == 6
    assert calls.read_text().split() == ["id0", "id1", "id2", "id3", "id3", "id4", "id5"]


def test_a_run_started_from_python_says_how_to_resume_it(workplace, capsys):
    (workplace / "direct.py").write_text(EXPERIMENT + "\nresult = experiment.run()\n")
    subprocess.run([sys.executable, "direct.py"], check=True, timeout=60)
    assert dokimos("resume", "latest") == 2
    assert "experiment.run(resume=" in capsys.readouterr().err


def test_help_of_every_command_works(capsys):
    from dokimos._cli.main import COMMANDS

    for name in COMMANDS:
        assert dokimos(name, "--help") == 0
        assert "Usage: dokimos" in capsys.readouterr().out


SOFT = """
from dokimos import Dataset, Example, Experiment, evaluator
from dokimos.evaluators import ExactMatch, FunctionEvaluator

examples = [Example.of(f"q{i}", f"Q{i}", id=f"id{i}") for i in range(4)]


def judge(input) -> bool:
    if int(input[1:]) < 2:
        raise ConnectionError("the judge is down")
    return True


soft = FunctionEvaluator(name="Judge", function=judge, fail_on_error=False)


def alone():
    return Experiment(Dataset(examples), str.upper, [soft])


def beside():
    return Experiment(Dataset(examples), str.upper, [soft, ExactMatch()])
"""


@pytest.mark.parametrize(
    ("attribute", "arguments", "status"),
    [
        ("alone", (), 3),
        ("alone", ("--fail-under", "0.9"), 3),
        ("alone", ("--allow-errors", "2"), 0),
        ("alone", ("--allow-errors", "1"), 3),
        ("alone", ("--allow-errors", "50%"), 0),
        ("alone", ("--allow-errors", "2", "--fail-under", "0.6"), 1),
        ("beside", (), 3),
        ("beside", ("--fail-under", "0.9", "--max-errors", "0.1"), 3),
        ("beside", ("--allow-errors", "0.5"), 0),
        ("beside", ("--allow-errors", "many"), 2),
    ],
)
def test_what_an_evaluator_that_cannot_judge_does_to_the_exit_status(workplace, attribute, arguments, status):
    (workplace / "soft.py").write_text(SOFT)

    assert dokimos("run", f"soft.py:{attribute}", "-q", *arguments) == status


def test_the_warning_names_metric_share_and_cause(workplace, capsys):
    (workplace / "soft.py").write_text(SOFT)

    dokimos("run", "soft.py:beside", "-q")

    assert (
        "! Judge errored on 2 of 4 cases that it was meant for (50.0 %), "
        "mostly with: ConnectionError: the judge is down"
    ) in capsys.readouterr().err


def test_other_commands_that_end_a_run_decide_alike(workplace):
    (workplace / "soft.py").write_text(SOFT)
    allow = ("--allow-errors", "2")
    for shard in ("1/2", "2/2"):
        dokimos("run", "soft.py:alone", "-q", "--shard", shard, "-o", f"{shard[0]}.json", *allow)

    assert dokimos("merge", "1.json", "2.json", "-q") == 3
    assert dokimos("merge", "1.json", "2.json", "-q", *allow) == 0
    assert dokimos("resume", "latest", "-q", "--allow-errors", "0") == 1
    assert dokimos("resume", "latest", "-q") == 0  # as the run was started
    assert dokimos("show", "latest", "-q") == 0
    rescore = ("rescore", "1.json", "-q", "-e")
    assert dokimos(*rescore, "exact_match") == 0
    assert dokimos(*rescore, "numeric") == 3
