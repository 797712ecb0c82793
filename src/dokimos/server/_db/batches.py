"""Long lists of values, cut for statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
_BATCH_SIZE: Final = 1000


def in_batches(values: Sequence[T], size: int = _BATCH_SIZE) -> Iterator[Sequence[T]]:
    """Return the values some at a time, by default a thousand.

    `IN` with many more does not fit into a statement: PostgreSQL takes 32,767 parameters, and pairs nest too
    deeply for its parser well before.
    """
    for start in range(0, len(values), size):
        yield values[start : start + size]
