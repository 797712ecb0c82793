"""`dokimos mutate`: answers and evaluators that it takes, its output, exit codes, and calls paid once."""

import json
import re
import signal
import subprocess
import sys

import pytest

from dokimos._cli.main import run_command

SUITE = """
name: support
agent: desk:answer
evaluations:
  metrics:
    - {type: standard, metric: equality}
test_cases:
  - {name: price, input: price, ground_truth: It is 42 euros.}
  - {name: term, input: term, ground_truth: It is 30 days.}
"""
DESK = """
ANSWERS = {"price": "It is 42 euros.", "term": "It is 30 days."}


def answer(text):
    return ANSWERS[text]
"""
EXPERIMENT = """
from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import LLMJudge

ANSWERS = {"price": "It is 42 euros.", "term": "It is 30 days."}
examples = [Example.of(one, answer, id=one) for one, answer in ANSWERS.items()]
judged = LLMJudge(criteria="The output answers the input.", judge="URL/v1#m")
experiment = Experiment(Dataset(examples), ANSWERS.get, [judged], name="judged")
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DOKIMOS_RUN_DIR", "DOKIMOS_CASSETTE", "DOKIMOS_CASSETTE_MODE"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    for name in ("evals", "desk"):
        sys.modules.pop(name, None)


@pytest.fixture
def answers(workplace):
    rows = [
        {
            "id": "price",
            "input": "price",
            "expectedOutput": "It is 42 euros.",
            "actualOutput": "It is 42 euros.",
        },
        {"id": "term", "input": "term", "expectedOutput": "It is 30 days.", "actualOutput": "It is 30 days."},
    ]
    (workplace / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert dokimos("run", "answers.jsonl", "-e", "exact_match", "-o", "result.json", "-q") == 0


def dokimos(*arguments):
    return run_command(list(arguments))


def test_the_evaluators_of_the_run_are_used(workplace, answers, capsys):
    assert dokimos("mutate", "latest", "-o", "mutants.json") == 0
    out = capsys.readouterr().out
    assert "mutation score 100.0 %" in out
    tree = json.loads((workplace / "mutants.json").read_text())
    assert tree["score"] == 1.0
    assert {metric["name"] for metric in tree["metrics"]} == {"Exact Match"}


def test_other_evaluators_may_be_named_for_a_run_and_for_a_report(answers, capsys):
    for result in ("latest", "result.json"):
        assert dokimos("mutate", result, "-e", "regex:pattern=It is", "--json") == 0
        tree = json.loads(capsys.readouterr().out)
        assert tree["score"] < 0.8
        assert tree["survivors"]


def test_a_data_file_means_its_newest_run(answers, capsys):
    assert dokimos("mutate", "answers.jsonl", "-q") == 0
    assert capsys.readouterr().out.startswith("mutation score 100.0 %")


def test_a_suite_means_its_newest_run(workplace, capsys):
    (workplace / "agent.yaml").write_text(SUITE)
    (workplace / "desk.py").write_text(DESK)
    assert dokimos("mutate", "agent.yaml") == 2
    assert "No run of agent.yaml is kept" in capsys.readouterr().err
    assert dokimos("test", "agent.yaml", "-q") == 0
    capsys.readouterr()
    assert dokimos("mutate", "agent.yaml", "--json") == 0
    tree = json.loads(capsys.readouterr().out)
    assert (tree["answers"], tree["score"]) == (2, 1.0)

    (workplace / "agent.yaml").write_text(SUITE.replace("name: price", "name: cost"))
    assert dokimos("mutate", "agent.yaml") == 2
    assert "could not be chosen" in capsys.readouterr().err


def test_levels_decide_about_the_exit_code(answers, capsys):
    command = ("mutate", "latest", "-e", "regex:pattern=It is", "-q")
    assert dokimos(*command, "--min-score", "10%") == 0
    assert dokimos(*command, "--min-score", "0.95") == 1
    assert "are noticed; required: 95.0 %" in capsys.readouterr().err
    assert dokimos(*command, "--min-score", "empty=1", "--min-score", "wrong_number=0") == 0
    assert dokimos(*command, "--min-score", "wrong_number=0.5") == 1
    assert dokimos(*command, "--min-score", "wrong_tool=0.5") == 2
    assert "none has a verdict" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["latest", "--min-score", "2"], "must be a share"),
        (["latest", "--min-score", "wrong=0.5"], "'wrong' is not one of"),
        (["latest", "--kind", "nothing"], "nothing"),
        (["latest", "-o", "report.html"], "written as .json"),
        (["latest", "-e", "exact_match", "--target", "x.yaml"], "not both"),
        (["result.json"], "does not say which evaluators scored it"),
        (["absent.yaml"], "No run of absent.yaml is kept"),
        (["absent"], "absent"),
        (["latest", "-q", "-v"], "not both"),
        (["latest", "--kind", "empty", "--min-score", "negated=0.1"], "--kind leaves out"),
    ],
)
def test_mistakes_are_explained(answers, capsys, arguments, message):
    assert dokimos("mutate", *arguments) == 2
    assert message in capsys.readouterr().err


def test_judges_are_asked_only_where_that_is_said_and_the_calls_are_announced(workplace, server, capsys):
    server.answer = lambda prompt: json.dumps({"reason": "So.", "score": int("It is" in prompt)})
    (workplace / "evals.py").write_text(EXPERIMENT.replace("URL", server.url))
    assert dokimos("run", "evals.py", "-q") == 0
    asked = len(server.received)

    assert dokimos("mutate", "evals.py") == 2
    assert "All evaluators ask a model" in capsys.readouterr().err
    assert dokimos("mutate", "evals.py", "--judged", "--kind", "empty", "--kind", "refusal", "--dry-run") == 0
    assert "4 mutants of 2 answers; at most 6 calls of judges" in capsys.readouterr().out
    assert len(server.received) == asked

    assert dokimos("mutate", "evals.py", "--judged", "--kind", "empty", "--record", "cassette.json") == 0
    captured = capsys.readouterr()
    assert "at most 4 calls of judges: 2 for the answers, 2 for the mutants" in captured.err
    assert len(server.received) == asked + 4
    assert dokimos("mutate", "evals.py", "--judged", "--kind", "empty", "--replay", "cassette.json") == 0
    assert len(server.received) == asked + 4
    assert list((workplace / ".dokimos/mutations").glob("*/*")) == []


def test_replies_that_were_paid_for_are_not_asked_for_again_after_ctrl_c(workplace, server, wait_until):
    server.answer = lambda prompt: json.dumps({"reason": "So.", "score": 1})
    (workplace / "evals.py").write_text(EXPERIMENT.replace("URL", server.url))
    assert dokimos("run", "evals.py", "-q") == 0
    asked, whole = len(server.received), server.answer

    def stall(prompt):
        if len(server.received) >= asked + 6:
            server.latency = 600
        return whole(prompt)

    server.answer = stall
    command = [sys.executable, "-m", "dokimos", "mutate", "evals.py", "--judged", "-j", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    wait_until(lambda: len(server.received) >= asked + 6)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The same command goes on" in errors

    server.answer, server.latency = whole, 0
    before = len(server.received)
    assert dokimos("mutate", "evals.py", "--judged", "-j", "1") == 0
    prompts = [one.prompt for one in server.received[asked:]]
    assert len(server.received) > before
    # One more at most: the call that Ctrl-C cut off.
    assert len(prompts) - len(set(map(without_marker, prompts))) <= 1


def without_marker(prompt):
    return re.sub(r"material [0-9a-f]{8}", "material", prompt)


FLAKY = """from dataclasses import dataclass
from dokimos import Dataset, Evaluator, Experiment, Score

@dataclass(frozen=True, kw_only=True)
class Flaky(Evaluator):
    threshold: float | None = 0.5
    def score(self, case):
        if not case.actual_output:
            raise RuntimeError("down")
        return Score(1.0 if case.actual_output == case.expected_output else 0.0, "So.")

experiment = Experiment(Dataset.load("answers.jsonl"), str, [Flaky()], name="own")
"""


def test_mutants_without_a_verdict_do_not_make_a_level_pass_or_fail(workplace, answers, capsys):
    (workplace / "own.py").write_text(FLAKY)
    command = ("mutate", "result.json", "--target", "own.py", "-q", "--kind", "empty")
    assert dokimos(*command) == 3
    command += ("--kind", "wrong_number")
    assert dokimos(*command, "--min-score", "0.5") == 0
    assert dokimos(*command, "--min-score", "0.9") == 3
    assert "2 mutants without a verdict decide" in capsys.readouterr().err


def test_nothing_to_score_is_no_success(answers, capsys):
    assert dokimos("mutate", "latest", "-e", "regex:pattern=never", "-q") == 3
    assert "not known" in capsys.readouterr().out
    assert dokimos("mutate", "latest", "-e", "regex:pattern=never", "-q", "--min-score", "0") == 3
