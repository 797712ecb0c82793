"""Calibrate a judge against people: how far it can be trusted, and at which threshold."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict, Unpack

from dokimos._core.eval_result import require_one_score
from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.plain_number import plain_number
from dokimos._core.results import DEFAULT_THRESHOLD, EvalResult
from dokimos._core.score_range import USUAL_RANGE, share_of
from dokimos._core.text import format_list, pluralize, quote
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import ConfigurationError, DatasetError, EvaluationError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._calibration_result import (
    FOLDS,
    MINIMUM_ROWS,
    Calibration,
    FigureKeywords,
    shortage,
)
from dokimos.evaluators._labelled_verdicts import LabelledVerdict

WORDS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("pass", "passed", "yes", "true", "good", "correct", "right", "1"), True),
    **dict.fromkeys(("fail", "failed", "no", "false", "bad", "incorrect", "wrong", "0"), False),
}
"""Words that are read as labels unless others are given; upper and lower case are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationOptions:
    """How labels are read and agreement is estimated."""

    label_key: str = "label"
    """Where the label is, in the metadata or else in the expected outputs."""
    words: Mapping[str, bool | float] | None = None
    """What labels that are words mean, such as {"on topic": True, "off topic": False}."""
    good_from: float = DEFAULT_THRESHOLD
    """From which number on a label counts as a pass."""
    folds: int = FOLDS
    minimum: int = MINIMUM_ROWS
    """Fewer judged rows are refused."""
    confidence: float = 0.95
    resamples: int = 2_000
    seed: int = 0
    parallelism: int = 8

    def __post_init__(self) -> None:
        if self.folds < 2 or self.parallelism < 1:
            raise ConfigurationError("calibrate() needs at least 2 folds and a parallelism of at least 1.")
        if not 0 < self.confidence < 1:
            raise ConfigurationError(f"confidence must be between 0 and 1, not {self.confidence!r}.")

    @property
    def figures(self) -> FigureKeywords:
        """The options of the statistics, which `Calibration.of` takes."""
        return {
            "minimum": self.minimum,
            "folds": self.folds,
            "confidence": self.confidence,
            "resamples": self.resamples,
            "seed": self.seed,
        }


class CalibrationKeywords(TypedDict, total=False):
    """The options of `calibrate`, for type checkers."""

    label_key: str
    words: Mapping[str, bool | float] | None
    good_from: float
    folds: int
    minimum: int
    confidence: float
    resamples: int
    seed: int
    parallelism: int


def calibrate(
    evaluator: Evaluator, labelled: Iterable[Example], **options: Unpack[CalibrationKeywords]
) -> Calibration:
    """Compare an evaluator's verdicts with the labels of people; `calibrate_async` has the details.

    Example:
        >>> from dokimos.evaluators import Length
        >>> rows = [
        ...     Example({"input": "?"}, metadata={"label": len(text) < 10}, actual_outputs={"output": text})
        ...     for text in ["short", "a much longer answer"] * 10
        ... ]
        >>> calibrate(Length(max=10), rows).agreement.value
        1.0
    """
    return run_sync(calibrate_async(evaluator, labelled, **options))


async def calibrate_async(
    evaluator: Evaluator, labelled: Iterable[Example], **options: Unpack[CalibrationKeywords]
) -> Calibration:
    """Evaluate recorded outputs that people have labelled, and compare the verdicts with the labels.

    Args:
        evaluator: The evaluator to look at; any will do, with or without a judge.
        labelled: Examples with recorded outputs (`actual_outputs`) and a label: a bool, a number in 0..1
            with 1 for the best, or a word. True always means that the output is good, also for an evaluator
            where lower is better.
        options: Those of `CalibrationOptions`, such as `label_key="human"`.

    Raises:
        DatasetError: for a row without a recorded output or with a label that cannot be read.
        ConfigurationError: before anything is judged, for too few rows, or too few of either label.
        EvaluationError: when errors leave too few rows.

    Example:
        >>> from dokimos.evaluators import Length
        >>> rows = [
        ...     Example({"input": "?"}, metadata={"label": word}, actual_outputs={"output": text})
        ...     for word, text in [("pass", "short"), ("fail", "long, yet wrong")] * 10
        ... ]
        >>> asyncio.run(calibrate_async(Length(max=20), rows)).agreement.value
        0.5
    """
    chosen = CalibrationOptions(**options)
    examples = list(labelled)
    labels = [_label(index, example, chosen) for index, example in enumerate(examples)]
    # Before any call to the judge: a table that is too small must not cost money first.
    if short := shortage([label for label, _ in labels], minimum=chosen.minimum, folds=chosen.folds):
        raise ConfigurationError(f"Calibrating {evaluator.name} {short}")
    results = await _judge_examples(evaluator, examples, chosen.parallelism)
    rows, errors = _rows(examples, labels, results)
    if short := shortage([row.label for row in rows], minimum=chosen.minimum, folds=chosen.folds):
        raise EvaluationError(
            f"Calibrating {evaluator.name}: {pluralize(len(errors), 'row')} of {len(results)} errored, and "
            f"it {short} The first error: {errors[0][1]}"
        )
    return Calibration.of(
        rows,
        evaluator=evaluator.name,
        fingerprint=evaluator.info().fingerprint,
        threshold=_middle(evaluator) if evaluator.threshold is None else evaluator.threshold,
        lower_is_better=evaluator.lower_is_better,
        score_range=evaluator.custom_range(),
        errors=errors,
        metrics=_total_metrics(results),
        **chosen.figures,
    )


def _label(index: int, example: Example, options: CalibrationOptions) -> tuple[bool, float]:
    """Return the label as pass or fail and as a number. Raises `DatasetError`."""
    key = options.label_key
    value = example.metadata.get(key, example.expected_outputs.get(key))
    if value is None:
        raise DatasetError(
            f"{_key(index, example)} has no label: there is no {key!r} in its metadata or expected outputs. "
            "Name another key with label_key=..."
        )
    if example.actual_outputs is None:
        raise DatasetError(f"{_key(index, example)} has no recorded output (actualOutputs) to be judged.")
    grade = _grade(value, options.words)
    if grade is None:
        words = format_list(list(options.words or WORDS), limit=20)
        raise DatasetError(
            f"{_key(index, example)}: the label {quote(value)} is not a bool, a number in 0..1 or a "
            f"known word ({words}). Say what words mean with words={{...}}."
        )
    return grade >= options.good_from, grade


def _grade(value: object, words: Mapping[str, bool | float] | None) -> float | None:
    if isinstance(value, str):
        meanings = {word.casefold(): meaning for word, meaning in (words or WORDS).items()}
        value = meanings.get(value.strip().casefold())
    number = plain_number(value)
    return float(number) if number is not None and 0 <= number <= 1 else None


async def _judge_examples(
    evaluator: Evaluator, examples: Sequence[Example], parallelism: int
) -> list[EvalResult]:
    # The judge's own throttle adapts to rate limits; this only bounds how many cases are evaluated at once.
    slots = asyncio.Semaphore(parallelism)

    async def one(example: Example) -> EvalResult:
        async with slots:
            case = example.to_test_case(
                example.actual_outputs, metrics=example.metrics, error=example.actual_error
            )
            return require_one_score(await evaluator.evaluate_async(case), "A calibration")

    return await asyncio.gather(*map(one, examples))


def _rows(
    examples: Sequence[Example], labels: Sequence[tuple[bool, float]], results: Sequence[EvalResult]
) -> tuple[tuple[LabelledVerdict, ...], tuple[tuple[str, str], ...]]:
    rows, errors = [], []
    for index, (example, (label, grade), result) in enumerate(zip(examples, labels, results, strict=True)):
        key = _key(index, example)
        if result.score is None:
            errors.append((key, result.error or result.skipped or "no score"))
            continue
        rows.append(
            LabelledVerdict(
                key=key,
                label=label,
                grade=grade,
                verdict=_passes(result, result.score),
                score=result.score,
                reason=result.reason,
            )
        )
    return tuple(rows), tuple(errors)


def _passes(result: EvalResult, score: float) -> bool:
    """Return the verdict; of a score without one, whether it reaches the middle of its range."""
    if result.success is not None:
        return result.success
    return share_of(score, result.score_range) >= DEFAULT_THRESHOLD


def _middle(evaluator: Evaluator) -> float:
    low, high = evaluator.custom_range() or USUAL_RANGE
    return low + DEFAULT_THRESHOLD * (high - low)


def _total_metrics(results: Sequence[EvalResult]) -> CallMetrics | None:
    total: CallMetrics | None = None
    for result in results:
        if result.metrics is not None:
            total = result.metrics if total is None else total + result.metrics
    return total


def _key(index: int, example: Example) -> str:
    return f"item-{index}" if example.id is None else example.id
