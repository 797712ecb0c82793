"""Where a ClickHouse is, as a variable names it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

_PORT: Final = 8123
_SECURE_PORT: Final = 8443
FORM: Final = "clickhouse://user:password@host:8123/database"


@dataclass(frozen=True, slots=True)
class ClickHouseAddress:
    """The HTTP interface of a ClickHouse, and what to say there."""

    url: str
    """Without user and password."""
    database: str
    user: str
    password: str = field(repr=False)

    def __str__(self) -> str:
        """Without the password, for logs and messages."""
        return f"ClickHouse at {self.url}, database {self.database}"


def is_clickhouse_url(url: str) -> bool:
    """Whether an address is that of a ClickHouse."""
    return urlsplit(url).scheme == "clickhouse"


def parse_clickhouse_url(url: str) -> ClickHouseAddress:
    """Return what an address such as `clickhouse://user:password@host:8123/traces?secure=true` names.

    Raises:
        ValueError: It does not have this form; the message does not repeat it.
    """
    parts = urlsplit(url)
    query = parse_qs(parts.query, keep_blank_values=True)
    secure = query.pop("secure", ["false"])[-1].lower()
    if parts.scheme != "clickhouse" or not parts.hostname or query or secure not in ("true", "false"):
        raise ValueError(f"must look like {FORM}, with ?secure=true for HTTPS")
    is_secure = secure == "true"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port or (_SECURE_PORT if is_secure else _PORT)
    return ClickHouseAddress(
        f"{'https' if is_secure else 'http'}://{host}:{port}",
        unquote(parts.path.strip("/")) or "default",
        unquote(parts.username or "") or "default",
        unquote(parts.password or ""),
    )
