"""The settings of production traces."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from dokimos.errors import ConfigurationError
from dokimos.server._environment import Variables
from dokimos.server._redaction_rules import RedactionRule, load_rules

_MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class TraceSettings:
    """How the server takes in and keeps production traces.

    Example:
        >>> TraceSettings(retention_days=7.0).retention_days
        7.0
    """

    database_url: str | None = field(default=None, repr=False)
    """A PostgreSQL for traces alone; None keeps them with everything else, on SQLite in `traces.db`."""
    clickhouse_url: str | None = field(default=None, repr=False)
    """A ClickHouse for the spans of traces, such as `clickhouse://user:password@host:8123/database`; the rest
    of them is where `database_url` says."""
    pool_size: int = 5
    """Connections to PostgreSQL at most, beside those for everything else."""
    max_export_bytes: int = 64 * _MEBIBYTE
    """The largest export of OTLP, after decompression."""
    max_waiting_bytes: int = 128 * _MEBIBYTE
    """How much of exports may wait to be stored; more are refused with 503."""
    retention_days: float = 30.0
    """Days after its last span at which a trace is removed, where its project says nothing; -1 keeps it."""
    sweep_seconds: float = 3600.0
    """How often the server looks for traces to remove."""
    creates_projects: bool = False
    """Whether a trace that names an unknown project creates it."""
    redaction_rules: tuple[RedactionRule, ...] = ()
    """What is replaced in all spans before they are stored, before the rules of their project."""


def read_trace_settings(
    variables: Variables, database_url: str | None, clickhouse_url: str | None = None
) -> TraceSettings:
    """Read the settings from environment variables.

    Args:
        variables: Those of the environment.
        database_url: What the variable of the database of traces says, checked, where that is PostgreSQL.
        clickhouse_url: The same where it is ClickHouse.

    Raises:
        ConfigurationError: A value cannot be used; the message names the variable.
    """
    return TraceSettings(
        database_url=database_url,
        clickhouse_url=clickhouse_url,
        pool_size=variables.integer("DOKIMOS_TRACE_POOL_SIZE", 5, low=1, high=1000),
        max_export_bytes=variables.integer("DOKIMOS_MAX_TRACE_EXPORT_MIB", 64, low=1, high=1024) * _MEBIBYTE,
        max_waiting_bytes=variables.integer("DOKIMOS_MAX_WAITING_TRACES_MIB", 128, low=1) * _MEBIBYTE,
        retention_days=variables.number("DOKIMOS_TRACE_RETENTION_DAYS", 30.0, forever="for ever"),
        sweep_seconds=variables.integer("DOKIMOS_TRACE_SWEEP_INTERVAL_MS", 3_600_000, low=100) / 1000,
        creates_projects=variables.boolean("DOKIMOS_TRACES_CREATE_PROJECTS"),
        redaction_rules=_read_rules(variables),
    )


def _read_rules(variables: Variables) -> tuple[RedactionRule, ...]:
    name = "DOKIMOS_REDACTION_RULES"
    text = variables.text(name)
    try:
        return () if text is None else load_rules(text)
    except ValueError as error:
        example = '[{"name": "email", "pattern": "[^@ ]+@[^@ ]+"}]'
        message = f"{name} must be a list of rules in JSON, such as {example}: {error}."
        raise ConfigurationError(message, setting=name) from None
