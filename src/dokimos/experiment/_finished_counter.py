"""Finished items of a resumed run by what their lines say: counted only, or loaded for the result as well.

Neither reads the example of an item again, which the data set has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from dokimos._core.eval_result import group_by_evaluator
from dokimos._core.example import Example
from dokimos._core.fast_constructor import positional_factory
from dokimos._core.metrics import CallMetrics
from dokimos._core.outcome import Outcome
from dokimos._core.results import EvalResult, ItemResult
from dokimos._core.summary import Tally
from dokimos.experiment._item_index import Position
from dokimos.experiment._journal_lines import read_cost, read_outputs
from dokimos.experiment._kept_items import KeptItems
from dokimos.experiment._remembered_results import UNUSUAL, RememberedResults
from dokimos.experiment._stored_run import StoredRun

_new_item: Final = positional_factory(
    ItemResult, "index", "example", "actual_outputs", "eval_results", "metrics"
)
_ALL, _PROBLEMS = KeptItems.ALL, KeptItems.PROBLEMS  # looked up here once, as for each item they would be
_Cost: TypeAlias = float | CallMetrics | None
_new_metrics: Final = positional_factory(CallMetrics, "latency_ms", is_checked=False)  # read_cost has


class FinishedItemCounter:
    """Adds the items that an earlier process of a run has finished to the totals of a repeat.

    To count an item takes about a fifth of the CPU that it takes as one that `FinishedItems.load` has
    returned, and to load it half (`benchmarks/finished_runs.py`, the rows `resume` and `resume-whole`).
    """

    def __init__(
        self,
        stored: StoredRun,
        evaluators: Sequence[str],
        tally: Tally,
        *,
        loaded: KeptItems,
        hand_on: Callable[[ItemResult], None],
    ) -> None:
        """Take the run, and where its items go.

        Args:
            stored: What earlier processes wrote.
            evaluators: The names of the evaluators that the run now has.
            tally: The totals.
            loaded: The items that are loaded, too.
            hand_on: What takes them.
        """
        self._stored = stored
        self._tally = tally
        self._loaded = loaded
        self._hand_on = hand_on
        self._results = RememberedResults(partial(_arrange, evaluators))

    def count(self, position: Position, example_hash: int, example: Example) -> Sequence[EvalResult] | None:
        """Add an item to the totals, hand it on where it is to be loaded, and return its results.

        None for an item that is not finished, has an error, or whose lines are not as the journal writes
        them: it is not counted, and has to be looked at as a whole.
        """
        lines = self._stored.lines_of(position, example_hash)
        if lines is None:
            return None
        line, lines_of_results = lines
        is_loaded, scores = self._loaded is _ALL, None
        if not is_loaded:
            scores = self._results.read(lines_of_results)
            if scores is None:
                return None
            is_loaded = scores.is_problem and self._loaded is _PROBLEMS
        try:
            cost = read_cost(line)
            outputs = read_outputs(line) if is_loaded else None
        except UNUSUAL:
            return None
        if is_loaded or scores is None:
            loaded = self._results.load(lines_of_results)
            if loaded is None:
                return None
            outcome, results = loaded
        else:
            outcome, results = scores.outcome, scores.results
        self._add(outcome, results, cost)
        if outputs is not None:
            metrics = _new_metrics(cost) if isinstance(cost, float) else cost
            self._hand_on(_new_item(position[1], example, outputs, results, metrics))
        return results

    def _add(self, outcome: Outcome, results: Sequence[EvalResult], cost: _Cost) -> None:
        tally = self._tally
        if isinstance(cost, float):
            tally.add_outcome(outcome, results, None)
            tally.add_latency(cost)
        else:
            tally.add_outcome(outcome, results, cost)


def _arrange(evaluators: Sequence[str], stored: Mapping[str, EvalResult]) -> tuple[EvalResult, ...] | None:
    """Return the results in the order of the evaluators; None for an error, and where one has none."""
    if any(result.error is not None for result in stored.values()):
        return None
    groups = group_by_evaluator(stored.values())
    if not all(name in groups for name in evaluators):
        return None
    return tuple(result for name in evaluators for result in groups[name])
