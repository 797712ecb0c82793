"""What a reporter learns of a run: when it begins, with each item, and when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from dokimos._core.item_result import ItemResult
from dokimos._core.provenance import EvaluatorInfo, Provenance
from dokimos._core.summary import RunSummary
from dokimos.reporting._reporter_state import ReporterState


class ReportedStatus(StrEnum):
    """How a repeat ended, for reporters that have `complete_run`.

    Example:
        >>> ReportedStatus("SUCCESS")
        <ReportedStatus.SUCCESS: 'SUCCESS'>
    """

    SUCCESS = "SUCCESS"
    """It went through, whatever the scores."""
    FAILED = "FAILED"
    """It was stopped by an error of its own."""
    CANCELLED = "CANCELLED"


class RunOutcome(StrEnum):
    """How a repeat ended.

    Example:
        >>> RunOutcome.STOPPED.status
        <ReportedStatus.FAILED: 'FAILED'>
    """

    FINISHED = "finished"
    """It went through all items, whatever the scores."""
    STOPPED = "stopped"
    """dokimos stopped it: too many errors, the first failure with `fail_fast`, the budget, an endpoint."""
    INTERRUPTED = "interrupted"
    """Somebody stopped it: Ctrl-C, a signal or a cancelled task."""
    FAILED = "failed"
    """It broke off: the data set could not be read, for example."""

    @property
    def status(self) -> ReportedStatus:
        """The same in the three words of `complete_run`."""
        return _STATUS[self]


_STATUS: Final = {
    RunOutcome.FINISHED: ReportedStatus.SUCCESS,
    RunOutcome.STOPPED: ReportedStatus.FAILED,
    RunOutcome.INTERRUPTED: ReportedStatus.CANCELLED,
    RunOutcome.FAILED: ReportedStatus.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """What is known of a repeat before its first item.

    Example:
        >>> start = RunStart(run_id="20260131-1", name="capitals", repeat_count=3)
        >>> start.repeat_index, start.is_resumed
        (0, False)
    """

    run_id: str
    """The id of the run in the run folder, the same for all its repeats and when it is resumed."""
    name: str = "unnamed"
    description: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    repeat_index: int = 0
    """0-based."""
    repeat_count: int = 1
    planned_items: int | None = None
    """How many items the repeat will have, of a shard only its own; None for a stream."""
    evaluators: tuple[EvaluatorInfo, ...] = ()
    """With direction, range, threshold and fingerprint; empty where a function chooses them for each example:
    `RunEnd.evaluators` then has them."""
    provenance: Provenance = field(default_factory=Provenance)
    """Commit, branch, CI build, and name, fingerprint and source of the data set."""
    is_resumed: bool = False
    """Whether an earlier process has worked on the run; its items come again, see `ReportedItem`."""
    state: ReporterState = field(default_factory=ReporterState, repr=False, compare=False)
    """What this reporter keeps in the run folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a repeat ended.

    Example:
        >>> RunEnd(outcome=RunOutcome.FINISHED).status
        <ReportedStatus.SUCCESS: 'SUCCESS'>
    """

    outcome: RunOutcome
    summary: RunSummary = field(default_factory=RunSummary)
    """How many items passed, failed and errored, the scores of each evaluator, tokens and cost."""
    error: str | None = None
    """Why it did not finish, in a sentence; None where it did, or was interrupted."""
    evaluators: tuple[EvaluatorInfo, ...] = ()
    """All evaluators that the run has used so far."""

    @property
    def status(self) -> ReportedStatus:
        """The outcome in the three words of `complete_run`."""
        return self.outcome.status


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class ReportedItem(ItemResult):
    """An item as reporters receive it: with the repeat that it belongs to.

    The repeat and `index`, the position in the data set, name the place of an item in a run. A resumed run
    reports every item of every repeat once: those that an earlier process had finished too, with the results
    that they have now. `was_reported` tells them apart; a reporter whose destination has them already
    replaces what is at this place.

    Example:
        >>> item = ReportedItem(4, Example.of("a", "A"), repeat_index=1)
        >>> item.index, item.repeat_index, item.was_reported
        (4, 1, False)
    """

    repeat_index: int = 0
    """0-based."""
    was_reported: bool = False
    """Whether an earlier process of this run may have reported it: it had got its output."""

    @classmethod
    def of(cls, item: ItemResult, repeat_index: int, *, was_reported: bool = False) -> ReportedItem:
        """Return an item with its repeat."""
        values = {name: getattr(item, name) for name in _FIELDS_OF_ITEM}
        return cls(**values, repeat_index=repeat_index, was_reported=was_reported)

    def __eq__(self, other: object) -> bool:
        """Compare with an item as items are compared, whichever repeat they belong to."""
        if not isinstance(other, ItemResult):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _COMPARED_FIELDS)

    def __hash__(self) -> int:
        return ItemResult.__hash__(self)  # equal to an item, so of the same hash


_FIELDS_OF_ITEM: Final = tuple(one.name for one in fields(ItemResult))
_COMPARED_FIELDS: Final = tuple(one.name for one in fields(ItemResult) if one.compare)
