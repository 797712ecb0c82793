"""The result of a calibration: how far a judge and people agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict, Unpack

from dokimos._core.checks import is_number
from dokimos._core.means import complement
from dokimos._core.metrics import CallMetrics
from dokimos._core.printable import Printable
from dokimos._core.results import DEFAULT_THRESHOLD
from dokimos._core.score_range import USUAL_RANGE, ScoreRange, check_score_range, share_of, width_of
from dokimos._core.text import pluralize
from dokimos.errors import ConfigurationError
from dokimos.evaluators._calibration_report import markdown
from dokimos.evaluators._labelled_verdicts import AgreementFigure, Confusion, LabelledVerdict, ThresholdAdvice
from dokimos.stats._agreement import Level, cohen_kappa, krippendorff_alpha
from dokimos.stats._bootstrap import RESAMPLES, bootstrap_interval
from dokimos.stats._corrected_rate import CorrectedRate, VerdictCounts, corrected_rate
from dokimos.stats._intervals import clopper_pearson_interval, wilson_interval
from dokimos.stats._thresholds import balanced_accuracy, best_threshold, cross_validated_accuracy

MINIMUM_ROWS: Final = 20
FOLDS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureOptions:
    """How the statistics of a calibration are computed."""

    minimum: int = MINIMUM_ROWS
    """Fewer judged rows are refused."""
    folds: int = FOLDS
    confidence: float = 0.95
    resamples: int = RESAMPLES
    seed: int = 0

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise ConfigurationError("A calibration needs at least 2 folds.")
        if not 0 < self.confidence < 1:
            raise ConfigurationError(f"confidence must be between 0 and 1, not {self.confidence!r}.")


class FigureKeywords(TypedDict, total=False):
    """The options of `Calibration.of`, for type checkers."""

    minimum: int
    folds: int
    confidence: float
    resamples: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Calibration(Printable):
    """The result of a calibration: how far the verdicts of an evaluator agree with people.

    Example:
        >>> rows = [LabelledVerdict.of(label=n % 2 == 0, verdict=n % 2 == 0) for n in range(20)]
        >>> Calibration.of(rows, evaluator="Helpful").kappa.value
        1.0
    """

    __dokimos_view__ = "dokimos.reporting._calibration_view:VIEW"

    evaluator: str
    fingerprint: str
    """Of the evaluator's configuration: the figures hold for this one only."""
    threshold: float
    lower_is_better: bool
    n: int
    """Rows with a label and a verdict."""
    errors: tuple[tuple[str, str], ...]
    """Rows that the evaluator could not judge, each with its error; they count in no figure."""
    confusion: Confusion
    agreement: AgreementFigure
    """Share of rows on which judge and people say the same."""
    kappa: AgreementFigure
    """Cohen's kappa of the verdicts."""
    alpha: AgreementFigure
    """Krippendorff's alpha: of the verdicts, or of scores and grades where labels are graded."""
    alpha_level: Level
    sensitivity: AgreementFigure
    """Share of what people pass that the judge passes."""
    specificity: AgreementFigure
    """Share of what people fail that the judge fails."""
    best_threshold: ThresholdAdvice
    confidence: float
    rows: tuple[LabelledVerdict, ...] = field(repr=False)
    metrics: CallMetrics | None = None
    """What the judge's calls cost, where it is known."""

    @classmethod
    def of(
        cls,
        rows: Iterable[LabelledVerdict],
        *,
        evaluator: str = "judge",
        fingerprint: str = "",
        threshold: float = DEFAULT_THRESHOLD,
        lower_is_better: bool = False,
        score_range: ScoreRange | None = None,
        errors: Iterable[tuple[str, str]] = (),
        metrics: CallMetrics | None = None,
        **options: Unpack[FigureKeywords],
    ) -> Calibration:
        """Compare verdicts that were given before with labels; nothing is evaluated.

        Args:
            rows: What people and the judge say of each output, one row for each.
            evaluator, fingerprint: The evaluator whose verdicts they are, and a hash of its configuration.
            threshold, lower_is_better: Its threshold at the time, and whether lower scores are better.
            score_range: The lowest and the highest score, where they are not in 0..1.
            errors: Outputs that the evaluator could not judge: key and error of each.
            metrics, options: What the calls cost; those of `FigureKeywords`, such as `confidence=0.9`.

        Raises:
            ConfigurationError: for fewer rows than `minimum`, or than `folds` of a label, or unusable input.

        Example:
            >>> rows = [LabelledVerdict.of(label=n % 2 == 0, verdict=n % 3 == 0) for n in range(24)]
            >>> Calibration.of(rows, evaluator="Helpful").agreement.value
            0.5
        """
        settings = FigureOptions(**options)
        valid_rows = _validate_rows(rows)
        labels = [row.label for row in valid_rows]
        if short := shortage(labels, minimum=settings.minimum, folds=settings.folds):
            raise ConfigurationError(f"Calibrating {evaluator} {short}")
        goodness = _Goodness(check_score_range(evaluator, score_range or USUAL_RANGE), lower_is_better)
        return cls(
            evaluator=evaluator,
            fingerprint=fingerprint,
            threshold=threshold,
            lower_is_better=lower_is_better,
            n=len(valid_rows),
            errors=tuple(errors),
            **_figures(valid_rows, settings, goodness),
            best_threshold=_advice(valid_rows, threshold, settings, goodness),
            confidence=settings.confidence,
            rows=valid_rows,
            metrics=metrics,
        )

    def corrected_rate(self, judged_passed: int, judged: int) -> CorrectedRate:
        """Return the pass rate that people would give of all the items that the judge judged.

        The rows of this calibration must have been picked at random among them.

        Args:
            judged_passed: How many items the judge passes, those with a label included.
            judged: How many items it judged, those with a label included.

        Raises:
            ConfigurationError: where these are fewer than the rows of the calibration themselves.
        """
        counts = self.confusion
        passed = counts.passes_kept + counts.fails_missed
        if judged_passed < passed or judged - judged_passed < self.n - passed:
            raise ConfigurationError(
                f"{judged_passed!r:.80} of {judged!r:.80} judged items cannot have passed: of the {self.n} "
                f"labelled ones alone, the judge passes {passed} and fails {self.n - passed}. Include the "
                "labelled items in both counts."
            )
        rate = corrected_rate(
            VerdictCounts(
                passed_both=counts.passes_kept,
                passed_by_judge_only=counts.fails_missed,
                passed_by_people_only=counts.passes_missed,
                failed_both=counts.fails_caught,
                judged_passed=judged_passed,
                judged=judged,
            ),
            confidence=self.confidence,
        )
        assert rate is not None  # which only a calibration without rows would be
        return rate

    @property
    def disagreements(self) -> tuple[LabelledVerdict, ...]:
        """The rows on which judge and people differ."""
        return tuple(row for row in self.rows if not row.agrees)

    def to_markdown(self) -> str:
        """Return the figures as Markdown tables."""
        return markdown(self)


def shortage(labels: Sequence[bool], *, minimum: int, folds: int) -> str | None:
    """Say what is missing for a calibration, None if nothing is."""
    good = sum(labels)
    bad = len(labels) - good
    if len(labels) >= minimum and min(good, bad) >= folds:
        return None
    return (
        f"needs at least {pluralize(minimum, 'labelled row')} with {folds} of each label; "
        f"there are {len(labels)}: {good} that people pass and {bad} that they fail."
    )


def _validate_rows(rows: Iterable[Any]) -> tuple[LabelledVerdict, ...]:
    checked = tuple(rows)
    for number, row in enumerate(checked, start=1):
        if fault := _fault(row):
            raise ConfigurationError(f"Row {number}: {fault}")
    return checked


def _fault(row: object) -> str | None:
    """Say what is wrong with a row, None if nothing is."""
    if type(row) is not LabelledVerdict:
        return f"it must be a LabelledVerdict, not {row!r:.80}."
    label: Any = row.label
    verdict: Any = row.verdict
    grade: Any = row.grade
    score: Any = row.score
    if not isinstance(label, bool) or not isinstance(verdict, bool):
        return f"label and verdict must be True or False, not {label!r:.80} and {verdict!r:.80}."
    if not is_number(grade) or not 0 <= grade <= 1:
        return f"grade must be a number in 0..1, not {grade!r:.80}."
    if score is not None and not (is_number(score) and math.isfinite(score)):
        return f"score must be a finite number or None, not {score!r:.80}."
    return None


class _Figures(TypedDict):
    confusion: Confusion
    agreement: AgreementFigure
    kappa: AgreementFigure
    alpha: AgreementFigure
    alpha_level: Level
    sensitivity: AgreementFigure
    specificity: AgreementFigure


def _figures(rows: Sequence[LabelledVerdict], options: FigureOptions, goodness: _Goodness) -> _Figures:
    """Return how far the verdicts agree with the labels."""
    confusion = _confusion(rows)
    # Grades between 0 and 1 are on a scale: cut to verdicts, a near miss would count as much as a far one.
    level: Level = "nominal" if all(row.grade in (0.0, 1.0) for row in rows) else "interval"
    passes, fails = (
        confusion.passes_kept + confusion.passes_missed,
        confusion.fails_caught + confusion.fails_missed,
    )
    return {
        "confusion": confusion,
        "agreement": _rate(sum(row.agrees for row in rows), len(rows), options, exact=False),
        "kappa": _bootstrap_figure(rows, _kappa, options),
        "alpha": _bootstrap_figure(rows, _alpha(level, goodness), options),
        "alpha_level": level,
        "sensitivity": _rate(confusion.passes_kept, passes, options, exact=True),
        "specificity": _rate(confusion.fails_caught, fails, options, exact=True),
    }


def _confusion(rows: Sequence[LabelledVerdict]) -> Confusion:
    pairs = [(row.label, row.verdict) for row in rows]
    return Confusion(
        passes_kept=pairs.count((True, True)),
        passes_missed=pairs.count((True, False)),
        fails_missed=pairs.count((False, True)),
        fails_caught=pairs.count((False, False)),
    )


def _rate(count: int, n: int, options: FigureOptions, *, exact: bool) -> AgreementFigure:
    # Exact for sensitivity and specificity, whose denominators are small; Wilson is shorter for many rows.
    interval = clopper_pearson_interval if exact else wilson_interval
    return AgreementFigure(count / n, interval(count, n, confidence=options.confidence))


def _bootstrap_figure(
    rows: Sequence[LabelledVerdict],
    statistic: Callable[[Sequence[LabelledVerdict]], float | None],
    options: FigureOptions,
) -> AgreementFigure:
    interval = bootstrap_interval(
        rows, statistic, confidence=options.confidence, resamples=options.resamples, seed=options.seed
    )
    return AgreementFigure(statistic(rows), interval)


def _kappa(rows: Sequence[LabelledVerdict]) -> float | None:
    return cohen_kappa([row.label for row in rows], [row.verdict for row in rows])


@dataclass(frozen=True, slots=True)
class _Goodness:
    """How good a score is, in 0..1."""

    score_range: ScoreRange | None
    lower_is_better: bool

    def of_row(self, row: LabelledVerdict) -> float:
        """Return how good the judge says an output is; without a score, its verdict says it."""
        return float(row.verdict) if row.score is None else self.of(row.score)

    def of(self, score: float) -> float:
        share = share_of(score, self.score_range)
        return complement(share) if self.lower_is_better else share

    def score(self, goodness: float) -> float:
        """Return the score that is this good."""
        share = complement(goodness) if self.lower_is_better else goodness
        return share if self.score_range is None else self.score_range[0] + share * width_of(self.score_range)


def _alpha(level: Level, goodness: _Goodness) -> Callable[[Sequence[LabelledVerdict]], float | None]:
    if level == "nominal":
        return lambda rows: krippendorff_alpha([(row.label, row.verdict) for row in rows])
    return lambda rows: krippendorff_alpha([(row.grade, goodness.of_row(row)) for row in rows], level=level)


def _advice(
    rows: Sequence[LabelledVerdict], current: float, options: FigureOptions, goodness: _Goodness
) -> ThresholdAdvice:
    # As goodness, so that one search serves evaluators where lower is better, too.
    scores, labels = list(map(goodness.of_row, rows)), [row.label for row in rows]
    near = goodness.of(current)
    best = best_threshold(scores, labels, near=near)
    return ThresholdAdvice(
        threshold=goodness.score(best.value),
        balanced_accuracy=best.balanced_accuracy,
        cross_validated=cross_validated_accuracy(
            scores, labels, folds=options.folds, near=near, seed=options.seed
        ),
        current=balanced_accuracy([float(row.verdict) for row in rows], labels, DEFAULT_THRESHOLD),
    )
