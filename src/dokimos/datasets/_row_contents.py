"""What a fingerprint hashes of many usual rows, made of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any, Final, TypeAlias

from dokimos._core.keys import INPUT, OUTPUT
from dokimos.datasets._fingerprint import ContentColumns, order_keys
from dokimos.datasets._json_columns import Column
from dokimos.datasets._row_metrics import order_plain_metrics
from dokimos.datasets._sorted_trees import SCALARS, sort_trees

RowColumns: TypeAlias = Mapping[str, Column]
"""The columns of rows, by their names in camelCase."""

_RECORDED: Final = ("actualOutput", "actualOutputs", "metrics")


def read_contents(columns: RowColumns, count: int) -> ContentColumns | None:
    """Return what is hashed of rows that were read as usual ones; None if it is of several kinds."""
    ids = columns["id"].values if "id" in columns else repeat(None, count)
    metadata = _order_maps(columns["metadata"]) if "metadata" in columns else repeat((), count)
    if not _may_be_texts(columns):
        inputs = _order_section(columns, "input", INPUT, repeat((), count))
        expected = _order_section(columns, "expectedOutput", OUTPUT, repeat((), count))
        actual = _order_section(columns, "actualOutput", OUTPUT, repeat(None, count))
        metrics = order_plain_metrics(columns["metrics"]) if "metrics" in columns else repeat(None, count)
        return ContentColumns((), list(zip(ids, metadata, inputs, expected, actual, metrics, strict=True)))
    sections = _find_values(columns, "input", INPUT), _find_values(columns, "expectedOutput", OUTPUT)
    texts = tuple([column.values for column in sections if column and column.kinds == {str}])
    if len(texts) < 2 or not columns.keys().isdisjoint(_RECORDED):
        return None
    lengths = [map(len, column) for column in texts]
    return ContentColumns(texts, list(zip(*lengths, ids, metadata, strict=True)))


def _may_be_texts(columns: RowColumns) -> bool:
    """Whether a row may have one text as input, another as expected output, and nothing that is recorded."""
    if "metrics" in columns or "actualOutputs" in columns:
        return False
    if "actualOutput" in columns and type(None) not in columns["actualOutput"].kinds:
        return False
    return _may_be_text(columns, "input", INPUT) and _may_be_text(columns, "expectedOutput", OUTPUT)


def _may_be_text(columns: RowColumns, short: str, key: str) -> bool:
    values = _find_values(columns, short, key)
    if values is not None:
        return str in values.kinds
    maps = columns.get(f"{short}s")
    return maps is not None and maps.objects is None


def _find_values(columns: RowColumns, short: str, key: str) -> Column | None:
    """Return the only values of a section, which stand for themselves or in maps with this key alone."""
    maps = columns.get(f"{short}s")
    if maps is None or maps.objects is None:
        return columns.get(short)
    return maps.objects[key] if list(maps.objects) == [key] else None


def _order_section(columns: RowColumns, short: str, key: str, missing: Iterable[Any]) -> Iterable[Any]:
    """Normalize the order of the keys of a section of each row, which may be given by its only value."""
    if f"{short}s" in columns:
        return _order_maps(columns[f"{short}s"])
    if short not in columns:
        return missing
    values, ordered = columns[short].values, _order_values(columns[short], key)
    if short == "actualOutput":  # where null says that nothing was recorded
        return [None if value is None else each for value, each in zip(values, ordered, strict=True)]
    return ordered


def _order_values(column: Column, key: str) -> Iterable[Any]:
    """Return what `order_keys` does of maps that have each value alone."""
    trees = None if column.kinds <= SCALARS else sort_trees(column, 1)
    if trees is not None:
        return [{key: tree} for tree in trees]
    return [((key, v),) if type(v) in SCALARS else order_keys({key: v}) for v in column.values]


def _order_maps(maps: Column) -> Iterable[Any]:
    """Normalize the order of the keys of maps, as `order_keys` does with each."""
    objects = maps.objects
    if not objects or not all(column.kinds <= SCALARS for column in objects.values()):
        trees = sort_trees(maps) if objects else None
        return map(order_keys, maps.values) if trees is None else trees
    names = sorted(objects)
    columns = [objects[name].values for name in names]
    if len(names) == 1:
        return [((names[0], value),) for value in columns[0]]
    return zip(repeat(repr(names)), zip(*columns, strict=True), strict=False)
