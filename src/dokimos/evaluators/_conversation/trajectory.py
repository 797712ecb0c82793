"""Judging a whole conversation by several criteria."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.means import exact_mean
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import JudgeReplyError
from dokimos.evaluators._conversation.base import TURN_COUNT, ConversationEvaluator
from dokimos.evaluators._conversation.criteria import Criterion, as_criteria
from dokimos.evaluators._llm.rating import Scale, rate, rating_prompt
from dokimos.evaluators._setting_checks import check_option
from dokimos.judges._ask import gather_answers

Aggregation = Literal["mean", "weighted_mean", "min", "max"]

SCALE: Final = Scale(0, 1)


@dataclass(frozen=True, kw_only=True)
class Trajectory(ConversationEvaluator):
    """Asks a judge how well a conversation meets several criteria, such as user_satisfaction.

    One call for each criterion. An empty conversation scores 0 without a call.

    Example:
        >>> chat = [{"role": "user", "content": "Can I return it?"}, {"role": "assistant", "content": "Yes."}]
        >>> reply = '{"reason": "Short but clear.", "score": 0.8}'
        >>> case = EvalTestCase({}, {"trajectory": chat})
        >>> Trajectory(criteria=["clarity"], judge=lambda prompt: reply).evaluate(case).score
        0.8
    """

    method_source = "Criteria rated one by one, as in Zheng et al. (2023)."
    judge_calls = "criteria"
    default_name = "Trajectory"

    criteria: tuple[Criterion | str, ...]
    """What to judge by: names of ready-made criteria, or {"name": ..., "description": ..., "weight": ...}."""
    aggregation: Aggregation = "mean"
    """How the criteria's scores become one; only weighted_mean looks at the weights."""
    include_per_criterion_scores: bool = True
    """Whether the score and reason of each criterion are in the metadata."""
    threshold: float | None = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(self, "aggregation", self.aggregation, tuple(_AGGREGATIONS))
        object.__setattr__(self, "criteria", as_criteria(self.name, self.criteria))

    async def judge_conversation(
        self, trajectory: ConversationTrajectory, case: EvalTestCase, *, sample: int
    ) -> Score:
        conversation = self.render_transcript(trajectory)
        scores = await gather_answers(
            self._rate_criterion(criterion, conversation, sample) for criterion in self._criteria
        )
        value = _AGGREGATIONS[self.aggregation](scores)
        return Score(value, self._reason(scores), metadata=self._metadata(trajectory, scores))

    @property
    def _criteria(self) -> tuple[Criterion, ...]:
        return cast("tuple[Criterion, ...]", self.criteria)

    async def _rate_criterion(self, criterion: Criterion, conversation: str, sample: int) -> CriterionScore:
        """Return a criterion with its score; a reply that could not be used names its criterion."""
        prompt = rating_prompt(_question(criterion), conversation, SCALE)
        try:
            return criterion, await rate(self.lm, prompt, SCALE, reasoned=True, sample=sample)
        except JudgeReplyError as unusable:
            raise JudgeReplyError(f"{criterion.name}: {unusable}", kind=unusable.kind) from unusable

    def _reason(self, scores: Sequence[CriterionScore]) -> str:
        if len(scores) == 1:
            criterion, score = scores[0]
            return f"{criterion.name}: {score.value:.2f}. {score.reason}"
        strongest = _format_score(max(scores, key=_value_of))
        weakest = _format_score(min(scores, key=_value_of))
        how = self.aggregation.replace("_", " ")
        return f"The {how} of {len(scores)} criteria; strongest: {strongest}, weakest: {weakest}."

    def _metadata(
        self, trajectory: ConversationTrajectory, scores: Sequence[CriterionScore]
    ) -> Mapping[str, Any]:
        metadata: dict[str, Any] = {
            TURN_COUNT: trajectory.turn_count,
            "aggregationStrategy": self.aggregation.upper(),
        }
        if self.include_per_criterion_scores:
            metadata["criterionScores"] = {
                criterion.name: {"score": score.value, "reason": score.reason} for criterion, score in scores
            }
        return metadata


CriterionScore = tuple[Criterion, Score]


def _question(criterion: Criterion) -> str:
    return (
        f"{criterion.name}: {criterion.description}\n"
        "Judge the assistant over the whole conversation below, in which each message is one line."
    )


def _value_of(criterion_score: CriterionScore) -> float:
    return criterion_score[1].value


def _format_score(criterion_score: CriterionScore) -> str:
    return f"{criterion_score[0].name} ({criterion_score[1].value:.2f})"


def _mean(scores: Sequence[CriterionScore]) -> float:
    return exact_mean([*map(_value_of, scores)])


def _weighted_mean(scores: Sequence[CriterionScore]) -> float:
    weights = [criterion.weight for criterion, _ in scores]
    # Weights of 0 throughout say that no criterion counts more than another.
    return exact_mean([*map(_value_of, scores)], weights) if any(weights) else _mean(scores)


_AGGREGATIONS: Final[dict[str, Callable[[Sequence[CriterionScore]], float]]] = {
    "mean": _mean,
    "weighted_mean": _weighted_mean,
    "min": lambda scores: min(map(_value_of, scores)),
    "max": lambda scores: max(map(_value_of, scores)),
}
