"""Duplicates among cases: the same text normalized, and texts that share most of their letters in a row."""

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
        self._grams: list[Counter[str]] = []
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Remember a text."""
        normalized = normalize(text)
        self._exact.add(normalized)
        self._grams.append(_grams_of(normalized))

    def similarity(self, text: str) -> float:
        """Return how similar the most similar known text is, from 0 to 1; 1 for the same one."""
        normalized = normalize(text)
        if normalized in self._exact:
            return 1.0
        grams = _grams_of(normalized)
        return max((_dice(grams, other) for other in self._grams), default=0.0)


def normalize(text: str) -> str:
    """Return the letters and digits of a text in small letters, a blank between words."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(sign if sign.isalnum() else " " for sign in folded).split())


def _grams_of(text: str) -> Counter[str]:
    padded = f" {text} "
    return Counter(padded[place : place + _GRAM] for place in range(max(1, len(padded) - _GRAM + 1)))


def _dice(first: Counter[str], second: Counter[str]) -> float:
    total = first.total() + second.total()
    # The sizes alone bound the overlap, which spares most comparisons.
    if 2 * min(first.total(), second.total()) < NEAR / 2 * total:
        return 0.0
    return 2 * (first & second).total() / total
