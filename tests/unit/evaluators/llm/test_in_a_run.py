from __future__ import annotations

import json
import re

from dokimos import Dataset, Example, evaluate
from dokimos._core.metrics import CallMetrics
from dokimos.evaluators import AnswerRelevancy, Faithfulness, GEval, LLMJudge
from dokimos.judges._protocol import JudgeReply

ITEMS = 4
DATASET = Dataset([Example.of(f"Question {n}?") for n in range(ITEMS)])


def task(example):
    return {"output": f"Answer to {example.input}", "context": ["A fact."]}


def test_what_evaluators_share_is_asked_once(scripted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    judge = scripted(
        steps=["Look."],
        score={"score": 1},
        statements=lambda prompt: re.findall(r"Answer to Question \d", prompt) or ["A fact."],
        verdicts=[{"verdict": "yes"}],
    )
    evaluators = [
        GEval(criteria="Is it good?", judge=judge),
        Faithfulness(judge=judge, include_reason=False),
        AnswerRelevancy(judge=judge),
    ]
    result = evaluate(DATASET, task, evaluators)
    assert result.runs[0].error_count == 0
    counts = {kind: judge.asked.count(kind) for kind in sorted(set(judge.asked))}
    # The context is the same for all items, so its facts are known from the first one on.
    assert counts == {"score": ITEMS, "statements": ITEMS + 1, "steps": 1, "verdicts": 2 * ITEMS}


def test_what_the_judge_cost_is_counted_for_its_evaluator(scripted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    metrics = CallMetrics(tokens_in=100, tokens_out=10, cost_usd=0.001)
    judge = scripted(score=lambda prompt: JudgeReply(json.dumps({"score": 1}), metrics))
    result = evaluate(DATASET, task, [LLMJudge(criteria="Is it good?", judge=judge, samples=2)])
    found = result.runs[0].item_results[0].eval_results[0].metrics
    assert (found.tokens_in, found.tokens_out, found.cost_usd) == (200, 20, 0.002)


def test_a_judge_that_fails_leaves_the_other_scores(scripted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    judge = scripted(score=lambda prompt: "?" if "Question 1" in prompt else {"score": 1})
    result = evaluate(DATASET, task, [LLMJudge(criteria="Is it good?", judge=judge)])
    assert result.runs[0].error_count == 1
    assert result.average_score("LLM Judge") == 1.0
    assert result.pass_rate == (ITEMS - 1) / ITEMS
