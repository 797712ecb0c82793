"""A result as a real run gives it: several evaluators, repeats, errors, warnings, skips, prices and tags."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dokimos._core.agent import ToolCall
from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.provenance import EvaluatorInfo, Provenance
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult

INFOS = (
    EvaluatorInfo(name="Exact Match", registry_name="exact_match", threshold=1.0),
    EvaluatorInfo(name="Token F1", registry_name="f1_score", threshold=0.5),
    EvaluatorInfo(name="Word Error Rate", registry_name="wer", threshold=0.6, direction="lower_is_better"),
    EvaluatorInfo(name="Faithfulness", threshold=0.8, deterministic=False),
    EvaluatorInfo(name="Latency", registry_name="latency"),
)


def _item(index: int, run: int) -> ItemResult:
    kind = index % 8
    expected = f"Returns are accepted within {20 + index} days in original condition."
    actual = expected if kind < 4 else f"You can return it within {60 + run} days of the order."
    example = Example(
        {"input": f"What is the return policy for order {index}?"},
        {"output": expected},
        metadata={"category": ("returns", "shipping", "billing")[index % 3], "row": index},
        id=f"qa-{index:03}",
    )
    metrics = CallMetrics(
        90 + index,
        20,
        cost_usd=None if kind == 1 else 0.0003,
        latency_ms=400.0 + 7 * index,
        model="gpt-5-mini",
    )
    if kind == 7:
        return ItemResult(index, example, error="TimeoutError: no answer within 30 s", metrics=metrics)
    outputs = {
        "output": actual,
        "toolCalls": [ToolCall("search", {"query": "returns"}, result='{"hits": 3}')],
    }
    return ItemResult(
        index, example, actual_outputs=outputs, eval_results=_results(kind, run), metrics=metrics
    )


def _results(kind: int, run: int) -> tuple[EvalResult, ...]:
    right = kind < 4
    f1 = 1.0 if right else (0.62, 0.45, 0.55)[run]
    return (
        EvalResult(
            "Exact Match", float(right), threshold=1.0, success=right, reason="Compared to the letter."
        ),
        EvalResult("Token F1", f1, threshold=0.5, success=f1 >= 0.5, reason='Missing: "original".'),
        EvalResult(
            "Word Error Rate",
            0.0 if right else 0.7,
            threshold=0.6,
            success=right,
            reason="7 of 10 words differ.",
        ),
        _faithfulness(kind),
        EvalResult("Latency", 1.0, metadata={"latencyMs": 412.5}),
    )


def _faithfulness(kind: int) -> EvalResult:
    if kind == 2:
        return EvalResult("Faithfulness", skipped="No context was retrieved for this case.")
    if kind == 3:
        return EvalResult("Faithfulness", error="JudgeReplyError: not JSON", fail_on_error=False)
    if kind == 6:
        return EvalResult("Faithfulness", error="JudgeUnavailableError: 503", threshold=0.8)
    return EvalResult("Faithfulness", 0.9, threshold=0.8, success=True, reason="All 9 claims are supported.")


@pytest.fixture
def make_result() -> Callable[..., ExperimentResult]:
    """Return a factory of results with `items` items and up to three `runs`."""

    def make(items: int = 24, runs: int = 1, **fields: object) -> ExperimentResult:
        repeats = [
            RunResult(index=run, item_results=tuple(_item(index, run) for index in range(items)))
            for run in range(runs)
        ]
        given = {
            "name": "support-bot",
            "description": "Answers to customers about orders and returns.",
            "metadata": {"prompt": "v7"},
            "provenance": Provenance(
                run_id="20261121-2214-7f3a",
                dokimos_version="0.1.0",
                git_commit="4f0c9a1",
                git_dirty=True,
                dataset_name="support",
                started_at="2026-11-21T22:14:00+00:00",
                ended_at="2026-11-21T22:14:41+00:00",
                command=("dokimos", "run", "support.py:experiment"),
            ),
            "evaluators": INFOS,
        }
        return ExperimentResult(runs=tuple(repeats), **(given | fields))

    return make
