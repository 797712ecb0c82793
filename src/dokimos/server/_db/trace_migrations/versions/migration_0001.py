"""Traces, their spans, and what is counted of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dokimos.server._db.columns import LONG, NUMBER, Flag, Id

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Add the tables and indexes."""
    _add_traces()
    _add_trace_indexes()
    _add_spans()
    _add_sources()
    _add_hours()
    _add_days()
    _add_job_configs()
    _add_jobs()
    _add_job_indexes()
    _add_logs()
    _add_removed_projects()
    _add_redactions()


def _add_traces() -> None:
    op.create_table(
        "traces",
        sa.Column("id", Id(), nullable=False),
        sa.Column("tenant_key", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("project_id", Id(), nullable=True),
        sa.Column("day", LONG, nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("updated_at", LONG, nullable=False),
        sa.Column("expires_at", LONG, nullable=True),
        sa.Column("span_count", LONG, nullable=False),
        sa.Column("error_count", LONG, nullable=False),
        sa.Column("byte_count", LONG, nullable=False),
        sa.Column("start_ns", LONG, nullable=True),
        sa.Column("end_ns", LONG, nullable=True),
        sa.Column("duration_ns", LONG, nullable=True),
        sa.Column("tokens_in", LONG, nullable=True),
        sa.Column("tokens_out", LONG, nullable=True),
        sa.Column("cost_usd", NUMBER, nullable=True),
        sa.Column("first_chunk_ms", NUMBER, nullable=True),
        sa.Column("root_name", sa.Text(), nullable=True),
        sa.Column("root_status", sa.Text(), nullable=True),
        sa.Column("session_id", sa.Text(), nullable=True),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("input_text", sa.Text(), nullable=True),
        sa.Column("output_text", sa.Text(), nullable=True),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("match_due_at", LONG, nullable=True),
        sa.Column("quiet_due_at", LONG, nullable=True),
        sa.Column("deleted_at", LONG, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_traces")),
        sqlite_strict=True,
    )


def _add_trace_indexes() -> None:
    indexes: tuple[tuple[str, list[str | sa.TextClause]], ...] = (
        ("ix_traces_tenant_key_id", ["tenant_key", "id"]),
        ("ix_traces_project_id_id", ["project_id", "id"]),
        ("ix_traces_start_ns_id", ["start_ns", "id"]),
        ("ix_traces_project_id_start_ns_id", ["project_id", "start_ns", "id"]),
        ("ix_traces_project_id_duration_ns_id", ["project_id", "duration_ns", "id"]),
        ("ix_traces_project_id_cost_usd_id", ["project_id", "cost_usd", "id"]),
        ("ix_traces_tokens", ["project_id", sa.text(_TOKENS), "id"]),
        ("ix_traces_day_id", ["day", "id"]),
    )
    for name, columns in indexes:
        op.create_index(name, "traces", columns)
    for name, own_columns, condition in (
        ("ix_traces_session", ["session_id", "id"], "session_id IS NOT NULL"),
        ("ix_traces_in_session", ["project_id", "id"], "session_id IS NOT NULL"),
        ("ix_traces_in_any_session", ["id"], "session_id IS NOT NULL"),
        ("ix_traces_user", ["user_id", "id"], "user_id IS NOT NULL"),
        ("ix_traces_errors", ["project_id", "id"], "error_count > 0"),
        ("ix_traces_any_error", ["id"], "error_count > 0"),
        ("ix_traces_match_due", ["match_due_at"], "match_due_at IS NOT NULL"),
        ("ix_traces_quiet_due", ["quiet_due_at"], "quiet_due_at IS NOT NULL"),
    ):
        is_in = sa.text(condition)
        op.create_index(name, "traces", own_columns, sqlite_where=is_in, postgresql_where=is_in)
    is_there = "deleted_at IS NULL"
    _index_some("ix_traces_identity", "traces", ["tenant_key", "trace_id"], is_there, unique=True)
    _index_some("ix_traces_expires_at", "traces", ["expires_at"], is_there)
    _index_some("ix_traces_deleted", "traces", ["day", "id"], "deleted_at IS NOT NULL")


def _index_some(name: str, table: str, columns: list[str], condition: str, *, unique: bool = False) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, unique=unique, sqlite_where=where, postgresql_where=where)


_SPAN_START = "coalesce(start_ns, 9223372036854775807)"
_TOKENS = "(coalesce(tokens_in, 0) + coalesce(tokens_out, 0))"
_SPAN_COLUMNS = """
    day {long} NOT NULL,
    trace {id} NOT NULL,
    span_id TEXT NOT NULL,
    parent_id TEXT,
    name TEXT NOT NULL,
    kind TEXT,
    status TEXT,
    role TEXT NOT NULL,
    start_ns {long},
    end_ns {long},
    tokens_in {long},
    tokens_out {long},
    cost_usd {number},
    first_chunk_ms {number},
    model TEXT,
    input_text TEXT,
    output_text TEXT,
    error TEXT,
    project_id {id},
    source {long} NOT NULL,
    encoding {long} NOT NULL,
    body {bytes} NOT NULL,
    received_at {long} NOT NULL,
"""


# A trace is read in parts, from its first span to its last.
_INDEX_OF_STARTS = f"CREATE INDEX ix_spans_trace_start ON spans (trace, ({_SPAN_START}))"


def _add_spans() -> None:
    """Add the table in the words of each database: neither knows the other's means for removing a day."""
    if op.get_bind().dialect.name == "postgresql":
        columns = _SPAN_COLUMNS.format(long="BIGINT", id="UUID", number="DOUBLE PRECISION", bytes="BYTEA")
        # The texts and attributes that searches look for: indexed, not read.
        op.execute(
            f"CREATE TABLE spans ({columns} search TSVECTOR, attribute_hashes BIGINT[],"
            " CONSTRAINT uq_spans_day_trace_span_id UNIQUE (day, trace, span_id)) PARTITION BY RANGE (day)"
        )
        op.execute(_INDEX_OF_STARTS)
        op.execute("CREATE INDEX ix_spans_search ON spans USING gin (search)")
        op.execute("CREATE INDEX ix_spans_attribute_hashes ON spans USING gin (attribute_hashes)")
        return
    columns = _SPAN_COLUMNS.format(long="INTEGER", id="BLOB", number="REAL", bytes="BLOB")
    op.execute(
        f'CREATE TABLE spans ({columns} "row" INTEGER PRIMARY KEY AUTOINCREMENT,'
        " CONSTRAINT uq_spans_trace_span_id UNIQUE (trace, span_id)) STRICT"
    )
    op.execute(_INDEX_OF_STARTS)


def _add_sources() -> None:
    op.create_table(
        "trace_sources",
        sa.Column("id", LONG, autoincrement=False, nullable=False),
        sa.Column("encoding", LONG, nullable=False),
        sa.Column("resource", sa.LargeBinary(), nullable=False),
        sa.Column("resource_schema_url", sa.Text(), nullable=False),
        sa.Column("scope", sa.LargeBinary(), nullable=False),
        sa.Column("schema_url", sa.Text(), nullable=False),
        sa.Column("last_day", LONG, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trace_sources")),
        sqlite_strict=True,
    )


def _add_hours() -> None:
    _add_hour_table(
        "trace_hours",
        (),
        "trace_count",
        "error_count",
        "span_count",
        "byte_count",
        "tokens_in",
        "tokens_out",
        "cost_nano_usd",
        "priced_count",
    )
    _add_hour_table("trace_latencies", (sa.Column("bin", LONG, nullable=False),), "trace_count")
    _add_hour_table(
        "trace_models",
        (sa.Column("model", sa.Text(), nullable=False),),
        "call_count",
        "error_count",
        "tokens_in",
        "tokens_out",
        "cost_nano_usd",
    )


def _add_hour_table(name: str, key: tuple[sa.Column[object], ...], *counts: str) -> None:
    names = ("project_key", "tenant_key", "hour", "shard", *(column.name for column in key))
    op.create_table(
        name,
        sa.Column("project_key", sa.Text(), nullable=False),
        sa.Column("tenant_key", sa.Text(), nullable=False),
        sa.Column("hour", LONG, nullable=False),
        sa.Column("shard", LONG, nullable=False),
        *key,
        *(sa.Column(count, LONG, nullable=False) for count in counts),
        sa.PrimaryKeyConstraint(*names, name=op.f(f"pk_{name}")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _add_days() -> None:
    op.create_table(
        "trace_days",
        sa.Column("project_key", sa.Text(), nullable=False),
        sa.Column("tenant_key", sa.Text(), nullable=False),
        sa.Column("day", LONG, nullable=False),
        sa.Column("removed_traces", LONG, nullable=False),
        sa.Column("removed_spans", LONG, nullable=False),
        sa.Column("removed_at", LONG, nullable=False),
        sa.PrimaryKeyConstraint("project_key", "tenant_key", "day", name=op.f("pk_trace_days")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _add_job_configs() -> None:
    op.create_table(
        "trace_eval_configs",
        sa.Column("id", LONG, autoincrement=False, nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_trace_eval_configs"),
        sqlite_strict=True,
    )


def _add_jobs() -> None:
    op.create_table(
        "trace_eval_jobs",
        sa.Column("id", Id(), nullable=False),
        sa.Column("rule_id", Id(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("trace", Id(), nullable=False),
        sa.Column("span_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("project_id", Id(), nullable=True),
        sa.Column("evaluator_name", sa.Text(), nullable=False),
        sa.Column("config", LONG, nullable=False),
        sa.Column("probability", NUMBER, nullable=False),
        sa.Column("stratum", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("score", NUMBER, nullable=True),
        sa.Column("success", Flag(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("error_kind", sa.Text(), nullable=True),
        sa.Column("attempt_count", LONG, nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("observed_at", LONG, nullable=False),
        sa.Column("created_at", LONG, nullable=False),
        sa.Column("completed_at", LONG, nullable=True),
        sa.Column("batch", Id(), nullable=True),
        sa.Column("lease", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_trace_eval_jobs"),
        sa.ForeignKeyConstraint(
            ["trace"], ["traces.id"], name="fk_trace_eval_jobs_trace", ondelete="CASCADE"
        ),
        sa.UniqueConstraint("rule_id", "target", name="uq_trace_eval_jobs_rule_id_target"),
        sqlite_strict=True,
    )


def _add_job_indexes() -> None:
    op.create_index("ix_trace_eval_jobs_trace", "trace_eval_jobs", ["trace"])
    op.create_index("ix_trace_eval_jobs_rule_id_observed_at", "trace_eval_jobs", ["rule_id", "observed_at"])
    op.create_index("ix_trace_eval_jobs_rule_id_trace", "trace_eval_jobs", ["rule_id", "trace"])
    for name, columns, text in (
        ("queued", ["rule_id", "id"], "status = 'PENDING' AND batch IS NULL"),
        ("batch", ["batch"], "batch IS NOT NULL"),
        ("scores", ["project_id", "evaluator_name", "trace", "score"], "score IS NOT NULL"),
        ("by_score", ["project_id", "evaluator_name", "score", "trace"], "score IS NOT NULL"),
        ("low", ["project_id", "trace"], "NOT success"),
        ("errors", ["project_id", "trace"], "status = 'FAILED'"),
    ):
        condition = sa.text(text)
        op.create_index(
            f"ix_trace_eval_jobs_{name}",
            "trace_eval_jobs",
            columns,
            sqlite_where=condition,
            postgresql_where=condition,
        )


def _add_logs() -> None:
    key = ("tenant_key", "trace_id", "span_id", "record")
    op.create_table(
        "span_logs",
        *(sa.Column(name, sa.Text(), nullable=False) for name in key[:3]),
        sa.Column("record", LONG, nullable=False),
        sa.Column("time_ns", LONG, nullable=True),
        sa.Column("day", LONG, nullable=False),
        sa.Column("source", LONG, nullable=False),
        sa.Column("encoding", LONG, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", LONG, nullable=True),
        sa.PrimaryKeyConstraint(*key, name=op.f("pk_span_logs")),
        sqlite_strict=True,
    )
    _index_some("ix_span_logs_expires_at", "span_logs", ["expires_at"], "expires_at IS NOT NULL")
    op.create_index("ix_span_logs_day", "span_logs", ["day"])


def _add_removed_projects() -> None:
    op.create_table(
        "removed_projects",
        sa.Column("project_id", Id(), nullable=False),
        sa.Column("asked_at", LONG, nullable=False),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_removed_projects")),
        sqlite_strict=True,
    )


def _add_redactions() -> None:
    op.create_table(
        "trace_redactions",
        sa.Column("project_key", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("shard", LONG, nullable=False),
        sa.Column("replaced_count", LONG, nullable=False),
        sa.Column("changed_at", LONG, nullable=False),
        sa.PrimaryKeyConstraint("project_key", "rule", "shard", name=op.f("pk_trace_redactions")),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
