"""The tables of judge jobs: which evaluator scores which run, and on which items that failed."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, ForeignKey, Index, Table, Text, text

from dokimos.server._db.columns import LONG, NUMBER, TIME, Flag, Id
from dokimos.server._db.connection_tables import LLM_CONNECTIONS
from dokimos.server._db.metadata import METADATA

JUDGE_JOBS: Final = Table(
    "judge_jobs",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("run_id", Id, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("project_id", Id, nullable=False),
    Column("tenant_id", Text),  # below a shared run, a tenant's jobs are its own
    # None for an evaluator that asks no model.
    Column("connection_id", Id, ForeignKey(LLM_CONNECTIONS.c.id, ondelete="CASCADE")),
    Column("evaluator_name", Text, nullable=False),  # of the scores
    Column("evaluator", Text, nullable=False),  # JSON: `EvaluatorSpec`
    Column("replaces", Flag, nullable=False),  # whether its scores take the place of earlier ones at its end
    Column("concurrency", LONG, nullable=False),
    Column("budget", Text),  # JSON
    Column("status", Text, nullable=False),
    Column("attempt_count", LONG, nullable=False, default=0),
    Column("lost_count", LONG, nullable=False, default=0),  # servers that ended with it since it last got on
    Column("last_error", Text),
    Column("created_by", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("claimed_at", TIME),
    Column("completed_at", TIME),
    # When the next attempt was decided on, and when it is due. A clock before the first has been set back.
    Column("scheduled_at", TIME, nullable=False),
    Column("next_attempt_at", TIME, nullable=False),
    # Which server works on it, since when, and how long others leave it alone.
    Column("lease", Text),
    Column("leased_at", TIME),
    Column("leased_until", TIME),
    Column("item_count", LONG, nullable=False, default=0),
    Column("scored_count", LONG, nullable=False, default=0),
    Column("error_count", LONG, nullable=False, default=0),
    Column("skipped_count", LONG, nullable=False, default=0),  # items whose task failed
    Column("done_before", LONG, nullable=False, default=0),  # items that were done when it was claimed last
    Index(None, "run_id", "created_at"),
    Index(None, "connection_id"),
    sqlite_strict=True,
)

JUDGE_ERRORS: Final = Table(
    "judge_errors",
    METADATA,
    Column("job_id", Id, ForeignKey("judge_jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("item_id", Id, ForeignKey("items.id", ondelete="CASCADE"), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("message", Text, nullable=False),  # a JSON string
    Column("created_at", TIME, nullable=False),
    Index(None, "item_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

JUDGE_SCORES: Final = Table(
    "judge_scores",
    METADATA,
    # Scores of a job that replaces earlier ones, until all of them are there.
    Column("job_id", Id, ForeignKey("judge_jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("item_id", Id, ForeignKey("items.id", ondelete="CASCADE"), primary_key=True),
    Column("score", NUMBER, nullable=False),
    Column("threshold", NUMBER),
    Column("success", Flag, nullable=False),
    Column("reason", Text),  # a JSON string
    Column("label", Text),  # a JSON string
    Column("metadata", Text),  # JSON
    Column("judged", Flag),  # false for a score without a verdict
    Index(None, "item_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Few jobs are not at their end.
_IS_ACTIVE: Final = text("status IN ('PENDING', 'CLAIMED', 'PAUSED')")
Index(
    "ix_judge_jobs_active",
    JUDGE_JOBS.c.next_attempt_at,
    sqlite_where=_IS_ACTIVE,
    postgresql_where=_IS_ACTIVE,
)
