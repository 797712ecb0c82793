"""Results as flat rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dokimos.core.metrics import CallMetrics

if TYPE_CHECKING:
    from dokimos.core.results import ItemResult


def row_of(run_index: int, item: ItemResult, names: Sequence[str]) -> dict[str, Any]:
    """Return what is known of an item, with the score and verdict of each of the named evaluators."""
    metrics = item.metrics or CallMetrics()
    row: dict[str, Any] = {
        "run": run_index + 1,
        "index": item.index,
        "id": item.example.id,
        "input": item.example.input,
        "expected_output": item.example.expected_output,
        "actual_output": item.actual_output,
        "success": item.success,
        "error": item.error,
        "latency_ms": metrics.latency_ms,
        "tokens_in": metrics.tokens_in,
        "tokens_out": metrics.tokens_out,
        "cost_usd": metrics.cost_usd,
    }
    results = {r.name: r for r in item.eval_results}
    for name in names:
        result = results.get(name)
        row[name] = None if result is None else result.score
        row[f"{name} success"] = None if result is None else result.success
    return row
