"""Which form of guard 2 judges the single items of each evaluator under severity="auto", and why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

from dokimos._core.number_format import format_score as score_text
from dokimos._core.score_range import share_of
from dokimos._core.text import pluralize
from dokimos.comparison._detectable_drop import find_smallest_p
from dokimos.comparison._diff import MetricChange, RunComparison, ScoreChange
from dokimos.comparison._snapshot import EvaluatorFacts, ItemSnapshot, Snapshot
from dokimos.comparison._wording import points
from dokimos.gate._gate_config import GateConfig
from dokimos.gate._variation import NoiseMeasurements, spread

FEWEST_ITEMS: Final = 6
"""Below so many items the documented guard stays: guard 1 does not see even a total collapse."""
_FAR: Final = 0.5
_FAR_CHANCE: Final = 0.25
"""How often noise alone takes a score down by more than half of its range, at most.

It has to be above the middle before and below it after, and whatever the chance q of being above it is, that
is q * (1 - q). That an item falls at all where it changes has a chance of a half.
"""
QUIET_REPEATS: Final = 3
RERUNS: Final = 3
_MOST_NAMES: Final = 5
_NOISE_RUNS_TIMES_ALPHA: Final = 0.25
"""What it takes of `dokimos noise` to judge a single run: 5 runs at alpha = 0.05."""


class ItemGuard(StrEnum):
    """The forms of guard 2: what makes the drop of a single item count."""

    DOCUMENTED = "documented"
    """Every drop by more than the margin counts: `severity="any"`."""
    VARIATION = "variation"
    """Drops by more than the margin that stand out from what repeats vary by."""
    UNKNOWN = "unknown"
    """None does until its item is run again: there are too few repeats to tell it from noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardChoice:
    """The form of guard 2 that was chosen for one evaluator."""

    evaluator: str
    guard: ItemGuard
    reason: str
    """Why, to go on a sentence with."""

    def tree(self) -> dict[str, Any]:
        return {"evaluator": self.evaluator, "guard": self.guard.value, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class ItemGuards:
    """The choices for all evaluators; empty unless severity is auto."""

    choices: tuple[GuardChoice, ...] = ()
    warnings: tuple[str, ...] = ()
    margin: float = 0.0
    can_rerun: bool = True
    """Whether items can be run again where this is read."""

    def of(self, evaluator: str) -> ItemGuard | None:
        return next((one.guard for one in self.choices if one.evaluator == evaluator), None)

    def with_guard(self, *guards: ItemGuard) -> tuple[str, ...]:
        return tuple(one.evaluator for one in self.choices if one.guard in guards)

    @property
    def sentences(self) -> Iterator[str]:
        """Yield what counts for each evaluator and why, grouped by reason."""
        groups: dict[tuple[ItemGuard, str], list[str]] = {}
        for one in self.choices:
            groups.setdefault((one.guard, one.reason), []).append(one.evaluator)
        for (guard, reason), names in groups.items():
            yield f"{_names(names)}: {self._rule(guard)}, since {reason}."

    def _rule(self, guard: ItemGuard) -> str:
        return {
            ItemGuard.DOCUMENTED: f"any drop by more than {points(self.margin)} counts",
            ItemGuard.VARIATION: (
                f"a drop by more than {points(self.margin)} counts where it stands out from the variation, "
                "or more items fell so than chance explains"
            ),
            ItemGuard.UNKNOWN: (
                f"a drop by more than {points(self.margin)} counts "
                + ("where running the item again confirms it" if self.can_rerun else "only with more repeats")
            ),
        }[guard]


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def choose_guards(
    comparison: RunComparison,
    baseline: Snapshot,
    candidate: Snapshot,
    config: GateConfig,
    noise: NoiseMeasurements | None = None,
    *,
    can_rerun: bool = True,
) -> ItemGuards:
    """Choose the form of guard 2 for each evaluator by what its repeats showed, and for a total collapse."""
    if config.severity != "auto":
        return ItemGuards()
    chooser = _Chooser(comparison, baseline, candidate, config, noise)
    choices = tuple(
        chooser.choice(metric) for metric in comparison.evaluators if _is_on_both(metric, chooser)
    )
    return ItemGuards(
        choices=choices,
        warnings=(_foreign_warning(config),) if choices and not baseline.records_repeats else (),
        margin=config.severity_margin,
        can_rerun=can_rerun,
    )


def _is_on_both(metric: MetricChange, chooser: _Chooser) -> bool:
    sides = (chooser.baseline.evaluators, chooser.candidate.evaluators)
    return all(metric.name in side for side in sides)


def _foreign_warning(config: GateConfig) -> str:
    return (
        "The baseline has neither repeats nor a word on which evaluators are deterministic, as other "
        "implementations of dokimos write it, so the documented guard is kept: any drop of a single item by "
        f"more than {points(config.severity_margin)} fails the gate, noise or not. With a baseline "
        "of this dokimos, drops are judged by what repeats vary by."
    )


def repeats_needed(alpha: float) -> int:
    """Return how many repeats on each side can make the drop of a single item certain at alpha."""
    repeats = QUIET_REPEATS
    while not can_judge(repeats, repeats, alpha):
        repeats += 1
    return repeats


def can_judge(before: int, now: int, alpha: float, evaluators: int = 1) -> bool:
    """Say whether repeats part exactly between two sides by chance alone with at most alpha.

    That is one in the number of ways to deal them out, for each evaluator that is judged by itself.
    """
    # 20 * 0.05 counts as 1 whatever rounding does: three repeats on each side are just enough at alpha 0.05.
    return math.comb(before + now, before) * alpha >= evaluators * (1 - 1e-9)


def noise_can_judge(runs: int, alpha: float) -> bool:
    """Say whether so many runs of `dokimos noise` show nearly all items that could drop by chance.

    An item that varies stays unseen in all of them, and drops in the one run that is compared, with a chance
    of at most 1 in e * (runs + 2); that no other item is seen to vary meanwhile takes that below alpha.
    """
    return runs * alpha >= _NOISE_RUNS_TIMES_ALPHA - 1e-9


@dataclass(frozen=True)
class _Chooser:
    """Chooses a form of guard 2 by what is known about the noise of each evaluator."""

    comparison: RunComparison
    baseline: Snapshot
    candidate: Snapshot
    config: GateConfig
    noise: NoiseMeasurements | None

    def choice(self, metric: MetricChange) -> GuardChoice:
        guard, reason = self._guard(metric)
        return GuardChoice(evaluator=metric.name, guard=guard, reason=reason)

    def _guard(self, metric: MetricChange) -> tuple[ItemGuard, str]:
        # First: where guard 1 cannot see a collapse, guard 2 is all there is, whatever repeats say.
        reason = self._reason_for_documented(metric)
        if reason is not None:
            return ItemGuard.DOCUMENTED, reason
        before, now = self.repeats(0, metric.name), self.repeats(1, metric.name)
        runs, alpha = self.noise_runs(metric.name), self.config.alpha
        largest_spread = self._largest_spread(metric.name)
        evidence = (
            f"{runs} runs of dokimos noise" if runs > max(before, now) else f"{max(before, now)} repeats"
        )
        if (
            not largest_spread
            and max(before, now, runs) >= QUIET_REPEATS
            and self._is_deterministic(metric.name)
        ):
            return ItemGuard.DOCUMENTED, f"scoring is deterministic and {evidence} did not vary"
        if can_judge(before, now, alpha) or noise_can_judge(runs, alpha):
            amount = f"vary by up to {score_text(largest_spread)}" if largest_spread else "do not vary"
            return ItemGuard.VARIATION, f"{evidence} {amount}"
        # Some items may have repeats enough even though the least repeated ones have not.
        if any(can_judge(*counts, alpha) for counts in self.counts(metric.name)):
            return ItemGuard.UNKNOWN, (
                f"drops of items with fewer than {repeats_needed(alpha)} repeats on each side cannot be told "
                "from noise; the others are judged by what repeats vary by"
            )
        have = "one repeat on each side" if before == now == 1 else f"{before} and {now} repeats"
        also = f" and {runs} runs of dokimos noise" if runs else ""
        return ItemGuard.UNKNOWN, f"{have}{also} cannot tell a drop from noise"

    def _reason_for_documented(self, metric: MetricChange) -> str | None:
        """Say why no drop may pass as noise: guard 1 might not see a collapse, or nothing is known of it."""
        if not self.baseline.records_repeats:
            return "the baseline says nothing of repeats or of determinism"
        if metric.n < FEWEST_ITEMS:
            return (
                f"{pluralize(metric.n, 'shared item')} {'is' if metric.n == 1 else 'are'} too few for guard 1"
            )
        if self._is_blind(metric.n):
            return (
                f"guard 1 could not see even the collapse of all {metric.n} shared items at alpha = "
                f"{self.config.alpha:g}"
            )
        if self._has_collapsed(metric):
            return "all items that could fall did, unseen by guard 1"
        return None

    def _is_blind(self, items: int) -> bool:
        """Say whether guard 1 would not see that so many items fall and no other changes."""
        tests = 1 + len(self.comparison.evaluators)
        return find_smallest_p(items, tests, self.comparison.config) >= self.config.alpha

    def _has_collapsed(self, metric: MetricChange) -> bool:
        """Say whether all items that could fall did and none rose, unseen by guard 1 and no likely chance.

        Items that had the worst score before cannot fall; where most have, the rest is too few for a test.
        """
        margin = self.config.severity_margin
        worst = 1.0 if metric.lower_is_better else 0.0
        changes = [
            score
            for score in self.changes.get(metric.name, ())
            if score.baseline_mean is not None and score.candidate_mean is not None
        ]
        falls = [
            metric.worsening(score.share)
            for score in changes
            if abs(share_of(score.baseline_mean or 0.0, metric.score_range) - worst) > margin
        ]
        if metric.significant or metric.better or not falls or min(falls) <= margin:
            return False
        # Only without a selection: items chosen for being high before fall with a chance of 1 - q, and not of
        # q * (1 - q).
        fell_far = len(falls) == len(changes) and min(falls) > _FAR
        chance = (_FAR_CHANCE if fell_far else 0.5) ** len(falls)
        return chance * self._tests <= self.config.alpha

    @property
    def _tests(self) -> int:
        """How many tests share alpha: a single evaluator and the pass rate that is made of it are one."""
        evaluators = len(self.comparison.evaluators)
        return evaluators + 1 if evaluators > 1 else 1

    @cached_property
    def changes(self) -> dict[str, list[ScoreChange]]:
        """What became of the scores of the items of both sides, by evaluator."""
        by_evaluator: dict[str, list[ScoreChange]] = {}
        for item in self.comparison.items:
            for score in item.evaluators:
                by_evaluator.setdefault(score.name, []).append(score)
        return by_evaluator

    def _largest_spread(self, evaluator: str) -> float:
        """Return the largest spread between an item's repeats, in the runs or in the noise measurement."""
        seen = [spread(side.scores.get(evaluator, ())) for pair in self.common_pairs for side in pair]
        if self.noise is not None:
            seen += self.noise.spreads.get(evaluator, {}).values()
        return max(seen, default=0.0)

    def noise_runs(self, evaluator: str) -> int:
        return self.noise.runs if self.noise is not None and evaluator in self.noise.evaluators else 0

    def repeats(self, side: int, evaluator: str) -> int:
        """Return how often the shared items of a side were run, at the least."""
        counts = [
            _repeats(pair[side], evaluator) for pair in self.common_pairs if evaluator in pair[side].scores
        ]
        return min(counts, default=1)

    def counts(self, evaluator: str) -> Iterator[tuple[int, int]]:
        """Return how many scores each shared item has on each side."""
        for before, now in self.common_pairs:
            yield len(before.scores.get(evaluator, ())), len(now.scores.get(evaluator, ()))

    @cached_property
    def common_pairs(self) -> list[tuple[ItemSnapshot, ItemSnapshot]]:
        return [
            (item.baseline, item.candidate)
            for item in self.comparison.items
            if item.baseline is not None and item.candidate is not None
        ]

    def _is_deterministic(self, evaluator: str) -> bool:
        sides = (self.baseline.evaluators, self.candidate.evaluators)
        return all(side.get(evaluator, EvaluatorFacts(name=evaluator)).deterministic for side in sides)


def _repeats(item: ItemSnapshot, evaluator: str) -> int:
    return len(item.scores[evaluator]) + item.count_errors(evaluator)


def select_competing_evaluators(
    guards: ItemGuards, evaluator: str, before: int, now: int, alpha: float
) -> tuple[str, ...]:
    """Return the evaluators whose variation a drop is held against.

    All that are judged share one error rate. With repeats enough for each of them to have its part of alpha,
    an evaluator stands by itself; else a spread that stands out in any speaks against the drop.
    """
    judged = guards.with_guard(ItemGuard.VARIATION, ItemGuard.UNKNOWN)
    return (evaluator,) if can_judge(before, now, alpha, len(judged)) else judged
