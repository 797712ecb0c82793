"""The Levenshtein distance, computed a whole column of the table at a time."""

from __future__ import annotations

from typing import Final

from dokimos.errors import EvaluationError

MOST_CELLS: Final = 4_000_000_000
"""Cells of the table that are computed whole: 63,000 characters against as many take about two seconds."""
MOST_EDITS: Final = 700
"""Edits up to which texts of any length are compared."""
_STEP: Final = 256


def edit_distance(a: str, b: str) -> int:
    """Return how many characters must be inserted, deleted or replaced to turn `a` into `b`.

    Myers, "A fast bit-vector algorithm for approximate string matching based on dynamic programming" (1999),
    in the form of Hyyrö (2003), with one unbounded integer as the bit vector. Long texts that differ little
    are compared along the diagonals of the table instead: Ukkonen, "Algorithms for approximate string
    matching" (1985).

    Raises:
        EvaluationError: for long texts that differ much, which would take minutes.
    """
    # Common ends cost nothing in an optimal alignment, and real outputs mostly share long ones.
    a, b = _without_common_ends(a, b)
    if len(a) > len(b):
        a, b = b, a
    if len(a) * len(b) <= MOST_CELLS:
        return _distance(a, b) if a else len(b)
    edits = _few_edits(a, b)
    if edits is None:
        raise EvaluationError(
            f"The texts are too long to count the edits between them: where they differ, they have "
            f"{len(a):,} and {len(b):,} characters or words, and more than {MOST_EDITS} edits lie between "
            "them. Compare shorter texts, or choose token_f1 or rouge."
        )
    return edits


def common_start(a: str, b: str) -> int:
    """Return how many characters two texts share at their start, found by halving."""
    same, end = 0, min(len(a), len(b))
    while same < end:
        middle = (same + end + 1) // 2
        if a[same:middle] == b[same:middle]:
            same = middle
        else:
            end = middle - 1
    return same


def _without_common_ends(a: str, b: str) -> tuple[str, str]:
    start = common_start(a, b)
    a, b = a[start:], b[start:]
    end = common_start(a[::-1], b[::-1])
    return a[: len(a) - end], b[: len(b) - end]


def _few_edits(a: str, b: str) -> int | None:
    """Return the distance of two texts if it is at most `MOST_EDITS`.

    For each number of edits: how far into `a` one can get on each diagonal.
    """
    goal = len(b) - len(a)
    reached = {0: _same_until(a, b, 0, 0)}
    if a == b:
        return 0
    for edits in range(1, MOST_EDITS + 1):
        further: dict[int, int] = {}
        for diagonal in range(-edits, edits + 1):
            at = max(
                reached.get(diagonal, -2) + 1,  # a character replaced
                reached.get(diagonal - 1, -2),  # inserted
                reached.get(diagonal + 1, -2) + 1,  # deleted
            )
            at = min(at, len(a), len(b) - diagonal)
            if at >= max(0, -diagonal):
                further[diagonal] = _same_until(a, b, at, at + diagonal)
        if further.get(goal) == len(a):
            return edits
        reached = further
    return None


def _same_until(a: str, b: str, i: int, j: int) -> int:
    """Return up to where in `a` the texts are the same from two places on."""
    while (piece := a[i : i + _STEP]) and piece == b[j : j + _STEP]:
        i, j = i + len(piece), j + len(piece)
    return i + common_start(a[i : i + _STEP], b[j : j + _STEP])


def _distance(pattern: str, text: str) -> int:
    masks: dict[str, int] = {}  # the bits of each character say where it occurs
    mask_of, bit = masks.get, 1
    for character in pattern:
        masks[character] = mask_of(character, 0) | bit
        bit += bit
    mask = bit - 1
    rises, falls = mask, 0  # where the column's cells go up and down by one
    for character in text:
        matches = mask_of(character, 0) | falls
        diagonal = (((matches & rises) + rises) ^ rises) | matches
        right_up = falls | ~(diagonal | rises) & mask
        right_down = rises & diagonal
        shifted = right_up << 1 | 1
        rises = (right_down << 1 | ~(diagonal | shifted)) & mask
        falls = shifted & diagonal & mask
    return len(text) + rises.bit_count() - falls.bit_count()
