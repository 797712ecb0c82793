"""Settings of projects; alerts, people, the audit log and saved views."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dokimos.server._db.columns import LONG, Flag, Id

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the tables, columns and indexes."""
    op.add_column("projects", sa.Column("settings", sa.Text(), nullable=True))
    _add_shared_activity()
    _add_views()
    _add_audit()
    _add_project_members()
    _add_project_datasets()
    _add_sign_in()
    _add_alerts()


def _add_shared_activity() -> None:
    op.add_column("projects", sa.Column("shared_activity_at", LONG, nullable=True))
    op.execute("UPDATE projects SET shared_activity_at = last_activity_at")


def _add_views() -> None:
    op.add_column("run_comments", sa.Column("edited_at", LONG, nullable=True))
    op.create_table(
        "saved_views",
        sa.Column("id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("project_id", Id(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("is_shared", Flag(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("updated_at", LONG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_saved_views"),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_saved_views_project_id", ondelete="CASCADE"
        ),
        sqlite_strict=True,
    )
    op.create_index("ix_saved_views_project_id", "saved_views", ["project_id"])
    for name, columns, condition in (
        ("uq_saved_views_of_project", ["owner", "kind", "name", "project_id"], "project_id IS NOT NULL"),
        ("uq_saved_views_of_all", ["owner", "kind", "name"], "project_id IS NULL"),
    ):
        op.create_index(
            name,
            "saved_views",
            columns,
            unique=True,
            sqlite_where=sa.text(condition),
            postgresql_where=sa.text(condition),
        )


def _add_audit() -> None:
    op.create_table(
        "audit_log",
        sa.Column("id", Id(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("last_at", LONG, nullable=False),
        sa.Column("times", LONG, nullable=False, server_default="1"),
        sa.Column("principal_kind", sa.Text(), nullable=False),
        sa.Column("principal_id", sa.Text(), nullable=False),
        sa.Column("principal_name", sa.Text(), nullable=True),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target_kind", sa.Text(), nullable=True),
        sa.Column("target_id", sa.Text(), nullable=True),
        sa.Column("target_name", sa.Text(), nullable=True),
        sa.Column("project_id", Id(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("status", LONG, nullable=True),
        sa.Column("details", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_audit_log"),
        sqlite_strict=True,
    )
    for column in (None, "tenant_id", "principal_id", "target_id"):
        columns = ["created_at", "id"] if column is None else [column, "created_at", "id"]
        op.create_index(f"ix_audit_log_{'_'.join(columns)}", "audit_log", columns)


def _add_project_members() -> None:
    op.create_table(
        "project_members",
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("member_id", Id(), nullable=False),
        sa.Column("member_kind", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_project_members_project_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project_id", "member_id", name="pk_project_members"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("ix_project_members_member_id", "project_members", ["member_id"])


def _add_project_datasets() -> None:
    op.create_table(
        "project_datasets",
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("dataset_id", Id(), nullable=False),
        sa.Column("is_granted", Flag(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_project_datasets_project_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="fk_project_datasets_dataset_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("project_id", "dataset_id", name="pk_project_datasets"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("ix_project_datasets_dataset_id", "project_datasets", ["dataset_id"])
    op.execute(
        "INSERT INTO project_datasets (project_id, dataset_id, is_granted) "
        "SELECT DISTINCT runs.project_id, dataset_versions.dataset_id, 1 = 0 "
        "FROM runs JOIN dataset_versions ON dataset_versions.id = runs.dataset_version_id"
    )


def _add_sign_in() -> None:
    """Keys that expire and are rotated, people who sign in, and sessions that can be listed."""
    op.create_table(
        "users",
        sa.Column("id", Id(), nullable=False),
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("role_override", sa.Text(), nullable=True),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("enabled", Flag(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("last_seen_at", LONG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("issuer", "subject", name="uq_users_issuer_subject"),
        sqlite_strict=True,
    )
    op.create_index("ix_users_tenant_id", "users", ["tenant_id"])
    op.create_table(
        "used_sign_ins",
        sa.Column("state_hash", sa.Text(), nullable=False),
        sa.Column("expires_at", LONG, nullable=False),
        sa.PrimaryKeyConstraint("state_hash", name="pk_used_sign_ins"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("ix_used_sign_ins_expires_at", "used_sign_ins", ["expires_at"])
    for column in (
        sa.Column("expires_at", LONG, nullable=True),
        sa.Column("created_by", sa.Text(), nullable=True),
        sa.Column("requests_per_minute", LONG, nullable=True),
        sa.Column("rotated_at", LONG, nullable=True),
        sa.Column("previous_hash", sa.Text(), nullable=True),
        sa.Column("previous_expires_at", LONG, nullable=True),
    ):
        op.add_column("api_keys", column)
    for column in (
        sa.Column("id", Id(), nullable=True),
        sa.Column("key_hash", sa.Text(), nullable=True),
        sa.Column("user_id", Id(), nullable=True),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("user_agent", sa.Text(), nullable=True),
        sa.Column("last_seen_at", LONG, nullable=True),
        sa.Column("id_token", sa.Text(), nullable=True),
    ):
        op.add_column("sessions", column)
    op.create_index("ix_sessions_id", "sessions", ["id"], unique=True)
    op.create_index("ix_sessions_user_id", "sessions", ["user_id"])


def _add_alerts() -> None:
    op.create_table(
        "alert_webhooks",
        sa.Column("id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=True),
        sa.Column("enabled", Flag(), nullable=False),
        sa.Column("disabled_reason", sa.Text(), nullable=True),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("fields", sa.Text(), nullable=True),
        sa.Column("failing_since", LONG, nullable=True),
        sa.Column("lost_in_a_row", LONG, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("deleted_at", LONG, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_alert_webhooks"),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name="fk_alert_webhooks_project_id", ondelete="CASCADE"
        ),
        sqlite_strict=True,
    )
    op.create_index("ix_alert_webhooks_project_id", "alert_webhooks", ["project_id"])
    _index_where("ix_alert_webhooks_deleted", "alert_webhooks", ["deleted_at"], "deleted_at IS NOT NULL")
    op.create_table(
        "alert_deliveries",
        sa.Column("id", Id(), nullable=False),
        sa.Column("webhook_id", Id(), nullable=False),
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("run_id", Id(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("attempts", LONG, nullable=False),
        sa.Column("failures", LONG, nullable=False),
        sa.Column("last_status_code", LONG, nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("scheduled_at", LONG, nullable=False),
        sa.Column("next_attempt_at", LONG, nullable=False),
        sa.Column("lease", sa.Text(), nullable=True),
        sa.Column("leased_at", LONG, nullable=True),
        sa.Column("leased_until", LONG, nullable=True),
        sa.Column("finished_at", LONG, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_alert_deliveries"),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["alert_webhooks.id"], name="fk_alert_deliveries_webhook_id", ondelete="CASCADE"
        ),
        sqlite_strict=True,
    )
    table = "alert_deliveries"
    op.create_index("ix_alert_deliveries_webhook_id_created_at", table, ["webhook_id", "created_at"])
    pending = ["webhook_id", "next_attempt_at"]
    _index_where("ix_alert_deliveries_pending", table, pending, "status = 'PENDING'")
    _index_where("ix_alert_deliveries_finished", table, ["finished_at"], "finished_at IS NOT NULL")
    alert = ["webhook_id", "run_id"]
    _index_where("uq_alert_deliveries_run", table, alert, "run_id IS NOT NULL", unique=True)
    op.create_table(
        "encryption_keys",
        sa.Column("id", Id(), nullable=False),
        sa.Column("salt", sa.Text(), nullable=False),
        sa.Column("proof", sa.Text(), nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_encryption_keys"),
        sqlite_strict=True,
    )


def _index_where(name: str, table: str, columns: list[str], condition: str, *, unique: bool = False) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, unique=unique, sqlite_where=where, postgresql_where=where)
