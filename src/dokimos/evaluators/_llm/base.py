"""The base of all evaluators that ask a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import stdev
from typing import Annotated, Any, Final, Literal, cast

from dokimos._core.means import exact_mean, exact_median
from dokimos._core.results import DEFAULT_THRESHOLD, Score
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._setting_checks import check_option, check_whole
from dokimos.evaluators._setting_names import EXAMPLE
from dokimos.judges._ask import gather_answers
from dokimos.judges._protocol import JudgeLike, JudgeLM, as_judge
from dokimos.judges._shapes import AsGiven

AGGREGATES: Final = ("mean", "majority", "median")


@dataclass(frozen=True, kw_only=True)
class JudgedEvaluator(Evaluator):
    """Scores a case by asking a judge. A subclass implements `judge_case`."""

    judge_calls = "1"

    judge: Annotated[JudgeLike, AsGiven()] = field(
        metadata={"json_schema": {"type": "string"}, EXAMPLE: "'openai:gpt-5-mini'"}
    )
    """Whom to ask: a model such as `openai:gpt-5-mini`, a `JudgeLM` or a function of the prompt."""
    samples: int = 1
    """How many independent samples to take; their spread is in the metadata."""
    aggregate: Literal["mean", "majority", "median"] = "mean"
    """How samples become one score: their mean or median, or 1 or 0 by what more than half of them decide."""

    deterministic = False
    is_async = True

    def __post_init__(self) -> None:
        super().__post_init__()
        judge: Any = self.judge
        if judge is None:
            raise ConfigurationError(f"{self.name} needs a judge, such as judge='openai:gpt-5-mini'.")
        check_whole(self, "samples", self.samples, least=1)
        check_option(self, "aggregate", self.aggregate, AGGREGATES)
        object.__setattr__(self, "judge", as_judge(self.judge))

    @property
    def lm(self) -> JudgeLM:
        """The judge, ready to be asked."""
        return cast("JudgeLM", self.judge)

    async def score(self, case: EvalTestCase) -> Score:
        """Take the samples and join them."""
        if self.samples == 1:
            return await self.judge_case(case, sample=0)
        return self.aggregate_samples(
            await gather_answers(self.judge_case(case, sample=k) for k in range(self.samples))
        )

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        """Ask the judge about a case once. `sample` goes to `ask`, to tell independent samples apart."""
        raise NotImplementedError(f"{type(self).__name__} must implement judge_case(case, sample=...).")

    def aggregate_samples(self, scores: Sequence[Score]) -> Score:
        """Join independent samples, with the reason of the one nearest to the outcome."""
        values = [score.value for score in scores]
        value = aggregate_scores(
            values, self.aggregate, threshold=self.threshold, lower_is_better=self.lower_is_better
        )
        # An average has no reason of its own; the nearest sample is the best account of it.
        nearest = min(scores, key=lambda score: abs(score.value - value))
        spread: dict[str, Any] = {"samples": values, "sampleStdDev": stdev(values)}
        return replace(nearest, value=value, metadata={**nearest.metadata, **spread})


def aggregate_scores(
    values: Sequence[float], how: str, *, threshold: float | None, lower_is_better: bool = False
) -> float:
    """Join scores: their mean or median, or the worst or best score by what more than half decide."""
    if how == "majority":
        limit = DEFAULT_THRESHOLD if threshold is None else threshold
        content = sum(value <= limit if lower_is_better else value >= limit for value in values)
        # Where lower is better, a content majority means 0.
        return float((content > len(values) / 2) is not lower_is_better)
    return exact_mean(values) if how == "mean" else exact_median(values)
