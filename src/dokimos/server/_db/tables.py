"""The tables of runs, datasets, comparisons and keys.

Rules that hold for all tables:

- Texts that are JSON (`input`, `metadata`, `reason`, ...) are stored as the JSON text itself and answered
  without being parsed: what was sent comes back, also numbers beyond 64 bits, NUL and lone surrogates
  (escaped).
- Counts are kept with the rows that they count, in the same transaction, and never recounted by a page.
- `tenant_id` is None for rows that are shared.
- A row with `deleted_at` is gone for every reader; a worker removes it and what is below it in small
  batches, so that deleting a project of a million items holds up nobody.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Column, ForeignKey, Index, Table, Text, UniqueConstraint, text

from dokimos.server._db.columns import LONG, NUMBER, TIME, Flag, Id
from dokimos.server._db.metadata import METADATA

PROJECTS: Final = Table(
    "projects",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Text),
    Column("name", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("experiment_count", LONG, nullable=False, default=0),
    Column("run_count", LONG, nullable=False, default=0),
    Column("last_activity_at", TIME, nullable=False),
    Column("deleted_at", TIME),
    Column("settings", Text),  # JSON: what differs from the defaults of the server
    Column("shared_activity_at", TIME),  # of rows that are shared: what others than a tenant may know
    sqlite_strict=True,
)

EXPERIMENTS: Final = Table(
    "experiments",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("project_id", Id, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("tenant_id", Text),
    Column("name", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("run_count", LONG, nullable=False, default=0),
    # The ids of runs are not foreign keys: runs refer to experiments, and that would make a cycle.
    Column("verdict_run_id", Id),  # the run that started last of those with a verdict
    Column("latest_run_id", Id),  # the run that started last
    Column("baseline_run_id", Id),  # the pinned run; once that is deleted, no run is pinned
    Column("deleted_at", TIME),
    sqlite_strict=True,
)

RUNS: Final = Table(
    "runs",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("experiment_id", Id, ForeignKey("experiments.id", ondelete="CASCADE"), nullable=False),
    Column("project_id", Id, nullable=False),
    Column("tenant_id", Text),
    Column("status", Text, nullable=False),
    Column("status_reason", Text),
    Column("verdict", Text),  # of the gate with its defaults, None until it was computed
    Column("config", Text),  # JSON: the metadata that the client gave
    Column("name", Text),
    Column("git_sha", Text),
    Column("git_branch", Text),
    Column("triggered_by", Text),
    Column("pull_request", Text),
    Column("provenance", Text),  # JSON
    Column("notes", Text),
    Column("dataset_version_id", Id, ForeignKey("dataset_versions.id", ondelete="SET NULL")),
    Column("planned_item_count", LONG),
    Column("created_by", Text, nullable=False),
    Column("started_at", TIME, nullable=False),
    Column("completed_at", TIME),
    Column("last_activity_at", TIME, nullable=False),
    Column("next_ordinal", LONG, nullable=False, default=0),
    Column("item_count", LONG, nullable=False, default=0),
    Column("passed_count", LONG, nullable=False, default=0),
    Column("judged_count", LONG, nullable=False, default=0),
    Column("errored_count", LONG, nullable=False, default=0),
    Column("tokens_in", LONG, nullable=False, default=0),
    Column("tokens_in_count", LONG, nullable=False, default=0),
    Column("tokens_out", LONG, nullable=False, default=0),
    Column("tokens_out_count", LONG, nullable=False, default=0),
    Column("cost_usd", NUMBER, nullable=False, default=0.0),
    Column("cost_count", LONG, nullable=False, default=0),
    Column("latency_ms", LONG, nullable=False, default=0),
    Column("latency_count", LONG, nullable=False, default=0),
    # The tenant whose key it is, "" for none: below a shared project, two tenants may choose the same key.
    Column("idempotency_scope", Text, nullable=False, default=""),
    Column("idempotency_key", Text),
    Column("idempotency_hash", Text),
    Column("deleted_at", TIME),
    # Items with scores of which none has a verdict: they count neither as passed nor as not passed.
    Column("informational_count", LONG, nullable=False, default=0, server_default="0"),
    # What judge jobs found and give back: None while none of them holds the status of the run.
    Column("own_status", Text),
    Column("own_status_reason", Text),
    # Items with a verdict of a person, and those of them that did not pass.
    Column("reviewed_count", LONG, nullable=False, default=0, server_default="0"),
    Column("reviewed_failed_count", LONG, nullable=False, default=0, server_default="0"),
    sqlite_strict=True,
)

RUN_TAGS: Final = Table(
    "run_tags",
    METADATA,
    Column("run_id", Id, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("tag", Text, primary_key=True),
    Index("ix_run_tags_tag", "tag"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

RUN_COMMENTS: Final = Table(
    "run_comments",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("run_id", Id, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("tenant_id", Text),  # a tenant's comments on a shared run are its own
    Column("item_id", Id),
    Column("body", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("edited_at", TIME),
    Index(None, "run_id", "created_at"),
    sqlite_strict=True,
)

RUN_EVALUATORS: Final = Table(
    "run_evaluators",
    METADATA,
    Column("run_id", Id, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("position", LONG, nullable=False),
    Column("range_low", NUMBER),
    Column("range_high", NUMBER),
    Column("direction", Text),
    Column("threshold", NUMBER),
    Column("fingerprint", Text),
    Column("deterministic", Flag),
    Column("score_count", LONG, nullable=False, default=0),
    Column("score_sum", NUMBER, nullable=False, default=0.0),
    Column("success_count", LONG, nullable=False, default=0),
    # No score is closer to its threshold, where all were looked at: where these are the count and the sum.
    Column("nearest", NUMBER),
    Column("nearest_count", LONG, nullable=False, default=0),
    Column("nearest_sum", NUMBER, nullable=False, default=0.0),
    # JSON: `EvaluatorSpec` of the judge jobs that gave these scores; none where only clients sent them.
    Column("job_evaluator", Text),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

ITEMS: Final = Table(
    "items",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("run_id", Id, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("ordinal", LONG, nullable=False),
    Column("repetition", LONG, nullable=False, default=0),
    # Whether the server chose the ordinal; a client may not replace such an item.
    Column("ordinal_assigned", Flag, nullable=False, default=False),
    Column("input", Text, nullable=False),
    Column("expected_output", Text),
    Column("actual_output", Text, nullable=False),
    Column("metadata", Text),
    Column("error", Text),  # JSON
    Column("dataset_item_id", Id, ForeignKey("dataset_items.id", ondelete="SET NULL")),
    Column("tokens_in", LONG),
    Column("tokens_out", LONG),
    Column("cost_usd", NUMBER),
    Column("latency_ms", LONG),
    Column("passed", Flag, nullable=False),
    Column("judged", Flag, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("reviewed", Flag),  # true with a verdict of those whose run it is, and else None
    UniqueConstraint("run_id", "ordinal", "repetition"),
    sqlite_strict=True,
)

EVALUATIONS: Final = Table(
    "evaluations",
    METADATA,
    Column("item_id", Id, ForeignKey("items.id", ondelete="CASCADE"), primary_key=True),
    Column("position", LONG, primary_key=True, autoincrement=False),
    Column("evaluator", Text, nullable=False),
    Column("score", NUMBER, nullable=False),
    Column("threshold", NUMBER),
    Column("success", Flag, nullable=False),
    Column("reason", Text),  # a JSON string
    Column("label", Text),  # a JSON string
    Column("metadata", Text),  # JSON
    Column("error_detail", Text),  # JSON
    Column("judged", Flag),  # false for a score without a verdict, None for one that says nothing of that
    sqlite_strict=True,
    sqlite_with_rowid=False,  # stored beside those of the same item: a list of items reads few pages
)

INGESTED_BATCHES: Final = Table(
    "ingested_batches",
    METADATA,
    Column("run_id", Id, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("idempotency_key", Text, primary_key=True),
    Column("body_hash", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

DATASETS: Final = Table(
    "datasets",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("tenant_id", Text),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("created_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    Column("latest_version", LONG),
    Column("latest_item_count", LONG, nullable=False, default=0),
    Column("deleted_at", TIME),
    sqlite_strict=True,
)

DATASET_VERSIONS: Final = Table(
    "dataset_versions",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("dataset_id", Id, ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False),
    Column("tenant_id", Text),
    Column("version", LONG),  # None while its items are being written: until then nobody sees it
    Column("description", Text),
    Column("item_count", LONG, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("base_version", LONG),  # the version that this one was edited from or appended to
    Column("created_by", Text, nullable=False),
    Column("created_at", TIME, nullable=False),  # until it has a number: when its last items were written
    UniqueConstraint("dataset_id", "version"),
    sqlite_strict=True,
)

DATASET_ITEMS: Final = Table(
    "dataset_items",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("version_id", Id, ForeignKey("dataset_versions.id", ondelete="CASCADE"), nullable=False),
    Column("ordinal", LONG, nullable=False),
    Column("lineage_id", Id, nullable=False),  # the same for one case in all versions that have it
    Column("external_id", Text),  # what the client calls the case
    Column("inputs", Text, nullable=False),
    Column("expected_outputs", Text),
    Column("metadata", Text),
    Column("content_hash", Id, nullable=False),  # of inputs, expected outputs and metadata
    Column("inputs_hash", Id, nullable=False),
    Column("source_item_id", Id),  # the item of a run that it was promoted from, and that run
    Column("source_run_id", Id),
    UniqueConstraint("version_id", "ordinal"),
    UniqueConstraint("version_id", "lineage_id"),
    Index(None, "version_id", "inputs_hash"),
    sqlite_strict=True,
)

ANNOTATIONS: Final = Table(
    "annotations",
    METADATA,
    Column("item_id", Id, ForeignKey("items.id", ondelete="CASCADE"), primary_key=True),
    # "" for a shared annotation, since a column of a primary key cannot be NULL.
    Column("tenant_id", Text, primary_key=True, default=""),
    Column("id", Id, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("overridden_expected_output", Text),  # JSON
    Column("note", Text),  # a JSON string
    Column("created_by", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

COMPARISONS: Final = Table(
    "comparisons",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("baseline_run_id", Id, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("candidate_run_id", Id, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("configuration", Text, nullable=False),  # a hash of the options and of the engine's version
    # A hash of what the two runs were when they were compared; "" while the cases are being written and from
    # when they are being removed, and then `configuration` is the own id.
    Column("state", Text, nullable=False),
    Column("summary", Text, nullable=False),  # JSON
    Column("case_count", LONG, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("automatic", Flag),  # of a run that ended with the baseline that the server chose
    UniqueConstraint("baseline_run_id", "candidate_run_id", "configuration"),
    Index(None, "candidate_run_id"),
    sqlite_strict=True,
)

COMPARISON_CASES: Final = Table(
    "comparison_cases",
    METADATA,
    Column("comparison_id", Id, ForeignKey("comparisons.id", ondelete="CASCADE"), primary_key=True),
    Column("chunk", LONG, primary_key=True, autoincrement=False),
    Column("lines", Text, nullable=False),  # a line for each case, compressed
    sqlite_strict=True,
)


def _index_where(condition: str, name: str, *columns: Column[Any], unique: bool = False) -> None:
    """Index the rows that meet a condition, which is spelled as queries spell it, or it would not be used."""
    where = text(condition)
    Index(name, *columns, unique=unique, sqlite_where=where, postgresql_where=where)


def _unique_name(table: Table, *columns: str) -> None:
    """A name is unique per tenant, and among the rows that are shared, as long as its row is not deleted."""
    for suffix, condition, keys in (
        ("tenant", "tenant_id IS NOT NULL AND deleted_at IS NULL", ("tenant_id", *columns)),
        ("shared", "tenant_id IS NULL AND deleted_at IS NULL", columns),
    ):
        name = f"uq_{table.name}_{'_'.join(columns)}_{suffix}"
        _index_where(condition, name, *(table.c[key] for key in keys), unique=True)


_unique_name(PROJECTS, "name")
_unique_name(EXPERIMENTS, "project_id", "name")
_unique_name(DATASETS, "name")
Index(None, EXPERIMENTS.c.project_id)
Index(None, RUNS.c.experiment_id, RUNS.c.started_at)
Index(None, RUNS.c.project_id)
Index(None, RUNS.c.dataset_version_id)
_index_where("status = 'RUNNING' AND deleted_at IS NULL", "ix_runs_running", RUNS.c.last_activity_at)
_index_where(
    "idempotency_key IS NOT NULL",
    "uq_runs_idempotency_key",
    RUNS.c.project_id,
    RUNS.c.idempotency_scope,
    RUNS.c.idempotency_key,
    unique=True,
)
Index(None, ITEMS.c.dataset_item_id)
Index(None, COMPARISONS.c.created_at, COMPARISONS.c.case_count)
_index_where("state = ''", "ix_comparisons_discarded", COMPARISONS.c.created_at)
# Of the runs that ended, few wait for a verdict.
_index_where("verdict IS NULL AND completed_at IS NOT NULL", "ix_runs_without_verdict", RUNS.c.completed_at)
_index_where("status = 'EVALUATING'", "ix_runs_evaluating", RUNS.c.id)
# Below a shared project, the runs of one tenant are hidden from the others; without tenants this is empty.
_index_where(
    "tenant_id IS NOT NULL AND deleted_at IS NULL",
    "ix_runs_of_tenants",
    *(RUNS.c.project_id, RUNS.c.experiment_id, RUNS.c.tenant_id),
)
for _column in (DATASET_ITEMS.c.external_id, DATASET_ITEMS.c.source_item_id):
    _index_where(
        f"{_column.name} IS NOT NULL", f"ix_dataset_items_{_column.name}", DATASET_ITEMS.c.version_id, _column
    )
_index_where("version IS NULL", "ix_dataset_versions_unfinished", DATASET_VERSIONS.c.created_at)
# Pages that list only failed items read this index, which is short, instead of all items of the run. SQLite
# and PostgreSQL spell the condition differently, each as its queries do.
Index(
    "ix_items_not_passed",
    ITEMS.c.run_id,
    ITEMS.c.ordinal,
    ITEMS.c.repetition,
    sqlite_where=text("passed IS 0"),
    postgresql_where=text("passed IS false"),
)
for _table in (PROJECTS, EXPERIMENTS, RUNS, DATASETS):
    _index_where("deleted_at IS NOT NULL", f"ix_{_table.name}_deleted", _table.c.deleted_at)
