"""The result of a comparison: the change of the pass rate, of each evaluator and of each item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.data_frames import frame_of
from dokimos._core.printable import Printable
from dokimos._core.score_range import ScoreRange, width_of
from dokimos.comparison._config import ComparisonConfig, Pairing
from dokimos.comparison._detectable_drop import (
    ComparisonDesign,
    find_fewest_significant_items,
    find_smallest_p,
)
from dokimos.comparison._rows import rows_of
from dokimos.comparison._snapshot import ItemSnapshot
from dokimos.stats._bootstrap import bootstrap_mean_interval
from dokimos.stats._effect import standardised_mean_difference
from dokimos.stats._intervals import Interval
from dokimos.stats._paired_estimates import Estimate, constant_interval, mean_estimate, paired_rate_interval

if TYPE_CHECKING:
    import pandas

PASS_RATE: Final = ""
"""Stands for the pass rate where metrics are listed by evaluator; no evaluator has this name."""


DIGITS: Final = 12
"""Where differences of scores are cut, so that 0.9 - 0.8 is 0.1 and equal ones stay equal."""


FEW_ITEMS: Final = 40
"""Below so many, a percentile bootstrap promises more than it holds."""


def difference(now: float, before: float) -> float:
    """Return `now - before`, rounded so that binary fractions leave no residue such as 1e-17."""
    return round(now - before, DIGITS)


class Change(StrEnum):
    """The change of a metric or an item, the worst first."""

    REGRESSED = "REGRESSED"
    IMPROVED = "IMPROVED"
    UNCHANGED = "UNCHANGED"
    ADDED = "ADDED"
    REMOVED = "REMOVED"


class Method(StrEnum):
    """The test that a p-value comes from."""

    MCNEMAR = "mcnemar"
    """Exact McNemar: verdicts of one run on each side."""
    PERMUTATION = "permutation"
    """Paired sign-flip permutation."""
    NONE = "none"
    """Fewer than two shared items."""


@dataclass(frozen=True, kw_only=True)
class MetricChange:
    """How the pass rate or the scores of one evaluator changed, over the items that both sides have."""

    name: str
    """The evaluator; `PASS_RATE` for the pass rate."""
    method: Method
    deltas: Mapping[str, float] = field(repr=False)
    """Candidate minus baseline of each shared item, by its key."""
    baseline_mean: float | None
    candidate_mean: float | None
    p_value: float
    """Of this metric's own test, whatever else was tested."""
    adjusted_p_value: float
    """Of the whole family of tests; what decides."""
    change: Change
    lower_is_better: bool
    deterministic: bool
    design: ComparisonDesign
    config: ComparisonConfig = field(repr=False)
    score_range: ScoreRange | None = None
    """The lowest and the highest possible score, None for 0..1."""

    @property
    def n(self) -> int:
        """Items that both sides have this metric for."""
        return len(self.deltas)

    @property
    def delta(self) -> float | None:
        if self.baseline_mean is None or self.candidate_mean is None:
            return None
        return difference(self.candidate_mean, self.baseline_mean)

    @property
    def significant(self) -> bool:
        return self.adjusted_p_value < self.config.alpha

    @cached_property
    def worse(self) -> int:
        """Items that got worse; with `better`, the discordant pairs."""
        return sum(self.worsening(delta) > 0 for delta in self.deltas.values())

    @cached_property
    def better(self) -> int:
        """Items that got better."""
        return sum(self.worsening(delta) < 0 for delta in self.deltas.values())

    @cached_property
    def interval(self) -> Interval | None:
        """95 % interval of the mean change, None where it cannot be estimated.

        Tango's where every item changed by all of its score or not at all, as verdicts do: it has a width
        also where nothing changed. Else a percentile bootstrap, which is too narrow for few items: below
        `FEW_ITEMS` it is that of `mean_estimate`, Student's t widened by skewness.
        """
        width, shares = width_of(self.score_range), self._interval_of_shares()
        return None if shares is None else Interval(shares.low * width, shares.high * width)

    def _interval_of_shares(self) -> Interval | None:
        values = self._shares
        if len(values) < 2:
            return None
        if set(values) <= {-1.0, 0.0, 1.0}:
            return paired_rate_interval(values.count(-1.0), values.count(1.0), len(values))
        if min(values) == max(values):
            return constant_interval(values[0], len(values), (-1.0, 1.0))
        if self._estimate is not None:
            # No difference of two scores can be larger than the range.
            interval = self._estimate.interval
            return Interval(max(-1.0, interval.low), min(1.0, interval.high))
        config = self.config
        return bootstrap_mean_interval(values, resamples=config.bootstrap_iterations, seed=config.seed)

    @property
    def interval_coverage(self) -> float | None:
        """How often an interval of so few items holds the true change, about; None where in 95 %."""
        return None if self._estimate is None else self._estimate.coverage

    @cached_property
    def _estimate(self) -> Estimate | None:
        """The mean change of few items whose scores changed by different amounts, as a share of the range."""
        values = self._shares
        if len(values) >= FEW_ITEMS or set(values) <= {-1.0, 0.0, 1.0} or min(values) == max(values):
            return None
        return mean_estimate(values, within=(-1.0, 1.0))

    @cached_property
    def _shares(self) -> list[float]:
        """The changes as shares of the range of scores, in -1..1."""
        width = width_of(self.score_range)
        return [difference(delta / width, 0.0) for delta in self.deltas.values()]

    @cached_property
    def effect_size(self) -> float | None:
        """The mean change in standard deviations of an item's change, None where these do not differ."""
        return standardised_mean_difference(list(self.deltas.values()))

    @cached_property
    def detectable_drop(self) -> float | None:
        """The smallest true drop that is seen with the power asked for, as a share of the range of scores.

        None if not even a drop by all of the range is.
        """
        return self.design.detectable_drop(self.config.power)

    @cached_property
    def uneven_detectable_drop(self) -> float | None:
        """The same where the drop falls on a tenth of the items; of verdicts it always falls on a few."""
        return self.design.uneven_detectable_drop(self.config.power)

    def items_needed(self, drop: float, power: float | None = None) -> int | None:
        """Return how many items it takes to see a drop, a share of the range; None for over a million."""
        return self.design.items_needed(drop, power or self.config.power)

    def worsening(self, delta: float) -> float:
        """Return by how much a change of the score is for the worse."""
        return delta if self.lower_is_better else -delta


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """How one evaluator's score of one item changed."""

    name: str
    baseline_mean: float | None
    candidate_mean: float | None
    change: Change
    significant: bool
    """Whether the evaluator changed significantly as a whole."""
    score_range: ScoreRange | None = None
    """The lowest and the highest possible score, None for 0..1."""

    @property
    def delta(self) -> float:
        """Candidate minus baseline; 0.0 where one side has no score."""
        if self.baseline_mean is None or self.candidate_mean is None:
            return 0.0
        return difference(self.candidate_mean, self.baseline_mean)

    @property
    def share(self) -> float:
        """The change as a share of the range of scores."""
        return difference(self.delta / width_of(self.score_range), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemChange:
    """How one item changed."""

    key: str
    change: Change
    baseline: ItemSnapshot | None = field(repr=False)
    candidate: ItemSnapshot | None = field(repr=False)
    evaluators: tuple[ScoreChange, ...]
    pass_flip: bool
    """Whether it passed (in at least half of the repeats) on one side and not on the other."""

    @property
    def either(self) -> ItemSnapshot:
        item = self.candidate or self.baseline
        assert item is not None, "an item comes from at least one side"
        return item

    @property
    def dataset_item_id(self) -> str | None:
        return self.either.id

    @property
    def input(self) -> str | None:
        return self.either.input

    @property
    def place(self) -> tuple[int, int]:
        """The outcome, the worst first, then the position in the data set."""
        return _ORDER[self.change], self.either.index


_ORDER: Final = {change: rank for rank, change in enumerate(Change)}


@dataclass(frozen=True, kw_only=True, repr=False)
class RunComparison(Printable):
    """What changed between two runs. Numbers are unrounded; `comparison_tree` rounds them.

    Example:
        >>> examples = [Example.of(letter, letter.upper()) for letter in "abcdefgh"]
        >>> before = evaluate(examples, str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> now = evaluate(examples, str.lower, [ExactMatch()], quiet=True, journal=False)
        >>> comparison = compare_runs(before, now)
        >>> comparison.has_regressions, comparison.pass_rate.delta
        (True, -1.0)
    """

    __dokimos_view__ = "dokimos.comparison._console:VIEW"

    config: ComparisonConfig
    pairing: Pairing
    pass_rate: MetricChange
    """Over the items that both sides have, so that neither added nor removed ones mask a change."""
    evaluators: tuple[MetricChange, ...]
    """By name."""
    items: tuple[ItemChange, ...]
    """In dataset order, added ones last."""
    baseline_pass_rate: float | None
    """Over all items of the baseline."""
    candidate_pass_rate: float | None
    baseline_label: str = ""
    candidate_label: str = ""
    baseline_name: str = ""
    """Of the experiment, as are its facts."""
    candidate_name: str = ""
    baseline_facts: Mapping[str, str] = field(default_factory=dict)
    candidate_facts: Mapping[str, str] = field(default_factory=dict)
    removed_evaluators: tuple[str, ...] = ()
    added_evaluators: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[MetricChange, ...]:
        """The pass rate and the evaluators."""
        return (self.pass_rate, *self.evaluators)

    @property
    def leading(self) -> MetricChange | None:
        """The metric that says most: the pass rate, else the evaluator with the lowest p-value."""
        compared = [metric for metric in self.metrics if metric.n]
        if self.pass_rate.n or not compared:
            return self.pass_rate if self.pass_rate.n else None
        return min(compared, key=lambda metric: metric.adjusted_p_value)

    @property
    def blind_metrics(self) -> tuple[MetricChange, ...]:
        """Those with too few items: not even a change of all of them could be significant."""
        tests = len(self.metrics)
        return tuple(
            one
            for one in self.metrics
            if one.n and find_smallest_p(one.n, tests, self.config) >= self.config.alpha
        )

    @property
    def fewest_items(self) -> int | None:
        """How many items it takes to see a change of all of them with the power asked for, None for too many.

        Never fewer than it takes to be significant at all, which the rougher calculation of power may allow.
        """
        significant = find_fewest_significant_items(len(self.metrics), self.config)
        powerful = None if self.leading is None else self.leading.items_needed(1.0)
        return None if significant is None or powerful is None else max(significant, powerful)

    @property
    def regressed_evaluators(self) -> tuple[MetricChange, ...]:
        return tuple(one for one in self.evaluators if one.change is Change.REGRESSED)

    @property
    def pass_rate_regressed(self) -> bool:
        return self.pass_rate.change is Change.REGRESSED

    @property
    def has_regressions(self) -> bool:
        return self.pass_rate_regressed or bool(self.regressed_evaluators)

    @property
    def significant(self) -> bool:
        """Whether the pass rate changed significantly."""
        return self.pass_rate.significant

    @property
    def composition_changed(self) -> bool:
        """Whether items were added or removed."""
        return bool(self.count(Change.ADDED) or self.count(Change.REMOVED))

    @cached_property
    def _counts(self) -> Mapping[Change, int]:
        counts = dict.fromkeys(Change, 0)
        for item in self.items:
            counts[item.change] += 1
        return counts

    def count(self, change: Change) -> int:
        """Return how many items changed like this."""
        return self._counts[change]

    def cases(self, *changes: Change) -> list[ItemChange]:
        """Return the items that changed like this (all if none is named), the regressed ones first."""
        return in_order(item for item in self.items if not changes or item.change in changes)

    def most_moved(self, change: Change) -> list[ItemChange]:
        """Return the items that changed like this, those first that moved most in this direction."""
        metrics = {metric.name: metric for metric in self.evaluators}
        sign = 1 if change is Change.REGRESSED else -1

        def sort_key(item: ItemChange) -> tuple[bool, float, int]:
            sizes = (sign * metrics[one.name].worsening(one.delta) for one in item.evaluators)
            return not item.pass_flip, -max(sizes, default=0.0), item.either.index

        return sorted(self.cases(change), key=sort_key)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat dict for each item, all with the same keys.

        They are `id`, `input`, `change`, and with `.before` and `.now` behind them `passed` (a share of the
        repeats), `error`, and each evaluator's mean score, with its `.change`. Those that no item has a value
        for are left out.
        """
        return rows_of(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """Return the rows of `to_rows` as a data frame: numbers are numeric, whatever is missing is NA.

        Raises:
            MissingExtraError: where pandas is not installed.
        """
        return frame_of(rows_of(self))

    def evaluator(self, name: str) -> MetricChange | None:
        """Return the change of an evaluator, None where it is on neither side."""
        return next((one for one in self.evaluators if one.name == name), None)


def in_order(items: Iterable[ItemChange]) -> list[ItemChange]:
    """Sort items by outcome, the worst first, then by position."""
    return sorted(items, key=lambda item: item.place)


def title(metric: MetricChange | str) -> str:
    """Return the name of a metric in running text."""
    name = metric if isinstance(metric, str) else metric.name
    return "pass rate" if name == PASS_RATE else name
