"""How a data set is divided at random: the order of its examples, and the sizes of its parts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

from dokimos._core import checks
from dokimos.errors import ConfigurationError


def shuffle(count: int, seed: int) -> list[int]:
    """Positions in an order that depends on the seed alone: `random()` is the same in every Python."""
    if not checks.is_count(seed):
        raise ConfigurationError(f"seed must be a whole number, not {seed!r:.80}.")
    draw = random.Random(seed).random
    keys = [draw() for _ in range(count)]
    return sorted(range(count), key=keys.__getitem__)


def part_sizes(parts: float | int | Sequence[float] | Sequence[int], count: int) -> list[int]:
    """Return the sizes of the parts into which `Dataset.split(parts)` divides `count` examples."""
    if checks.is_number(parts):
        first = _size(parts, count)
        return [first, count - first]
    if not isinstance(parts, Sequence) or not all(map(checks.is_number, parts)):
        raise ConfigurationError(f"split() takes shares and whole numbers, not {parts!r:.80}.")
    sizes = [_size(part, count) for part in parts]
    # Shares such as 0.7, 0.2, 0.1 do not sum to 1 exactly in binary.
    if all(isinstance(part, float) for part in parts) and abs(sum(parts) - 1) < 1e-9:
        return _partition(list(parts), count)
    if sum(sizes) != count or any(isinstance(part, float) for part in parts):
        raise ConfigurationError(
            f"split({list(parts)}) must be shares that add up to 1 or counts that add up to {count}."
        )
    return sizes


def _size(part: float, count: int) -> int:
    if isinstance(part, float):
        if not 0 <= part <= 1:
            raise ConfigurationError(f"split() takes shares in 0..1 and whole numbers, not {part}.")
        return round(part * count)
    if not 0 <= part <= count:
        raise ConfigurationError(f"split() takes counts in 0..{count}, the number of examples, not {part}.")
    return part


def _partition(shares: list[float], count: int) -> list[int]:
    """Round the borders instead of the parts, so that every example is in one of them."""
    borders = [round(sum(shares[:end]) * count) for end in range(len(shares))] + [count]
    return [end - start for start, end in pairwise(borders)]
