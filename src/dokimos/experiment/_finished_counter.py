"""Finished items of a resumed run by what their lines say: counted only, or loaded for the result as well.

Neither reads the example of an item again, which the data set has.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from dokimos._core.eval_result import group_by_evaluator
from dokimos._core.example import Example
from dokimos._core.fast_constructor import positional_factory
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult, ItemResult
from dokimos._core.summary import Tally
from dokimos.experiment._item_index import Position
from dokimos.experiment._journal_blocks import Cost, ItemLines
from dokimos.experiment._journal_lines import UNUSUAL, read_cost, read_outputs
from dokimos.experiment._kept_items import KeptItems
from dokimos.experiment._remembered_results import ItemScores, RememberedResults, up_to_none
from dokimos.experiment._stored_run import StoredRun

_new_item: Final = positional_factory(
    ItemResult, "index", "example", "actual_outputs", "eval_results", "metrics"
)
_ALL, _PROBLEMS = KeptItems.ALL, KeptItems.PROBLEMS  # looked up here once, as for each item they would be
_FEWEST: Final = 8
_LONGEST_PAUSE: Final = 63
"""Items after which it is tried anew, where none could be counted together with the next ones."""
MOST_TOGETHER: Final = 256
"""Items that are counted together at most."""
_new_metrics: Final = positional_factory(CallMetrics, "latency_ms", is_checked=False)  # read_cost has


class FinishedItemCounter:
    """Adds the items that an earlier process of a run has finished to the totals of a repeat.

    To count items together takes about a sixth of the CPU that they take as ones that `FinishedItems.load`
    has returned, and to load them four tenths (`benchmarks/finished_runs.py`, the rows `resume` and
    `resume-whole`).
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
        self._most = _FEWEST
        """How many items are looked at together: few where something was unusual about one of the last."""
        self._pause = self._singly = 0
        """For how many items nothing is looked at together, and how many of them are still to come."""

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
            scores, results = loaded
        else:
            results = scores.results
        self._tally.add_outcome(scores.outcome, results, None)
        self._add_costs([cost])
        if outputs is not None:
            metrics = _new_metrics(cost) if isinstance(cost, float) else cost
            self._hand_on(_new_item(position[1], example, outputs, results, metrics))
        return results

    def count_next(
        self, repeat_index: int, indexes: range, hashes: array[int], examples: Sequence[Example]
    ) -> int:
        """Do what `count` does of the next items together, and return of how many of them.

        It may be fewer than could be counted, and 0 says only that the next one is for `count`.

        Args:
            repeat_index: The repeat.
            indexes: The items that come next.
            hashes: The content hashes of all examples.
            examples: All examples.
        """
        if self._singly > 0:
            self._singly -= 1
            return 0
        lines = self._stored.usual_lines(repeat_index, indexes[: self._most], hashes)
        count = 0 if lines is None else self._count_all(lines, indexes, examples)
        is_usual = lines is not None and count == len(lines.offsets.items)
        self._most = min(2 * self._most, MOST_TOGETHER) if is_usual else max(count, _FEWEST)
        self._pause = 0 if count else min(2 * self._pause + 1, _LONGEST_PAUSE)
        self._singly = self._pause
        return count

    def _count_all(self, lines: ItemLines, indexes: range, examples: Sequence[Example]) -> int:
        """Count items, up to the first one that something is unusual about; return how many they are."""
        costs = lines.costs()
        scores, loaded = self._read_scores(lines.results(len(costs)))
        places = list(loaded)
        outputs = lines.outputs(places)
        count = len(scores) if len(outputs) == len(places) else places[len(outputs)]
        self._add_scores(scores[:count])
        self._add_costs(costs[:count])
        for place, output in zip(places, outputs, strict=False):
            index, cost = indexes[place], costs[place]
            metrics = _new_metrics(cost) if isinstance(cost, float) else cost
            self._hand_on(_new_item(index, examples[index], output, loaded[place], metrics))
        return count

    def _read_scores(
        self, texts: Sequence[bytes]
    ) -> tuple[list[ItemScores], dict[int, tuple[EvalResult, ...]]]:
        """Return what items were scored, up to an unusual one, and of those to load the results, by place."""
        if self._loaded is _ALL:
            whole = list(up_to_none(map(self._results.load_text, texts)))
            return [scores for scores, _ in whole], dict(enumerate(results for _, results in whole))
        scores = self._results.read_texts(texts)
        loaded = {}
        if self._loaded is _PROBLEMS:
            for place, each in enumerate(scores):
                own = self._results.load_text(texts[place]) if each.is_problem else None
                if own is not None:
                    loaded[place] = own[1]
        return scores, loaded

    def _add_scores(self, each: Sequence[ItemScores]) -> None:
        if all([scores.can_be_multiplied for scores in each]):
            kinds = {id(scores): scores for scores in each}
            for key, count in Counter(map(id, each)).items():
                self._tally.add_equal_outcomes(kinds[key].outcome, kinds[key].results, count)
        else:
            for scores in each:
                self._tally.add_outcome(scores.outcome, scores.results, None)

    def _add_costs(self, costs: Iterable[Cost]) -> None:
        latencies = [cost for cost in costs if isinstance(cost, float)]
        self._tally.add_latencies(latencies)
        for cost in costs:
            if isinstance(cost, CallMetrics):
                self._tally.add_metrics(cost)


def _arrange(evaluators: Sequence[str], stored: Mapping[str, EvalResult]) -> tuple[EvalResult, ...] | None:
    """Return the results in the order of the evaluators; None for an error, and where one has none."""
    if any(result.error is not None for result in stored.values()):
        return None
    groups = group_by_evaluator(stored.values())
    if not all(name in groups for name in evaluators):
        return None
    return tuple(result for name in evaluators for result in groups[name])
