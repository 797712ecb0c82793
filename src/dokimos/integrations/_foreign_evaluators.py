"""Evaluators of other frameworks as evaluators of dokimos: their scores normalized to 0..1."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dokimos._core.means import exact_mean
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import EvaluationError
from dokimos.evaluators._base import Evaluator, ScoreLike
from dokimos.integrations._background_loop import run_on_background_loop


@dataclass(frozen=True, kw_only=True)
class ForeignEvaluator(Evaluator):
    """An evaluator of another framework; made by `as_evaluator`."""

    default_name = "Foreign Evaluator"
    deterministic = False
    gets_copies = True

    ask: Callable[[EvalTestCase], Awaitable[ScoreLike]]
    """Evaluates a case with the other framework and parses its result; runs on an event loop that lasts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "ask", run_on_background_loop(self.ask))

    async def score(self, case: EvalTestCase) -> ScoreLike:
        return await self.ask(case)


def parse_score(value: object, reason: object = None, metadata: Mapping[str, Any] | None = None) -> Score:
    """Return the score of another framework's evaluator: a number in 0..1, or a verdict as 1 or 0.

    Raises:
        EvaluationError: if the value is neither.
    """
    text = reason if isinstance(reason, str) else ""
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return Score(float(value), text, metadata=dict(metadata or {}))
    explanation = f": {text}" if text else "."
    raise EvaluationError(f"It gave {value!r:.80} as a score, which is not a number in 0..1{explanation}")


def average_scores(scores: Mapping[str, Score]) -> Score:
    """Return the mean of several scores of one evaluator, with each of them in the reason and the metadata.

    Raises:
        EvaluationError: if there are none.
    """
    if not scores:
        raise EvaluationError("It gave no score.")
    if len(scores) == 1:
        return next(iter(scores.values()))
    lines = [f"{name}: {score.value:g} {score.reason}".rstrip() for name, score in scores.items()]
    values = {name: score.value for name, score in scores.items()}
    return Score(exact_mean([*values.values()]), "\n".join(lines), metadata={"scores": values})
