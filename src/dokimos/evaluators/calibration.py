"""Comparing a judge with people: how far it can be trusted, and at which threshold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict, Unpack

from dokimos.core.concurrency import run_sync
from dokimos.core.example import Example
from dokimos.core.means import complement
from dokimos.core.metrics import CallMetrics
from dokimos.core.results import DEFAULT_THRESHOLD, EvalResult
from dokimos.core.text import counted, listed, quoted
from dokimos.errors import ConfigurationError, DatasetError, EvaluationError
from dokimos.evaluators.base import Evaluator
from dokimos.evaluators.calibration_report import (
    Calibration,
    Confusion,
    Estimate,
    LabelledVerdict,
    ThresholdAdvice,
)
from dokimos.stats.agreement import Level, cohen_kappa, krippendorff_alpha
from dokimos.stats.bootstrap import bootstrap_interval
from dokimos.stats.intervals import clopper_pearson_interval, wilson_interval
from dokimos.stats.thresholds import balanced_accuracy, best_threshold, cross_validated_accuracy

MINIMUM_ROWS: Final = 20
FOLDS: Final = 5

WORDS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("pass", "passed", "yes", "true", "good", "correct", "right", "1"), True),
    **dict.fromkeys(("fail", "failed", "no", "false", "bad", "incorrect", "wrong", "0"), False),
}
"""Words that are read as labels unless others are given; upper and lower case are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationOptions:
    """How labels are read and figures are worked out."""

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
            raise ConfigurationError(f"confidence must lie between 0 and 1, not {self.confidence!r}.")


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
    """Do what `calibrate_async` does, from sync code."""
    return run_sync(calibrate_async(evaluator, labelled, **options))


async def calibrate_async(
    evaluator: Evaluator, labelled: Iterable[Example], **options: Unpack[CalibrationKeywords]
) -> Calibration:
    """Judge recorded outputs that people have labelled, and compare.

    Args:
        evaluator: The evaluator to look at; any will do, with or without a judge.
        labelled: Examples with recorded outputs (`actual_outputs`) and a label: a bool, a number in 0..1
            with 1 for the best, or a word. True always means that the output is good, also for an evaluator
            where lower is better.
        options: Those of `CalibrationOptions`, such as `label_key="human"`.

    Raises:
        DatasetError: for a row without a recorded output or with a label that cannot be read.
        ConfigurationError: for fewer rows than needed, or fewer than one for each fold of either label;
            before anything is judged.
        EvaluationError: when errors leave too few rows.
    """
    chosen = CalibrationOptions(**options)
    examples = list(labelled)
    labels = [_label(index, example, chosen) for index, example in enumerate(examples)]
    if short := _shortage([label for label, _ in labels], chosen):
        raise ConfigurationError(f"Calibrating {evaluator.name} {short}")
    results = await _judged(evaluator, examples, chosen.parallelism)
    rows, errors = _rows(examples, labels, results)
    if short := _shortage([row.label for row in rows], chosen):
        _, first = errors[0]
        raise EvaluationError(
            f"Calibrating {evaluator.name}: {counted(len(errors), 'row')} of {len(results)} errored, and it "
            f"{short} The first error: {first}"
        )
    return _compared(evaluator, rows, errors, results, chosen)


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
        known = listed(list(options.words or WORDS), limit=20)
        raise DatasetError(
            f"{_key(index, example)}: the label {quoted(value)} is no bool, number in 0..1 or known word "
            f"({known}). Say what words mean with words={{...}}."
        )
    return grade >= options.good_from, grade


def _grade(value: Any, words: Mapping[str, bool | float] | None) -> float | None:
    if isinstance(value, str):
        meanings = {word.casefold(): meaning for word, meaning in (words or WORDS).items()}
        value = meanings.get(value.strip().casefold())
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return float(value)
    return None


def _shortage(labels: Sequence[bool], options: CalibrationOptions) -> str | None:
    """Say what is missing, None if nothing is."""
    good = sum(labels)
    bad = len(labels) - good
    if len(labels) >= options.minimum and min(good, bad) >= options.folds:
        return None
    return (
        f"needs at least {counted(options.minimum, 'labelled row')} with {options.folds} of each label; "
        f"there are {len(labels)}: {good} that people pass and {bad} that they fail."
    )


async def _judged(evaluator: Evaluator, examples: Sequence[Example], parallelism: int) -> list[EvalResult]:
    places = asyncio.Semaphore(parallelism)

    async def one(example: Example) -> EvalResult:
        async with places:
            return await evaluator.evaluate_async(
                example.to_test_case(
                    example.actual_outputs, metrics=example.metrics, error=example.actual_error
                )
            )

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
                verdict=result.score >= DEFAULT_THRESHOLD if result.success is None else result.success,
                score=result.score,
                reason=result.reason,
            )
        )
    return tuple(rows), tuple(errors)


def _compared(
    evaluator: Evaluator,
    rows: tuple[LabelledVerdict, ...],
    errors: tuple[tuple[str, str], ...],
    results: Sequence[EvalResult],
    options: CalibrationOptions,
) -> Calibration:
    confusion = _confusion(rows)
    level: Level = "nominal" if all(row.grade in (0.0, 1.0) for row in rows) else "interval"
    lower = evaluator.lower_is_better
    return Calibration(
        evaluator=evaluator.name,
        fingerprint=evaluator.info().fingerprint,
        threshold=_threshold(evaluator),
        lower_is_better=lower,
        n=len(rows),
        errors=errors,
        confusion=confusion,
        agreement=_rate(sum(row.agrees for row in rows), len(rows), options, exact=False),
        kappa=_resampled(rows, _kappa, options),
        alpha=_resampled(rows, _alpha(level, lower=lower), options),
        alpha_level=level,
        sensitivity=_rate(
            confusion.passes_kept, confusion.passes_kept + confusion.passes_missed, options, exact=True
        ),
        specificity=_rate(
            confusion.fails_caught, confusion.fails_caught + confusion.fails_missed, options, exact=True
        ),
        best_threshold=_advice(rows, _threshold(evaluator), options, lower=lower),
        confidence=options.confidence,
        rows=rows,
        metrics=_total_metrics(results),
    )


def _confusion(rows: Sequence[LabelledVerdict]) -> Confusion:
    pairs = [(row.label, row.verdict) for row in rows]
    return Confusion(
        passes_kept=pairs.count((True, True)),
        passes_missed=pairs.count((True, False)),
        fails_missed=pairs.count((False, True)),
        fails_caught=pairs.count((False, False)),
    )


def _rate(count: int, n: int, options: CalibrationOptions, *, exact: bool) -> Estimate:
    interval = clopper_pearson_interval if exact else wilson_interval
    return Estimate(count / n, interval(count, n, confidence=options.confidence))


def _resampled(
    rows: Sequence[LabelledVerdict],
    statistic: Callable[[Sequence[LabelledVerdict]], float | None],
    options: CalibrationOptions,
) -> Estimate:
    interval = bootstrap_interval(
        rows, statistic, confidence=options.confidence, resamples=options.resamples, seed=options.seed
    )
    return Estimate(statistic(rows), interval)


def _kappa(rows: Sequence[LabelledVerdict]) -> float | None:
    return cohen_kappa([row.label for row in rows], [row.verdict for row in rows])


def _alpha(level: Level, *, lower: bool) -> Callable[[Sequence[LabelledVerdict]], float | None]:
    if level == "nominal":
        return lambda rows: krippendorff_alpha([(row.label, row.verdict) for row in rows])
    return lambda rows: krippendorff_alpha([(row.grade, _goodness(row, lower)) for row in rows], level=level)


def _advice(
    rows: Sequence[LabelledVerdict], current: float, options: CalibrationOptions, *, lower: bool
) -> ThresholdAdvice:
    scores, labels = [_goodness(row, lower) for row in rows], [row.label for row in rows]
    near = complement(current) if lower else current
    best = best_threshold(scores, labels, near=near)
    return ThresholdAdvice(
        threshold=complement(best.value) if lower else best.value,
        balanced_accuracy=best.balanced_accuracy,
        cross_validated=cross_validated_accuracy(
            scores, labels, folds=options.folds, near=near, seed=options.seed
        ),
        current=balanced_accuracy([float(row.verdict) for row in rows], labels, DEFAULT_THRESHOLD),
    )


def _goodness(row: LabelledVerdict, lower: bool) -> float:
    return complement(row.score) if lower else row.score


def _threshold(evaluator: Evaluator) -> float:
    return DEFAULT_THRESHOLD if evaluator.threshold is None else evaluator.threshold


def _total_metrics(results: Sequence[EvalResult]) -> CallMetrics | None:
    total: CallMetrics | None = None
    for result in results:
        if result.metrics is not None:
            total = result.metrics if total is None else total + result.metrics
    return total


def _key(index: int, example: Example) -> str:
    return f"item-{index}" if example.id is None else example.id
