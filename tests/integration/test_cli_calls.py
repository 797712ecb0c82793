"""Budgets, cassettes and the cache on the command line."""

import json
import sys

import pytest

from dokimos._cli.main import run_command

EXPERIMENT = """
import os
from dokimos import CallMetrics, Dataset, Example, Experiment, JudgeReply
from dokimos.evaluators import LLMJudge

class Judge:
    identity = "paid model"

    async def complete(self, prompt, *, schema=None):
        if os.environ.get("NO_JUDGE"):
            raise AssertionError("the judge was asked")
        with open("calls", "a") as file:
            file.write("x")
        return JudgeReply('{"score": 1, "reason": "Yes."}', CallMetrics(100, 10, cost_usd=0.01))

examples = [Example.of(f"q{i}", f"Q{i}", id=f"id{i}") for i in range(10)]
evaluator = LLMJudge(criteria="It is in capitals.", judge=Judge())
experiment = Experiment(Dataset(examples), str.upper, [evaluator], name="upper")
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("DOKIMOS_RUN_DIR", "DOKIMOS_CASSETTE", "DOKIMOS_CASSETTE_MODE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "evals.py").write_text(EXPERIMENT)
    yield tmp_path
    sys.modules.pop("evals", None)


def dokimos(*arguments):
    return run_command(list(arguments))


def calls(workplace):
    return len((workplace / "calls").read_text())


def test_a_run_ends_at_its_budget_and_goes_on_with_a_larger_one(workplace, capsys):
    assert dokimos("run", "evals.py", "--budget-usd", "0.04") == 3
    printed = capsys.readouterr().out
    assert "4 items" in printed
    assert "judge $0.0400" in printed
    assert "budget spent" in printed
    assert dokimos("resume", "latest") == 3, "the budget of the run still holds"
    assert calls(workplace) == 4
    assert dokimos("resume", "latest", "--budget-usd", "1", "-o", "r.json") == 0
    assert calls(workplace) == 10
    assert json.loads((workplace / "r.json").read_text())["summary"]["judge"]["totalUsd"] == 0.1
    assert dokimos("list") == 0
    assert "completed" in capsys.readouterr().out


def test_calls_can_be_limited(workplace):
    assert dokimos("run", "evals.py", "--max-calls", "3", "-q") == 3
    assert calls(workplace) == 3


def test_a_limit_of_none_at_all_holds_when_the_run_goes_on(workplace):
    assert dokimos("run", "evals.py", "--max-calls", "0", "-q") == 3
    assert dokimos("resume", "latest", "-q") == 3, "the limit of the run still holds"
    assert dokimos("resume", "latest", "--max-calls", "5", "-q") == 3
    assert calls(workplace) == 5
    assert dokimos("resume", "latest", "--max-calls", "0", "-q") == 3, "the limit of this command holds"
    assert calls(workplace) == 5
    assert dokimos("resume", "latest", "--max-calls", "10", "-q") == 0


def test_tokens_can_be_limited_and_a_resumed_run_given_more(workplace):
    assert dokimos("run", "evals.py", "--max-tokens", "150", "-q") == 3
    made = calls(workplace)
    assert 0 < made < 10
    assert dokimos("resume", "latest", "--max-tokens", "100000", "-q") == 0
    assert calls(workplace) == 10


def test_a_recording_is_replayed_without_a_judge(workplace, monkeypatch, capsys):
    assert dokimos("run", "evals.py", "--record", "c.jsonl", "-q") == 0
    monkeypatch.setenv("NO_JUDGE", "1")
    assert dokimos("run", "evals.py", "--replay", "c.jsonl", "-q") == 0
    assert "100.0 % passed (10/10)" in capsys.readouterr().out
    assert dokimos("run", "evals.py", "--replay", "other.jsonl") == 2
    assert "There is no cassette other.jsonl" in capsys.readouterr().err
    assert dokimos("run", "evals.py", "--record", "c.jsonl", "--replay", "c.jsonl") == 2


def test_the_environment_can_ask_for_a_replay(workplace, monkeypatch):
    assert dokimos("run", "evals.py", "--record", "c.jsonl", "-q") == 0
    monkeypatch.setenv("DOKIMOS_CASSETTE", "c.jsonl")
    monkeypatch.setenv("DOKIMOS_CASSETTE_MODE", "replay")
    monkeypatch.setenv("NO_JUDGE", "1")
    assert dokimos("run", "evals.py", "-q") == 0


def test_the_cache_answers_the_second_run(workplace, capsys):
    assert dokimos("run", "evals.py", "--cache", "-q") == 0
    assert dokimos("run", "evals.py", "--cache", "-q") == 0
    assert calls(workplace) == 10
    assert dokimos("cache", "show") == 0
    assert "10 replies" in capsys.readouterr().out
    assert dokimos("cache", "clear") == 0
    assert "Deleted 10 replies" in capsys.readouterr().out


def test_rescoring_takes_a_cassette_and_a_budget(workplace, monkeypatch):
    spec = json.dumps({"type": "regex", "pattern": "Q"})
    assert dokimos("run", "evals.py", "-q") == 0
    assert dokimos("rescore", "latest", "-e", spec, "--budget-usd", "1", "--cache", "-q") == 0


def test_rescoring_that_does_not_come_to_a_result_broke(workplace):
    judged = json.dumps({"type": "llm_judge", "criteria": "Short.", "judge": "http://127.0.0.1:9/v1#none"})
    assert dokimos("run", "evals.py", "-q") == 0
    assert dokimos("rescore", "latest", "-e", "contains:values=Q", "-q") == 0
    assert dokimos("rescore", "latest", "-e", judged, "--max-calls", "0", "-q") == 3
    assert dokimos("rescore", "latest", "-e", "numeric", "-q") == 3, "no expected output is a number"
