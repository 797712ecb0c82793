"""Evaluators that decide more than a score: an outcome of their own, or that there is nothing to evaluate."""

from __future__ import annotations

from dataclasses import dataclass, field

from dokimos.core.results import EvalResult, Score
from dokimos.evaluators.base import Evaluator, ScoreLike, Scores


@dataclass(frozen=True)
class Settled(Score):
    """A score whose result is complete already."""

    result: EvalResult = field(kw_only=True)


def resolve_score(result: EvalResult) -> Settled:
    """Return a result in the form that `score` returns."""
    return Settled(0.0 if result.score is None else result.score, result=result)


@dataclass(frozen=True, kw_only=True)
class SettlingEvaluator(Evaluator):
    """The base of evaluators whose `score` may return `resolve_score(result)`."""

    def _result(self, outcome: ScoreLike | Scores) -> EvalResult:
        return outcome.result if isinstance(outcome, Settled) else super()._result(outcome)
