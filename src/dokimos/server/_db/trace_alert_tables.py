"""The tables of alerts on production traces: what each watches, what it knows, and when it fired."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, ForeignKey, Index, Table, Text, text

from dokimos.server._db.columns import LONG, NUMBER, TIME, Flag, Id
from dokimos.server._db.metadata import METADATA

TRACE_ALERTS: Final = Table(
    "trace_alerts",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("project_id", Id, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("tenant_id", Text),  # below a shared project, a tenant's alerts are its own
    Column("name", Text, nullable=False),
    Column("enabled", Flag, nullable=False),
    Column("kind", Text, nullable=False),
    # Without a foreign key: an alert outlives its rule, whose owner need not be its own.
    Column("rule_id", Id),
    Column("config", Text, nullable=False),  # JSON: `AlertConfig`
    Column("importance", NUMBER, nullable=False),  # by which false alarms are shared
    Column("created_by", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("updated_at", TIME, nullable=False),
    Column("status", Text, nullable=False),
    # How far it has come, which one transaction changes together with all that follows from it. Whoever does
    # names the version that it builds on, so that of two servers one wins.
    Column("version", LONG, nullable=False),
    Column("state", Text),  # JSON: that of `ChangeWatch` or `ThresholdWatch`; None at the beginning
    Column("after", Id, nullable=False),  # the last trace that it has seen
    Column("observation_count", LONG, nullable=False),
    Column("observed_until", TIME),  # when the last one came that counted
    Index(None, "project_id"),
    sqlite_strict=True,
)

TRACE_ALERT_FIRINGS: Final = Table(
    "trace_alert_firings",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("alert_id", Id, ForeignKey("trace_alerts.id", ondelete="CASCADE"), nullable=False),
    Column("project_id", Id, nullable=False),
    Column("tenant_id", Text),
    Column("created_at", TIME, nullable=False),
    Column("evidence", Text, nullable=False),  # JSON: what it fired on
    Column("ended_at", TIME),  # when a threshold was kept again, or a change was acknowledged
    Column("acknowledged_at", TIME),
    Column("acknowledged_by", Text),
    Column("note", Text),
    Index(None, "alert_id", "id"),
    sqlite_strict=True,
)

for _suffix, _condition, _columns in (
    ("tenant", "tenant_id IS NOT NULL", ("project_id", "tenant_id", "name")),
    ("shared", "tenant_id IS NULL", ("project_id", "name")),
):
    Index(
        f"uq_trace_alerts_name_{_suffix}",
        *(TRACE_ALERTS.c[_column] for _column in _columns),
        unique=True,
        sqlite_where=text(_condition),
        postgresql_where=text(_condition),
    )
