"""The metrics of a row, read from the tree that it has and ordered for its fingerprint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import repeat
from operator import attrgetter, or_
from typing import Any, Final

from dokimos._core.fast_constructor import fast_factory, open_class
from dokimos._core.jsonable import camel_case, jsonable
from dokimos._core.metrics import CallMetrics
from dokimos.datasets._json_columns import Column

_new_metrics: Final = fast_factory(CallMetrics)
_ATTRIBUTES: Final = tuple(f.name for f in fields(CallMetrics))
_UnfinishedMetrics: Final = open_class(CallMetrics)
_KINDS: Final[dict[str, type]] = {"model": str} | dict.fromkeys(
    ("tokens_in", "tokens_out", "cached_tokens_in", "reasoning_tokens_out"), int
)
_MEMBERS: Final = {camel_case(f.name): (f.name, _KINDS.get(f.name, float)) for f in fields(CallMetrics)}
_LARGE: Final = 1 << 63
"""Numbers below it are the same in a file and for a fingerprint."""
_NAMES: Final = sorted(_MEMBERS)
_read_in_order: Final = attrgetter(*(_MEMBERS[name][0] for name in _NAMES))


def read_metrics(tree: Any) -> CallMetrics:
    """Return the metrics that a tree of JSON holds, as `from_json` does. Raises `TypeConversionError`."""
    metrics = _read_plain(tree) if type(tree) is dict else None
    if metrics is not None:
        return metrics
    from dokimos._core.wire import from_json

    return from_json(CallMetrics, tree)


def read_plain_metrics(trees: Column) -> list[CallMetrics] | None:
    """Return the metrics of parsed trees, None unless all have the same names and are as we write them."""
    columns: dict[str, Sequence[Any]] = {}
    for name, column in (trees.objects or {}).items():
        attribute, kind = _MEMBERS.get(name, ("", None))
        values = column.values
        if column.kinds != {kind}:
            return None
        if not (all(map(str.isascii, values)) if kind is str else 0 <= min(values) <= max(values) < _LARGE):
            return None
        columns[attribute] = values
    return _put_together([columns.get(name, repeat(None)) for name in _ATTRIBUTES]) if columns else None


def order_plain_metrics(trees: Column) -> Iterable[dict[str, Any]]:
    """Return what `order_metrics` does of those that `read_plain_metrics` has read."""
    ordered = dict.fromkeys(sorted(trees.objects or ()))
    # The union of two keeps the order of the first and takes the values of the second.
    return map(or_, repeat(ordered), trees.values)


def _put_together(columns: Iterable[Iterable[Any]]) -> list[CallMetrics]:
    made: list[Any] = []
    # Not strict: a column that is missing is repeated without end.
    for values in zip(*columns, strict=False):
        metrics: Any = _UnfinishedMetrics()
        (
            metrics.tokens_in,
            metrics.tokens_out,
            metrics.cost_usd,
            metrics.latency_ms,
            metrics.first_chunk_ms,
            metrics.model,
            metrics.cached_tokens_in,
            metrics.reasoning_tokens_out,
        ) = values
        metrics.__class__ = CallMetrics
        made.append(metrics)
    return made


def _read_plain(tree: dict[str, Any]) -> CallMetrics | None:
    """Return metrics that are written as we write them, in a third of the time; None for all others."""
    values: dict[str, Any] = {}
    for name, value in tree.items():
        attribute, kind = _MEMBERS.get(name, ("", None))
        # A text beyond ASCII may have lone surrogates.
        if type(value) is not kind or (type(value) is str and not value.isascii()):
            return None
        values[attribute] = value
    try:
        return _new_metrics(**values)
    except ValueError:  # less than 0
        return None


def order_metrics(metrics: CallMetrics) -> dict[str, Any]:
    """Return what `jsonable` does, in the order of the names."""
    pairs = zip(_NAMES, _read_in_order(metrics), strict=True)
    return {
        name: value if type(value) is float or (type(value) is int and value < _LARGE) else jsonable(value)
        for name, value in pairs
        if value is not None
    }
