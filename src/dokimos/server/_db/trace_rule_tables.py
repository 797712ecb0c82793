"""The tables of online evaluation: the rules, and what their judging costs.

The jobs that rules make are with the traces (`trace_tables`); a batch of them is judged at once, under one
lease, and its calls are in a ledger like those of a judge job.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, ForeignKey, Index, Table, Text, text

from dokimos.server._db.columns import LONG, NUMBER, TIME, Flag, Id
from dokimos.server._db.connection_tables import LLM_CONNECTIONS
from dokimos.server._db.metadata import METADATA

TRACE_EVAL_RULES: Final = Table(
    "trace_eval_rules",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("project_id", Id, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("tenant_id", Text),  # below a shared project, a tenant's rules are its own
    Column("name", Text, nullable=False),
    Column("enabled", Flag, nullable=False),
    Column("match_type", Text, nullable=False),
    Column("match_key", Text),
    Column("match_value", Text, nullable=False),
    Column("conditions", Text),  # JSON: further ones, with AND and OR
    Column("scope", Text, nullable=False),
    # None for an evaluator that asks no model. Without a cascade: a connection that rules use stays.
    Column("connection_id", Id, ForeignKey(LLM_CONNECTIONS.c.id)),
    Column("evaluator_name", Text, nullable=False),  # of the scores
    Column("evaluator", Text, nullable=False),  # JSON: `EvaluatorSpec`
    Column("sampling", Text),  # JSON; None scores everything that matches
    Column("budget", Text),  # JSON: of each day
    Column("created_by", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    Column("review", Text),  # JSON: which of its scores people look at; None for none
    Index(None, "project_id"),
    Index(None, "connection_id"),
    sqlite_strict=True,
)

TRACE_EVAL_BATCHES: Final = Table(
    "trace_eval_batches",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("rule_id", Id, ForeignKey("trace_eval_rules.id", ondelete="CASCADE"), nullable=False),
    Column("project_id", Id, nullable=False),
    Column("tenant_id", Text),
    Column("status", Text, nullable=False),
    Column("attempt_count", LONG, nullable=False),
    Column("lost_count", LONG, nullable=False),  # servers that ended with it
    Column("created_at", TIME, nullable=False),
    Column("completed_at", TIME),
    # When the next attempt was decided on, and when it is due. A clock before the first has been set back.
    Column("scheduled_at", TIME, nullable=False),
    Column("next_attempt_at", TIME, nullable=False),
    # Which server works on it, since when, and how long others leave it alone.
    Column("lease", Text),
    Column("leased_at", TIME),
    Column("leased_until", TIME),
    Index(None, "rule_id"),
    sqlite_strict=True,
)

TRACE_EVAL_BACK_FILLS: Final = Table(
    "trace_eval_back_fills",
    METADATA,
    # Stored traces that a rule is held against after all, the oldest first.
    Column("id", Id, primary_key=True),
    Column("rule_id", Id, ForeignKey("trace_eval_rules.id", ondelete="CASCADE"), nullable=False),
    Column("project_id", Id, nullable=False),
    Column("tenant_id", Text),
    Column("status", Text, nullable=False),  # PENDING or SUCCEEDED
    Column("from_at", TIME, nullable=False),  # when the traces were heard of first
    Column("to_at", TIME, nullable=False),
    Column("after", Id),  # the last trace that was looked at
    Column("trace_count", LONG, nullable=False),
    Column("job_count", LONG, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("completed_at", TIME),
    Index(None, "rule_id"),
    sqlite_strict=True,
)

TRACE_EVAL_REVIEWS: Final = Table(
    "trace_eval_reviews",
    METADATA,
    # Scores that a rule has put into the review queue, each once.
    Column("rule_id", Id, ForeignKey("trace_eval_rules.id", ondelete="CASCADE"), primary_key=True),
    Column("target", Text, primary_key=True),  # as in `trace_eval_jobs`
    Column("item_id", Id, ForeignKey("items.id", ondelete="CASCADE"), nullable=False),
    Column("project_id", Id, nullable=False),
    Column("tenant_id", Text),  # whose trace it is
    Column("day", LONG, nullable=False),  # on which it was scored: the limit of a rule is one of each day
    Column("failed", Flag, nullable=False),
    # With which it came into the queue: that of being sampled by now, times that of being chosen among the
    # scores.
    Column("probability", NUMBER, nullable=False),
    Column("observed_at", TIME, nullable=False),  # when the span was received
    Column("created_at", TIME, nullable=False),
    Column("chosen_probability", NUMBER),  # that of being chosen; an earlier version leaves it out
    Index(None, "rule_id", "day"),
    Index(None, "rule_id", "observed_at"),
    Index(None, "item_id"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

TRACE_EVAL_CALLS: Final = Table(
    "trace_eval_calls",
    METADATA,
    # The columns of `judge_calls`, in their order: both are written by the same statements.
    Column("id", Id, primary_key=True),
    Column("job_id", Id, ForeignKey("trace_eval_batches.id", ondelete="CASCADE"), nullable=False),
    Column("project_id", Id, nullable=False),
    Column("tenant_id", Text),
    Column("key", Text),
    Column("identity", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("calls", LONG, nullable=False),
    Column("tokens", LONG, nullable=False),
    Column("nano_usd", LONG),
    Column("reply", Text),
    Column("problem", Text),
    Column("lease", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("answered_at", TIME),
    Index(None, "job_id", "status", "key"),
    sqlite_strict=True,
)

_IS_ANSWERED: Final = text("status = 'ANSWERED'")
Index(
    "uq_trace_eval_calls_answered",
    TRACE_EVAL_CALLS.c.job_id,
    TRACE_EVAL_CALLS.c.key,
    unique=True,
    sqlite_where=_IS_ANSWERED,
    postgresql_where=_IS_ANSWERED,
)
_IS_ACTIVE: Final = text("status IN ('PENDING', 'CLAIMED')")
Index(
    "ix_trace_eval_batches_active",
    TRACE_EVAL_BATCHES.c.next_attempt_at,
    sqlite_where=_IS_ACTIVE,
    postgresql_where=_IS_ACTIVE,
)
_IS_PENDING: Final = text("status = 'PENDING'")
Index(
    "ix_trace_eval_back_fills_pending",
    TRACE_EVAL_BACK_FILLS.c.id,
    sqlite_where=_IS_PENDING,
    postgresql_where=_IS_PENDING,
)
_IS_OVER: Final = text("completed_at IS NOT NULL")
Index(
    "ix_trace_eval_batches_over",
    TRACE_EVAL_BATCHES.c.completed_at,
    sqlite_where=_IS_OVER,
    postgresql_where=_IS_OVER,
)
for _suffix, _condition, _columns in (
    ("tenant", "tenant_id IS NOT NULL", ("project_id", "tenant_id", "name")),
    ("shared", "tenant_id IS NULL", ("project_id", "name")),
):
    Index(
        f"uq_trace_eval_rules_name_{_suffix}",
        *(TRACE_EVAL_RULES.c[_column] for _column in _columns),
        unique=True,
        sqlite_where=text(_condition),
        postgresql_where=text(_condition),
    )
