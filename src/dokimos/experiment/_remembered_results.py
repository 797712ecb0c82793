"""Results of evaluators from the lines of a journal; texts that repeat are parsed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from dokimos._core.fast_constructor import fast_copier
from dokimos._core.json_parsing import parse_json
from dokimos._core.outcome import Outcome, derive_outcome
from dokimos._core.results import EvalResult
from dokimos.errors import DokimosError
from dokimos.experiment._journal_lines import cut_results
from dokimos.experiment._kept_items import is_problem
from dokimos.experiment._stored_item import read_results

MOST_REMEMBERED: Final = 256
"""Different texts of results that are parsed only once; most evaluators that ask no model give few."""
UNUSUAL: Final = (ValueError, TypeError, KeyError, AttributeError, RecursionError, DokimosError)
"""What reading a line raises that is not as the journal writes it."""

Arrange: TypeAlias = Callable[[Mapping[str, EvalResult]], tuple[EvalResult, ...] | None]
_LEAVES: Final = frozenset((str, int, float, bool, type(None)))
_copy: Final = fast_copier(EvalResult, "metadata")


@dataclass(frozen=True, slots=True)
class ItemScores:
    """The results of an item whose task answered, and what they make of it."""

    outcome: Outcome
    results: tuple[EvalResult, ...]
    is_problem: bool
    can_be_copied: bool
    """Whether copies of the results share nothing that anybody could change."""


class RememberedResults:
    """Reads the lines with an item's results, as `StoredRun.item` does where none of them is void."""

    def __init__(self, arrange: Arrange) -> None:
        """Take what puts the results of an item, by their names, in order; None where it cannot."""
        self._arrange = arrange
        self._remembered: dict[bytes, ItemScores | None] = {}
        self._hits = 0
        self._remembers = True

    def read(self, lines: Sequence[bytes]) -> ItemScores | None:
        """Return results to look at only, since other items may have the same objects.

        None for lines that are not as the journal writes them.
        """
        key = self._key_of(lines)
        if key in self._remembered:
            self._hits += 1
            return self._remembered[key]
        scores = self._parse(lines)
        if self._remembers:
            self._remember(key, scores)
        return scores

    def load(self, lines: Sequence[bytes]) -> tuple[Outcome, tuple[EvalResult, ...]] | None:
        """Return results that no other item has, and what they make of the item; None as `read` does.

        To copy those of a text that was parsed before takes a quarter of the time.
        """
        key = self._key_of(lines)
        scores = self._remembered.get(key)
        if scores is None or not scores.can_be_copied:
            scores = self._parse(lines)
            if scores is None or not (self._remembers and scores.can_be_copied):
                return None if scores is None else (scores.outcome, scores.results)
            self._remember(key, scores)
        else:
            self._hits += 1
        return scores.outcome, tuple([_copy(result) for result in scores.results])

    @staticmethod
    def _key_of(lines: Sequence[bytes]) -> bytes:
        # No JSON text has a line feed in it, so that each key is of one list of texts; "-" is of none.
        if len(lines) == 1:
            return cut_results(lines[0])
        return b"\n".join(map(cut_results, lines)) if lines else b"-"

    def _remember(self, key: bytes, scores: ItemScores | None) -> None:
        if len(self._remembered) >= MOST_REMEMBERED:
            # The reasons of a judge hardly ever repeat, and to keep their texts is in vain.
            self._remembers = self._hits >= MOST_REMEMBERED
            self._remembered.clear()
            self._hits = 0
        self._remembered[key] = scores

    def _parse(self, lines: Sequence[bytes]) -> ItemScores | None:
        try:
            stored = read_results(((0, parse_json(cut_results(line))) for line in lines), {})
        except UNUSUAL:
            return None
        results = self._arrange(stored)
        if results is None:
            return None
        outcome = derive_outcome(None, results)
        can_be_copied = all(map(_can_be_copied, results))
        return ItemScores(outcome, results, is_problem(outcome, results), can_be_copied)


def _can_be_copied(result: EvalResult) -> bool:
    # All else in a result is a number, a text, a tuple of numbers, or frozen as the result itself.
    return not result.parts and all(type(value) in _LEAVES for value in result.metadata.values())
