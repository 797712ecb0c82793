"""The decision of a gate, without any file: which guards fire on a candidate."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dokimos.comparison.comparing import compare_runs
from dokimos.comparison.config import Pairing
from dokimos.comparison.diff import Change, MetricChange, RunComparison, title
from dokimos.comparison.snapshot import Snapshot
from dokimos.comparison.wording import change_sentence, points, share
from dokimos.core.results import RunStatus
from dokimos.core.text import counted, listed
from dokimos.gate.config import GateConfig
from dokimos.gate.severity import Drop, Level, drops_of

MOSTLY: Final = 0.5
"""A candidate of which more than this share errored says nothing."""


class Guard(StrEnum):
    """What a gate looks at."""

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
class Fired:
    """A guard that fired."""

    guard: Guard
    reason: str
    """A sentence."""
    fails: bool = True
    """Whether it fails the gate, or is only reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a gate found, before anything is written."""

    comparison: RunComparison
    fired: tuple[Fired, ...]
    drops: tuple[Drop, ...]
    """What made guard 2 fire, the worst first."""
    cleared: tuple[Drop, ...] = ()
    """What would have made it fire, had running the items again confirmed it."""
    warnings: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return any(one.fails and one.guard is not Guard.POWER for one in self.fired)

    @property
    def rests_on_drops(self) -> bool:
        """Whether the gate fails for single items and for nothing else."""
        return {one.guard for one in self.fired if one.fails} == {Guard.SEVERITY}

    @property
    def inconclusive(self) -> bool:
        return not self.failed and any(one.guard is Guard.POWER for one in self.fired)


def decide(
    baseline: Snapshot,
    candidate: Snapshot,
    config: GateConfig,
    *,
    pairing: Pairing | None = None,
    cleared: Collection[tuple[str, str]] = (),
) -> Decision:
    """Compare a candidate with its baseline and say which guards fire.

    Args:
        baseline: What to compare with.
        candidate: What is to be let through.
        config: The gate's options.
        pairing: How the baseline says that items are paired.
        cleared: Item key and evaluator of drops that running the items again did not confirm.
    """
    level = Level.of(baseline, candidate, config)
    comparison = compare_runs(
        baseline, candidate, config=config.comparison(pairing=pairing, alpha=level.regression)
    )
    drops = drops_of(comparison, candidate, config, level)
    kept = tuple(drop for drop in drops if (drop.key, drop.evaluator) not in cleared)
    fired = [
        *_unusable(candidate, comparison),
        *_regressions(comparison, config),
        *_severity(kept, config, level),
        *_removed(comparison, config),
    ]
    if not any(one.fails for one in fired):
        fired += _powerless(comparison, config)
    return Decision(
        comparison=comparison,
        fired=tuple(fired),
        drops=kept,
        cleared=tuple(drop for drop in drops if (drop.key, drop.evaluator) in cleared),
        warnings=(*comparison.warnings, *_removals(comparison, config), *level.notes),
    )


def _unusable(candidate: Snapshot, comparison: RunComparison) -> Iterator[Fired]:
    if not candidate.items:
        yield Fired(Guard.ERRORS, "The candidate has no items: nothing was measured.")
        return
    errored = len(candidate.errored)
    if errored > MOSTLY * len(candidate.items):
        yield Fired(
            Guard.ERRORS,
            f"{errored} of {counted(len(candidate.items), 'item')} of the candidate errored, so it says too "
            "little about the rest.",
        )
    else:
        yield from _silent(comparison)
    if comparison.count(Change.ADDED) == len(candidate.items):
        yield Fired(
            Guard.ERRORS,
            "No item of the candidate is in the baseline, so there is nothing to compare. If the data set "
            "was replaced, accept a new baseline.",
        )
    if candidate.status not in (RunStatus.COMPLETED, RunStatus.BROKEN):
        yield Fired(
            Guard.INCOMPLETE,
            f"The candidate's run did not end ({candidate.status.in_words}): resume it, then gate it.",
        )


def _silent(comparison: RunComparison) -> Iterator[Fired]:
    """Evaluators of both sides that lost most of the scores which the baseline has."""
    scored, lost = Counter[str](), Counter[str]()
    for item in comparison.items:
        if item.baseline is None or item.candidate is None:
            continue
        for score in item.evaluators:
            if score.baseline_mean is not None:
                scored[score.name] += 1
                lost[score.name] += score.candidate_mean is None
    for name, count in lost.items():
        if count > MOSTLY * scored[name] and name not in comparison.removed_evaluators:
            yield Fired(
                Guard.ERRORS,
                f"{name} gave no score for {count} of the {counted(scored[name], 'item')} that it scored in "
                "the baseline, so it says too little about the rest.",
            )


def _regressions(comparison: RunComparison, config: GateConfig) -> Iterator[Fired]:
    for metric in comparison.metrics:
        if metric.change is Change.REGRESSED:
            yield Fired(Guard.REGRESSION, change_sentence(metric), config.fail_on_regression)


def _severity(drops: Sequence[Drop], config: GateConfig, level: Level) -> Iterator[Fired]:
    if not drops:
        return
    shown = "; ".join(drop.sentence for drop in drops[:3])
    more = f" (and {len(drops) - 3} more)" if len(drops) > 3 else ""
    how = {
        "confirmed": f", by a deterministic evaluator or in all repeats{level.chance}",
        "calibrated": f", p below {level.drop or 0:.2g}",
    }
    rule = f"more than {points(config.severity_margin)}{how.get(config.severity, '')}"
    yield Fired(
        Guard.SEVERITY,
        f"{counted(len(drops), 'score')} of single items dropped by {rule}: {shown}{more}.",
        config.fail_on_regression,
    )


def _removed(comparison: RunComparison, config: GateConfig) -> Iterator[Fired]:
    if comparison.removed_evaluators and config.on_removed_evaluator == "fail":
        names = listed(list(comparison.removed_evaluators))
        yield Fired(
            Guard.REMOVED_EVALUATOR,
            f"The candidate lacks {names}, which the baseline has: leaving one out can hide a regression.",
        )
    removed = comparison.count(Change.REMOVED)
    if removed and config.fail_on_removed_items:
        yield Fired(Guard.REMOVED_ITEMS, f"The candidate lacks {counted(removed, 'item')} of the baseline.")


def _removals(comparison: RunComparison, config: GateConfig) -> Iterator[str]:
    if comparison.removed_evaluators:
        yield f"The candidate lacks {listed(list(comparison.removed_evaluators))}, which the baseline has."
    removed = comparison.count(Change.REMOVED)
    if removed and not config.fail_on_removed_items:
        yield f"The candidate lacks {counted(removed, 'item')} of the baseline."


def _powerless(comparison: RunComparison, config: GateConfig) -> Iterator[Fired]:
    if config.require_power is None:
        return
    blind = [metric for metric in comparison.metrics if metric.n and _is_blind(metric, config)]
    if not any(metric.n for metric in comparison.metrics):
        yield Fired(Guard.POWER, "No metric was compared, so no drop could have been seen.")
    elif blind:
        worst = max(blind, key=lambda metric: metric.detectable_drop or math.inf)
        needed = _most([metric.items_needed(config.detect_drop, config.require_power) for metric in blind])
        seen = worst.detectable_drop
        smallest = "none at all" if seen is None else f"only those from {points(seen)} on"
        decides = "more than a million" if needed is None else f"{needed:,}"
        yield Fired(
            Guard.POWER,
            f"A drop of {points(config.detect_drop)} must be seen with {share(config.require_power)} "
            f"power. Of the drops of the {title(worst)}, {counted(worst.n, 'item')} show {smallest}; "
            f"{decides} items would decide.",
        )


def _is_blind(metric: MetricChange, config: GateConfig) -> bool:
    seen = metric.detectable_drop
    return seen is None or seen > config.detect_drop


def _most(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return max(known) if len(known) == len(counts) else None
