"""Make the examples of many rows at once, column by column, where all rows have the same usual form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import repeat
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.fast_constructor import open_class
from dokimos._core.keys import INPUT, OUTPUT
from dokimos._core.metrics import CallMetrics
from dokimos.datasets._columns import WIRE_NAMES
from dokimos.datasets._fingerprint import ContentColumns
from dokimos.datasets._json_columns import Column
from dokimos.datasets._row_contents import read_contents
from dokimos.datasets._row_metrics import read_plain_metrics

# What the constructor of `Example` does beyond setting its slots, a row does not need: its maps were parsed
# for it alone, so they need no copies, and its reader has checked them. A test compares the two ways.
UnfinishedExample: Final = open_class(Example)

_PAIRS: Final = tuple(
    frozenset((short, f"{short}s")) for short in ("input", "expectedOutput", "actualOutput")
)
_USUAL_NAMES: Final = frozenset({"id", "metadata", "metrics"}.union(*_PAIRS))
_ID_KINDS: Final = frozenset((str, type(None)))


class UsualExamples(list[Example]):
    """Examples that were read together, with what the summary of a stream needs of them."""

    ids: Sequence[str | None] = ()
    contents: Callable[[], ContentColumns | None]
    """What a fingerprint hashes of them; None if it has to look at each of them."""


class _UnusualRows(Exception):
    """Some rows need more than to be put together."""


def read_usual_rows(rows: Column) -> UsualExamples | None:
    """Return the examples of parsed rows, whose maps they take over.

    None unless all rows have the same names, all usual ones, with values that need neither a conversion nor a
    message; `RowReader.read` makes of each of these the same. It has no side effects.
    """
    found = rows.objects
    names = None if found is None else _find_usual_names(tuple(found))
    if found is None or names is None:
        return None
    try:
        return make_examples(dict(zip(names, found.values(), strict=True)), len(rows.values))
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


def make_examples(columns: Mapping[str, Column], count: int) -> UsualExamples:
    """Return the examples of rows by their columns, whose names are in camelCase and usual ones."""
    inputs = _read_maps(columns, "input", INPUT) or ()
    expected = _read_maps(columns, "expectedOutput", OUTPUT)
    if expected is None:
        expected = [{} for _ in range(count)]
    actual = _read_actual(columns) or (None,) * count
    metadata = columns.get("metadata")
    ids = _read_ids(columns.get("id")) or (None,) * count
    metrics = _read_metrics(columns.get("metrics")) or (None,) * count
    maps = _require_maps(metadata) if metadata else [{} for _ in range(count)]
    examples = UsualExamples(_put_together(count, inputs, expected, maps, ids, actual, metrics))
    examples.ids = ids
    examples.contents = partial(read_contents, columns, count)
    return examples


def _read_maps(columns: Mapping[str, Column], short: str, key: str) -> Sequence[Any] | None:
    """Return the maps of a column, or of one with their only values; None if there is neither."""
    column = columns.get(short)
    if column is not None:
        return [{key: value} for value in column.values]
    maps = columns.get(f"{short}s")
    return None if maps is None else _require_maps(maps)


def _read_actual(columns: Mapping[str, Column]) -> Sequence[Any] | None:
    """Return the recorded outputs; a short null means that nothing was recorded."""
    short = columns.get("actualOutput")
    if short is None:
        return _read_maps(columns, "actualOutput", OUTPUT)
    return [None if value is None else {OUTPUT: value} for value in short.values]


def _read_ids(column: Column | None) -> Sequence[str | None] | None:
    if column is not None and (not column.kinds <= _ID_KINDS or "" in column.values):
        raise _UnusualRows
    return None if column is None else column.values


def _require_maps(column: Column) -> Sequence[Any]:
    if column.kinds != {dict}:
        raise _UnusualRows
    return column.values


def _read_metrics(column: Column | None) -> Sequence[CallMetrics | None] | None:
    metrics = None if column is None else read_plain_metrics(column)
    if metrics is None and column is not None:
        raise _UnusualRows
    return metrics


def _put_together(count: int, *columns: Sequence[Any]) -> list[Any]:
    examples: list[Any] = list(map(object.__new__, repeat(UnfinishedExample, count)))
    kind = Example
    for example, inputs, expected, metadata, id, actual, metrics in zip(examples, *columns, strict=True):
        example.inputs = inputs
        example.expected_outputs = expected
        example.metadata = metadata
        example.id = id
        example.actual_outputs = actual
        example.metrics = metrics
        example.actual_error = None
        example.dataset_item_id = None
        example.__class__ = kind
    return examples
