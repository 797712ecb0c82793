"""Sums of thousands of draws at once: slice k of a sum holds bit k of each draw's number, one draw per bit.

The columns of a schoolbook addition, with whole rows of numbers added by the gates of a full adder
(C. S. Wallace, 1964).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence


def add_up(columns: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the slices of a sum of vectors, given by the power of two that each one's bits stand for."""
    waiting = defaultdict(list, {power: list(vectors) for power, vectors in columns.items()})
    slices: list[int] = []
    while any(waiting.values()):
        power = len(slices)
        vectors, carried = waiting.pop(power, []), waiting[power + 1]
        while len(vectors) > 1:
            # A full adder for all draws at once: two or three bits of one weight become one of that weight
            # and a carry.
            first, second, third = vectors.pop(), vectors.pop(), vectors.pop() if vectors else 0
            differ = first ^ second
            carried.append(first & second | differ & third)
            vectors.append(differ ^ third)
        slices.append(vectors[0] if vectors else 0)
    return slices


def weighted_sum(groups: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the slices of a sum of vectors, each given by the positive number that its bits stand for."""
    columns: defaultdict[int, list[int]] = defaultdict(list)
    for weight, vectors in groups.items():
        for power, counted in enumerate(add_up({0: vectors})):
            for bit in powers_of_two(weight):
                columns[power + bit].append(counted)
    return add_up(columns)


def powers_of_two(number: int) -> Iterable[int]:
    """Return which powers of two add up to a number."""
    return (power for power in range(number.bit_length()) if number >> power & 1)


def at_least(slices: Sequence[int], bound: int, everywhere: int) -> int:
    """Return as bits the draws whose number is `bound` or more; `everywhere` has the bits of all draws."""
    if bound <= 0:
        return everywhere
    # The bound has more bits than any sum.
    if bound >> len(slices):
        return 0
    # From the highest bit down, as two numbers are compared by hand.
    above, equal = 0, everywhere
    for power in reversed(range(len(slices))):
        if bound >> power & 1:
            equal &= slices[power]
        else:
            above |= equal & slices[power]
            equal &= ~slices[power]
    return above | equal


def place_of(hit: int, vector: int) -> int:
    """Return how many draws it took until a vector had its first `hit` ones."""
    low, high = hit, vector.bit_length()
    while low < high:
        middle = (low + high) // 2
        if (vector & ((1 << middle) - 1)).bit_count() >= hit:
            high = middle
        else:
            low = middle + 1
    return low
