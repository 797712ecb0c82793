"""Guard 2: which single items got much worse, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, TypeAlias

from dokimos._core.means import complement
from dokimos._core.number_format import format_score as score_text
from dokimos._core.number_format import round_half_up
from dokimos._core.score_range import ScoreRange, share_of, width_of
from dokimos.comparison._diff import ItemChange, RunComparison, ScoreChange
from dokimos.comparison._snapshot import EvaluatorFacts, ItemSnapshot, Snapshot
from dokimos.gate._gate_config import GateConfig
from dokimos.gate._item_guards import (
    ItemGuard,
    ItemGuards,
    can_judge,
    noise_can_judge,
    select_competing_evaluators,
)
from dokimos.gate._level import Level
from dokimos.gate._separation import PART_OF_ALPHA, Separation, separation_of
from dokimos.gate._variation import NoiseMeasurements, Variation
from dokimos.stats._permutation import exchange_p

_ERRORED: Final = -1.0
"""How good a repeat is that errors: worse than any score."""
# Above any fall, which is 1 at most, so that these stand first.
_ONLY_ERRORS: Final = 2.0
_RERUN_SPREADS: Final = 2.0
"""How many spreads of its own repeats an item has to lie below a baseline that is a single run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """One evaluator that got worse on one item by more than the margin, or errors where it had a score."""

    key: str
    dataset_item_id: str | None
    evaluator: str
    baseline_mean: float
    candidate_mean: float | None
    """Of the repeats that have a score; None where all of them error."""
    error: str | None = None
    """What the first repeat that errors says, and of several repeats how many do."""
    size: float
    """How much the scores fell and which share of the repeats errors; 2.0 where all do."""
    repeats: tuple[int, int] = (1, 1)
    """How many scores the baseline and the candidate have."""
    cause: str = ""
    """Why it does not stand out from the variation, where it does not."""

    @property
    def name(self) -> str:
        """How to name the item to a person."""
        return self.key if self.dataset_item_id is None else self.dataset_item_id

    @property
    def sentence(self) -> str:
        """Which score of which item dropped."""
        now = [] if self.candidate_mean is None else [score_text(self.candidate_mean)]
        now += [f"error ({self.error:.80})"] if self.error else []
        return f"{self.name}: {self.evaluator} {score_text(self.baseline_mean)} -> {' and '.join(now)}"


@dataclass(frozen=True, slots=True)
class RerunScores:
    """The scores of a suspicious item in its reruns."""

    times: int
    scores: tuple[float, ...] = ()
    errors: int = 0
    """Runs that errored, or in which the evaluator gave no result."""


Ranges: TypeAlias = Mapping[str, ScoreRange | None]
"""By evaluator, the range of its scores; None for 0..1."""
Reruns: TypeAlias = Mapping[tuple[str, str], RerunScores]
"""By item key and evaluator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drops:
    """The single items that got worse by more than the margin, each kind with the worst first."""

    counted: tuple[Drop, ...] = ()
    """Those that make guard 2 fire."""
    cleared: tuple[Drop, ...] = ()
    """Those that running the items again did not confirm."""
    explained: tuple[Drop, ...] = ()
    """Those that do not stand out from what repeats vary by."""
    unclear: tuple[Drop, ...] = ()
    """Those that cannot be told from noise with the repeats there are."""
    separations: tuple[Separation, ...] = ()
    """Evaluators of which more items part exactly between the two sides than chance explains."""


def classify_drops(
    comparison: RunComparison,
    candidate: Snapshot,
    config: GateConfig,
    level: Level,
    *,
    guards: ItemGuards | None = None,
    reruns: Reruns | None = None,
    noise: NoiseMeasurements | None = None,
) -> Drops:
    """Classify the drops of single items: counted, cleared, explained or unclear."""
    if config.severity == "off" or (config.severity == "calibrated" and level.drop is None):
        return Drops()
    lower = frozenset(metric.name for metric in comparison.evaluators if metric.lower_is_better)
    ranges = {metric.name: metric.score_range for metric in comparison.evaluators}
    watch = _DropFinder(config, level, candidate, lower, ranges)
    suspects = [pair for item in comparison.items for pair in watch.drops(item)]
    suspects.sort(key=lambda pair: -pair[0].size)
    judge = _DropClassifier(
        config, guards or ItemGuards(), lower, ranges, reruns or {}, noise, comparison.items
    )
    lists: dict[str, list[Drop]] = {}
    for drop, item in suspects:
        category = judge.category(drop, item)
        described = replace(drop, cause=judge.cause(drop, item)) if category == "explained" else drop
        lists.setdefault(category, []).append(described)
    by_category = {category: tuple(drops) for category, drops in lists.items()}
    return Drops(**by_category, separations=judge.separations)


@dataclass(frozen=True, slots=True)
class _DropFinder:
    """Finds single items that got much worse."""

    config: GateConfig
    level: Level
    candidate: Snapshot
    lower_is_better: frozenset[str]
    ranges: Ranges

    def drops(self, item: ItemChange) -> Iterator[tuple[Drop, ItemChange]]:
        before, now = item.baseline, item.candidate
        if before is None or now is None:
            return
        for score in item.evaluators:
            if score.baseline_mean is not None and self.is_severe(score, before, now):
                drop = Drop(
                    key=item.key,
                    dataset_item_id=item.dataset_item_id,
                    evaluator=score.name,
                    baseline_mean=score.baseline_mean,
                    candidate_mean=score.candidate_mean,
                    error=_error(now, score.name),
                    size=self.size(score, now),
                    repeats=(len(before.scores.get(score.name, ())), len(now.scores.get(score.name, ()))),
                )
                yield drop, item

    def is_severe(self, score: ScoreChange, before: ItemSnapshot, now: ItemSnapshot) -> bool:
        name, margin = score.name, self.config.severity_margin
        more_errors = _has_more_errors(before, now, name)
        # 0.85 - 0.7 is a little more than 0.15 in binary.
        if not more_errors and round_half_up(self.fall(score)) <= margin:
            return False
        baseline_repeats, candidate_repeats = self.repeats(before, name), self.repeats(now, name)
        if self.config.severity == "calibrated":
            return exchange_p(baseline_repeats, candidate_repeats) <= (self.level.drop or 0.0)
        if self.config.severity != "confirmed" or self.is_deterministic(name) or score.candidate_mean is None:
            return True
        gap = min(baseline_repeats) - max(candidate_repeats)
        return len(candidate_repeats) > 1 and round_half_up(gap) > margin

    def is_deterministic(self, evaluator: str) -> bool:
        return self.candidate.evaluators.get(evaluator, EvaluatorFacts(name=evaluator)).deterministic

    def size(self, score: ScoreChange, now: ItemSnapshot) -> float:
        if score.candidate_mean is None:
            return _ONLY_ERRORS
        return self.fall(score) + _share_of_errors(now, score.name)

    def fall(self, score: ScoreChange) -> float:
        """How much worse the mean of those repeats is that have a score, as a share of the range.

        0.0 where none has one.
        """
        return score.share if score.name in self.lower_is_better else -score.share

    def repeats(self, item: ItemSnapshot, evaluator: str) -> list[float]:
        """Return how good each repeat is, in 0..1."""
        scores = [share_of(one, self.ranges.get(evaluator)) for one in item.scores.get(evaluator, ())]
        good = [*map(complement, scores)] if evaluator in self.lower_is_better else scores
        return good + [_ERRORED] * item.count_errors(evaluator)


@dataclass(frozen=True)
class _DropClassifier:
    """Classifies a drop by the form of guard 2 that its evaluator has."""

    config: GateConfig
    guards: ItemGuards
    lower_is_better: frozenset[str]
    ranges: Ranges
    reruns: Reruns
    noise: NoiseMeasurements | None
    items: Sequence[ItemChange]

    def category(self, drop: Drop, item: ItemChange) -> str:
        """Return the field of `Drops` that a drop belongs to."""
        guard = self.guards.of(drop.evaluator)
        rerun_scores = self.reruns.get((drop.key, drop.evaluator))
        assert item.baseline is not None, "what dropped was there before"
        assert item.candidate is not None, "what dropped is there now"
        # An error is not a variation of a score: it counts as documented, whatever the scores vary by.
        errors = _has_more_errors(item.baseline, item.candidate, drop.evaluator)
        if guard in (None, ItemGuard.DOCUMENTED) or errors:
            return (
                "counted"
                if rerun_scores is None or self.is_confirmed_by_majority(drop, rerun_scores)
                else "cleared"
            )
        # Where too many items part to be chance, each of them needs less evidence of its own.
        many = self.is_one_of_many(drop, item)
        if rerun_scores is not None:
            confirmed = (
                self.is_confirmed_by_majority(drop, rerun_scores)
                if many
                else self.is_confirmed_by_all(drop, item, rerun_scores)
            )
            return "counted" if confirmed else "cleared"
        return "counted" if many else self.classify_by_variation(drop, item)

    def is_one_of_many(self, drop: Drop, item: ItemChange) -> bool:
        """Say whether a drop is one of more fully separated items than chance explains."""
        is_separated = any(one.evaluator == drop.evaluator for one in self.separations)
        return is_separated and self.is_apart(drop, *self.scores(item, drop.evaluator))

    def is_confirmed_by_majority(self, drop: Drop, rerun_scores: RerunScores) -> bool:
        """Say whether most of the reruns show the drop."""
        fell = [self.fall(drop, score) > self.margin(drop.evaluator) for score in rerun_scores.scores]
        return 2 * (sum(fell) + rerun_scores.errors) > rerun_scores.times

    def is_confirmed_by_all(self, drop: Drop, item: ItemChange, rerun_scores: RerunScores) -> bool:
        """Say whether even the best rerun is below the baseline by more than the variation."""
        # Reruns that mostly error confirm an error; without any score or error there is nothing to confirm.
        if 2 * rerun_scores.errors > rerun_scores.times or not rerun_scores.scores:
            return rerun_scores.errors > 0
        before, now = self.scores(item, drop.evaluator)
        least = min(self.fall(drop, score) for score in rerun_scores.scores)
        repeats = len(before), len(rerun_scores.scores)
        far = _RERUN_SPREADS * self.variation.own(drop.evaluator, drop.key)
        # The suspicious run is used for how much the item varies, not for how far it fell: it was chosen for
        # that.
        return least > max(self.margin(drop.evaluator), far) and self.stands_out(
            drop, least, before, (*now, *rerun_scores.scores), repeats
        )

    def classify_by_variation(self, drop: Drop, item: ItemChange) -> str:
        before, now = self.scores(item, drop.evaluator)
        repeats, alpha = (len(before), len(now)), self.config.alpha
        runs = self.noise.runs if self.noise and drop.evaluator in self.noise.evaluators else 0
        if not can_judge(*repeats, alpha) and not noise_can_judge(runs, alpha):
            return "unclear"
        fall = self.fall(drop, drop.candidate_mean or 0.0)
        return "counted" if self.stands_out(drop, fall, before, now, repeats) else "explained"

    def stands_out(
        self,
        drop: Drop,
        fall: float,
        before: Sequence[float],
        now: Sequence[float],
        repeats: tuple[int, int],
    ) -> bool:
        among = select_competing_evaluators(self.guards, drop.evaluator, *repeats, self.config.alpha)
        return self.is_apart(drop, before, now) and self.variation.stands_out(
            fall, drop.evaluator, drop.key, among
        )

    def is_apart(self, drop: Drop, before: Sequence[float], now: Sequence[float]) -> bool:
        """Say whether all repeats of the candidate are worse than all of the baseline's."""
        return max(before) < min(now) if drop.evaluator in self.lower_is_better else max(now) < min(before)

    def cause(self, drop: Drop, item: ItemChange) -> str:
        """Return what explains a drop that does not stand out."""
        if not self.is_apart(drop, *self.scores(item, drop.evaluator)):
            return "its repeats overlap"
        among = select_competing_evaluators(self.guards, drop.evaluator, *drop.repeats, self.config.alpha)
        name, key, size = self.variation.loudest(drop.evaluator, drop.key, among)
        if (name, key) == (drop.evaluator, drop.key):
            return f"it varies by {score_text(size)} itself"
        return f"{key} varies by {score_text(size)}" + ("" if name == drop.evaluator else f" in {name}")

    @cached_property
    def separations(self) -> tuple[Separation, ...]:
        """The evaluators of which more items part exactly than chance explains, all together."""
        judged = self.guards.with_guard(ItemGuard.VARIATION, ItemGuard.UNKNOWN)
        tests = [separation_of(name, self.sides(name), self.config.severity_margin) for name in judged]
        level = PART_OF_ALPHA * self.config.alpha / max(1, len(judged))
        return tuple(one for one in tests if one.p_value <= level)

    def sides(self, evaluator: str) -> Iterator[tuple[list[float], list[float]]]:
        """Yield how good the repeats of each shared item are, before and now."""
        for item in self.items:
            if item.baseline is not None and item.candidate is not None:
                before, now = (
                    [share_of(score, self.ranges.get(evaluator)) for score in side]
                    for side in self.scores(item, evaluator)
                )
                lower = evaluator in self.lower_is_better
                yield ([*map(complement, before)], [*map(complement, now)]) if lower else (before, now)

    @cached_property
    def variation(self) -> Variation:
        judged = self.guards.with_guard(ItemGuard.VARIATION, ItemGuard.UNKNOWN)
        return Variation.of(
            self.items,
            {name: self.margin(name) for name in judged},
            lower_is_better=self.lower_is_better,
            reruns={key: rerun_scores.scores for key, rerun_scores in self.reruns.items()},
            noise=self.noise,
        )

    def margin(self, evaluator: str) -> float:
        """Return the margin in the unit of an evaluator's scores."""
        return round_half_up(self.config.severity_margin * width_of(self.ranges.get(evaluator)))

    def scores(self, item: ItemChange, evaluator: str) -> tuple[Sequence[float], Sequence[float]]:
        assert item.baseline is not None, "what dropped was there before"
        assert item.candidate is not None, "what dropped is there now"
        return item.baseline.scores.get(evaluator, ()), item.candidate.scores.get(evaluator, ())

    def fall(self, drop: Drop, score: float) -> float:
        """How much worse a score is than the baseline's mean."""
        fall = drop.baseline_mean - score
        return round_half_up(-fall if drop.evaluator in self.lower_is_better else fall)


def _has_more_errors(before: ItemSnapshot, now: ItemSnapshot, evaluator: str) -> bool:
    return _share_of_errors(now, evaluator) > _share_of_errors(before, evaluator)


def _error(item: ItemSnapshot, evaluator: str) -> str | None:
    """Return the error of an evaluator or the task, and in how many of several repeats it occurred."""
    error, times = item.error_of(evaluator), item.count_errors(evaluator)
    return error if error is None or item.repeats == 1 else f"{times} of {item.repeats} runs: {error}"


def _share_of_errors(item: ItemSnapshot, evaluator: str) -> float:
    errored = item.count_errors(evaluator)
    return errored / (errored + len(item.scores.get(evaluator, ()))) if errored else 0.0
