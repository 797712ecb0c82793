"""What earlier processes of a run, and earlier runs, have of its items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dokimos._core.metrics import CallMetrics
from dokimos._core.results import UNAVAILABLE, EvalResult, ItemResult
from dokimos._core.summary import Tally
from dokimos.experiment._example_source import SourcedExample
from dokimos.experiment._finished_counter import FinishedItemCounter
from dokimos.experiment._item_index import Position
from dokimos.experiment._kept_items import KeptItems
from dokimos.experiment._reuse import EarlierOutputs
from dokimos.experiment._stored_run import StoredRun
from dokimos.experiment._task_calls import ItemSink, TaskOutcome


class FinishedItems:
    """The items whose tasks need not run again: in a resumed run, and in one that reuses outputs."""

    def __init__(
        self,
        stored: StoredRun | None,
        reusable: EarlierOutputs | None,
        *,
        retry_errors: bool,
        is_redacted: bool,
    ) -> None:
        """Take what there is.

        Args:
            stored: What the run itself wrote in earlier processes, None for a new run.
            reusable: Outputs of other runs with the same task, None unless they were asked for.
            retry_errors: Whether items with an error run again.
            is_redacted: Whether the run has a `redact`: what is kept under one is not whole, so nothing is
                reused.
        """
        self._stored = stored
        self._reusable = reusable
        self._retry_errors = retry_errors
        self._is_redacted = is_redacted

    def load(
        self, position: Position, sourced: SourcedExample
    ) -> tuple[TaskOutcome, dict[str, EvalResult]] | None:
        """Return the outcome and the results of an item that an earlier process finished.

        A resumed run skips finished items. None means that the task has to run: the item is not finished, its
        example has changed, or its error is to be retried. Results that are to be retried are left out.
        """
        if self._stored is None or position not in self._stored:
            return None
        if self._stored.hash_of(position) != sourced.hash:
            return None
        item = self._stored.item(position)
        if item is None:
            return None
        if item.error is not None:
            if self._should_retry(item.error_kind):
                return None
            return TaskOutcome(item.outputs or {}, item.metrics, item.error, detail=item.error_detail), {}
        evaluators_to_retry = {
            r.evaluator
            for r in item.results.values()
            if r.error is not None and self._should_retry(r.error_kind)
        }
        results = {
            name: result
            for name, result in item.results.items()
            if result.evaluator not in evaluators_to_retry
        }
        return TaskOutcome(item.outputs or {}, item.metrics), results

    def counter(
        self,
        evaluators: Sequence[str],
        tally: Tally,
        *,
        loaded: KeptItems,
        hand_on: Callable[[ItemResult], None],
    ) -> FinishedItemCounter | None:
        """Return what counts finished items, and loads some of them; None for a run that is not resumed."""
        if self._stored is None:
            return None
        return FinishedItemCounter(self._stored, evaluators, tally, loaded=loaded, hand_on=hand_on)

    def reuse_output(
        self, position: Position, sourced: SourcedExample, sink: ItemSink | None
    ) -> TaskOutcome | None:
        """Return the output of an item from an earlier run, None if its task has to run.

        It is written to `sink`, so that the run has it although its task did not run.
        """
        if self._reusable is None or self._is_redacted:
            return None
        outcome = self._reusable.take(position[0], sourced.hash)
        if outcome is not None and sink is not None:
            sink(outcome)
        return outcome

    def has_output(self, position: Position) -> bool:
        """Say whether an earlier process of this run had got the output of an item."""
        return self._stored is not None and position in self._stored

    def task_metrics(self) -> Iterator[CallMetrics]:
        """Return the cost of the task's calls in earlier processes of this run."""
        return iter(()) if self._stored is None else self._stored.metrics()

    def describe_reuse(self, total: int) -> list[str]:
        """Return sentences about the outputs that were reused, of `total` items."""
        if self._reusable is None:
            return []
        if self._is_redacted:
            return ["No output was reused: with a redact=, a run keeps none as it was."]
        return list(filter(None, [self._reusable.sentence(total)]))

    def close(self) -> None:
        """Close the files that items were read from."""
        for source in (self._stored, self._reusable):
            if source is not None:
                source.close()

    def _should_retry(self, error_kind: str | None) -> bool:
        """Say whether an error is retried: where asked for, and always if an endpoint was down."""
        return self._retry_errors or error_kind == UNAVAILABLE
