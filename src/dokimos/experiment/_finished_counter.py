"""Counting finished items of a resumed run by what the journal says, without their examples and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dokimos._core.eval_result import group_by_evaluator
from dokimos._core.json_parsing import parse_json
from dokimos._core.outcome import Outcome, derive_outcome
from dokimos._core.results import EvalResult
from dokimos._core.summary import Tally
from dokimos.errors import DokimosError
from dokimos.experiment._item_index import Position
from dokimos.experiment._journal_lines import cut_results, read_cost
from dokimos.experiment._stored_item import read_results
from dokimos.experiment._stored_run import StoredRun

MOST_REMEMBERED: Final = 256
"""Different texts of results that are parsed only once; most evaluators that ask no model give few."""
_UNUSUAL: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError, DokimosError)


@dataclass(frozen=True, slots=True)
class _Scored:
    """The results of a finished item, none of which is an error, and what they make of it."""

    outcome: Outcome
    results: tuple[EvalResult, ...]


class FinishedItemCounter:
    """Adds the items that an earlier process of a run has finished to the totals of a repeat.

    An item takes about a fifth of the CPU that it takes as a whole (`benchmarks/finished_runs.py resume`).
    """

    def __init__(self, stored: StoredRun, evaluators: Sequence[str], tally: Tally) -> None:
        """Take the run, the names of the evaluators that it now has, and the totals."""
        self._stored = stored
        self._evaluators = evaluators
        self._tally = tally
        self._remembered: dict[bytes, _Scored | None] = {}

    def count(self, position: Position, example_hash: int) -> Sequence[EvalResult] | None:
        """Add an item to the totals, and return its results.

        None for an item that is not finished, has an error, or whose lines are not as the journal writes
        them: it is not counted, and has to be looked at as a whole.
        """
        lines = self._stored.lines_of(position, example_hash)
        if lines is None:
            return None
        line, lines_of_results = lines
        try:
            cost = read_cost(line)
        except _UNUSUAL:
            return None
        texts = [cut_results(each) for each in lines_of_results]
        key = texts[0] if len(texts) == 1 else b"\n".join(texts)
        scored = self._remembered[key] if key in self._remembered else self._remember(key, texts)
        if scored is None:
            return None
        tally = self._tally
        if isinstance(cost, float):
            tally.add_outcome(scored.outcome, scored.results, None)
            tally.add_latency(cost)
        else:
            tally.add_outcome(scored.outcome, scored.results, cost)
        return scored.results

    def _remember(self, key: bytes, texts: Sequence[bytes]) -> _Scored | None:
        if len(self._remembered) >= MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = scored = self._parse(texts)
        return scored

    def _parse(self, texts: Sequence[bytes]) -> _Scored | None:
        try:
            stored = read_results(((0, parse_json(text)) for text in texts), {})
        except _UNUSUAL:
            return None
        if any(result.error is not None for result in stored.values()):
            return None
        groups = group_by_evaluator(stored.values())
        if not all(name in groups for name in self._evaluators):
            return None
        results = tuple(result for name in self._evaluators for result in groups[name])
        return _Scored(derive_outcome(None, results), results)
