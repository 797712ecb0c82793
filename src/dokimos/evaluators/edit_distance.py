"""The Levenshtein distance, computed a whole column of the table at a time."""

from __future__ import annotations


def edit_distance(a: str, b: str) -> int:
    """Return how many characters must be inserted, deleted or replaced to turn `a` into `b`.

    Myers, "A fast bit-vector algorithm for approximate string matching based on dynamic programming" (1999),
    in the form of Hyyrö (2003), with one unbounded integer as the bit vector.
    """
    a, b = _without_common_ends(a, b)
    if len(a) > len(b):
        a, b = b, a
    return _distance(a, b) if a else len(b)


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


def _distance(pattern: str, text: str) -> int:
    places: dict[str, int] = {}  # the bits of each character say where it occurs
    places_of, bit = places.get, 1
    for character in pattern:
        places[character] = places_of(character, 0) | bit
        bit += bit
    mask = bit - 1
    rises, falls = mask, 0  # where the column's cells go up and down by one
    for character in text:
        matches = places_of(character, 0) | falls
        diagonal = (((matches & rises) + rises) ^ rises) | matches
        right_up = falls | ~(diagonal | rises) & mask
        right_down = rises & diagonal
        shifted = right_up << 1 | 1
        rises = (right_down << 1 | ~(diagonal | shifted)) & mask
        falls = shifted & diagonal & mask
    return len(text) + rises.bit_count() - falls.bit_count()
