"""What changed since the last run of a watch: the items that pass now or fail now, in a few lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dokimos._core.number_format import format_score, to_single_line

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult
    from dokimos.comparison._diff import ItemChange, RunComparison

MOST_ITEMS: Final = 10


PASSING_SO_FAR: Final = "passing so far, with repeats that were not run"


def compare_with_previous(previous: Path, result: ExperimentResult, *, repeats: int) -> Iterator[str]:
    """Yield what changed between an earlier run and this one, which was started for so many repeats."""
    from dokimos.comparison._comparison_builder import compare_runs
    from dokimos.comparison._snapshot import Snapshot
    from dokimos.errors import DokimosError
    from dokimos.experiment._run_loading import load_run

    try:
        comparison = compare_runs(Snapshot.of(load_run(previous)), Snapshot.of(result))
    except DokimosError as error:
        yield f"What changed since {previous.name} cannot be said: {error}"
        return
    yield from render_changes(comparison, previous.name, repeats=repeats)


def render_changes(comparison: RunComparison, previous: str, *, repeats: int) -> Iterator[str]:
    """Yield the counts, then the items: newly failing, fixed, and those whose scores alone moved."""
    from dokimos.comparison._diff import Change

    both = [item for item in comparison.items if item.baseline is not None and item.candidate is not None]
    fails = [item for item in both if item.pass_flip and not _passes(item)]
    passing = [item for item in both if item.pass_flip and _passes(item)]
    fixed = [item for item in passing if _repeats_of(item) >= repeats]
    unfinished = len(passing) - len(fixed)
    moved = [item for item in both if not item.pass_flip and any(_moves(item))]
    added, removed = comparison.count(Change.ADDED), comparison.count(Change.REMOVED)
    numbers = [(len(fails), "newly failing"), (len(fixed), "fixed"), (len(moved), "with other scores")]
    numbers += [(unfinished, PASSING_SO_FAR), (added, "added"), (removed, "removed")]
    counts = [f"{count:,} {what}" for count, what in numbers if count]
    yield f"Since {previous}: {', '.join(counts) or 'no item has changed'}"
    for what, items in (("newly failing", fails), ("fixed", fixed), ("moved", moved)):
        for item in items[:MOST_ITEMS]:
            yield f"  {what:<14} {to_single_line(item.key, 30)}  {'; '.join(_moves(item)):.120}".rstrip()
        if len(items) > MOST_ITEMS:
            yield f"  {what:<14} and {len(items) - MOST_ITEMS:,} more"


def _repeats_of(item: ItemChange) -> int:
    return 0 if item.candidate is None else len(item.candidate.results)


def _passes(item: ItemChange) -> bool:
    share = None if item.candidate is None else item.candidate.pass_share
    # Of several repeats the majority decides.
    return share is not None and share >= 0.5


def _moves(item: ItemChange) -> Iterator[str]:
    for one in item.evaluators:
        if one.baseline_mean != one.candidate_mean:
            yield f"{one.name} {format_score(one.baseline_mean)} -> {format_score(one.candidate_mean)}"
