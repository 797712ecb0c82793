"""Compare two runs: which changes are real, and on which items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from operator import eq
from statistics import fmean
from typing import Final, TypeAlias, TypedDict

from dokimos._core.results import ExperimentResult
from dokimos._core.score_range import ScoreRange, share_of, width_of
from dokimos.comparison._config import ComparisonConfig
from dokimos.comparison._detectable_drop import ComparisonDesign
from dokimos.comparison._diff import (
    DIGITS,
    PASS_RATE,
    Change,
    ItemChange,
    Method,
    MetricChange,
    RunComparison,
    ScoreChange,
    difference,
)
from dokimos.comparison._pairing import ItemPairs, pair
from dokimos.comparison._snapshot import EvaluatorFacts, ItemSnapshot, Snapshot
from dokimos.comparison._warnings import warnings_of
from dokimos.errors import ConfigurationError
from dokimos.stats._multiplicity import benjamini_hochberg, holm
from dokimos.stats._permutation import STOP_ABOVE, FamilyTest, max_t_test, paired_deltas, sign_flip_test

Side: TypeAlias = ExperimentResult | Sequence[ExperimentResult] | Snapshot
"""A result, several that are repeats of each other, or a snapshot made earlier."""

ADJUSTMENTS: Final[Mapping[str, Callable[[Sequence[float]], list[float]]]] = {
    "holm": holm,
    "bh": benjamini_hochberg,
}

Repeats: TypeAlias = Mapping[str, Sequence[float]]
"""The scores of the repeats of each item, by its key."""


def compare_runs(baseline: Side, candidate: Side, *, config: ComparisonConfig | None = None) -> RunComparison:
    """Compare a candidate with a baseline, item by item.

    The pass rate and all evaluators are tested on the items that both sides have. By default they are tested
    jointly (see `ComparisonConfig.correction`), so that two runs of the same system differ in any of them
    with a chance of at most `alpha`, however many evaluators there are.

    Raises:
        ConfigurationError: when items were not kept, or cannot be paired as requested.

    Example:
        >>> examples = [Example.of(letter, letter.upper()) for letter in "abcdefgh"]
        >>> before = evaluate(examples, str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> now = evaluate(examples, str.lower, [ExactMatch()], quiet=True, journal=False)
        >>> compare_runs(before, now).has_regressions
        True
    """
    config = config or ComparisonConfig()
    if not isinstance(config, ComparisonConfig):
        raise ConfigurationError(f"config must be a ComparisonConfig, not {config!r:.80}.")
    return _ComparisonBuilder(_snapshot(baseline), _snapshot(candidate), config).comparison()


def _snapshot(side: Side) -> Snapshot:
    return side if isinstance(side, Snapshot) else Snapshot.of(side)


@dataclass(frozen=True)
class _ComparisonBuilder:
    """Compares two sides, step by step: pair the items, test the metrics, classify the items."""

    baseline: Snapshot
    candidate: Snapshot
    config: ComparisonConfig

    def comparison(self) -> RunComparison:
        metrics = self._metrics()
        pass_rate, evaluators = metrics[PASS_RATE], {n: m for n, m in metrics.items() if n != PASS_RATE}
        before, now = self.baseline, self.candidate
        return RunComparison(
            config=self.config,
            pairing=self.pairs.pairing,
            pass_rate=pass_rate,
            evaluators=tuple(evaluators.values()),
            items=tuple(self._items(evaluators, pass_rate)),
            baseline_pass_rate=before.pass_rate,
            candidate_pass_rate=now.pass_rate,
            baseline_label=before.label,
            candidate_label=now.label,
            baseline_name=before.name,
            candidate_name=now.name,
            baseline_facts=before.facts,
            candidate_facts=now.facts,
            removed_evaluators=tuple(
                sorted(set(before.evaluators) - set(now.evaluators) | self.range_changes)
            ),
            added_evaluators=tuple(sorted(set(now.evaluators) - set(before.evaluators) | self.range_changes)),
            warnings=warnings_of(before, now, self.pairs),
        )

    @cached_property
    def pairs(self) -> ItemPairs:
        return pair(self.baseline, self.candidate, self.config.pairing)

    @cached_property
    def range_changes(self) -> Set[str]:
        """Evaluators whose scores have another range than in the baseline: what they mean is not the same."""
        before, now = self.baseline.evaluators, self.candidate.evaluators
        return {name for name in before if name in now and before[name].score_range != now[name].score_range}

    @cached_property
    def common_items(self) -> list[tuple[str, ItemSnapshot, ItemSnapshot]]:
        pairs = self.pairs
        return [(key, pairs.baseline[key], pairs.candidate[key]) for key in pairs.common_keys]

    def _metrics(self) -> dict[str, MetricChange]:
        names = [PASS_RATE, *sorted({*self.baseline.evaluators, *self.candidate.evaluators})]
        sides = {name: self._scores(name) for name in names}
        deltas = {name: its.with_equal_repeats.exact_deltas for name, its in sides.items()}
        # A single difference gives p = 1 whatever it is; in a family it would only cost the others.
        testable = {name: by_item for name, by_item in deltas.items() if len(by_item) > 1}
        p_values = _test_metrics(testable, self.config)
        return {name: self._metric(name, sides[name], p_values.get(name)) for name in names}

    def _scores(self, name: str) -> _Scores:
        """Return the scores of both sides, of the items that have some on both and in one range."""
        facts = self._facts(name)
        if name in self.range_changes:
            return _Scores({}, {}, facts.score_range)
        before: dict[str, Sequence[float]] = {}
        now: dict[str, Sequence[float]] = {}
        for key, old, new in self.common_items:
            olds, news = (
                (old.verdicts, new.verdicts)
                if name == PASS_RATE
                else (old.scores.get(name), new.scores.get(name))
            )
            if olds and news:
                before[key], now[key] = olds, news
        return _Scores(before, now, facts.score_range or _infer_range(before, now))

    def _metric(self, name: str, scores: _Scores, p: _PValues | None) -> MetricChange:
        facts = self._facts(name)
        p_values = p or _PValues(1.0, 1.0)
        corrected = self.config.correction in ("westfall-young", "holm")
        # What a power calculation has to assume of the family: Westfall-Young has no closed form and is a
        # little better than this.
        tests = 1 + len({*self.baseline.evaluators, *self.candidate.evaluators}) if corrected else 1
        return MetricChange(
            name=name,
            method=Method.NONE if p is None else _choose_method(name, scores),
            deltas=scores.deltas,
            baseline_mean=_mean_of_means(scores.before),
            candidate_mean=_mean_of_means(scores.now),
            p_value=p_values.marginal,
            adjusted_p_value=p_values.adjusted,
            change=self._change(p_values.adjusted, scores, facts),
            lower_is_better=facts.lower_is_better,
            deterministic=facts.deterministic,
            design=ComparisonDesign.of(
                scores.with_equal_repeats.shares, alpha=self.config.alpha, tests=tests
            ),
            config=self.config,
            score_range=scores.score_range,
        )

    def _facts(self, name: str) -> EvaluatorFacts:
        """Return what the candidate records about an evaluator, else what the baseline does."""
        sides = (self.candidate.evaluators, self.baseline.evaluators)
        return next((side[name] for side in sides if name in side), EvaluatorFacts(name=name))

    def _change(self, p: float, scores: _Scores, facts: EvaluatorFacts) -> Change:
        delta, tested_delta = scores.mean_delta, scores.with_equal_repeats.mean_delta
        small = round(abs(delta) / width_of(scores.score_range), DIGITS) <= self.config.epsilon
        # The tested repeats may be fewer than those of the means: where the two point in opposite directions,
        # neither is believed.
        if p >= self.config.alpha or small or (delta > 0) != (tested_delta > 0):
            return Change.UNCHANGED
        return Change.REGRESSED if (delta > 0) == facts.lower_is_better else Change.IMPROVED

    def _items(self, evaluators: Mapping[str, MetricChange], pass_rate: MetricChange) -> Iterator[ItemChange]:
        classifier = _ItemClassifier(evaluators, pass_rate, self.config.epsilon, self.range_changes)
        pairs = self.pairs
        for key, item in pairs.baseline.items():
            yield classifier.item(key, item, pairs.candidate.get(key))
        for key, item in pairs.candidate.items():
            if key not in pairs.baseline:
                yield classifier.item(key, None, item)


@dataclass(frozen=True)
class _Scores:
    """The scores of one metric, of the items that have some on both sides."""

    before: Repeats
    now: Repeats
    score_range: ScoreRange | None = None

    @cached_property
    def deltas(self) -> dict[str, float]:
        """Candidate minus baseline of each item."""
        return {key: difference(_mean(self.now[key]), _mean(old)) for key, old in self.before.items()}

    @property
    def shares(self) -> list[float]:
        """The differences as shares of the range."""
        width = width_of(self.score_range)
        return [difference(delta / width, 0.0) for delta in self.deltas.values()]

    @property
    def exact_deltas(self) -> dict[str, int]:
        """The differences as integers, in the unit that a share of the range has."""
        if self.score_range is None:
            return paired_deltas(self.before, self.now)
        return paired_deltas(
            _scale_to_shares(self.before, self.score_range), _scale_to_shares(self.now, self.score_range)
        )

    @property
    def mean_delta(self) -> float:
        return fmean(self.deltas.values()) if self.deltas else 0.0

    @cached_property
    def with_equal_repeats(self) -> _Scores:
        """The scores with as many repeats of an item on both sides, the first ones.

        A test that swaps the sides requires that: means of different numbers of repeats have different
        variances, even if nothing changed.
        """
        if all(map(eq, map(len, self.before.values()), map(len, self.now.values()))):
            return self
        counts = {key: min(len(its), len(self.now[key])) for key, its in self.before.items()}
        return _Scores(
            _truncate_repeats(self.before, counts), _truncate_repeats(self.now, counts), self.score_range
        )


def _mean(scores: Sequence[float]) -> float:
    return float(scores[0]) if len(scores) == 1 else fmean(scores)


def _truncate_repeats(side: Repeats, numbers: Mapping[str, int]) -> Repeats:
    return {key: side[key][:number] for key, number in numbers.items()}


def _scale_to_shares(side: Repeats, score_range: ScoreRange) -> Repeats:
    return {key: [share_of(score, score_range) for score in scores] for key, scores in side.items()}


def _infer_range(*sides: Repeats) -> ScoreRange | None:
    """Return the range that the scores span where none is declared: None for 0..1, else a wider one."""
    scores = [score for side in sides for repeats in side.values() for score in repeats]
    low, high = min(scores, default=0.0), max(scores, default=1.0)
    # Shares are taken of a range. Scores beyond 0..1 without a declared one would make shares above 1.
    return None if low >= 0 and high <= 1 else (min(low, 0.0), max(high, 1.0))


class _Options(TypedDict):
    iterations: int
    seed: int


@dataclass(frozen=True, slots=True)
class _PValues:
    marginal: float
    adjusted: float


def _choose_method(name: str, scores: _Scores) -> Method:
    single = all(len(its) == 1 for side in (scores.before, scores.now) for its in side.values())
    return Method.MCNEMAR if name == PASS_RATE and single else Method.PERMUTATION


def _mean_of_means(side: Repeats) -> float | None:
    return fmean(map(_mean, side.values())) if side else None


def _test_metrics(deltas: Mapping[str, Mapping[str, int]], config: ComparisonConfig) -> dict[str, _PValues]:
    """Return the p-values of metrics, from differences in fixed point."""
    # Counting stops early only far above alpha, so the decision is that of a full count.
    stop_above = max(STOP_ABOVE, 2 * config.alpha)
    options: _Options = {"iterations": config.permutation_iterations, "seed": config.seed}
    if config.correction == "westfall-young":
        family: FamilyTest = max_t_test(deltas, stop_above=min(stop_above, 1.0), **options)
        return {name: _PValues(test.p, family.adjusted[name]) for name, test in family.marginal.items()}
    # Adjusting needs the p-values themselves, not only on which side of alpha they lie.
    stop_above = 1.0 if config.correction in ADJUSTMENTS else min(stop_above, 1.0)
    alone = {
        name: sign_flip_test(by_item, stop_above=stop_above, **options).p for name, by_item in deltas.items()
    }
    adjust = ADJUSTMENTS.get(config.correction, list)
    adjusted = dict(zip(alone, adjust(list(alone.values())), strict=True))
    return {name: _PValues(p, adjusted[name]) for name, p in alone.items()}


@dataclass(frozen=True, slots=True)
class _ItemClassifier:
    """Classifies items as regressed, improved, unchanged, added or removed, given how the metrics changed."""

    evaluators: Mapping[str, MetricChange]
    pass_rate: MetricChange
    epsilon: float
    range_changes: Set[str]

    def item(self, key: str, before: ItemSnapshot | None, now: ItemSnapshot | None) -> ItemChange:
        scores = tuple(self._scores(before, now))
        flip = _find_flip(before, now)
        return ItemChange(
            key=key,
            change=self._change(before, now, scores, flip),
            baseline=before,
            candidate=now,
            evaluators=scores,
            pass_flip=bool(flip),
        )

    def _scores(self, before: ItemSnapshot | None, now: ItemSnapshot | None) -> Iterator[ScoreChange]:
        for name, metric in self.evaluators.items():
            old = None if before is None or name in self.range_changes else before.mean(name)
            new = None if now is None else now.mean(name)
            if old is None and new is None:
                continue
            change = Change.UNCHANGED
            epsilon = self.epsilon * width_of(metric.score_range)
            if old is not None and new is not None and abs(difference(new, old)) > epsilon:
                moved = Change.REGRESSED if metric.worsening(new - old) > 0 else Change.IMPROVED
                # An item only counts as changed in the direction in which the metric changed as a whole; the
                # rest may be noise.
                change = moved if metric.change is moved else Change.UNCHANGED
            yield ScoreChange(name, old, new, change, metric.significant, metric.score_range)

    def _change(
        self,
        before: ItemSnapshot | None,
        now: ItemSnapshot | None,
        scores: Sequence[ScoreChange],
        flip: int,
    ) -> Change:
        if before is None:
            return Change.ADDED
        if now is None:
            return Change.REMOVED
        # Regressions first: an item that got worse in one metric and better in another has to be looked at.
        for change, direction in ((Change.REGRESSED, -1), (Change.IMPROVED, 1)):
            if self.pass_rate.change is change and flip == direction:
                return change
            if any(score.change is change for score in scores):
                return change
        return Change.UNCHANGED


def _find_flip(before: ItemSnapshot | None, now: ItemSnapshot | None) -> int:
    """Return -1 for an item that passed and fails now, 1 for one that failed and passes now, else 0."""
    if before is None or now is None or before.pass_share is None or now.pass_share is None:
        return 0
    return (now.pass_share >= 0.5) - (before.pass_share >= 0.5)
