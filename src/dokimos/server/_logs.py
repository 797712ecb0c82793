"""The lines of the log: text for people, or JSON for what collects logs; each with the id of its request."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from dokimos._runtime.redaction import REDACTED, register_secret, secret_redactor
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.server._api.http.observation import ACCESS_LOGGER
from dokimos.server._services.request_context import current_request
from dokimos.server._settings import ServerSettings

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_OWN_KEY: Final = re.compile(r"\bdok_[\w-]{20,}", re.ASCII)


def configure_logging(settings: ServerSettings) -> None:
    """Log to standard error as the settings say; a root logger that has handlers keeps them."""
    handler = logging.StreamHandler()
    handler.setFormatter(make_formatter(settings))
    logging.basicConfig(handlers=[handler], level=settings.log_level)
    logging.getLogger("sqlalchemy.engine").setLevel(settings.sql_log_level)
    ACCESS_LOGGER.setLevel(settings.access_log_level)
    for name in ("alembic", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.WARNING)


def make_formatter(settings: ServerSettings) -> logging.Formatter:
    """Return what makes lines in the format of the settings, without the secrets that they hold."""
    redact = _make_redactor(settings)
    return JsonFormatter(redact) if settings.log_format == "json" else TextFormatter(redact)


class TextFormatter(logging.Formatter):
    """A line for people, with the id of the request behind it."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__(_TEXT)
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(escape_control_characters(super().format(record)))

    def formatMessage(self, record: logging.LogRecord) -> str:
        # What users sent may be quoted: it must not look like another line.
        line = super().formatMessage(record).replace("\n", "\\n")
        context = current_request()
        return line if context is None else f"{line} [{context.request_id}]"


class JsonFormatter(logging.Formatter):
    """A JSON object in a line."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": self._redact(record.getMessage()),
        }
        context = current_request()
        if context is not None:
            fields["requestId"] = context.request_id
            fields["principal"] = context.principal.id
            fields["route"] = context.route
        fields |= getattr(record, "fields", {})
        if record.exc_info:
            fields["exception"] = self._redact(self.formatException(record.exc_info))
        # ASCII alone: a line stays a line, whatever its reader takes for the end of one.
        return json.dumps(fields, default=str)


def _make_redactor(settings: ServerSettings) -> Callable[[str], str]:
    password = urlsplit(settings.database_url or "").password
    for secret in (settings.api_key, password, unquote(password or "")):
        if secret:
            register_secret(secret)
    redact = secret_redactor()
    return lambda text: _OWN_KEY.sub(REDACTED, redact(text))
