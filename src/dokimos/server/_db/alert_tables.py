"""The tables of alerts: webhooks, what is to be sent to them, and the keys that encrypt their secrets."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, ForeignKey, Index, Table, Text, text

from dokimos.server._db.columns import LONG, TIME, Flag, Id
from dokimos.server._db.metadata import METADATA

ALERT_WEBHOOKS: Final = Table(
    "alert_webhooks",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("project_id", Id, ForeignKey("projects.id", ondelete="CASCADE"), nullable=False),
    Column("tenant_id", Text),
    Column("url", Text, nullable=False),
    Column("secret", Text),  # as `SecretVault.seal` returns it
    Column("enabled", Flag, nullable=False),
    Column("disabled_reason", Text),  # why the server itself disabled it
    Column("format", Text, nullable=False),
    Column("fields", Text),  # JSON: what the body of the format `generic` is made of
    Column("failing_since", TIME),  # when the first attempt failed since the last that succeeded
    Column("lost_in_a_row", LONG, nullable=False, default=0),  # alerts given up since the last that arrived
    Column("created_by", Text, nullable=False),
    Column("created_at", TIME, nullable=False),
    Column("deleted_at", TIME),
    Column("updated_at", TIME),  # None where nothing was changed since it was made
    Index(None, "project_id"),
    sqlite_strict=True,
)

ALERT_DELIVERIES: Final = Table(
    "alert_deliveries",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("webhook_id", Id, ForeignKey("alert_webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("project_id", Id, nullable=False),
    Column("tenant_id", Text),  # that of the webhook
    Column("run_id", Id),  # None for a test call, and for an alert on traces
    Column("status", Text, nullable=False),
    Column("payload", Text, nullable=False),  # JSON: the facts; the format of the webhook makes the body
    Column("attempts", LONG, nullable=False, default=0),
    Column("failures", LONG, nullable=False, default=0),  # since it was queued, by which the wait grows
    Column("last_status_code", LONG),
    Column("last_error", Text),
    Column("created_at", TIME, nullable=False),
    # When the next attempt was decided on, and when it is due. A clock before the first has been set back.
    Column("scheduled_at", TIME, nullable=False),
    Column("next_attempt_at", TIME, nullable=False),
    # Who is sending it, since when, and how long others leave it alone.
    Column("lease", Text),
    Column("leased_at", TIME),
    Column("leased_until", TIME),
    Column("finished_at", TIME),
    Column("firing_id", Id),  # of an alert on traces
    Index(None, "webhook_id", "created_at"),
    sqlite_strict=True,
)

ENCRYPTION_KEYS: Final = Table(
    "encryption_keys",
    METADATA,
    Column("id", Id, primary_key=True),
    Column("salt", Text, nullable=False),  # with which the passphrase makes the key
    Column("proof", Text, nullable=False),  # by which a passphrase is recognized
    Column("created_at", TIME, nullable=False),
    sqlite_strict=True,
)

_IS_DELETED: Final = text("deleted_at IS NOT NULL")
_IS_PENDING: Final = text("status = 'PENDING'")
_IS_FINISHED: Final = text("finished_at IS NOT NULL")
_IS_ALERT: Final = text("run_id IS NOT NULL")
Index(
    "ix_alert_webhooks_deleted",
    ALERT_WEBHOOKS.c.deleted_at,
    sqlite_where=_IS_DELETED,
    postgresql_where=_IS_DELETED,
)
Index(
    "ix_alert_deliveries_pending",
    ALERT_DELIVERIES.c.webhook_id,
    ALERT_DELIVERIES.c.next_attempt_at,
    sqlite_where=_IS_PENDING,
    postgresql_where=_IS_PENDING,
)
Index(
    "ix_alert_deliveries_finished",
    ALERT_DELIVERIES.c.finished_at,
    sqlite_where=_IS_FINISHED,
    postgresql_where=_IS_FINISHED,
)
# A webhook gets one alert of a run, however often that ends.
Index(
    "uq_alert_deliveries_run",
    ALERT_DELIVERIES.c.webhook_id,
    ALERT_DELIVERIES.c.run_id,
    unique=True,
    sqlite_where=_IS_ALERT,
    postgresql_where=_IS_ALERT,
)
# Likewise one of each firing of an alert on traces.
_IS_FIRING: Final = text("firing_id IS NOT NULL")
Index(
    "uq_alert_deliveries_firing",
    ALERT_DELIVERIES.c.webhook_id,
    ALERT_DELIVERIES.c.firing_id,
    unique=True,
    sqlite_where=_IS_FIRING,
    postgresql_where=_IS_FIRING,
)
