"""What each table holds, as far as backups and exports are concerned.

A test fails while a table of the server is missing here, or a column whose name sounds like a secret is
neither named as one nor as harmless.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from sqlalchemy import ColumnElement


class Content(Enum):
    """What the rows of a table are, which decides into which archives they go."""

    DATA = "data"
    """What people work with: part of each backup and of each export."""
    COMPARISON = "comparison"
    """Computed from data, and computed again when it is missing: part of backups, of exports on demand."""
    ACCESS = "access"
    """Who may do what: part of backups, of exports on demand."""
    OPERATION = "operation"
    """What this server did or has still to do: part of backups, never of exports."""
    TRANSIENT = "transient"
    """Worth nothing elsewhere or later, such as sessions: part of no archive."""


CONTENTS: Final[dict[str, Content]] = {
    "projects": Content.DATA,
    "experiments": Content.DATA,
    "runs": Content.DATA,
    "run_tags": Content.DATA,
    "run_comments": Content.DATA,
    "run_evaluators": Content.DATA,
    "items": Content.DATA,
    "evaluations": Content.DATA,
    "ingested_batches": Content.DATA,  # so that a client that repeats a batch elsewhere is recognized there
    "datasets": Content.DATA,
    "dataset_versions": Content.DATA,
    "dataset_items": Content.DATA,
    "annotations": Content.DATA,
    "reviews": Content.DATA,
    "review_changes": Content.DATA,
    "trace_reviews": Content.DATA,
    "run_review_counts": Content.DATA,
    "label_schemas": Content.DATA,
    "review_claims": Content.OPERATION,  # who is at which item at the moment
    "saved_views": Content.DATA,
    "project_datasets": Content.DATA,
    "comparisons": Content.COMPARISON,
    "comparison_cases": Content.COMPARISON,
    "api_keys": Content.ACCESS,
    "users": Content.ACCESS,
    "project_members": Content.ACCESS,
    "used_sign_ins": Content.OPERATION,
    # The address of a webhook is itself a secret often, and another server should not alert the same people.
    "alert_webhooks": Content.OPERATION,
    "alert_deliveries": Content.OPERATION,
    "encryption_keys": Content.OPERATION,
    # So that a restored server asks nothing again that was answered, and continues with the same budgets.
    "judge_calls": Content.OPERATION,
    "judge_budgets": Content.OPERATION,
    # They name connections, which are secret; the scores that they gave are data. Another server should not
    # pay for what is under way here.
    "judge_jobs": Content.OPERATION,
    "judge_errors": Content.OPERATION,
    "judge_scores": Content.OPERATION,
    # The same for online evaluation, whose results are with the traces.
    "trace_eval_rules": Content.OPERATION,
    "trace_eval_batches": Content.OPERATION,
    "trace_eval_calls": Content.OPERATION,
    "trace_eval_back_fills": Content.OPERATION,
    "trace_eval_reviews": Content.OPERATION,
    # They watch traces, which exports do not hold.
    "trace_alerts": Content.OPERATION,
    "trace_alert_firings": Content.OPERATION,
    # Its key can be read with the passphrase of this server only, and its address may be of this network.
    "llm_connections": Content.OPERATION,
    "audit_log": Content.OPERATION,
    "sessions": Content.TRANSIENT,
}

SECRET_COLUMNS: Final[dict[str, frozenset[str]]] = {}
"""Columns of data that are empty in exports. Those of access and operation are secret as a whole."""

HARMLESS_COLUMNS: Final = frozenset(
    {
        *("runs.idempotency_key", "runs.idempotency_hash"),
        *("runs.tokens_in", "runs.tokens_in_count", "runs.tokens_out", "runs.tokens_out_count"),
        *("items.tokens_in", "items.tokens_out"),
        *("ingested_batches.idempotency_key", "ingested_batches.body_hash"),
        *("dataset_versions.content_hash", "dataset_items.content_hash", "dataset_items.inputs_hash"),
    }
)
"""Columns of data whose names sound like secrets."""

DERIVED_COLUMNS: Final[dict[str, frozenset[str]]] = {
    "projects": frozenset({"experiment_count", "run_count", "last_activity_at", "shared_activity_at"}),
    "experiments": frozenset({"run_count", "latest_run_id", "verdict_run_id"}),
    "runs": frozenset({"reviewed_count", "reviewed_failed_count"}),
    "items": frozenset({"reviewed"}),
    "run_review_counts": frozenset({"decided_count", "reopened_count"}),
    "datasets": frozenset({"latest_version", "latest_item_count", "updated_at"}),
    "api_keys": frozenset({"last_used_at"}),
    "users": frozenset({"last_seen_at"}),
}
"""What changes by itself: rows that differ in nothing else are equal. An import counts the counts again."""

UNITS: Final[dict[str, str]] = {"runs": "run", "dataset_versions": "version of a dataset"}
"""Tables whose rows belong together with all rows below them: they are imported whole, or not at all."""

FILTERS: Final[dict[str, tuple[str, Callable[[ColumnElement[Any]], ColumnElement[bool]]]]] = {
    # Those without a number are still being written, and those without a state are, or are being removed.
    "dataset_versions": ("version", lambda version: version.is_not(None)),
    "comparisons": ("state", lambda state: state != ""),
}
"""Which rows of a table readers see, by one of its columns, apart from those with `deleted_at`."""
