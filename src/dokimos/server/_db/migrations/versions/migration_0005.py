"""Online evaluation: rules, the calls of their judging, alerts on traces, and traces that people review."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dokimos.server._db.columns import LONG, NUMBER, Flag, Id

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the tables and indexes."""
    _add_rules()
    _add_batches()
    _add_calls()
    _add_back_fills()
    _add_alerts()
    _add_firings()
    _add_trace_reviews()


def _add_rules() -> None:
    op.create_table(
        "trace_eval_rules",
        sa.Column("id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("enabled", Flag(), nullable=False),
        sa.Column("match_type", sa.Text(), nullable=False),
        sa.Column("match_key", sa.Text(), nullable=True),
        sa.Column("match_value", sa.Text(), nullable=False),
        sa.Column("conditions", sa.Text(), nullable=True),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("connection_id", Id(), nullable=True),
        sa.Column("evaluator_name", sa.Text(), nullable=False),
        sa.Column("evaluator", sa.Text(), nullable=False),
        sa.Column("sampling", sa.Text(), nullable=True),
        sa.Column("budget", sa.Text(), nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("updated_at", LONG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trace_eval_rules"),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_trace_eval_rules_project_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["connection_id"], ["llm_connections.id"], name="fk_trace_eval_rules_connection_id"
        ),
        sqlite_strict=True,
    )
    op.create_index("ix_trace_eval_rules_project_id", "trace_eval_rules", ["project_id"])
    op.create_index("ix_trace_eval_rules_connection_id", "trace_eval_rules", ["connection_id"])
    for suffix, text, columns in (
        ("tenant", "tenant_id IS NOT NULL", ["project_id", "tenant_id", "name"]),
        ("shared", "tenant_id IS NULL", ["project_id", "name"]),
    ):
        condition = sa.text(text)
        op.create_index(
            f"uq_trace_eval_rules_name_{suffix}",
            "trace_eval_rules",
            columns,
            unique=True,
            sqlite_where=condition,
            postgresql_where=condition,
        )


def _add_batches() -> None:
    op.create_table(
        "trace_eval_batches",
        sa.Column("id", Id(), nullable=False),
        sa.Column("rule_id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempt_count", LONG, nullable=False),
        sa.Column("lost_count", LONG, nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("completed_at", LONG, nullable=True),
        sa.Column("scheduled_at", LONG, nullable=False),
        sa.Column("next_attempt_at", LONG, nullable=False),
        sa.Column("lease", sa.Text(), nullable=True),
        sa.Column("leased_at", LONG, nullable=True),
        sa.Column("leased_until", LONG, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_trace_eval_batches"),
        sa.ForeignKeyConstraint(
            ["rule_id"], ["trace_eval_rules.id"], name="fk_trace_eval_batches_rule_id", ondelete="CASCADE"
        ),
        sqlite_strict=True,
    )
    op.create_index("ix_trace_eval_batches_rule_id", "trace_eval_batches", ["rule_id"])
    for name, column, text in (
        ("active", "next_attempt_at", "status IN ('PENDING', 'CLAIMED')"),
        ("over", "completed_at", "completed_at IS NOT NULL"),
    ):
        condition = sa.text(text)
        op.create_index(
            f"ix_trace_eval_batches_{name}",
            "trace_eval_batches",
            [column],
            sqlite_where=condition,
            postgresql_where=condition,
        )


def _add_calls() -> None:
    op.create_table(
        "trace_eval_calls",
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
        sa.PrimaryKeyConstraint("id", name="pk_trace_eval_calls"),
        sa.ForeignKeyConstraint(
            ["job_id"], ["trace_eval_batches.id"], name="fk_trace_eval_calls_job_id", ondelete="CASCADE"
        ),
        sqlite_strict=True,
    )
    op.create_index("ix_trace_eval_calls_job_id_status_key", "trace_eval_calls", ["job_id", "status", "key"])
    is_answered = sa.text("status = 'ANSWERED'")
    op.create_index(
        "uq_trace_eval_calls_answered",
        "trace_eval_calls",
        ["job_id", "key"],
        unique=True,
        sqlite_where=is_answered,
        postgresql_where=is_answered,
    )


def _add_back_fills() -> None:
    op.create_table(
        "trace_eval_back_fills",
        sa.Column("id", Id(), nullable=False),
        sa.Column("rule_id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("from_at", LONG, nullable=False),
        sa.Column("to_at", LONG, nullable=False),
        sa.Column("after", Id(), nullable=True),
        sa.Column("trace_count", LONG, nullable=False),
        sa.Column("job_count", LONG, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("completed_at", LONG, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_trace_eval_back_fills"),
        sa.ForeignKeyConstraint(
            ["rule_id"], ["trace_eval_rules.id"], name="fk_trace_eval_back_fills_rule_id", ondelete="CASCADE"
        ),
        sqlite_strict=True,
    )
    op.create_index("ix_trace_eval_back_fills_rule_id", "trace_eval_back_fills", ["rule_id"])
    is_pending = sa.text("status = 'PENDING'")
    op.create_index(
        "ix_trace_eval_back_fills_pending",
        "trace_eval_back_fills",
        ["id"],
        sqlite_where=is_pending,
        postgresql_where=is_pending,
    )


def _add_alerts() -> None:
    op.create_table(
        "trace_alerts",
        sa.Column("id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("enabled", Flag(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("rule_id", Id(), nullable=True),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("importance", NUMBER, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("updated_at", LONG, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("version", LONG, nullable=False),
        sa.Column("state", sa.Text(), nullable=True),
        sa.Column("after", Id(), nullable=False),
        sa.Column("observation_count", LONG, nullable=False),
        sa.Column("observed_until", LONG, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_trace_alerts"),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_trace_alerts_project_id", ondelete="CASCADE"
        ),
        sqlite_strict=True,
    )
    op.create_index("ix_trace_alerts_project_id", "trace_alerts", ["project_id"])
    for suffix, text, columns in (
        ("tenant", "tenant_id IS NOT NULL", ["project_id", "tenant_id", "name"]),
        ("shared", "tenant_id IS NULL", ["project_id", "name"]),
    ):
        condition = sa.text(text)
        op.create_index(
            f"uq_trace_alerts_name_{suffix}",
            "trace_alerts",
            columns,
            unique=True,
            sqlite_where=condition,
            postgresql_where=condition,
        )


def _add_firings() -> None:
    op.create_table(
        "trace_alert_firings",
        sa.Column("id", Id(), nullable=False),
        sa.Column("alert_id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("ended_at", LONG, nullable=True),
        sa.Column("acknowledged_at", LONG, nullable=True),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_trace_alert_firings"),
        sa.ForeignKeyConstraint(
            ["alert_id"], ["trace_alerts.id"], name="fk_trace_alert_firings_alert_id", ondelete="CASCADE"
        ),
        sqlite_strict=True,
    )
    op.create_index("ix_trace_alert_firings_alert_id_id", "trace_alert_firings", ["alert_id", "id"])
    # Deliveries of alerts on traces; those of runs have none.
    op.add_column("alert_deliveries", sa.Column("firing_id", Id(), nullable=True))
    is_firing = sa.text("firing_id IS NOT NULL")
    op.create_index(
        "uq_alert_deliveries_firing",
        "alert_deliveries",
        ["webhook_id", "firing_id"],
        unique=True,
        sqlite_where=is_firing,
        postgresql_where=is_firing,
    )


def _add_trace_reviews() -> None:
    op.create_table(
        "trace_reviews",
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("span_id", sa.Text(), nullable=False),
        sa.Column("item_id", Id(), nullable=False),
        sa.Column("run_id", Id(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "tenant_id", "trace_id", "span_id", name="pk_trace_reviews"),
        sa.ForeignKeyConstraint(
            ["item_id"], ["items.id"], name="fk_trace_reviews_item_id", ondelete="CASCADE"
        ),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("ix_trace_reviews_item_id", "trace_reviews", ["item_id"])
    op.create_index("ix_trace_reviews_trace_id", "trace_reviews", ["trace_id"])
