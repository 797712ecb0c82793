"""What a run writes to its journal while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dokimos._core.results import EvalResult
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.experiment._example_source import ExampleSource, SourcedExample
from dokimos.experiment._item_index import Position
from dokimos.experiment._item_writer import ItemWriter
from dokimos.experiment._redaction import Redaction
from dokimos.experiment._run_journal import Journal
from dokimos.experiment._stored_run import StoredRun
from dokimos.experiment._task_calls import ItemSink
from dokimos.reporting._reporter_state import ReporterState

ResultSink = Callable[[tuple[EvalResult, ...]], None]


class RunWriter:
    """Writes outputs, results, the ends of repeats and the state of reporters; nothing without a journal."""

    def __init__(
        self,
        dataset: Dataset | DatasetStream,
        *,
        journal: Journal | None = None,
        stored: StoredRun | None = None,
        redact: Redaction | None = None,
    ) -> None:
        """Take where to write, and what earlier processes of the run wrote there."""
        self._dataset = dataset
        self._journal = journal
        self._stored = stored
        # A stream is read anew for each repeat, so a repeat's examples need not be those of the first.
        may_change_order = not isinstance(dataset, Dataset)
        self._items = None if journal is None else ItemWriter(journal, redact, every_example=may_change_order)
        self.seen_examples: int | None = None
        """Examples of the whole data set, once a repeat has gone through it."""

    @property
    def problem(self) -> str | None:
        """Why the journal was given up during the run, or is incomplete."""
        if self._journal is not None and self._journal.problem is not None:
            return self._journal.problem
        return None if self._items is None else self._items.problem

    def item_sink(self, position: Position, sourced: SourcedExample) -> ItemSink | None:
        """Return a function that writes a task's outcome to the journal, None without a journal."""
        items = self._items
        return None if items is None else partial(items.write_item, position, sourced)

    def result_sink(self, position: Position) -> ResultSink | None:
        """Return a function that writes evaluators' results to the journal, None without a journal."""
        items = self._items
        return None if items is None else partial(items.write_results, position)

    def write_results(self, position: Position, results: tuple[EvalResult, ...], *, is_held: bool) -> None:
        """Write evaluators' results to the journal, if there is one, as `Journal.write_results` does."""
        if self._items is not None and results:
            self._items.write_results(position, results, is_held=is_held)

    def end_repeat(self, repeat_index: int, source: ExampleSource) -> None:
        """Record that a repeat has gone through the whole data set."""
        self.seen_examples = source.seen
        if self._journal is not None:
            self._journal.write_repeat_end(
                repeat_index,
                seen=source.seen,
                fingerprint=self._dataset.fingerprint,
                duplicate_ids=count_duplicate_ids(self._dataset),
            )

    def open_state(self, reporter: str) -> ReporterState:
        """Return what a reporter has kept with this run, and keeps from now on."""
        kept = {} if self._stored is None else self._stored.reporters.kept.get(reporter, {})
        journal = self._journal
        return ReporterState(kept, None if journal is None else partial(journal.write_kept, reporter))

    def add_server_runs(self, repeat_index: int, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Record the runs on servers that a repeat is sent to; return all of them, with earlier ones."""
        earlier = () if self._stored is None else self._stored.reporters.server_run_ids.get(repeat_index, ())
        if self._journal is not None and not set(ids) <= set(earlier):
            self._journal.write_server_runs(repeat_index, ids)
        return tuple(dict.fromkeys([*earlier, *ids]))


def count_duplicate_ids(dataset: Dataset | DatasetStream) -> int:
    """Return how many examples have an id that another one has, as far as is known."""
    return getattr(dataset, "duplicate_ids", 0)
