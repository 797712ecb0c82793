"""How often evaluators ask a model, as far as they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dokimos.evaluators._base import Evaluator


@dataclass(frozen=True, slots=True)
class JudgeCallCount:
    """How often evaluators ask for one case."""

    calls: int
    is_known: bool
    """False where there may be more, since an evaluator asks as often as the answer needs."""


def is_judged(evaluator: Evaluator) -> bool:
    """Say whether an evaluator asks a model."""
    return not evaluator.deterministic


def count_judge_calls(evaluators: Sequence[Evaluator]) -> JudgeCallCount:
    """Return how often evaluators ask for one case."""
    known, total = True, 0
    for evaluator in filter(is_judged, evaluators):
        declared = str(evaluator.judge_calls).partition(";")[0].strip()
        samples = getattr(evaluator, "samples", 1)
        is_number = declared.isascii() and declared.isdigit() and int(declared) > 0
        known = known and is_number
        total += (int(declared) if is_number else 1) * (samples if isinstance(samples, int) else 1)
    return JudgeCallCount(total, known)
