"""What a run writes down when the application's or a judge's own code puts a key into an exception."""

from __future__ import annotations

import json

import pytest

from dokimos import Dataset, Example, Experiment, judge, to_json
from dokimos.evaluators import LLMJudge
from dokimos.exporters._base import export

KEY = "correct-horse-battery-staple"


def written_in(folder):
    return "\n".join(
        path.read_text(encoding="utf-8", errors="replace") for path in folder.rglob("*") if path.is_file()
    )


def failing(prompt):
    raise ConnectionError(f"401 for key {KEY}")


def failing_task(example):
    if example.input == "b":
        raise ConnectionError(f"401 for key {KEY}")
    return "answer"


@pytest.mark.parametrize("source", ["environment", "model"])
def test_a_key_in_an_exception_is_nowhere_in_what_is_kept(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dokimos._runtime.redaction._registered", set())
    if source == "environment":
        monkeypatch.setenv("MY_API_KEY", KEY)
    else:
        judge("http://127.0.0.1:9/v1#model", api_key=KEY)
    data = Dataset([Example.of("a"), Example.of("b")])
    plan = Experiment(data, failing_task, [LLMJudge(criteria="It is.", judge=failing)], progress=False)
    result = plan.run(cassette="calls.cassette.jsonl")
    for name in ("report.html", "report.md", "report.json", "report.csv", "report.xml"):
        export(result, tmp_path / name)

    assert "401 for key [secret]" in result.item_results[0].eval_results[0].error
    assert "401 for key [secret]" in result.item_results[1].error
    assert "401 for key" in json.dumps(list(result.warnings))
    kept = written_in(tmp_path)
    assert kept.count("401 for key [secret]") > 5
    assert KEY not in kept + to_json(result)
