"""What runs look like on the wire: assembled as text, since lists without `limit` have thousands of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import Row

from dokimos.server._api.http.json_text import encode_json
from dokimos.server._db.clock import format_time
from dokimos.server._services.runs.item_counts import LARGEST_SUMMED_SCORE
from dokimos.server._services.runs.run_lists import ListedRun, RunList

RunRow: TypeAlias = Row[Any] | ListedRun
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False).encode
"""Texts of the tables hold no lone surrogates, which UTF-8 could not write: no database takes them."""


def pass_rate(row: RunRow) -> float | None:
    """Return the share of items that passed, None for a run without items.

    Items of which no score has a verdict are left out: they neither passed nor did they not.
    """
    count = row.item_count - row.informational_count
    return row.passed_count / count if count else None


def describe_counts(row: RunRow) -> dict[str, int]:
    """Return how many items of a run passed and were judged, which says whether it has a pass rate at all."""
    return {
        "itemCount": row.item_count,
        "passedCount": row.passed_count,
        "judgedCount": row.judged_count,
        "erroredCount": row.errored_count,
    }


def runs_json(listed: RunList) -> bytes:
    """Return runs as the list of an experiment shows them, as JSON."""
    none: Sequence[str] = ()
    runs = (
        _summary_json(run, listed.tags.get(run.id, none), is_baseline=run.id == listed.baseline_run_id)
        for run in listed.runs
    )
    return f"[{','.join(runs)}]".encode()


def run_json(row: Row[Any], tags: Sequence[str], evaluators: Sequence[Row[Any]], items: bytes) -> bytes:
    """Return a run as its own page shows it, as JSON.

    Args:
        row: The run.
        tags: Its tags.
        evaluators: What is known of its evaluators.
        items: A page of its items, as JSON.
    """
    described = encode_json([_evaluator_of_run(each) for each in evaluators]).decode()
    details = (
        f'{{"id":"{row.id}","experimentId":"{row.experiment_id}",'
        f'"experimentName":{_text(row.experiment_name)},"projectName":{_text(row.project_name)},'
        f'"status":"{row.status}","config":{row.config or "null"},'
        f'"totalItems":{row.item_count},"passedItems":{row.passed_count},'
        f'"passRate":{_number(pass_rate(row))},'
        f"{_common_json(row, tags, is_baseline=row.baseline_run_id == row.id)},"
        f'"pricedItemCount":{row.cost_count},"tokenizedItemCount":{row.tokens_in_count},'
        f'"provenance":{row.provenance or "null"},"evaluators":{described},"items":'
    )
    return b"%b%b}" % (details.encode(), items)


def _evaluator_of_run(row: Row[Any]) -> dict[str, Any]:
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


def describe_trend(rows: Sequence[Row[Any]]) -> dict[str, Any]:
    """Return what one evaluator said of several runs, oldest first."""
    latest = rows[-1]
    return {
        "evaluatorName": latest.name,
        "rangeLow": latest.range_low,
        "rangeHigh": latest.range_high,
        "direction": latest.direction,
        "points": [
            {
                "runId": row.run_id,
                "meanScore": _mean(row.score_sum, row.score_count),
                "scoreCount": row.score_count,
                "threshold": row.threshold,
                "fingerprint": row.fingerprint,
            }
            for row in rows
        ],
    }


def _mean(total: float, count: int) -> float | None:
    """The mean of scores; None for none, and where one of them is too large to be summed."""
    return total / count if count and abs(total) < LARGEST_SUMMED_SCORE else None


def _summary_json(run: ListedRun, tags: Sequence[str], *, is_baseline: bool) -> str:
    return (
        f'{{"id":"{run.id}","status":"{run.status}","config":{run.config or "null"},'
        f'"itemCount":{run.item_count},"passedCount":{run.passed_count},'
        f'"passRate":{_number(pass_rate(run))},{_common_json(run, tags, is_baseline=is_baseline)}}}'
    )


def _common_json(run: RunRow, tags: Sequence[str], *, is_baseline: bool) -> str:
    """Return the members that all answers about a run have; sums are null where no item has the value."""
    return (
        f'"startedAt":"{format_time(run.started_at)}",'
        f'"completedAt":{_text(format_time(run.completed_at))},'
        f'"datasetVersionId":{_text(run.dataset_version_id)},'
        f'"datasetVersion":{_number(run.dataset_version)},'
        f'"totalTokensIn":{_number(run.tokens_in if run.tokens_in_count else None)},'
        f'"totalTokensOut":{_number(run.tokens_out if run.tokens_out_count else None)},'
        f'"totalCostUsd":{_number(run.cost_usd if run.cost_count else None)},'
        f'"avgLatencyMs":{_number(run.latency_ms / run.latency_count if run.latency_count else None)},'
        f'"statusReason":{_text(run.status_reason)},"judgedCount":{run.judged_count},'
        f'"erroredCount":{run.errored_count},"informationalCount":{run.informational_count},'
        f'"plannedItems":{_number(run.planned_item_count)},"name":{_text(run.name)},'
        f'"notes":{_text(run.notes)},"tags":[{",".join(map(_text, tags))}],'
        f'"gitSha":{_text(run.git_sha)},"gitBranch":{_text(run.git_branch)},'
        f'"triggeredBy":{_text(run.triggered_by)},"pullRequest":{_text(run.pull_request)},'
        f'"datasetName":{_text(run.dataset_name)},"isBaseline":{"true" if is_baseline else "false"}'
    )


def _text(text: str | None) -> str:
    return "null" if text is None else _ENCODE(text)


def _number(value: float | None) -> str:
    return "null" if value is None else repr(value)
