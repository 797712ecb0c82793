"""What a run will take, said before it is run."""

import io
import json
import sys
from pathlib import Path

import pytest

from dokimos._cli.main import run_command
from dokimos.suites import _python_references as python_references

EVALS = """
from dokimos import CallMetrics, Dataset, Example, Experiment, JudgeReply, TaskResult
from dokimos.evaluators import LLMJudge

COST = 0.01

def answer(example: Example):
    with open("asked.txt", "a") as file:
        print(example.id, file=file)
    metrics = CallMetrics(1000, 100, cost_usd=COST, model="desk model")
    return TaskResult({"output": "yes"}, metrics)

class Judge:
    identity = "paid model"

    async def complete(self, prompt, *, schema=None):
        return JudgeReply('{"score": 1, "reason": "Yes."}', CallMetrics(50, 50, cost_usd=0.02))

evaluator = LLMJudge(criteria="It is right.", judge=Judge())
examples = [Example.of(f"Q{i}", id=f"q{i}") for i in range(100)]
experiment = Experiment(Dataset(examples), answer, [evaluator], name="desk")
free = Experiment(Dataset(examples), lambda example: "yes", [evaluator], name="free")
"""


NOTED = """
        with open("judged.txt", "a") as file:
            print("judged", file=file)
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DOKIMOS_RUN_DIR", "DOKIMOS_CASSETTE", "DOKIMOS_CASSETTE_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    Path("evals.py").write_text(EVALS)
    yield tmp_path
    sys.modules.pop("evals", None)


def dokimos(*arguments):
    sys.modules.pop("evals", None)
    python_references._of_folder.clear()
    return run_command(list(arguments))


def asked():
    path = Path("asked.txt")
    found = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def test_three_items_tell_what_the_others_will_take(capsys):
    assert dokimos("run", "evals.py", "--estimate") == 0
    assert asked() == ["q0", "q50", "q99"]
    said = capsys.readouterr()
    assert "running 3 items" in said.err
    assert "Estimate for 100 items, from 3 items run for this:" in said.out
    assert "calls    about 200" in said.out
    assert "tokens   about 120,000" in said.out
    assert "cost     about $3.00" in said.out
    assert "Running those 3 has cost $0.09." in said.out


def test_an_earlier_run_tells_it_for_nothing_and_repeats_count(capsys):
    dokimos("run", "evals.py", "-n", "10", "-q")
    asked()
    capsys.readouterr()
    assert dokimos("run", "evals.py", "--estimate", "--runs", "3", "--json") == 0
    assert asked() == []
    found = json.loads(capsys.readouterr().out)
    assert found["items"] == 300
    assert found["seen"] == 10
    assert found["calls"] == 600
    assert found["costUsd"] == {"low": 9.0, "high": 9.0}
    assert found["spentUsd"] == 0
    assert found["seconds"]["low"] > 0


def test_an_estimate_is_no_run_to_go_on_from(capsys):
    dokimos("run", "evals.py", "--estimate")
    assert dokimos("run", "evals.py", "--failed") == 2
    assert dokimos("gate", "latest", "--baseline", "latest") == 2
    assert "3 of 100 items, for an estimate" in capsys.readouterr().err


def test_a_model_without_a_price_is_named(capsys):
    path = Path("evals.py")
    path.write_text(EVALS.replace("cost_usd=COST, ", ""))
    assert dokimos("run", "evals.py", "--estimate") == 0
    said = capsys.readouterr().out
    assert "! The price of desk model is not known" in said
    assert dokimos("run", "evals.py", "--confirm-above", "1000", "-n", "5") == 2
    assert "'desk model' without a price" in " ".join(capsys.readouterr().err.split())


def test_an_application_that_does_not_say_what_it_costs_is_named(capsys):
    assert dokimos("run", "evals.py:free", "--estimate") == 0
    said = capsys.readouterr().out
    assert "cost     about $2.00" in said
    assert "The application does not say what it costs" in said


def test_a_run_above_the_limit_is_refused_where_nobody_can_be_asked(capsys):
    assert dokimos("run", "evals.py", "--confirm-above", "2.5") == 2
    said = capsys.readouterr().err
    assert "The run may cost about $3.00, above --confirm-above 2.5" in said
    assert "--yes" in said
    assert len(asked()) == 3
    assert dokimos("run", "evals.py", "--confirm-above", "2.5", "--yes", "-q") == 0
    assert len(asked()) == 100


def test_a_run_below_the_limit_is_run_with_what_was_paid_for_the_estimate(capsys):
    assert dokimos("run", "evals.py", "--confirm-above", "5") == 0
    ids = asked()
    assert len(ids) == 100
    assert len(set(ids)) == 100, "no item is paid for twice"
    assert "3 of 100 outputs reused from" in capsys.readouterr().out


def test_nothing_is_paid_for_twice_where_nothing_is_kept_either(capsys, monkeypatch, workplace):
    places = workplace / "temporary"
    places.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(places))
    Path("evals.py").write_text(
        EVALS.replace("        return JudgeReply(", NOTED + "        return JudgeReply(")
    )
    assert dokimos("run", "evals.py", "--confirm-above", "5", "--no-journal") == 0
    ids = asked()
    assert (len(ids), len(set(ids))) == (100, 100)
    assert len(Path("judged.txt").read_text().split()) == 100
    assert "3 of 100 outputs reused from" in capsys.readouterr().out
    assert list(places.iterdir()) == []
    assert not Path(".dokimos").exists()


def test_a_sample_that_is_not_kept_is_not_named_as_one_to_resume(capsys, monkeypatch, workplace):
    monkeypatch.setattr("tempfile.tempdir", str(workplace))
    Path("evals.py").write_text(
        EVALS.replace("    metrics = Call", "    raise KeyboardInterrupt\n    metrics = Call")
    )
    assert dokimos("run", "evals.py", "--confirm-above", "5", "--no-journal") == 130
    said = capsys.readouterr()
    assert "resume" not in said.out + said.err
    assert list(workplace.glob("dokimos-estimate-*")) == []


@pytest.mark.parametrize(("reply", "status", "times"), [("y\n", 0, 100), ("n\n", 2, 3)])
def test_somebody_at_a_terminal_is_asked(reply, status, times, monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stdin", Terminal(reply))
    assert dokimos("run", "evals.py", "--confirm-above", "1", "-q") == status
    assert len(asked()) == times
    assert "Run it?" in capsys.readouterr().err


def test_a_suite_is_estimated_too(capsys):
    Path("app.py").write_text("def answer(question):\n    return question.upper()\n")
    Path("agent.yaml").write_text(
        "name: desk\nagent: app:answer\n"
        "evaluations: {metrics: [{type: standard, metric: equality}]}\n"
        "test_cases:\n" + "".join(f"  - {{input: q{i}, ground_truth: Q{i}}}\n" for i in range(8))
    )
    assert dokimos("test", "--estimate") == 0
    said = capsys.readouterr().out
    assert "Estimate for 8 items, from 3 items run for this" in said
    assert "calls    about 0" in said
    dokimos("test", "-q")
    assert dokimos("test", "--estimate") == 0
    assert "from 8 items of" in capsys.readouterr().out


def test_options_that_say_nothing_alone_are_refused(capsys):
    assert dokimos("run", "evals.py", "--json") == 2
    assert dokimos("run", "evals.py", "--yes") == 2
    assert dokimos("run", "evals.py", "--estimate", "--watch") == 2
    assert asked() == []


def test_a_price_that_no_item_could_tell_is_asked_about(capsys):
    Path("evals.py").write_text(
        EVALS.replace("    metrics = Call", '    raise ValueError("no")\n    metrics = Call')
    )
    assert dokimos("run", "evals.py", "--confirm-above", "1000", "-q") == 2
    assert len(asked()) == 3
    assert "3 items run for it errored" in " ".join(capsys.readouterr().err.split())


def test_nobody_is_asked_where_standard_input_is_closed(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", None)
    assert dokimos("run", "evals.py", "--confirm-above", "1", "-q") == 2
    assert "there is no terminal to ask on" in " ".join(capsys.readouterr().err.split())
