"""Token usage as frameworks report it, and its cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dokimos._core.metrics import CallMetrics, PriceTable


def add_cost(
    usage: CallMetrics | None, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return usage with its cost; None if all counts are zero, since nothing was measured then.

    A cost that the framework itself reports, other than zero, is kept; else it comes from the price table.
    """
    if usage is None:
        return None
    from dokimos.traces._collector import TraceCollector

    collector = TraceCollector()
    collector.add_usage(usage)
    return collector.call_metrics(model, price_table)


def make_usage(
    tokens_in: object, tokens_out: object, *, cached: object = None, reasoning: object = None, **more: Any
) -> CallMetrics:
    """Return token counts as metrics; a count that is not an integer of at least 0 is unknown.

    Example:
        >>> make_usage(12, 5).tokens, make_usage(12, None).tokens_out
        (17, None)
    """
    return CallMetrics(
        _count(tokens_in),
        _count(tokens_out),
        cached_tokens_in=_count(cached),
        reasoning_tokens_out=_count(reasoning),
        **more,
    )


def sum_usage(usages: Iterable[CallMetrics | None]) -> CallMetrics | None:
    """Return the sum of what was measured; None where nothing was."""
    total: CallMetrics | None = None
    for usage in usages:
        if usage is not None:
            total = usage if total is None else total + usage
    return total


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if value >= 0 else None
