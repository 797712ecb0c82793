"""The first schema.

Written out, although `_db.tables` says the same: a released migration never changes, and the tables do.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dokimos.server._db.columns import LONG, NUMBER, Flag, Id

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    _create_api_keys()
    _create_datasets()
    _create_projects()
    _create_dataset_versions()
    _create_experiments()
    _create_sessions()
    _create_dataset_items()
    _create_runs()
    _create_comparisons()
    _create_ingested_batches()
    _create_items()
    _create_run_comments()
    _create_run_evaluators()
    _create_run_tags()
    _create_annotations()
    _create_comparison_cases()
    _create_evaluations()


def _create_api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", Id(), nullable=False),
        sa.Column("key_hash", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("enabled", Flag(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("last_used_at", LONG, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("key_hash", name="uq_api_keys_key_hash"),
        sqlite_strict=True,
    )


def _create_datasets() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("updated_at", LONG, nullable=False),
        sa.Column("latest_version", LONG, nullable=True),
        sa.Column("latest_item_count", LONG, nullable=False),
        sa.Column("deleted_at", LONG, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_datasets"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_datasets_deleted",
        "datasets",
        ["deleted_at"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
    )
    op.create_index(
        "uq_datasets_name_shared",
        "datasets",
        ["name"],
        unique=True,
        sqlite_where=sa.text("tenant_id IS NULL AND deleted_at IS NULL"),
        postgresql_where=sa.text("tenant_id IS NULL AND deleted_at IS NULL"),
    )
    op.create_index(
        "uq_datasets_name_tenant",
        "datasets",
        ["tenant_id", "name"],
        unique=True,
        sqlite_where=sa.text("tenant_id IS NOT NULL AND deleted_at IS NULL"),
        postgresql_where=sa.text("tenant_id IS NOT NULL AND deleted_at IS NULL"),
    )


def _create_projects() -> None:
    op.create_table(
        "projects",
        sa.Column("id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("experiment_count", LONG, nullable=False),
        sa.Column("run_count", LONG, nullable=False),
        sa.Column("last_activity_at", LONG, nullable=False),
        sa.Column("deleted_at", LONG, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_projects_deleted",
        "projects",
        ["deleted_at"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
    )
    op.create_index(
        "uq_projects_name_shared",
        "projects",
        ["name"],
        unique=True,
        sqlite_where=sa.text("tenant_id IS NULL AND deleted_at IS NULL"),
        postgresql_where=sa.text("tenant_id IS NULL AND deleted_at IS NULL"),
    )
    op.create_index(
        "uq_projects_name_tenant",
        "projects",
        ["tenant_id", "name"],
        unique=True,
        sqlite_where=sa.text("tenant_id IS NOT NULL AND deleted_at IS NULL"),
        postgresql_where=sa.text("tenant_id IS NOT NULL AND deleted_at IS NULL"),
    )


def _create_dataset_versions() -> None:
    op.create_table(
        "dataset_versions",
        sa.Column("id", Id(), nullable=False),
        sa.Column("dataset_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("version", LONG, nullable=True),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("item_count", LONG, nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("base_version", LONG, nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_dataset_versions_dataset_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_dataset_versions"),
        sa.UniqueConstraint("dataset_id", "version", name="uq_dataset_versions_dataset_id_version"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_dataset_versions_unfinished",
        "dataset_versions",
        ["created_at"],
        unique=False,
        sqlite_where=sa.text("version IS NULL"),
        postgresql_where=sa.text("version IS NULL"),
    )


def _create_experiments() -> None:
    op.create_table(
        "experiments",
        sa.Column("id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("run_count", LONG, nullable=False),
        sa.Column("verdict_run_id", Id(), nullable=True),
        sa.Column("latest_run_id", Id(), nullable=True),
        sa.Column("baseline_run_id", Id(), nullable=True),
        sa.Column("deleted_at", LONG, nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_experiments_project_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_experiments"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_experiments_deleted",
        "experiments",
        ["deleted_at"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
    )
    op.create_index("ix_experiments_project_id", "experiments", ["project_id"], unique=False)
    op.create_index(
        "uq_experiments_project_id_name_shared",
        "experiments",
        ["project_id", "name"],
        unique=True,
        sqlite_where=sa.text("tenant_id IS NULL AND deleted_at IS NULL"),
        postgresql_where=sa.text("tenant_id IS NULL AND deleted_at IS NULL"),
    )
    op.create_index(
        "uq_experiments_project_id_name_tenant",
        "experiments",
        ["tenant_id", "project_id", "name"],
        unique=True,
        sqlite_where=sa.text("tenant_id IS NOT NULL AND deleted_at IS NULL"),
        postgresql_where=sa.text("tenant_id IS NOT NULL AND deleted_at IS NULL"),
    )


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("api_key_id", Id(), nullable=True),
        sa.Column("own_key_proof", sa.Text(), nullable=True),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("expires_at", LONG, nullable=False),
        sa.ForeignKeyConstraint(
            ["api_key_id"], ["api_keys.id"], name="fk_sessions_api_key_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("token_hash", name="pk_sessions"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("ix_sessions_api_key_id", "sessions", ["api_key_id"], unique=False)


def _create_dataset_items() -> None:
    op.create_table(
        "dataset_items",
        sa.Column("id", Id(), nullable=False),
        sa.Column("version_id", Id(), nullable=False),
        sa.Column("ordinal", LONG, nullable=False),
        sa.Column("lineage_id", Id(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.Column("expected_outputs", sa.Text(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("content_hash", Id(), nullable=False),
        sa.Column("inputs_hash", Id(), nullable=False),
        sa.Column("source_item_id", Id(), nullable=True),
        sa.Column("source_run_id", Id(), nullable=True),
        sa.ForeignKeyConstraint(
            ["version_id"], ["dataset_versions.id"], name="fk_dataset_items_version_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_dataset_items"),
        sa.UniqueConstraint("version_id", "lineage_id", name="uq_dataset_items_version_id_lineage_id"),
        sa.UniqueConstraint("version_id", "ordinal", name="uq_dataset_items_version_id_ordinal"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_dataset_items_external_id",
        "dataset_items",
        ["version_id", "external_id"],
        unique=False,
        sqlite_where=sa.text("external_id IS NOT NULL"),
        postgresql_where=sa.text("external_id IS NOT NULL"),
    )
    op.create_index(
        "ix_dataset_items_source_item_id",
        "dataset_items",
        ["version_id", "source_item_id"],
        unique=False,
        sqlite_where=sa.text("source_item_id IS NOT NULL"),
        postgresql_where=sa.text("source_item_id IS NOT NULL"),
    )
    op.create_index(
        "ix_dataset_items_version_id_inputs_hash",
        "dataset_items",
        ["version_id", "inputs_hash"],
        unique=False,
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", Id(), nullable=False),
        sa.Column("experiment_id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("status_reason", sa.Text(), nullable=True),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("config", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("git_sha", sa.Text(), nullable=True),
        sa.Column("git_branch", sa.Text(), nullable=True),
        sa.Column("triggered_by", sa.Text(), nullable=True),
        sa.Column("pull_request", sa.Text(), nullable=True),
        sa.Column("provenance", sa.Text(), nullable=True),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("dataset_version_id", Id(), nullable=True),
        sa.Column("planned_item_count", LONG, nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("started_at", LONG, nullable=False),
        sa.Column("completed_at", LONG, nullable=True),
        sa.Column("last_activity_at", LONG, nullable=False),
        sa.Column("next_ordinal", LONG, nullable=False),
        sa.Column("item_count", LONG, nullable=False),
        sa.Column("passed_count", LONG, nullable=False),
        sa.Column("judged_count", LONG, nullable=False),
        sa.Column("errored_count", LONG, nullable=False),
        sa.Column("tokens_in", LONG, nullable=False),
        sa.Column("tokens_in_count", LONG, nullable=False),
        sa.Column("tokens_out", LONG, nullable=False),
        sa.Column("tokens_out_count", LONG, nullable=False),
        sa.Column("cost_usd", NUMBER, nullable=False),
        sa.Column("cost_count", LONG, nullable=False),
        sa.Column("latency_ms", LONG, nullable=False),
        sa.Column("latency_count", LONG, nullable=False),
        sa.Column("idempotency_scope", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("idempotency_hash", sa.Text(), nullable=True),
        sa.Column("deleted_at", LONG, nullable=True),
        sa.ForeignKeyConstraint(
            ["dataset_version_id"],
            ["dataset_versions.id"],
            name="fk_runs_dataset_version_id",
            ondelete="SET NULL",
        ),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_runs_experiment_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sqlite_strict=True,
    )
    op.create_index("ix_runs_dataset_version_id", "runs", ["dataset_version_id"], unique=False)
    op.create_index(
        "ix_runs_deleted",
        "runs",
        ["deleted_at"],
        unique=False,
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
    )
    op.create_index("ix_runs_experiment_id_started_at", "runs", ["experiment_id", "started_at"], unique=False)
    op.create_index("ix_runs_project_id", "runs", ["project_id"], unique=False)
    op.create_index(
        "ix_runs_running",
        "runs",
        ["last_activity_at"],
        unique=False,
        sqlite_where=sa.text("status = 'RUNNING' AND deleted_at IS NULL"),
        postgresql_where=sa.text("status = 'RUNNING' AND deleted_at IS NULL"),
    )
    op.create_index(
        "uq_runs_idempotency_key",
        "runs",
        ["project_id", "idempotency_scope", "idempotency_key"],
        unique=True,
        sqlite_where=sa.text("idempotency_key IS NOT NULL"),
        postgresql_where=sa.text("idempotency_key IS NOT NULL"),
    )


def _create_comparisons() -> None:
    op.create_table(
        "comparisons",
        sa.Column("id", Id(), nullable=False),
        sa.Column("baseline_run_id", Id(), nullable=False),
        sa.Column("candidate_run_id", Id(), nullable=False),
        sa.Column("configuration", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("case_count", LONG, nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.ForeignKeyConstraint(
            ["baseline_run_id"], ["runs.id"], name="fk_comparisons_baseline_run_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["candidate_run_id"], ["runs.id"], name="fk_comparisons_candidate_run_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_comparisons"),
        sa.UniqueConstraint(
            "baseline_run_id",
            "candidate_run_id",
            "configuration",
            name="uq_comparisons_baseline_run_id_candidate_run_id_configuration",
        ),
        sqlite_strict=True,
    )
    op.create_index("ix_comparisons_candidate_run_id", "comparisons", ["candidate_run_id"], unique=False)


def _create_ingested_batches() -> None:
    op.create_table(
        "ingested_batches",
        sa.Column("run_id", Id(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=False),
        sa.Column("body_hash", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name="fk_ingested_batches_run_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "idempotency_key", name="pk_ingested_batches"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _create_items() -> None:
    op.create_table(
        "items",
        sa.Column("id", Id(), nullable=False),
        sa.Column("run_id", Id(), nullable=False),
        sa.Column("ordinal", LONG, nullable=False),
        sa.Column("repetition", LONG, nullable=False),
        sa.Column("ordinal_assigned", Flag(), nullable=False),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("expected_output", sa.Text(), nullable=True),
        sa.Column("actual_output", sa.Text(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("dataset_item_id", Id(), nullable=True),
        sa.Column("tokens_in", LONG, nullable=True),
        sa.Column("tokens_out", LONG, nullable=True),
        sa.Column("cost_usd", NUMBER, nullable=True),
        sa.Column("latency_ms", LONG, nullable=True),
        sa.Column("passed", Flag(), nullable=False),
        sa.Column("judged", Flag(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_item_id"], ["dataset_items.id"], name="fk_items_dataset_item_id", ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_items_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_items"),
        sa.UniqueConstraint("run_id", "ordinal", "repetition", name="uq_items_run_id_ordinal_repetition"),
        sqlite_strict=True,
    )
    op.create_index("ix_items_dataset_item_id", "items", ["dataset_item_id"], unique=False)
    op.create_index(
        "ix_items_not_passed",
        "items",
        ["run_id", "ordinal", "repetition"],
        unique=False,
        sqlite_where=sa.text("passed IS 0"),
        postgresql_where=sa.text("passed IS false"),
    )


def _create_run_comments() -> None:
    op.create_table(
        "run_comments",
        sa.Column("id", Id(), nullable=False),
        sa.Column("run_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("item_id", Id(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_comments_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_run_comments"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_run_comments_run_id_created_at", "run_comments", ["run_id", "created_at"], unique=False
    )


def _create_run_evaluators() -> None:
    op.create_table(
        "run_evaluators",
        sa.Column("run_id", Id(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", LONG, nullable=False),
        sa.Column("range_low", NUMBER, nullable=True),
        sa.Column("range_high", NUMBER, nullable=True),
        sa.Column("direction", sa.Text(), nullable=True),
        sa.Column("threshold", NUMBER, nullable=True),
        sa.Column("fingerprint", sa.Text(), nullable=True),
        sa.Column("deterministic", Flag(), nullable=True),
        sa.Column("score_count", LONG, nullable=False),
        sa.Column("score_sum", NUMBER, nullable=False),
        sa.Column("success_count", LONG, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_evaluators_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "name", name="pk_run_evaluators"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _create_run_tags() -> None:
    op.create_table(
        "run_tags",
        sa.Column("run_id", Id(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_tags_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "tag", name="pk_run_tags"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("ix_run_tags_tag", "run_tags", ["tag"], unique=False)


def _create_annotations() -> None:
    op.create_table(
        "annotations",
        sa.Column("item_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("id", Id(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("overridden_expected_output", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("updated_at", LONG, nullable=False),
        sa.ForeignKeyConstraint(["item_id"], ["items.id"], name="fk_annotations_item_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("item_id", "tenant_id", name="pk_annotations"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _create_comparison_cases() -> None:
    op.create_table(
        "comparison_cases",
        sa.Column("comparison_id", Id(), nullable=False),
        sa.Column("chunk", LONG, autoincrement=False, nullable=False),
        sa.Column("lines", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["comparison_id"],
            ["comparisons.id"],
            name="fk_comparison_cases_comparison_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("comparison_id", "chunk", name="pk_comparison_cases"),
        sqlite_strict=True,
    )


def _create_evaluations() -> None:
    op.create_table(
        "evaluations",
        sa.Column("item_id", Id(), nullable=False),
        sa.Column("position", LONG, autoincrement=False, nullable=False),
        sa.Column("evaluator", sa.Text(), nullable=False),
        sa.Column("score", NUMBER, nullable=False),
        sa.Column("threshold", NUMBER, nullable=True),
        sa.Column("success", Flag(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("error_detail", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["item_id"], ["items.id"], name="fk_evaluations_item_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("item_id", "position", name="pk_evaluations"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
