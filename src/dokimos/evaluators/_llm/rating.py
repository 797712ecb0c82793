"""Asking a judge for a number on a scale: what LLMJudge, the presets and G-Eval have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from dokimos._core.checks import is_number
from dokimos._core.means import relative_position
from dokimos._core.results import Score
from dokimos._core.text import quote
from dokimos.errors import ConfigurationError
from dokimos.evaluators._llm.case_sections import render_value
from dokimos.judges._ask import ask_with_reply
from dokimos.judges._fencing import fence_rule
from dokimos.judges._protocol import JudgeLM, JudgeReply
from dokimos.judges._shapes import Number, WholeNumber

NO_REASON: Final = "No reason provided."
REASON_DISABLED: Final = "Reasoning was disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonedRating:
    """What a judge replies; the reason comes first, so that the score follows from it."""

    reason: str = ""
    score: Number


@dataclass(frozen=True, slots=True)
class BareRating:
    """What a judge replies that is asked for no reason."""

    score: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonedGrade(ReasonedRating):
    """A rating in whole numbers."""

    score: WholeNumber


@dataclass(frozen=True, slots=True)
class BareGrade(BareRating):
    """A rating in whole numbers without a reason."""

    score: WholeNumber


@dataclass(frozen=True, slots=True)
class Rated:
    """A number that a judge gave, why, and the reply that holds both."""

    number: float
    reason: str
    reply: JudgeReply
    start: int
    """Where the JSON with the number begins in the text of the reply."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The numbers a judge may give, and what they mean."""

    zero: float
    """The number that becomes a score of 0; above `one` where the judge's best number is our lowest."""
    one: float
    """The number that becomes a score of 1."""
    _: KW_ONLY
    levels: Mapping[float, str] = field(default_factory=dict)
    """What some of the numbers stand for."""
    whole: bool = False
    """Whether only whole numbers are on it."""

    @property
    def low(self) -> float:
        return float(min(self.zero, self.one))

    @property
    def high(self) -> float:
        return float(max(self.zero, self.one))

    def check(self, number: float) -> None:
        """Raise `ValueError` for a number outside the scale, NaN included."""
        if not self.low <= number <= self.high:
            raise ValueError(f"the score {number:g} is not between {self.low:g} and {self.high:g}")

    def normalize(self, number: float) -> float:
        """Return a number of this scale as one in 0..1."""
        return relative_position(self.zero, self.one, number)

    def describe_levels(self) -> str:
        """Return the scale in words, one line for each level that has some."""
        lines = (f"{number:g}: {text}" for number, text in sorted(self.levels.items()))
        return "".join(f"\n- {line}" for line in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedExample:
    """An output with the score that it should get, to show the judge what is meant.

    Example:
        >>> GradedExample(output="Within 30 days.", score=1.0, reason="It names the limit.").score
        1.0
    """

    output: Any
    score: float
    """On the judge's scale."""
    input: Any = None
    expected: Any = None
    reason: str = ""


def check_ends(owner: str, ends: object) -> tuple[float, float]:
    """Return the two ends of a scale. Raises `ConfigurationError` for anything but two numbers."""
    if not isinstance(ends, tuple | list) or len(ends) != 2 or not all(map(is_number, ends)):
        raise ConfigurationError(
            f"{owner}: score_range must be two numbers, the lowest and the highest score, such as (1, 5), "
            f"not {quote(ends)}."
        )
    return (ends[0], ends[1])


def check_scale(owner: str, scale: Scale) -> None:
    """Raise `ConfigurationError` for a scale that has no room, or levels outside it."""
    if not scale.zero < scale.one:
        raise ConfigurationError(
            f"{owner}: score_range must go from a smaller to a larger number, "
            f"not from {scale.zero:g} to {scale.one:g}."
        )
    for number in scale.levels:
        if not is_number(number):
            raise ConfigurationError(
                f"{owner}: the keys of rubric must be scores, such as {{1: 'wrong', 5: 'right'}}, not "
                f"{quote(number)}."
            )
        _check_on_scale(owner, "rubric", number, scale)


def check_examples(owner: str, examples: Sequence[GradedExample], scale: Scale) -> None:
    """Raise `ConfigurationError` for an example whose score is outside the scale."""
    for example in examples:
        if not is_number(getattr(example, "score", None)):
            raise ConfigurationError(
                f"{owner}: examples must be a list of GradedExample(output=..., score=...) whose scores are "
                f"numbers; one of them is {quote(example)}."
            )
        _check_on_scale(owner, "examples", example.score, scale)


def rating_prompt(
    criteria: str,
    material: str,
    scale: Scale,
    *,
    examples: Sequence[GradedExample] = (),
    reasoned: bool = True,
) -> str:
    """Return the question: criteria, meaning of the scores, examples, the material, what to reply."""
    task = "You are a strict and fair judge of what an AI system wrote. Judge it by these criteria only:"
    levels = f"What the scores mean:{scale.describe_levels()}" if scale.levels else ""
    shown = "\n\n".join(_example(number, example) for number, example in enumerate(examples, 1))
    request = rating_request(scale, reasoned=reasoned)
    paragraphs = (f"{task}\n{criteria}", levels, shown, fence_rule(), material, request)
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def rating_request(scale: Scale, *, reasoned: bool) -> str:
    """Return the sentence that asks for a score of a scale."""
    task = "Give a brief reason of one or two sentences, then the score" if reasoned else "Give the score"
    kind = "whole number" if scale.whole else "number"
    # "0.0" and "1.0" show that fractions are welcome.
    low, high = (f"{end:g}" if scale.whole else f"{end}" for end in (scale.low, scale.high))
    if scale.levels:
        return f"{task}: a {kind} between {low} and {high}, by the meanings above."
    return f"{task}: a {kind} between {low} (criteria not met at all) and {high} (fully met)."


async def rate(judge: JudgeLM, prompt: str, scale: Scale, *, reasoned: bool, sample: int) -> Score:
    """Ask for a rating and return it in 0..1; the judge's own number is in the metadata of other scales."""
    rated = await ask_rating(judge, prompt, scale, reasoned=reasoned, sample=sample)
    return Score(scale.normalize(rated.number), rated.reason, metadata=raw_score(rated.number, scale))


def raw_score(number: float, scale: Scale) -> dict[str, Any]:
    """Return what to keep of a judge's own number; nothing where it is the score."""
    if (scale.zero, scale.one) == (0, 1):
        return {}
    return {"rawScore": number, "scoreRange": [scale.zero, scale.one]}


async def ask_rating(judge: JudgeLM, prompt: str, scale: Scale, *, reasoned: bool, sample: int) -> Rated:
    """Ask for a number on a scale."""
    if not reasoned:
        bare = BareGrade if scale.whole else BareRating
        terse = await ask_with_reply(
            judge, prompt, bare, check=lambda rating: scale.check(rating.score), sample=sample
        )
        return Rated(terse.value.score, REASON_DISABLED, terse.reply, terse.start)
    shape = ReasonedGrade if scale.whole else ReasonedRating
    answer = await ask_with_reply(
        judge, prompt, shape, check=lambda rating: scale.check(rating.score), sample=sample
    )
    return Rated(answer.value.score, answer.value.reason.strip() or NO_REASON, answer.reply, answer.start)


def _example(number: int, example: GradedExample) -> str:
    parts = {
        "Input": example.input,
        "Expected Output": example.expected,
        "Actual Output": example.output,
        "Score": f"{example.score:g}",
        "Reason": example.reason or None,
    }
    lines = (f"{label}: {render_value(value)}" for label, value in parts.items() if value is not None)
    return "\n".join([f"Example {number}", *lines])


def _check_on_scale(owner: str, what: str, number: float, scale: Scale) -> None:
    try:
        scale.check(number)
    except ValueError as error:
        raise ConfigurationError(f"{owner}: {what}: {error}.") from None
