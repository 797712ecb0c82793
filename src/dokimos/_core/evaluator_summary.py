"""What the results of one evaluator come to: counts, sums of scores, costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dokimos._core.jsonable import WIRE_CONFIG
from dokimos._core.means import UNIT, square_units_of, units_of
from dokimos._core.metrics import CallMetrics
from dokimos._core.score_range import ScoreRange, share_of

if TYPE_CHECKING:
    from dokimos._core.results import EvalResult

DISABLED: Final = "The metric is disabled."
"""Why a metric was skipped that nobody has to be warned of."""
HISTOGRAM_BINS: Final = 10
MOST_SKIP_REASONS: Final = 64
"""Reasons of one evaluator that are counted: each may name its item."""
_MOST_PENDING: Final = 256
"""Different scores of an evaluator that are counted before they are added to its sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorSummary:
    """Counts and scores of one evaluator.

    Example:
        >>> result = evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> result.runs[0].summary.evaluator("Exact Match").scored
        1
    """

    name: str
    scored: int = 0
    score_sum: int = field(default=0, repr=False)
    """Sum of the scores in `means.UNIT`s."""
    square_sum: int = field(default=0, repr=False)
    """Sum of the squared scores in `means.UNIT`s."""
    passed: int = 0
    failed: int = 0
    """Verdicts against; errors are counted apart."""
    errors: int = 0
    undecided: int = 0
    """Errors that took the place of a verdict."""
    skipped: int = 0
    histogram: tuple[int, ...] = (0,) * HISTOGRAM_BINS
    """Scores in ten equal bins of their range, the last one closed."""
    metrics: CallMetrics = field(default_factory=CallMetrics)
    """What the evaluator's own model calls cost, added up."""
    tokenized: int = 0
    """Results whose tokens are known."""
    priced: int = 0
    """Those of them whose cost is known."""
    score_range: ScoreRange | None = None
    """The range of the scores, None for 0..1."""
    labels: Mapping[str, int] = field(default_factory=dict)
    """How often each label was given, the most frequent first."""
    skip_reasons: Mapping[str, int] = field(default_factory=dict, repr=False)
    """How often it was skipped for each reason, the most frequent first; of many, the first ones."""

    __pydantic_config__ = WIRE_CONFIG

    @property
    def mean(self) -> float | None:
        return self.score_sum / (self.scored * UNIT) if self.scored else None

    @property
    def std_dev(self) -> float | None:
        """Sample standard deviation of the single scores, None for fewer than two."""
        if self.scored < 2:
            return None
        squares = self.square_sum * self.scored * UNIT - self.score_sum * self.score_sum
        # Squares are rounded down to units, so that those of equal scores may come out a little below 0.
        return math.sqrt(max(0, squares) / (self.scored * (self.scored - 1) * UNIT * UNIT))

    @property
    def judged(self) -> int:
        return self.passed + self.failed

    @property
    def applicable(self) -> int:
        """Results that it was meant to give: all but the skipped ones."""
        return self.scored + self.errors

    @property
    def decides(self) -> bool:
        """Whether any of its results is, or was to be, a verdict."""
        return self.judged > 0 or self.undecided > 0

    @property
    def pass_rate(self) -> float | None:
        return self.passed / self.judged if self.judged else None


_ADDED: Final = ("scored", "score_sum", "square_sum", "passed", "failed", "errors", "undecided", "skipped")


class EvaluatorTally:
    """The running sums behind one `EvaluatorSummary`."""

    __slots__ = (
        "_pending", "errors", "failed", "histogram", "labels", "metrics", "name", "passed", "priced",
        "score_range", "score_sum", "scored", "skip_reasons", "skipped", "square_sum", "tokenized",
        "undecided",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.scored = self.score_sum = self.square_sum = 0
        self.passed = self.failed = self.errors = self.undecided = self.skipped = 0
        self.tokenized = self.priced = 0
        self.histogram = [0] * HISTOGRAM_BINS
        self.metrics = CallMetrics()
        self.score_range: ScoreRange | None = None
        self.labels: Counter[str] = Counter()
        self.skip_reasons: Counter[str] = Counter()
        self._pending: dict[float, int] = {}
        """How often each score was given that the sums and the histogram do not have yet."""

    def add(self, result: EvalResult, count: int = 1) -> None:
        """Count a result, or `count` equal ones without a cost."""
        score = result.score
        if result.error is not None:
            self.errors += count
            self.undecided += count * result.expects_verdict
        elif score is not None:
            self.scored += count
            if result.score_range is None:
                # Scores repeat, and with their exact sums added later, this takes 0.2 us instead of 0.6.
                pending = self._pending
                pending[score] = pending.get(score, 0) + count
                if len(pending) > _MOST_PENDING:
                    self._add_pending()
            else:
                self.score_range = result.score_range
                self._add_scores(score, share_of(score, result.score_range), count)
        if result.skipped is not None:
            self.skipped += count
            self._add_skip_reasons({result.skipped: count})
        if result.success is not None:
            if result.success:
                self.passed += count
            else:
                self.failed += count
        if result.label is not None:
            self.labels[result.label] += count
        metrics = result.metrics
        if metrics is not None:
            has_tokens = metrics.tokens is not None
            self.add_cost(metrics, int(has_tokens), int(has_tokens and metrics.cost_usd is not None))

    def _add_skip_reasons(self, reasons: Mapping[str, int]) -> None:
        for reason, count in reasons.items():
            # Nobody is told of a metric that was disabled, so that one is told apart from all others.
            if (
                reason in self.skip_reasons
                or len(self.skip_reasons) < MOST_SKIP_REASONS
                or reason == DISABLED
            ):
                self.skip_reasons[reason] += count

    def _add_pending(self) -> None:
        for score, count in self._pending.items():
            self._add_scores(score, score, count)
        self._pending.clear()

    def _add_scores(self, score: float, share: float, count: int) -> None:
        self.score_sum += units_of(score) * count
        self.square_sum += square_units_of(score) * count
        self.histogram[min(int(share * HISTOGRAM_BINS), HISTOGRAM_BINS - 1)] += count

    def add_summary(self, other: EvaluatorSummary) -> None:
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.score_range = self.score_range or other.score_range
        self.labels.update(other.labels)
        self._add_skip_reasons(other.skip_reasons)
        self.histogram = [a + b for a, b in zip(self.histogram, other.histogram, strict=True)]
        self.add_cost(other.metrics, other.tokenized, other.priced)

    def add_cost(self, metrics: CallMetrics, tokenized: int, priced: int) -> None:
        self.metrics += metrics
        self.tokenized += tokenized
        self.priced += priced

    def summary(self) -> EvaluatorSummary:
        self._add_pending()
        values = {name: getattr(self, name) for name in self.__slots__ if name != "_pending"}
        ranked = {name: _rank(values[name]) for name in ("labels", "skip_reasons")}
        return EvaluatorSummary(**values | {"histogram": tuple(self.histogram)} | ranked)


def _rank(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])))
