"""Results of evaluators from the lines of a journal; texts that repeat are parsed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from dokimos._core.fast_constructor import fast_copier
from dokimos._core.json_parsing import parse_json
from dokimos._core.outcome import Outcome, derive_outcome
from dokimos._core.results import EvalResult
from dokimos.experiment._journal_lines import NO_RESULTS, UNUSUAL, join_results
from dokimos.experiment._kept_items import is_problem
from dokimos.experiment._stored_item import read_results

MOST_REMEMBERED: Final = 256
"""Different texts of results that are parsed only once; most evaluators that ask no model give few."""

T = TypeVar("T")
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
    can_be_multiplied: bool
    """Whether the totals of several such items do not depend on which others are between them."""


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
        return self.read_text(join_results(lines))

    def read_text(self, text: bytes) -> ItemScores | None:
        """Return what `read` does, of what `join_results` returns."""
        if text in self._remembered:
            self._hits += 1
            return self._remembered[text]
        scores = self._parse(text)
        if self._remembers:
            self._remember(text, scores)
        return scores

    def read_texts(self, texts: Sequence[bytes]) -> list[ItemScores]:
        """Return what `read_text` does of each text, up to one of which that is None."""
        known = list(map(self._remembered.get, texts))
        if all(known):  # each is true, and None is not
            self._hits += len(known)
            return list(up_to_none(known))
        return list(up_to_none(map(self.read_text, texts)))

    def load(self, lines: Sequence[bytes]) -> tuple[ItemScores, tuple[EvalResult, ...]] | None:
        """Return what `read` does, and results that no other item has; None as `read` does."""
        return self.load_text(join_results(lines))

    def load_text(self, text: bytes) -> tuple[ItemScores, tuple[EvalResult, ...]] | None:
        """Return what `load` does, of what `join_results` returns.

        To copy the results of a text that was parsed before takes a quarter of the time.
        """
        scores = self._remembered.get(text)
        if scores is None or not scores.can_be_copied:
            scores = self._parse(text)
            if scores is None or not (self._remembers and scores.can_be_copied):
                return None if scores is None else (scores, scores.results)
            self._remember(text, scores)
        else:
            self._hits += 1
        return scores, tuple([_copy(result) for result in scores.results])

    def _remember(self, text: bytes, scores: ItemScores | None) -> None:
        if len(self._remembered) >= MOST_REMEMBERED:
            # The reasons of a judge hardly ever repeat, and to keep their texts is in vain.
            self._remembers = self._hits >= MOST_REMEMBERED
            self._remembered.clear()
            self._hits = 0
        self._remembered[text] = scores

    def _parse(self, texts: bytes) -> ItemScores | None:
        try:
            each = () if texts == NO_RESULTS else texts.split(b"\n")
            stored = read_results(((0, parse_json(text)) for text in each), {})
        except UNUSUAL:
            return None
        results = self._arrange(stored)
        if results is None:
            return None
        outcome = derive_outcome(None, results)
        can_be_copied = all(map(_can_be_copied, results))
        can_be_multiplied = all(result.metrics is None is result.score_range for result in results)
        return ItemScores(outcome, results, is_problem(outcome, results), can_be_copied, can_be_multiplied)


def up_to_none(values: Iterable[T | None]) -> Iterator[T]:
    """Yield the values before the first None."""
    for value in values:
        if value is None:
            return
        yield value


def _can_be_copied(result: EvalResult) -> bool:
    # All else in a result is a number, a text, a tuple of numbers, or frozen as the result itself.
    return not result.parts and all(type(value) in _LEAVES for value in result.metadata.values())
