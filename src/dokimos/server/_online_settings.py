"""The settings of online evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from dokimos.errors import ConfigurationError
from dokimos.server._environment import Variables

_EXPORT_URL: Final = "DOKIMOS_EVALUATION_OTLP_ENDPOINT"
_EXPORT_HEADERS: Final = "DOKIMOS_EVALUATION_OTLP_HEADERS"
_LOGS_PATH: Final = "/v1/logs"


@dataclass(frozen=True, kw_only=True)
class OnlineSettings:
    """How the server scores production traces.

    Example:
        >>> OnlineSettings(quiet_seconds=60.0).quiet_seconds
        60.0
    """

    poll_seconds: float = 5.0
    """How often the server looks for spans to match and for jobs to score."""
    max_attempts: int = 3
    """How often a job is tried for which the model did not answer."""
    claim_seconds: float = 600.0
    """How long jobs are left to a server that gives no sign of life."""
    max_concurrency: int = 16
    """Jobs that this server scores at once."""
    quiet_seconds: float = 30.0
    """How long nothing must have come for a trace before it is scored as a whole, or watched by an alert."""
    alert_poll_seconds: float = 10.0
    """How often the server looks for traces that alerts watch."""
    alert_wait_seconds: float = 900.0
    """How long an alert waits for a trace to which more comes, or whose scores are not there."""
    export_url: str | None = field(default=None, repr=False)
    """Where scores are sent to as events of OTLP; None sends nothing."""
    export_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What is sent with them, such as a key."""


def read_online_settings(variables: Variables) -> OnlineSettings:
    """Read the settings from environment variables.

    Raises:
        ConfigurationError: A value cannot be used; the message names the variable.
    """
    return OnlineSettings(
        poll_seconds=variables.integer("DOKIMOS_TRACE_EVAL_POLL_INTERVAL_MS", 5000, low=10) / 1000,
        max_attempts=variables.integer("DOKIMOS_TRACE_EVAL_MAX_ATTEMPTS", 3, low=1, high=100),
        claim_seconds=variables.integer("DOKIMOS_TRACE_EVAL_CLAIM_TIMEOUT_MS", 600_000, low=1000) / 1000,
        max_concurrency=variables.integer("DOKIMOS_TRACE_EVAL_MAX_CONCURRENCY", 16, low=1, high=1000),
        quiet_seconds=variables.integer("DOKIMOS_TRACE_EVAL_QUIET_SECONDS", 30, low=0, high=86_400),
        alert_poll_seconds=variables.integer("DOKIMOS_TRACE_ALERT_POLL_INTERVAL_MS", 10_000, low=10) / 1000,
        alert_wait_seconds=variables.integer("DOKIMOS_TRACE_ALERT_WAIT_SECONDS", 900, low=0, high=604_800),
        export_url=_read_export_url(variables),
        export_headers=_read_export_headers(variables),
    )


def _read_export_url(variables: Variables) -> str | None:
    """Return the endpoint of logs: as for other exporters, its path is added to that of OTLP as a whole."""
    url = variables.text(_EXPORT_URL)
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"{_EXPORT_URL} must be an address such as https://collector.example.com:4318.",
            setting=_EXPORT_URL,
        )
    path = parts.path.rstrip("/")
    return parts._replace(path=path if path.endswith(_LOGS_PATH) else f"{path}{_LOGS_PATH}").geturl()


def _read_export_headers(variables: Variables) -> dict[str, str]:
    headers: dict[str, str] = {}
    for pair in variables.names(_EXPORT_HEADERS):
        name, equals, value = (unquote(part).strip() for part in pair.partition("="))
        is_plain = all(" " < sign < "\x7f" and sign not in '",:;' for sign in name)
        if not equals or not name or not is_plain or not value.isprintable():
            # Without the value, which may be a secret.
            raise ConfigurationError(
                f"{_EXPORT_HEADERS} must be like name=value,name=value, percent-encoded.",
                setting=_EXPORT_HEADERS,
            )
        headers[name] = value
    return headers
