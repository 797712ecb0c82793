"""The tables of production traces, which are in a database of their own.

A span is kept as it was sent (`body`) beside what lists and searches need of it. All spans of a trace have
the day on which the server heard of that trace first: on PostgreSQL their table has a partition for each day,
on SQLite the index of their texts has a table for each, so that a day is removed at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Column, ForeignKey, Index, LargeBinary, MetaData, Table, Text, UniqueConstraint, text

from dokimos.server._db.columns import LONG, NUMBER, TIME, Flag, Id
from dokimos.server._db.metadata import METADATA

TRACE_METADATA: Final = MetaData(naming_convention=METADATA.naming_convention)
"""All tables of traces, apart from those of everything else."""

TOKENS: Final = "coalesce(tokens_in, 0) + coalesce(tokens_out, 0)"
"""All tokens of a trace; an index has it in these words."""
FAILED_SCORE: Final = "NOT success"
"""Of a job whose score did not pass; likewise."""

SPAN_START: Final = "coalesce(start_ns, 9223372036854775807)"
"""The start of a span, one that is unknown after all others; an index has it in these words."""


def _partial_indexes(condition: str, **columns: tuple[str, ...]) -> Iterator[Index]:
    """Yield indexes, by their names, of the rows that fulfil a condition."""
    for name, each in columns.items():
        yield Index(name, *each, **_where(condition))


def _where(condition: str) -> dict[str, Any]:
    """Return the arguments of an index of some rows only, as each database names them."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


TRACES: Final = Table(
    "traces",
    TRACE_METADATA,
    Column("id", Id, primary_key=True),  # sorts by the time at which the server heard of the trace
    Column("tenant_key", Text, nullable=False),  # the tenant, empty for none: unique also where there is none
    Column("trace_id", Text, nullable=False),
    Column("tenant_id", Text),
    Column("project_id", Id),
    Column("day", LONG, nullable=False),  # since 1970, of `created_at`
    Column("created_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    Column("expires_at", TIME),  # None for never
    Column("span_count", LONG, nullable=False),
    Column("error_count", LONG, nullable=False),
    Column("byte_count", LONG, nullable=False),
    Column("start_ns", LONG),
    Column("end_ns", LONG),
    Column("duration_ns", LONG),
    Column("tokens_in", LONG),
    Column("tokens_out", LONG),
    Column("cost_usd", NUMBER),
    Column("first_chunk_ms", NUMBER),
    Column("root_name", Text),
    Column("root_status", Text),
    Column("session_id", Text),
    Column("user_id", Text),
    Column("model", Text),
    Column("input_text", Text),  # of the root, cut
    Column("output_text", Text),
    Column("summary", Text, nullable=False),  # JSON: `TraceSummary`, which more spans are merged into
    Column("match_due_at", TIME),  # when the rules of the project are held against its spans
    Column("quiet_due_at", TIME),  # when those rules are that wait until nothing more comes
    Column("deleted_at", TIME),  # read by nobody any more, until the server has removed its spans
    Column("priced_calls", LONG),  # model calls whose cost is known; None where none were counted
    Column("unpriced_calls", LONG),  # those that used tokens at an unknown price: `cost_usd` lacks them
    # Of those that are there: a span that comes late for one that is being removed begins a new trace.
    Index("ix_traces_identity", "tenant_key", "trace_id", unique=True, **_where("deleted_at IS NULL")),
    Index("ix_traces_expires_at", "expires_at", **_where("deleted_at IS NULL")),
    Index("ix_traces_deleted", "day", "id", **_where("deleted_at IS NOT NULL")),
    # Each of the others ends with the id, so that a page of a list is read from one place of one of them.
    Index(None, "tenant_key", "id"),
    Index(None, "project_id", "id"),
    Index(None, "start_ns", "id"),
    Index(None, "project_id", "start_ns", "id"),
    Index(None, "project_id", "duration_ns", "id"),
    Index(None, "project_id", "cost_usd", "id"),
    Index("ix_traces_tokens", "project_id", text(f"({TOKENS})"), "id"),
    *_partial_indexes("session_id IS NOT NULL", ix_traces_session=("session_id", "id")),
    *_partial_indexes(
        "session_id IS NOT NULL",
        ix_traces_in_session=("project_id", "id"),
        ix_traces_in_any_session=("id",),
    ),
    *_partial_indexes("user_id IS NOT NULL", ix_traces_user=("user_id", "id")),
    *_partial_indexes("error_count > 0", ix_traces_errors=("project_id", "id"), ix_traces_any_error=("id",)),
    Index(None, "day", "id"),
    *_partial_indexes("match_due_at IS NOT NULL", ix_traces_match_due=("match_due_at",)),
    *_partial_indexes("quiet_due_at IS NOT NULL", ix_traces_quiet_due=("quiet_due_at",)),
    sqlite_strict=True,
)

SPANS: Final = Table(
    "spans",
    TRACE_METADATA,
    Column("day", LONG, nullable=False),
    Column("trace", Id, nullable=False),  # the id of the row of its trace
    Column("span_id", Text, nullable=False),
    Column("parent_id", Text),
    Column("name", Text, nullable=False),
    Column("kind", Text),
    Column("status", Text),
    Column("role", Text, nullable=False),
    Column("start_ns", LONG),
    Column("end_ns", LONG),
    Column("tokens_in", LONG),
    Column("tokens_out", LONG),
    Column("cost_usd", NUMBER),
    Column("first_chunk_ms", NUMBER),
    Column("model", Text),
    Column("input_text", Text),
    Column("output_text", Text),
    Column("error", Text),
    Column("project_id", Id),  # that its resource names; the one of the trace is that of one of its spans
    Column("source", LONG, nullable=False),  # the row of `trace_sources`
    Column("encoding", LONG, nullable=False),  # of `body`: 0 for protobuf, 1 for JSON
    Column("body", LargeBinary, nullable=False),  # the span of OTLP as it was sent
    Column("received_at", TIME, nullable=False),
    # SQLite alone: an alias of the rowid, which the index of texts names.
    Column("row", LONG, primary_key=True),
)

TRACE_SOURCES: Final = Table(
    "trace_sources",
    TRACE_METADATA,
    # What the spans of one instrumentation share, as it was sent: its resource and its scope.
    Column("id", LONG, primary_key=True, autoincrement=False),  # a hash of the rest
    Column("encoding", LONG, nullable=False),  # of the two bodies, as in `spans`
    Column("resource", LargeBinary, nullable=False),
    Column("resource_schema_url", Text, nullable=False),
    Column("scope", LargeBinary, nullable=False),
    Column("schema_url", Text, nullable=False),
    Column("last_day", LONG, nullable=False),  # of a span that names it
    sqlite_strict=True,
)


def _hour_columns() -> tuple[Column[Any], ...]:
    """The key of an hour of a project: the shards, one of each server, are added up by readers.

    A row that all servers changed would let them wait for each other.
    """
    return (
        Column("project_key", Text, primary_key=True),  # its id, empty for traces of no project
        Column("tenant_key", Text, primary_key=True),
        Column("hour", LONG, primary_key=True),  # since 1970, in which the trace began
        Column("shard", LONG, primary_key=True),
    )


def _call_columns() -> tuple[Column[Any], ...]:
    """How many model calls have a price; an earlier version leaves them out."""
    return (
        Column("priced_calls", LONG, nullable=False, server_default="0"),
        Column("unpriced_calls", LONG, nullable=False, server_default="0"),
    )


TRACE_HOURS: Final = Table(
    "trace_hours",
    TRACE_METADATA,
    *_hour_columns(),
    Column("trace_count", LONG, nullable=False),
    Column("error_count", LONG, nullable=False),  # traces with an error
    Column("span_count", LONG, nullable=False),
    Column("byte_count", LONG, nullable=False),
    Column("tokens_in", LONG, nullable=False),
    Column("tokens_out", LONG, nullable=False),
    Column("cost_nano_usd", LONG, nullable=False),  # whole numbers: what is added is taken off again exactly
    Column("priced_count", LONG, nullable=False),  # traces with a cost, if only of some calls
    *_call_columns(),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

TRACE_LATENCIES: Final = Table(
    "trace_latencies",
    TRACE_METADATA,
    *_hour_columns(),
    Column("bin", LONG, primary_key=True),
    Column("trace_count", LONG, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

TRACE_MODELS: Final = Table(
    "trace_models",
    TRACE_METADATA,
    *_hour_columns(),
    Column("model", Text, primary_key=True),
    Column("call_count", LONG, nullable=False),
    Column("error_count", LONG, nullable=False),
    Column("tokens_in", LONG, nullable=False),
    Column("tokens_out", LONG, nullable=False),
    Column("cost_nano_usd", LONG, nullable=False),
    *_call_columns(),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

TRACE_ROLLUPS: Final = Table(
    "trace_rollups",
    TRACE_METADATA,
    # The hours of a day that is over, added up: a month of them is a few pages of the file, not hundreds.
    Column("project_key", Text, primary_key=True),
    Column("tenant_key", Text, primary_key=True),
    Column("day", LONG, primary_key=True),  # since 1970, in which the traces began
    Column("changes", LONG, nullable=False),  # how often something came for the day after it was over
    Column("content", LargeBinary),  # `DayCounts`; None where something came since the hours were added up
    *_partial_indexes("content IS NULL", ix_trace_rollups_stale=("project_key", "tenant_key", "day")),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

TRACE_DAYS: Final = Table(
    "trace_days",
    TRACE_METADATA,
    # What retention has removed, for pages to say so.
    Column("project_key", Text, primary_key=True),
    Column("tenant_key", Text, primary_key=True),
    Column("day", LONG, primary_key=True),
    Column("removed_traces", LONG, nullable=False),
    Column("removed_spans", LONG, nullable=False),
    Column("removed_at", TIME, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

TRACE_EVAL_CONFIGS: Final = Table(
    "trace_eval_configs",
    TRACE_METADATA,
    # What jobs were made with, each once: a change to a rule does not change its earlier jobs.
    Column("id", LONG, primary_key=True, autoincrement=False),  # a hash of the rest
    Column("config", Text, nullable=False),  # JSON: `JobConfig`
    sqlite_strict=True,
)

TRACE_EVAL_JOBS: Final = Table(
    "trace_eval_jobs",
    TRACE_METADATA,
    Column("id", Id, primary_key=True),
    Column("rule_id", Id, nullable=False),
    Column("target", Text, nullable=False),  # what is scored, which a rule scores once
    Column("trace", Id, ForeignKey("traces.id", ondelete="CASCADE"), nullable=False),
    Column("span_id", Text, nullable=False),  # below which the result stands
    Column("tenant_id", Text),
    Column("project_id", Id),
    Column("evaluator_name", Text, nullable=False),
    Column("config", LONG, nullable=False),  # the row of `trace_eval_configs`
    Column("probability", NUMBER, nullable=False),  # with which it was sampled
    Column("stratum", Text),
    Column("status", Text, nullable=False),
    Column("score", NUMBER),
    Column("success", Flag),
    Column("reason", Text),
    Column("label", Text),
    Column("error_kind", Text),
    Column("attempt_count", LONG, nullable=False),
    Column("last_error", Text),
    Column("observed_at", TIME, nullable=False),  # when its span was received
    Column("created_at", TIME, nullable=False),
    Column("completed_at", TIME),
    Column("batch", Id),  # in which it is being scored
    Column("lease", Text),  # that of the batch
    # Of a session: the probability of its first chance, 0 where a later one had it scored; None where that is
    # `probability`, which later chances raise.
    Column("first_probability", NUMBER),
    UniqueConstraint("rule_id", "target"),
    Index(None, "trace"),
    Index(None, "rule_id", "observed_at"),
    Index(None, "rule_id", "trace"),
    # What lists of traces choose by; each ends with the trace, in whose order such a list is read.
    *_partial_indexes(
        "score IS NOT NULL",
        ix_trace_eval_jobs_scores=("project_id", "evaluator_name", "trace", "score"),
        ix_trace_eval_jobs_by_score=("project_id", "evaluator_name", "score", "trace"),
    ),
    *_partial_indexes(FAILED_SCORE, ix_trace_eval_jobs_low=("project_id", "trace")),
    *_partial_indexes("status = 'FAILED'", ix_trace_eval_jobs_errors=("project_id", "trace")),
    Index(
        "ix_trace_eval_jobs_queued",
        "rule_id",
        "id",
        sqlite_where=text("status = 'PENDING' AND batch IS NULL"),
        postgresql_where=text("status = 'PENDING' AND batch IS NULL"),
    ),
    Index(
        "ix_trace_eval_jobs_batch",
        "batch",
        sqlite_where=text("batch IS NOT NULL"),
        postgresql_where=text("batch IS NOT NULL"),
    ),
    sqlite_strict=True,
)

TRACE_EVAL_CHANCES: Final = Table(
    "trace_eval_chances",
    TRACE_METADATA,
    # Sessions that rules have matched and not sampled so far: when each had its first chance.
    Column("rule_id", Id, primary_key=True),
    Column("target", Text, primary_key=True),  # as in `trace_eval_jobs`
    Column("trace", Id, ForeignKey("traces.id", ondelete="CASCADE"), nullable=False),  # that of this chance
    Column("observed_at", TIME, nullable=False),  # when its span was received
    Index(None, "trace"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

SPAN_LOGS: Final = Table(
    "span_logs",
    TRACE_METADATA,
    # Log records that name a span, which may come later, earlier or never.
    Column("tenant_key", Text, primary_key=True),
    Column("trace_id", Text, primary_key=True),
    Column("span_id", Text, primary_key=True),
    Column("record", LONG, primary_key=True),  # a hash of what was sent: a repeated one is the same
    Column("time_ns", LONG),
    Column("day", LONG, nullable=False),  # on which it came
    Column("source", LONG, nullable=False),  # the row of `trace_sources`
    Column("encoding", LONG, nullable=False),  # of `body`, as in `spans`
    Column("body", LargeBinary, nullable=False),  # the `LogRecord` of OTLP as it was sent
    Column("expires_at", TIME),  # of one whose span has not come; others go with their trace
    Index("ix_span_logs_expires_at", "expires_at", **_where("expires_at IS NOT NULL")),
    Index(None, "day"),
    sqlite_strict=True,
)

REMOVED_PROJECTS: Final = Table(
    "removed_projects",
    TRACE_METADATA,
    # Projects that somebody has asked to delete, noted before they are: their traces go with them.
    Column("project_id", Id, primary_key=True),
    Column("asked_at", TIME, nullable=False),
    sqlite_strict=True,
)

TRACE_REDACTIONS: Final = Table(
    "trace_redactions",
    TRACE_METADATA,
    # How often each rule has replaced something, by the shards of the servers.
    Column("project_key", Text, primary_key=True),
    Column("rule", Text, primary_key=True),
    Column("shard", LONG, primary_key=True),
    Column("replaced_count", LONG, nullable=False),
    Column("changed_at", TIME, nullable=False),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
