"""The decision of a gate, without I/O: which guards fire on a candidate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from dokimos._core.results import RunStatus
from dokimos._core.text import format_list, pluralize
from dokimos.comparison._comparison_builder import compare_runs
from dokimos.comparison._config import Pairing
from dokimos.comparison._diff import Change, MetricChange, RunComparison, title
from dokimos.comparison._snapshot import Snapshot
from dokimos.comparison._warnings import warn_of_baseline
from dokimos.comparison._wording import (
    change_sentence,
    find_unseen_change,
    points,
    share,
    verdict_text,
)
from dokimos.gate._drop_sentences import count_drops, describe_drops, explain_too_few, format_drops
from dokimos.gate._gate_config import GateConfig
from dokimos.gate._item_guards import ItemGuards, choose_guards
from dokimos.gate._level import Level
from dokimos.gate._separation import PART_OF_ALPHA
from dokimos.gate._severity import Drop, Drops, Reruns, classify_drops
from dokimos.gate._variation import NoiseMeasurements
from dokimos.stats._mcnemar import mcnemar_p

MOSTLY: Final = 0.5
"""A candidate of which more than this share errored says nothing, nor does an evaluator that lost as much."""


class Guard(StrEnum):
    """The guards of a gate."""

    REGRESSION = "regression"
    """Guard 1: the pass rate or an evaluator got significantly worse."""
    SEVERITY = "severity"
    """Guard 2: a single item got much worse, or errors where it had a score."""
    ERRORS = "errors"
    """The candidate is empty, errored for the most part, or shares no item with the baseline."""
    INCOMPLETE = "incomplete"
    """The candidate's run did not end."""
    REMOVED_EVALUATOR = "removed_evaluator"
    REMOVED_ITEMS = "removed_items"
    POWER = "power"
    """The comparison could not have seen the drop that it has to see."""
    NO_BASELINE = "no_baseline"


@dataclass(frozen=True, slots=True)
class GuardFinding:
    """A guard that fired, and why."""

    guard: Guard
    reason: str
    """A sentence."""
    fails: bool = True
    """Whether it keeps the gate from passing, or is only reported."""
    is_inconclusive: bool = False
    """Whether it says that the comparison cannot tell, not that something got worse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a gate found, before anything is written."""

    comparison: RunComparison
    findings: tuple[GuardFinding, ...]
    drops: tuple[Drop, ...]
    """What made guard 2 fire, the worst first."""
    cleared: tuple[Drop, ...] = ()
    """What would have made it fire, had running the items again confirmed it."""
    explained: tuple[Drop, ...] = ()
    """What fell by more than the margin, but does not stand out from what repeats vary by."""
    unclear: tuple[Drop, ...] = ()
    """What fell by more than the margin and cannot be told from noise with the repeats there are."""
    guards: ItemGuards = field(default_factory=ItemGuards)
    """Which form of guard 2 each evaluator got under `severity="auto"`, and why."""
    items_unseen: bool = False
    """Whether guard 2 could not have fired, whatever the scores of single items are."""
    item_guard_notes: tuple[str, ...] = ()
    """For which evaluators guard 2 could not have fired, and why."""
    warnings: tuple[str, ...] = ()
    baseline_warnings: tuple[str, ...] = ()
    """Those of `warnings` that say why this baseline is a bad one."""

    @property
    def is_failing(self) -> bool:
        return any(one.fails and not one.is_inconclusive for one in self.findings)

    @property
    def rests_on_drops(self) -> bool:
        """Whether the verdict depends on single items, and else on nothing but power."""
        speak = {one.guard for one in self.findings if one.fails or one.is_inconclusive}
        return speak - {Guard.POWER} == {Guard.SEVERITY}

    @property
    def is_inconclusive(self) -> bool:
        return not self.is_failing and any(one.is_inconclusive for one in self.findings)

    @property
    def is_passing(self) -> bool:
        return not any(one.fails for one in self.findings)


def decide(
    baseline: Snapshot,
    candidate: Snapshot,
    config: GateConfig,
    *,
    pairing: Pairing | None = None,
    reruns: Reruns | None = None,
    noise: NoiseMeasurements | None = None,
    can_rerun: bool = True,
) -> Decision:
    """Compare a candidate with its baseline and return which guards fire.

    Args:
        baseline, candidate: What to compare with, and what is to be let through.
        config, pairing: The gate's options, and how the baseline says that items are paired.
        reruns, noise: What running suspicious items again gave, and what is known of the unchanged system.
        can_rerun: Whether that is possible at all, and so worth advising.
    """
    # Alpha is shared out before anything is compared: guard 1 tests at what guard 2 leaves it.
    level = Level.of(baseline, candidate, config)
    settings = config.comparison(pairing=pairing, alpha=level.regression)
    comparison = compare_runs(baseline, candidate, config=settings)
    stale = () if noise is None else noise.stale(baseline.evaluators, candidate.evaluators)
    noise = None if noise is None else noise.without(stale)
    applicable_noise = None if noise is None else noise.covering(comparison.items)
    guards = choose_guards(comparison, baseline, candidate, config, applicable_noise, can_rerun=can_rerun)
    drops = classify_drops(
        comparison, candidate, config, level, guards=guards, reruns=reruns, noise=applicable_noise
    )
    return Decision(
        comparison=comparison,
        findings=tuple(_find_all(candidate, comparison, drops, config, level, guards)),
        drops=drops.counted,
        cleared=drops.cleared,
        explained=drops.explained,
        unclear=drops.unclear,
        guards=guards,
        items_unseen=level.is_blind,
        item_guard_notes=level.notes,
        warnings=(
            *comparison.warnings,
            *_warn_of_removals(comparison, config),
            *level.notes,
            *guards.warnings,
            *(_warn_of_unused_noise(noise, applicable_noise, stale) if config.severity == "auto" else ()),
            *describe_drops(drops, comparison, config),
        ),
        baseline_warnings=tuple(warn_of_baseline(baseline)),
    )


def _find_all(
    candidate: Snapshot,
    comparison: RunComparison,
    drops: Drops,
    config: GateConfig,
    level: Level,
    guards: ItemGuards,
) -> list[GuardFinding]:
    findings = [
        *_find_unusable(candidate, comparison, config),
        *_find_regressions(comparison, config),
        *_find_counted_drops(drops.counted, config, level),
        *_find_unclear_drops(drops.unclear, config, can_rerun=guards.can_rerun),
        *_find_removed(comparison, config),
    ]
    # A failure stands, however little else the comparison could have seen; power only matters to what would
    # pass.
    if not any(one.fails and not one.is_inconclusive for one in findings):
        findings += _find_lack_of_power(comparison, config)
    if not findings and (level.is_blind or config.severity == "off"):
        findings += _find_unseen_drop(comparison, config)
    return findings


def _find_unusable(
    candidate: Snapshot, comparison: RunComparison, config: GateConfig
) -> Iterator[GuardFinding]:
    if not candidate.items:
        yield GuardFinding(Guard.ERRORS, "The candidate has no items: nothing was measured.")
        return
    errored = len(candidate.items_in_error)
    if errored > MOSTLY * len(candidate.items):
        yield GuardFinding(
            Guard.ERRORS,
            f"{errored} of {pluralize(len(candidate.items), 'item')} of the candidate errored, so it says "
            "too little about the rest.",
        )
    else:
        yield from _find_silent_evaluators(comparison, config)
    if comparison.count(Change.ADDED) == len(candidate.items):
        yield GuardFinding(
            Guard.ERRORS,
            "No item of the candidate is in the baseline, so there is nothing to compare. If the data set "
            "was replaced, the gate needs a new baseline.",
        )
    if candidate.status not in (RunStatus.COMPLETED, RunStatus.BROKEN):
        yield GuardFinding(
            Guard.INCOMPLETE,
            f"The candidate's run did not end ({candidate.status.in_words}): resume it, then gate it.",
        )


def _find_silent_evaluators(comparison: RunComparison, config: GateConfig) -> Iterator[GuardFinding]:
    """Evaluators of both sides that lost half of the baseline's scores, or more than chance takes away.

    By chance as many items gain a score as lose one. Losses that an error explains are left to guard 2.
    """
    # An item counts as lost only if both sides have it; removed items have a guard of their own.
    scored, lost, unexplained, gained = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for item in comparison.items:
        if item.baseline is None or item.candidate is None:
            continue
        for score in item.evaluators:
            missing = score.candidate_mean is None
            if score.baseline_mean is None:
                gained[score.name] += not missing
                continue
            scored[score.name] += 1
            lost[score.name] += missing
            unexplained[score.name] += missing and item.candidate.error_of(score.name) is None
    # A share of the part of alpha that the other guards leave, split over all evaluators (Bonferroni).
    level = PART_OF_ALPHA * config.alpha / max(1, len(scored))
    for name, count in lost.items():
        if name in comparison.removed_evaluators:
            continue
        drained = unexplained[name] > gained[name] and mcnemar_p(unexplained[name], gained[name]) <= level
        if count and count >= MOSTLY * scored[name]:
            reason = f"{_no_score(name, count, scored)}, so it says too little about the rest."
            yield GuardFinding(Guard.ERRORS, reason)
        elif drained and config.on_removed_evaluator == "fail":
            yield GuardFinding(
                Guard.ERRORS,
                f"{_no_score(name, unexplained[name], scored)}, and no error says why. That is more than "
                "chance explains, and hides how these items did.",
            )


def _no_score(name: str, count: int, scored: Mapping[str, int]) -> str:
    items = pluralize(scored[name], "item")
    return f"{name} gave no score for {count} of the {items} that it scored in the baseline"


def _find_regressions(comparison: RunComparison, config: GateConfig) -> Iterator[GuardFinding]:
    for metric in comparison.metrics:
        if metric.change is Change.REGRESSED:
            yield GuardFinding(Guard.REGRESSION, change_sentence(metric), config.fail_on_regression)


def _find_counted_drops(drops: Sequence[Drop], config: GateConfig, level: Level) -> Iterator[GuardFinding]:
    if not drops:
        return
    how = {
        "confirmed": f", by a deterministic evaluator or in all repeats{level.chance}",
        "calibrated": f", p below {level.drop or 0:.2g}",
    }
    rule = f"more than {points(config.severity_margin)}{how.get(config.severity, '')}"
    yield GuardFinding(
        Guard.SEVERITY,
        f"{count_drops(drops)} by {rule}: {format_drops(drops)}.",
        config.fail_on_regression,
    )


def _find_unclear_drops(
    drops: Sequence[Drop], config: GateConfig, *, can_rerun: bool
) -> Iterator[GuardFinding]:
    if drops:
        rerun = ", or let the gate run such items again (rerun)" if can_rerun else ""
        yield GuardFinding(
            Guard.SEVERITY,
            f"{count_drops(drops)} by more than {points(config.severity_margin)}, which "
            f"{explain_too_few(drops, config)} on each side{rerun}: {format_drops(drops)}.",
            fails=config.require_power is not None and config.fail_on_regression,
            is_inconclusive=config.fail_on_regression,
        )


def _warn_of_unused_noise(
    noise: NoiseMeasurements | None, applicable_noise: NoiseMeasurements | None, stale: Sequence[str]
) -> Iterator[str]:
    """Yield warnings about noise measurements that are not used, and why."""
    if stale:
        yield (
            "The figures of dokimos noise were measured with other settings or another judge of "
            f"{format_list(list(stale))}, so they are not used for it. Measure the noise again."
        )
    if noise is None or applicable_noise is None:
        return
    lost = [name for name in noise.evaluators if name not in applicable_noise.evaluators]
    if lost:
        yield (
            f"The figures of dokimos noise do not cover all items that {format_list(lost)} scored here, "
            "so they are not used for it. Measure the noise of this data set again."
        )


def _find_removed(comparison: RunComparison, config: GateConfig) -> Iterator[GuardFinding]:
    if comparison.removed_evaluators and config.on_removed_evaluator == "fail":
        names = format_list(list(comparison.removed_evaluators))
        yield GuardFinding(
            Guard.REMOVED_EVALUATOR,
            f"The candidate lacks {names}, which the baseline has: leaving one out can hide a regression.",
        )
    removed = comparison.count(Change.REMOVED)
    if removed and config.fail_on_removed_items:
        yield GuardFinding(
            Guard.REMOVED_ITEMS, f"The candidate lacks {pluralize(removed, 'item')} of the baseline."
        )


def _warn_of_removals(comparison: RunComparison, config: GateConfig) -> Iterator[str]:
    if comparison.removed_evaluators:
        evaluators = format_list(list(comparison.removed_evaluators))
        yield f"The candidate lacks {evaluators}, which the baseline has."
    removed = comparison.count(Change.REMOVED)
    if removed and not config.fail_on_removed_items:
        yield f"The candidate lacks {pluralize(removed, 'item')} of the baseline."


def _find_lack_of_power(comparison: RunComparison, config: GateConfig) -> Iterator[GuardFinding]:
    if config.require_power is None:
        return
    blind = [metric for metric in comparison.metrics if metric.n and _is_blind(metric, config)]
    if not any(metric.n for metric in comparison.metrics):
        yield GuardFinding(
            Guard.POWER, "No metric was compared, so no drop could have been seen.", is_inconclusive=True
        )
    elif blind:
        # None means that not even a drop of everything is seen: the worst of all.
        worst = max(blind, key=lambda metric: metric.detectable_drop or math.inf)
        needed = _max_if_all_known(
            [metric.items_needed(config.detect_drop, config.require_power) for metric in blind]
        )
        seen = worst.detectable_drop
        drop = f"drop of the {title(worst)}"
        smallest = (
            f"no {drop} is seen" if seen is None else f"the smallest {drop} that is seen is {points(seen)}"
        )
        decides = "more than a million" if needed is None else f"{needed:,}"
        yield GuardFinding(
            Guard.POWER,
            f"A drop of {points(config.detect_drop)} must be seen with {share(config.require_power)} "
            f"power. With {pluralize(worst.n, 'item')}, {smallest}; {decides} items would be enough.",
            is_inconclusive=True,
        )


def _find_unseen_drop(comparison: RunComparison, config: GateConfig) -> Iterator[GuardFinding]:
    """Find a drop where no guard could have fired, so that their silence says nothing."""
    moved = find_unseen_change(comparison)
    if moved is not None and moved.worse > moved.better:
        yield GuardFinding(
            Guard.POWER,
            f"No guard could have fired. {verdict_text(comparison)}.",
            fails=config.require_power is not None and config.fail_on_regression,
            is_inconclusive=config.fail_on_regression,
        )


def _is_blind(metric: MetricChange, config: GateConfig) -> bool:
    seen = metric.detectable_drop
    return seen is None or seen > config.detect_drop


def _max_if_all_known(counts: Sequence[int | None]) -> int | None:
    numbers = [count for count in counts if count is not None]
    return max(numbers) if len(numbers) == len(counts) else None
