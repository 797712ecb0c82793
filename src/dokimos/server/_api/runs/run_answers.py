"""What runs look like on the wire."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, TypeAlias

from sqlalchemy import Row

from dokimos.server._db.clock import format_time
from dokimos.server._services.runs.item_counts import LARGEST_SUMMED_SCORE

RunRow: TypeAlias = Row[Any] | SimpleNamespace


def pass_rate(row: RunRow) -> float | None:
    """Return the share of items that passed, None for a run without items.

    Items of which no score has a verdict are left out: they neither passed nor did they not.
    """
    count = row.item_count - row.informational_count
    return row.passed_count / count if count else None


def totals(row: RunRow) -> dict[str, Any]:
    """Return tokens, cost and latency; null where no item has them."""
    return {
        "totalTokensIn": row.tokens_in if row.tokens_in_count else None,
        "totalTokensOut": row.tokens_out if row.tokens_out_count else None,
        "totalCostUsd": row.cost_usd if row.cost_count else None,
        "avgLatencyMs": row.latency_ms / row.latency_count if row.latency_count else None,
    }


def run_summary(row: Row[Any], tags: list[str]) -> dict[str, Any]:
    """Return a run as the list of an experiment shows it."""
    # Thirty attributes of a row take three times as long as copying it first, and lists have 1,000 runs.
    run = SimpleNamespace(**dict(zip(row._fields, row, strict=True)))
    return {
        "id": run.id,
        "status": run.status,
        "config": parse(run.config),
        "itemCount": run.item_count,
        "passedCount": run.passed_count,
        "passRate": pass_rate(run),
        **_common(run, tags),
    }


def run_details(row: Row[Any], tags: list[str], evaluators: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a run as its own page shows it, without the items."""
    return {
        "id": row.id,
        "experimentId": row.experiment_id,
        "experimentName": row.experiment_name,
        "projectName": row.project_name,
        "status": row.status,
        "config": parse(row.config),
        "totalItems": row.item_count,
        "passedItems": row.passed_count,
        "passRate": pass_rate(row),
        **_common(row, tags),
        "pricedItemCount": row.cost_count,
        "tokenizedItemCount": row.tokens_in_count,
        "provenance": parse(row.provenance),
        "evaluators": evaluators,
    }


def evaluator_of_run(row: Row[Any]) -> dict[str, Any]:
    """Return an evaluator of a run with its counts."""
    return {
        "name": row.name,
        "rangeLow": row.range_low,
        "rangeHigh": row.range_high,
        "direction": row.direction,
        "threshold": row.threshold,
        "fingerprint": row.fingerprint,
        "deterministic": row.deterministic,
        "scoreCount": row.score_count,
        "meanScore": _mean(row.score_sum, row.score_count),
        "successCount": row.success_count,
    }


def parse(text: str | None) -> Any:
    """Return the value of a JSON text, None for None."""
    return None if text is None else json.loads(text)


def _mean(total: float, count: int) -> float | None:
    """The mean of scores; None for none, and where one of them is too large to be summed."""
    return total / count if count and abs(total) < LARGEST_SUMMED_SCORE else None


def _common(row: RunRow, tags: list[str]) -> dict[str, Any]:
    return {
        "startedAt": format_time(row.started_at),
        "completedAt": format_time(row.completed_at),
        "datasetVersionId": row.dataset_version_id,
        "datasetVersion": row.dataset_version,
        **totals(row),
        "statusReason": row.status_reason,
        "judgedCount": row.judged_count,
        "erroredCount": row.errored_count,
        "informationalCount": row.informational_count,
        "plannedItems": row.planned_item_count,
        "name": row.name,
        "notes": row.notes,
        "tags": tags,
        "gitSha": row.git_sha,
        "gitBranch": row.git_branch,
        "triggeredBy": row.triggered_by,
        "pullRequest": row.pull_request,
        "datasetName": row.dataset_name,
        "isBaseline": row.baseline_run_id == row.id,
    }
