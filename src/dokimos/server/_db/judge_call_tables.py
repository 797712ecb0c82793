"""The tables of what judging costs: each call to a model, and the sums that hold budgets."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, ForeignKey, Index, Table, Text, text

from dokimos.server._db.columns import LONG, TIME, Id
from dokimos.server._db.metadata import METADATA

JUDGE_CALLS: Final = Table(
    "judge_calls",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("job_id", Id, ForeignKey("judge_jobs.id", ondelete="CASCADE"), nullable=False),
    Column("project_id", Id, nullable=False),
    Column("tenant_id", Text),
    Column("key", Text),  # that of the call (`CallRequest.key`); None for what no store looks up
    Column("identity", Text, nullable=False),  # which model
    Column("status", Text, nullable=False),
    # What it counts in budgets: what is reserved for it, and from when it is known, what it cost.
    Column("calls", LONG, nullable=False),
    Column("tokens", LONG, nullable=False),
    Column("nano_usd", LONG),  # billionths of a dollar, so that sums are exact; None without a price
    Column("reply", Text),  # as `judge_replies.encode_reply` returns it
    Column("problem", Text),  # why the reply is of no use, or why there is none
    Column("lease", Text, nullable=False),  # that under which it was reserved
    Column("created_at", TIME, nullable=False),  # its day, in UTC, is the day whose budgets it counts in
    Column("answered_at", TIME),
    Index(None, "job_id", "status", "key"),
    sqlite_strict=True,
)

JUDGE_BUDGETS: Final = Table(
    "judge_budgets",
    METADATA,
    Column("scope", Text, primary_key=True),  # as `judge_budgets.scopes_of` returns it
    Column("job_id", Id, ForeignKey("judge_jobs.id", ondelete="CASCADE")),
    Column("project_id", Id, ForeignKey("projects.id", ondelete="CASCADE")),
    Column("day", Text),  # such as 2026-11-23, in UTC; None for the whole time of a job
    Column("spent_calls", LONG, nullable=False, server_default="0"),
    Column("spent_tokens", LONG, nullable=False, server_default="0"),
    Column("spent_nano_usd", LONG, nullable=False, server_default="0"),
    # For calls that are being made.
    Column("reserved_calls", LONG, nullable=False, server_default="0"),
    Column("reserved_tokens", LONG, nullable=False, server_default="0"),
    Column("reserved_nano_usd", LONG, nullable=False, server_default="0"),
    # Of those spent: calls whose cost in dollars is not known, and calls of which nobody knows how they
    # ended.
    Column("unpriced_calls", LONG, nullable=False, server_default="0"),
    Column("lost_calls", LONG, nullable=False, server_default="0"),
    Index(None, "job_id"),
    Index(None, "project_id"),
    Index(None, "day"),
    sqlite_strict=True,
)

_IS_ANSWERED: Final = text("status = 'ANSWERED'")
# What was answered is never asked again, so that there is one such row of a call.
Index(
    "uq_judge_calls_answered",
    JUDGE_CALLS.c.job_id,
    JUDGE_CALLS.c.key,
    unique=True,
    sqlite_where=_IS_ANSWERED,
    postgresql_where=_IS_ANSWERED,
)
# The ledger of a project, newest first, with all that its filters and totals read: a row has a kilobyte.
_OF_LEDGER: Final = ("project_id", "created_at", "id", "job_id", "status", "calls", "tokens", "nano_usd")
Index("ix_judge_calls_ledger", *(JUDGE_CALLS.c[name] for name in _OF_LEDGER))
