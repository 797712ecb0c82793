"""The metrics of a row, read from the tree that it has and ordered for its fingerprint."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import Any, Final

from dokimos._core.fast_constructor import fast_factory
from dokimos._core.jsonable import camel_case, jsonable
from dokimos._core.metrics import CallMetrics

_new_metrics: Final = fast_factory(CallMetrics)
_KINDS: Final[dict[str, type]] = {"model": str} | dict.fromkeys(
    ("tokens_in", "tokens_out", "cached_tokens_in", "reasoning_tokens_out"), int
)
_MEMBERS: Final = {camel_case(f.name): (f.name, _KINDS.get(f.name, float)) for f in fields(CallMetrics)}
_NAMES: Final = sorted(_MEMBERS)
_read_in_order: Final = attrgetter(*(_MEMBERS[name][0] for name in _NAMES))


def read_metrics(tree: Any) -> CallMetrics:
    """Return the metrics that a tree of JSON holds, as `from_json` does. Raises `TypeConversionError`."""
    metrics = _read_plain(tree) if type(tree) is dict else None
    if metrics is not None:
        return metrics
    from dokimos._core.wire import from_json

    return from_json(CallMetrics, tree)


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
        name: value if type(value) is float else jsonable(value) for name, value in pairs if value is not None
    }
