"""Duplicates among cases: the same text normalized, and texts that share most of their letters in a row.

Texts with other numbers are other cases, however similar: 30 days are not 60.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Final

NEAR: Final = 0.8
"""The similarity from which two texts are the same case."""
_GRAM: Final = 3


class KnownTexts:
    """Texts that there are already, to find those again that say the same."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._exact: set[str] = set()
        self._grams: dict[tuple[str, ...], list[Counter[str]]] = {}
        """By the numbers of the texts."""
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Remember a text."""
        normalized = normalize(text)
        self._exact.add(normalized)
        self._grams.setdefault(_numbers_of(normalized), []).append(_grams_of(normalized))

    def similarity(self, text: str) -> float:
        """Return how similar the most similar known text is, from 0 to 1; 1 for the same one."""
        normalized = normalize(text)
        if normalized in self._exact:
            return 1.0
        grams = _grams_of(normalized)
        others = self._grams.get(_numbers_of(normalized), ())
        return max((_dice(grams, other) for other in others), default=0.0)


def normalize(text: str) -> str:
    """Return the letters and digits of a text in small letters, a blank between words."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(sign if sign.isalnum() else " " for sign in folded).split())


def _numbers_of(text: str) -> tuple[str, ...]:
    return tuple(sorted(word for word in text.split() if any(map(str.isdecimal, word))))


def _grams_of(text: str) -> Counter[str]:
    padded = f" {text} "
    return Counter(padded[place : place + _GRAM] for place in range(max(1, len(padded) - _GRAM + 1)))


def _dice(first: Counter[str], second: Counter[str]) -> float:
    total = first.total() + second.total()
    # The sizes alone bound the overlap, which spares most comparisons.
    if 2 * min(first.total(), second.total()) < NEAR / 2 * total:
        return 0.0
    return 2 * (first & second).total() / total
