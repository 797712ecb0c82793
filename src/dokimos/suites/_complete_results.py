"""Evaluators whose `score` returns a complete result, such as one that says why it was skipped."""

from __future__ import annotations

from dataclasses import dataclass, field

from dokimos._core.results import EvalResult, Score
from dokimos.evaluators._base import Evaluator, ScoreLike, Scores


@dataclass(frozen=True)
class CompleteScore(Score):
    """A score whose result is complete already."""

    result: EvalResult = field(kw_only=True)


def as_score(result: EvalResult) -> CompleteScore:
    """Return a result in the form that `score` returns."""
    return CompleteScore(0.0 if result.score is None else result.score, result=result)


@dataclass(frozen=True, kw_only=True)
class CompleteResultEvaluator(Evaluator):
    """The base of evaluators whose `score` may return `as_score(result)`."""

    def _result(self, outcome: ScoreLike | Scores) -> EvalResult:
        return outcome.result if isinstance(outcome, CompleteScore) else super()._result(outcome)
