"""Make the examples of many rows at once, column by column, where all rows have the same usual form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import lru_cache, partial
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.fast_constructor import open_class
from dokimos._core.keys import INPUT, OUTPUT
from dokimos._core.metrics import CallMetrics
from dokimos.datasets._columns import WIRE_NAMES
from dokimos.datasets._fingerprint import ContentColumns
from dokimos.datasets._row_metrics import read_plain_metrics

# What the constructor of `Example` does beyond setting its slots, a row does not need: its maps were parsed
# for it alone, so they need no copies, and its reader has checked them. A test compares the two ways.
UnfinishedExample: Final = open_class(Example, tuple(field.name for field in fields(Example)))

_PAIRS: Final = tuple(
    frozenset((short, f"{short}s")) for short in ("input", "expectedOutput", "actualOutput")
)
_USUAL_NAMES: Final = frozenset({"id", "metadata", "metrics"}.union(*_PAIRS))
_ID_KINDS: Final = frozenset((str, type(None)))


class UsualExamples(list[Example]):
    """Examples that were read together, with what a fingerprint needs of them."""

    content: Callable[[], ContentColumns] | None = None


class _UnusualRows(Exception):
    """Some rows need more than to be put together."""


def read_usual_rows(rows: Sequence[dict[str, Any]]) -> UsualExamples | None:
    """Return the examples of parsed rows, whose maps they take over.

    None unless all rows have the same names, all usual ones, with values that need neither a conversion nor a
    message; `RowReader.read` makes of each of these the same. It has no side effects.
    """
    names = set(map(tuple, rows))
    wire_names = _find_usual_names(names.pop()) if len(names) == 1 else None
    if wire_names is None:
        return None
    columns = dict(zip(wire_names, zip(*map(dict.values, rows), strict=True), strict=True))
    try:
        return _make_examples(columns, len(rows))
    except _UnusualRows:
        return None


@lru_cache(maxsize=256)
def _find_usual_names(names: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names of a row in camelCase, None unless all are usual ones."""
    renamed = tuple([WIRE_NAMES.get(name, name) for name in names])
    found = frozenset(renamed)
    if len(found) < len(names) or not found <= _USUAL_NAMES or found.isdisjoint(_PAIRS[0]):
        return None
    return None if any(pair <= found for pair in _PAIRS) else renamed


def _make_examples(columns: dict[str, tuple[Any, ...]], count: int) -> UsualExamples:
    inputs = _read_maps(columns, "input", INPUT) or ()
    expected = _read_maps(columns, "expectedOutput", OUTPUT)
    if expected is None:
        expected = [{} for _ in range(count)]
    actual = _read_actual(columns) or (None,) * count
    metadata = columns.get("metadata")
    if metadata is None:
        metadata = tuple([{} for _ in range(count)])
    _require_maps(metadata)
    ids = columns.get("id", (None,) * count)
    if not _ID_KINDS.issuperset(map(type, ids)) or "" in ids:
        raise _UnusualRows
    trees = columns.get("metrics")
    metrics = (None,) * count if trees is None else _read_metrics(trees)
    examples = UsualExamples(_put_together(inputs, expected, metadata, ids, actual, metrics))
    if trees is not None:
        recorded = (ids, metadata, inputs, expected, actual, trees)
        examples.content = partial(ContentColumns.of_recorded, *recorded)
    elif _hold_texts(columns):
        texts = (columns["input"], columns["expectedOutput"], ids, metadata)
        examples.content = partial(ContentColumns.of_texts, *texts)
    return examples


def _hold_texts(columns: dict[str, tuple[Any, ...]]) -> bool:
    """Whether each row has one text as its input, another one as the expected output, and none recorded."""
    for name in ("input", "expectedOutput"):
        if set(map(type, columns.get(name, ()))) != {str}:
            return False
    return columns.keys().isdisjoint(_PAIRS[2])


def _read_maps(columns: dict[str, tuple[Any, ...]], short: str, key: str) -> Sequence[Any] | None:
    """Return the maps of a column, or of one with their only values; None if there is neither."""
    values = columns.get(short)
    if values is not None:
        return [{key: value} for value in values]
    maps = columns.get(f"{short}s")
    if maps is not None:
        _require_maps(maps)
        if not all(maps):  # an empty one stands for others
            raise _UnusualRows
    return maps


def _read_actual(columns: dict[str, tuple[Any, ...]]) -> Sequence[Any] | None:
    """Return the recorded outputs; a short null means that nothing was recorded."""
    outputs = _read_maps(columns, "actualOutput", OUTPUT)
    if outputs is None or "actualOutput" not in columns:
        return outputs
    return [None if output[OUTPUT] is None else output for output in outputs]


def _require_maps(column: Sequence[Any]) -> None:
    if set(map(type, column)) != {dict}:
        raise _UnusualRows


def _read_metrics(column: Sequence[Any]) -> Sequence[CallMetrics | None]:
    metrics = read_plain_metrics(column)
    if metrics is None:
        raise _UnusualRows
    return metrics


def _put_together(*columns: Sequence[Any]) -> list[Example]:
    new = object.__new__
    examples: list[Any] = []
    for inputs, expected, metadata, id, actual, metrics in zip(*columns, strict=True):
        example: Any = new(UnfinishedExample)
        example.inputs = inputs
        example.expected_outputs = expected
        example.metadata = metadata
        example.id = id
        example.actual_outputs = actual
        example.metrics = metrics
        example.actual_error = None
        example.dataset_item_id = None
        example.__class__ = Example
        examples.append(example)
    return examples
