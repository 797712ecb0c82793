"""Graders whose errors end a conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dokimos.evaluators._base import Evaluator
from dokimos.suites._case_plan import TurnPlan
from dokimos.suites._graders import GraderEvaluator
from dokimos.suites._turn_metric import ConversationMetric, TurnMetric


def fatal_graders(evaluators: Sequence[Evaluator], turn: TurnPlan) -> Iterator[TurnMetric]:
    """Yield the graders of a turn with `fail_on_error: true`."""
    for evaluator in evaluators:
        parts = evaluator.parts if isinstance(evaluator, ConversationMetric) else ()
        for part in parts:
            is_fatal = part.fail_on_error and isinstance(part.inner, GraderEvaluator)
            if is_fatal and part.turn.index == turn.index:
                yield part
