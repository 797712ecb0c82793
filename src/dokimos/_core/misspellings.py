"""Detect names in data that are probably misspelt keys of expected outputs or of recorded ones."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from dokimos._core.jsonable import camel_case

KEYS: Final = (
    "expected_output", "expected_outputs", "ground_truth", "expected_tools", "retrieval_context",
    "actual_output", "actual_outputs", "tool_calls",
)  # fmt: skip
_TWO_TYPOS_FROM_LETTERS: Final = 10
"""Names of so many letters may differ by two edits."""
_SPELLINGS: Final = frozenset(KEYS) | {camel_case(key) for key in KEYS}


class Resemblance(NamedTuple):
    """A key that a name resembles."""

    key: str
    kind: Literal["slip", "near"]
    """A slip is refused; of a near name there is a warning."""


def find_resemblance(name: str, names: Collection[str]) -> Resemblance | None:
    """Return the key that a name of a row resembles, None where that key is among the names of the row.

    A slip is a key in another writing (`groundtruth`), or differs from one by an edit or an exchange of
    neighbours, by two where it has ten letters or more. A plural s and a digit at the end are not slips.
    """
    resemblance = _resemblance(name)
    if resemblance is None:
        return None
    stem = _stem(resemblance.key)
    return None if any(other != name and _stem(other) == stem for other in names) else resemblance


@lru_cache(maxsize=1024)
def _resemblance(name: str) -> Resemblance | None:
    if name in _SPELLINGS:
        return None
    letters = _letters(name)
    allowed = 2 if len(letters) >= _TWO_TYPOS_FROM_LETTERS else 1
    distance, key = min((_distance(letters, _letters(key), allowed + 1), key) for key in KEYS)
    if distance > allowed + 1:
        return None
    is_variant = letters != _letters(key) and any(_stem(name) == _stem(key) for key in KEYS)
    return Resemblance(key, "near" if is_variant or distance > allowed else "slip")


def _letters(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _stem(name: str) -> str:
    return _letters(name).rstrip("0123456789").removesuffix("s")


def _distance(one: str, other: str, most: int) -> int:
    """Return how many edits or exchanges of neighbours lead to the other text, at most `most` + 1."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        older, before = before, row
        row = [i]
        for j, target in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != target))
            # Neighbours exchanged count as one edit (optimal string alignment), the slip that fingers make
            # most often.
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == target:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return min(row[-1], most + 1)
