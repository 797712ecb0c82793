"""Trees of JSON with their keys in order, made column by column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain, islice, repeat
from operator import or_
from typing import Any, Final

from dokimos._core.jsonable import MAX_DEPTH
from dokimos.datasets._json_columns import Column, ObjectColumns

SCALARS: Final = frozenset((str, int, float, bool, type(None)))
_LARGE: Final = 1 << 63


def sort_trees(column: Column, depth: int = 0) -> Sequence[Any] | None:
    """Return copies of parsed trees in which the keys of all objects are in order.

    Each is what `jsonable` gives, with its keys sorted. None where objects of one place have different names,
    or values are of several kinds, and where `jsonable` would change something.
    """
    if column.kinds <= SCALARS:
        return column.values if _are_plain(column) else None
    if depth == MAX_DEPTH:
        return None
    if column.kinds == {list}:
        return _sort_arrays(column.values, depth)
    return None if column.objects is None else _sort_objects(column.values, column.objects, depth)


def _sort_arrays(arrays: Sequence[list[Any]], depth: int) -> Sequence[Any] | None:
    elements = sort_trees(Column(list(chain.from_iterable(arrays))), depth + 1)
    if elements is None:
        return None
    rest = iter(elements)
    return [list(islice(rest, len(array))) for array in arrays]


def _sort_objects(
    objects: Sequence[dict[str, Any]], columns: ObjectColumns, depth: int
) -> Sequence[Any] | None:
    names = sorted(columns)
    if not _are_whole(names):
        return None
    if all(column.kinds <= SCALARS for column in columns.values()):
        # The union of two maps has the order of the first and the values of the second.
        ordered = list(map(or_, repeat(dict.fromkeys(names)), objects))
        return ordered if all(map(_are_plain, columns.values())) else None
    members = [sort_trees(columns[name], depth + 1) for name in names]
    found = [column for column in members if column is not None]
    if len(found) < len(names):
        return None
    return [dict(zip(names, values, strict=True)) for values in zip(*found, strict=True)]


def _are_plain(column: Column) -> bool:
    """Whether `jsonable` gives all of these scalars as they are."""
    ints = column.select(int)
    return (
        _are_whole(column.select(str))
        and math.isfinite(sum(column.select(float)))
        and (not ints or -_LARGE < min(ints) <= max(ints) < _LARGE)
    )


def _are_whole(texts: Sequence[str]) -> bool:
    """Whether none has half of a character."""
    text = "".join(texts)
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
