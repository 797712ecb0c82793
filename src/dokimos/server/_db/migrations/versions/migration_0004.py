"""Judging on the server, and human review."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from dokimos.server._db.columns import LONG, NUMBER, Flag, Id

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the tables, columns and indexes."""
    _add_connections()
    _add_judging_to_runs()
    _add_judge_jobs()
    _add_judge_results()
    _add_judge_calls()
    _add_judge_budgets()
    _add_reviews()
    _keep_reviews_of_annotations()


def _add_judging_to_runs() -> None:
    for column in ("own_status", "own_status_reason"):
        op.add_column("runs", sa.Column(column, sa.Text(), nullable=True))
    is_scored = sa.text("status = 'EVALUATING'")
    op.create_index("ix_runs_evaluating", "runs", ["id"], sqlite_where=is_scored, postgresql_where=is_scored)
    op.add_column("run_evaluators", sa.Column("job_evaluator", sa.Text(), nullable=True))


def _add_judge_jobs() -> None:
    op.create_table(
        "judge_jobs",
        sa.Column("id", Id(), nullable=False),
        sa.Column("run_id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("connection_id", Id(), nullable=True),
        sa.Column("evaluator_name", sa.Text(), nullable=False),
        sa.Column("evaluator", sa.Text(), nullable=False),
        sa.Column("replaces", Flag(), nullable=False),
        sa.Column("concurrency", LONG, nullable=False),
        sa.Column("budget", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt_count", LONG, nullable=False),
        sa.Column("lost_count", LONG, nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("claimed_at", LONG, nullable=True),
        sa.Column("completed_at", LONG, nullable=True),
        sa.Column("scheduled_at", LONG, nullable=False),
        sa.Column("next_attempt_at", LONG, nullable=False),
        sa.Column("lease", sa.Text(), nullable=True),
        sa.Column("leased_at", LONG, nullable=True),
        sa.Column("leased_until", LONG, nullable=True),
        sa.Column("item_count", LONG, nullable=False),
        sa.Column("scored_count", LONG, nullable=False),
        sa.Column("error_count", LONG, nullable=False),
        sa.Column("skipped_count", LONG, nullable=False),
        sa.Column("done_before", LONG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_judge_jobs"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_judge_jobs_run_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["connection_id"],
            ["llm_connections.id"],
            name="fk_judge_jobs_connection_id",
            ondelete="CASCADE",
        ),
        sqlite_strict=True,
    )
    op.create_index("ix_judge_jobs_run_id_created_at", "judge_jobs", ["run_id", "created_at"])
    op.create_index("ix_judge_jobs_connection_id", "judge_jobs", ["connection_id"])
    is_active = sa.text("status IN ('PENDING', 'CLAIMED', 'PAUSED')")
    op.create_index(
        "ix_judge_jobs_active",
        "judge_jobs",
        ["next_attempt_at"],
        sqlite_where=is_active,
        postgresql_where=is_active,
    )


def _add_judge_results() -> None:
    _add_below_judge_job(
        "judge_errors",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
    )
    _add_below_judge_job(
        "judge_scores",
        sa.Column("score", NUMBER, nullable=False),
        sa.Column("threshold", NUMBER, nullable=True),
        sa.Column("success", Flag(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("judged", Flag(), nullable=True),
    )


def _add_below_judge_job(table: str, *columns: sa.Column[Any]) -> None:
    """Add a table with a row for some items of each job."""
    op.create_table(
        table,
        sa.Column("job_id", Id(), nullable=False),
        sa.Column("item_id", Id(), nullable=False),
        *columns,
        sa.ForeignKeyConstraint(["job_id"], ["judge_jobs.id"], name=f"fk_{table}_job_id", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["item_id"], ["items.id"], name=f"fk_{table}_item_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "item_id", name=f"pk_{table}"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index(f"ix_{table}_item_id", table, ["item_id"])


def _add_judge_calls() -> None:
    op.create_table(
        "judge_calls",
        sa.Column("id", Id(), nullable=False),
        sa.Column("job_id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("calls", LONG, nullable=False),
        sa.Column("tokens", LONG, nullable=False),
        sa.Column("nano_usd", LONG, nullable=True),
        sa.Column("reply", sa.Text(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("lease", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("answered_at", LONG, nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"], ["judge_jobs.id"], name="fk_judge_calls_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_judge_calls"),
        sqlite_strict=True,
    )
    op.create_index("ix_judge_calls_job_id_status_key", "judge_calls", ["job_id", "status", "key"])
    is_answered = sa.text("status = 'ANSWERED'")
    op.create_index(
        "uq_judge_calls_answered",
        "judge_calls",
        ["job_id", "key"],
        unique=True,
        sqlite_where=is_answered,
        postgresql_where=is_answered,
    )


def _add_judge_budgets() -> None:
    amounts = [f"{kind}_{unit}" for kind in ("spent", "reserved") for unit in ("calls", "tokens", "nano_usd")]
    op.create_table(
        "judge_budgets",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("job_id", Id(), nullable=True),
        sa.Column("project_id", Id(), nullable=True),
        sa.Column("day", sa.Text(), nullable=True),
        *(
            sa.Column(name, LONG, nullable=False, server_default="0")
            for name in (*amounts, "unpriced_calls", "lost_calls")
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["judge_jobs.id"], name="fk_judge_budgets_job_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_judge_budgets_project_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("scope", name="pk_judge_budgets"),
        sqlite_strict=True,
    )
    for column in ("job_id", "project_id", "day"):
        op.create_index(f"ix_judge_budgets_{column}", "judge_budgets", [column])


def _add_connections() -> None:
    op.create_table(
        "llm_connections",
        sa.Column("id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("base_url", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("protocol", sa.Text(), nullable=False),
        sa.Column("api_key", sa.Text(), nullable=True),
        sa.Column("credential_ref", sa.Text(), nullable=True),
        sa.Column("input_price", NUMBER, nullable=True),
        sa.Column("output_price", NUMBER, nullable=True),
        sa.Column("max_output_tokens", LONG, nullable=True),
        sa.Column("requests_per_minute", LONG, nullable=True),
        sa.Column("max_concurrency", LONG, nullable=True),
        sa.Column("temperature", NUMBER, nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("updated_at", LONG, nullable=False),
        sa.CheckConstraint(
            "(api_key IS NULL) <> (credential_ref IS NULL)", name="ck_llm_connections_credential"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_llm_connections"),
        sqlite_strict=True,
    )
    for suffix, condition, columns in (
        ("tenant", "tenant_id IS NOT NULL", ["tenant_id", "name"]),
        ("shared", "tenant_id IS NULL", ["name"]),
    ):
        op.create_index(
            f"uq_llm_connections_name_{suffix}",
            "llm_connections",
            columns,
            unique=True,
            sqlite_where=sa.text(condition),
            postgresql_where=sa.text(condition),
        )


def _add_reviews() -> None:
    """Who says what about items, who is at which item, and what can be said."""
    op.add_column("items", sa.Column("reviewed", Flag(), nullable=True))
    for name in ("reviewed_count", "reviewed_failed_count"):
        op.add_column("runs", sa.Column(name, LONG, nullable=False, server_default="0"))
    op.create_table(
        "reviews",
        sa.Column("id", Id(), nullable=False),
        sa.Column("item_id", Id(), nullable=False),
        sa.Column("run_id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("overridden_expected_output", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("labels", sa.Text(), nullable=True),
        sa.Column("sampled", Flag(), nullable=True),
        sa.Column("selection_probability", NUMBER, nullable=True),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("updated_at", LONG, nullable=False),
        sa.ForeignKeyConstraint(["item_id"], ["items.id"], name="fk_reviews_item_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_reviews"),
        sa.UniqueConstraint("item_id", "tenant_id", "reviewer", name="uq_reviews_item_id_tenant_id_reviewer"),
        sqlite_strict=True,
    )
    op.create_index("ix_reviews_run_id_item_id", "reviews", ["run_id", "item_id"])
    op.create_index("ix_reviews_project_id_item_id", "reviews", ["project_id", "item_id"])
    op.create_table(
        "review_changes",
        sa.Column("id", Id(), nullable=False),
        sa.Column("item_id", Id(), nullable=False),
        sa.Column("run_id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=True),
        sa.Column("after", sa.Text(), nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("undone", Flag(), nullable=False),
        sa.ForeignKeyConstraint(
            ["item_id"], ["items.id"], name="fk_review_changes_item_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_review_changes"),
        sqlite_strict=True,
    )
    op.create_index("ix_review_changes_item_id_created_at", "review_changes", ["item_id", "created_at"])
    _add_queue()


def _add_queue() -> None:
    op.create_table(
        "review_claims",
        sa.Column("item_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("place", LONG, nullable=False),
        sa.Column("run_id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("reviewer", sa.Text(), nullable=False),
        sa.Column("claimed_at", LONG, nullable=False),
        sa.Column("expires_at", LONG, nullable=True),
        sa.Column("assigned_by", sa.Text(), nullable=True),
        sa.Column("sampled", Flag(), nullable=True),
        sa.Column("selection_probability", NUMBER, nullable=True),
        sa.ForeignKeyConstraint(
            ["item_id"], ["items.id"], name="fk_review_claims_item_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("item_id", "tenant_id", "place", name="pk_review_claims"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("ix_review_claims_reviewer", "review_claims", ["reviewer"])
    where = sa.text("reviewed IS NULL")
    op.create_index(
        "ix_items_unreviewed",
        "items",
        ["run_id", "created_at", "id"],
        sqlite_where=where,
        postgresql_where=where,
    )
    _add_review_counts()
    _add_label_schemas()


def _add_review_counts() -> None:
    op.create_table(
        "run_review_counts",
        sa.Column("run_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("decided_count", LONG, nullable=False),
        sa.Column("reopened_count", LONG, nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name="fk_run_review_counts_run_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "tenant_id", name="pk_run_review_counts"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _add_label_schemas() -> None:
    op.create_table(
        "label_schemas",
        sa.Column("id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", LONG, nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("retired_at", LONG, nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_label_schemas_project_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_label_schemas"),
        sa.UniqueConstraint(
            "project_id", "tenant_id", "name", "version",
            name="uq_label_schemas_project_id_tenant_id_name_version",
        ),
        sqlite_strict=True,
    )  # fmt: skip


def _keep_reviews_of_annotations() -> None:
    """What was annotated before becomes the review of whoever annotated it, and leaves the queue."""
    op.execute(
        "INSERT INTO reviews (id, item_id, run_id, project_id, tenant_id, reviewer, verdict, "
        "overridden_expected_output, note, created_at, updated_at) "
        "SELECT annotations.id, annotations.item_id, items.run_id, runs.project_id, annotations.tenant_id, "
        "annotations.created_by, annotations.verdict, annotations.overridden_expected_output, "
        "annotations.note, annotations.created_at, annotations.updated_at FROM annotations "
        "JOIN items ON items.id = annotations.item_id JOIN runs ON runs.id = items.run_id"
    )
    op.execute(
        "UPDATE items SET reviewed = (1 = 1) WHERE id IN (SELECT reviews.item_id FROM reviews "
        "JOIN runs ON runs.id = reviews.run_id AND coalesce(runs.tenant_id, '') = reviews.tenant_id "
        "WHERE reviews.verdict <> 'UNSURE')"
    )
    reviewed = "SELECT count(*) FROM items WHERE items.run_id = runs.id AND items.reviewed IS NOT NULL"
    op.execute(
        f"UPDATE runs SET reviewed_count = ({reviewed}), "
        f"reviewed_failed_count = ({reviewed} AND items.passed = (1 = 0)) "
        "WHERE id IN (SELECT run_id FROM reviews)"
    )
    op.execute(
        "INSERT INTO run_review_counts (run_id, tenant_id, decided_count, reopened_count) "
        "SELECT reviews.run_id, reviews.tenant_id, "
        "sum(CASE WHEN reviews.verdict <> 'UNSURE' AND items.reviewed IS NULL THEN 1 ELSE 0 END), "
        "sum(CASE WHEN reviews.verdict = 'UNSURE' AND items.reviewed IS NOT NULL THEN 1 ELSE 0 END) "
        "FROM reviews JOIN items ON items.id = reviews.item_id JOIN runs ON runs.id = reviews.run_id "
        "WHERE runs.tenant_id IS NULL AND reviews.tenant_id <> '' GROUP BY reviews.run_id, reviews.tenant_id"
    )
