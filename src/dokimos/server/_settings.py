"""The settings of the server, from environment variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import parse_qs, quote, urlsplit

from dokimos.errors import ConfigurationError

_T = TypeVar("_T")

MEBIBYTE: Final = 1024 * 1024
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_LOOPBACK_ADDRESSES: Final = ("127.0.0.1", "::1")
_LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
_DATABASE_VARIABLES: Final = ("DB_HOST", "DB_PORT", "DB_NAME", "DB_USERNAME", "DB_PASSWORD")
_MAPPED_SPRING_VARIABLES: Final = (
    "SPRING_DATASOURCE_URL",
    "SPRING_DATASOURCE_HIKARI_CONNECTION_TIMEOUT",
    "SPRING_DATASOURCE_HIKARI_MAXIMUM_POOL_SIZE",
    "SERVER_TOMCAT_CONNECTION_TIMEOUT",
)


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """How a server runs: its address, its database, its access rules and its limits.

    `ServerSettings.from_environment()` reads the variables that are documented under "Configuration"; a test
    or an application that mounts the server builds the value itself.

    Example:
        >>> settings = ServerSettings(port=9000)
        >>> settings.host, settings.port
        ('0.0.0.0', 9000)
    """

    host: str = "0.0.0.0"
    """The address to bind to."""
    port: int = 8080
    """The port to bind to, 1 to 65,535; 0 lets the system choose one."""
    data_dir: Path = field(default_factory=lambda: Path.home() / ".dokimos")
    """The folder of the SQLite files, where no other database is named."""
    database_url: str | None = field(default=None, repr=False)
    """`postgresql://user:password@host:port/name`, or None for SQLite in `data_dir`."""
    pool_size: int = 10
    """Connections to PostgreSQL at most."""
    pool_timeout: float = 30.0
    """Seconds to wait for a connection of the pool."""
    keep_alive: float = 20.0
    """Seconds after which an idle connection of a client is closed."""
    api_key: str | None = field(default=None, repr=False)
    """The one key of simple set-ups: with it, writing needs a key, and this one may do everything."""
    require_auth_for_reads: bool = False
    """Whether reading needs a key too."""
    public_traces: bool = False
    """Whether callers without a key may read traces."""
    read_only_shared_rows: bool = False
    """Whether keys of a tenant may only read what belongs to no tenant."""
    allowed_hosts: tuple[str, ...] = ("*",)
    """Host names (without port) that requests may name; `*` is any."""
    failed_logins_per_minute: int = 20
    """Wrong keys of one address in a minute, after which further ones are refused; 0 sets no limit."""
    trusted_proxies: tuple[str, ...] = _LOOPBACK_ADDRESSES
    """Addresses and networks of proxies whose `X-Forwarded-For` says where a request comes from."""
    max_requests: int = 500
    """Requests that are under way at once; those beyond get 503."""
    min_body_rate: int = 4096
    """Bytes of a body that must arrive per second on average, after `keep_alive` seconds; 0 for any."""
    max_body_bytes: int = 16 * MEBIBYTE
    """The largest request body, after decompression."""
    max_upload_bytes: int = 2048 * MEBIBYTE
    """The largest file of a dataset that is uploaded, after decompression."""
    read_timeout: float = 10.0
    """Seconds after which a page or a search is stopped; 0 lets it take as long as it needs."""
    max_event_streams: int = 500
    """Clients that may receive events at the same time."""
    stale_run_hours: float = 24.0
    """Hours without a sign of life after which a running run is marked as failed; 0 never does."""
    comparison_memory_bytes: int = 2048 * MEBIBYTE
    """What the process that compares runs may take."""
    max_waiting_comparisons: int = 20
    """How many comparisons of each kind may wait to be computed; more are refused with 503."""
    comparison_retention_days: float = 30.0
    """Days after which a comparison that was asked for is removed; -1 keeps it."""
    max_comparison_cases: int = 10_000_000
    """How many cases all stored comparisons may have: about 0.2 KB each on disk."""
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""
    sql_log_level: str = "WARNING"
    """The level at which statements are logged."""
    ignored_variables: tuple[str, ...] = ()
    """Variables of Spring that are set and mean nothing here; the server warns about them."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> ServerSettings:
        """Read the settings from environment variables; an empty variable counts as not set.

        Raises:
            ConfigurationError: A value cannot be used; the message names the variable.
        """
        variables = _Variables(os.environ if environment is None else environment)
        host = variables.text("SERVER_ADDRESS") or "0.0.0.0"
        return cls(
            host=host,
            port=variables.integer("SERVER_PORT", 8080, low=0, high=65535),
            data_dir=Path(variables.text("DOKIMOS_DATA_DIR") or Path.home() / ".dokimos").expanduser(),
            database_url=_database_url(variables),
            pool_size=variables.integer("SPRING_DATASOURCE_HIKARI_MAXIMUM_POOL_SIZE", 10, low=1, high=1000),
            pool_timeout=variables.integer("SPRING_DATASOURCE_HIKARI_CONNECTION_TIMEOUT", 30_000, low=250)
            / 1000,
            keep_alive=variables.integer("SERVER_TOMCAT_CONNECTION_TIMEOUT", 20_000, low=1) / 1000,
            api_key=variables.text("DOKIMOS_API_KEY"),
            require_auth_for_reads=variables.boolean("DOKIMOS_REQUIRE_AUTH_FOR_READS"),
            public_traces=variables.boolean("DOKIMOS_PUBLIC_TRACES"),
            read_only_shared_rows=_are_shared_rows_read_only(variables),
            allowed_hosts=_parse_allowed_hosts(variables, host),
            failed_logins_per_minute=variables.integer("DOKIMOS_FAILED_LOGINS_PER_MINUTE", 20, low=0),
            trusted_proxies=variables.names("DOKIMOS_TRUSTED_PROXIES") or _LOOPBACK_ADDRESSES,
            max_requests=variables.integer("DOKIMOS_MAX_REQUESTS", 500, low=1),
            min_body_rate=variables.integer("DOKIMOS_MIN_BODY_BYTES_PER_SECOND", 4096, low=0),
            max_upload_bytes=variables.integer("DOKIMOS_MAX_UPLOAD_MIB", 2048, low=1) * MEBIBYTE,
            read_timeout=variables.number("DOKIMOS_READ_TIMEOUT_SECONDS", 10.0),
            max_event_streams=variables.integer("DOKIMOS_MAX_EVENT_STREAMS", 500, low=0, high=100_000),
            stale_run_hours=variables.number("DOKIMOS_STALE_RUN_HOURS", 24.0),
            comparison_memory_bytes=variables.integer("DOKIMOS_COMPARISON_MEMORY_MIB", 2048, low=256)
            * MEBIBYTE,
            max_waiting_comparisons=variables.integer("DOKIMOS_MAX_WAITING_COMPARISONS", 20, low=1),
            comparison_retention_days=variables.number(
                "DOKIMOS_COMPARISON_RETENTION_DAYS", 30.0, forever=True
            ),
            max_comparison_cases=variables.integer("DOKIMOS_MAX_COMPARISON_CASES", 10_000_000, low=0),
            log_level=variables.level("LOG_LEVEL", "INFO"),
            sql_log_level=variables.level("SQL_LOG_LEVEL", "WARNING"),
            ignored_variables=variables.list_ignored(),
        )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in _LOOPBACK or self.host.startswith("127.")

    @property
    def sqlite_path(self) -> Path:
        """The file of the SQLite database, where there is no `database_url`."""
        return self.data_dir / "server.db"


class _Variables:
    """Environment variables with errors that name them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def text(self, name: str) -> str | None:
        return self._environment.get(name, "").strip() or None

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in (self.text(name) or "").split(",") if part.strip())

    def integer(self, name: str, default: int, *, low: int, high: int | None = None) -> int:
        number = self._parse(name, int, "a whole number")
        if number is None:
            return default
        if number < low or (high is not None and number > high):
            limits = f"at least {low}" if high is None else f"from {low} to {high}"
            raise ConfigurationError(f"{name} must be {limits}, not {number}.", setting=name)
        return number

    def number(self, name: str, default: float, *, forever: bool = False) -> float:
        """Return a number of 0 or more; with `forever` also -1."""
        value = self._parse(name, float, "a number")
        if value is None:
            return default
        if not 0 <= value < float("inf") and not (forever and value == -1):
            also = ", or -1 for ever" if forever else ""
            raise ConfigurationError(f"{name} must be 0 or more{also}, not {value}.", setting=name)
        return value

    def boolean(self, name: str) -> bool:
        value = (self.text(name) or "false").lower()
        if value in ("true", "1", "yes", "on"):
            return True
        if value in ("false", "0", "no", "off"):
            return False
        raise ConfigurationError(f"{name} must be true or false, not {value!r}.", setting=name)

    def level(self, name: str, default: str) -> str:
        value = (self.text(name) or default).upper()
        # The names of other logging systems for the same levels.
        value = {"WARN": "WARNING", "TRACE": "DEBUG", "FATAL": "ERROR", "OFF": "CRITICAL"}.get(value, value)
        if value not in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
            raise ConfigurationError(
                f"{name} must be DEBUG, INFO, WARN or ERROR, not {value!r}.", setting=name
            )
        return value

    def list_ignored(self) -> tuple[str, ...]:
        foreign = (name for name in self._environment if name.startswith(("SPRING_", "SERVER_TOMCAT_")))
        return tuple(sorted(name for name in foreign if name not in _MAPPED_SPRING_VARIABLES))

    def _parse(self, name: str, convert: Callable[[str], _T], what: str) -> _T | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return convert(text)
        except ValueError:
            raise ConfigurationError(f"{name} must be {what}, not {text!r}.", setting=name) from None


def _database_url(variables: _Variables) -> str | None:
    """The address of PostgreSQL, or None for SQLite: the more specific variable wins."""
    own = variables.text("DOKIMOS_DATABASE_URL")
    if own is not None:
        return _postgresql_url(own, "DOKIMOS_DATABASE_URL", variables)
    spring = variables.text("SPRING_DATASOURCE_URL")
    if spring is not None:
        return _postgresql_url(spring.removeprefix("jdbc:"), "SPRING_DATASOURCE_URL", variables)
    if not any(variables.text(name) for name in _DATABASE_VARIABLES):
        return None
    host = variables.text("DB_HOST") or "localhost"
    port = variables.integer("DB_PORT", 5432, low=1, high=65535)
    name = quote(variables.text("DB_NAME") or "dokimos", safe="")
    return f"postgresql://{_credentials(variables)}@{host}:{port}/{name}"


def _postgresql_url(url: str, variable: str, variables: _Variables) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres") or not parts.hostname:
        raise ConfigurationError(
            f"{variable} must look like postgresql://user:password@host:5432/name; "
            "leave it out to keep the data in SQLite.",
            setting=variable,
        )
    query = parse_qs(parts.query)
    mode = query.get("sslmode", ["require"] if query.get("ssl") == ["true"] else [None])[-1]
    account = parts.netloc.rpartition("@")[0] or _credentials(variables)
    host = parts.netloc.rpartition("@")[2]
    return f"postgresql://{account}@{host}{parts.path}" + (f"?sslmode={mode}" if mode else "")


def _credentials(variables: _Variables) -> str:
    names = (variables.text("DB_USERNAME") or "dokimos", variables.text("DB_PASSWORD") or "dokimos")
    return ":".join(quote(name, safe="") for name in names)


def _are_shared_rows_read_only(variables: _Variables) -> bool:
    value = variables.text("DOKIMOS_SHARED_ROWS") or "writable"
    if value not in ("writable", "readonly"):
        message = f"DOKIMOS_SHARED_ROWS must be 'writable' or 'readonly', not {value!r}."
        raise ConfigurationError(message, setting="DOKIMOS_SHARED_ROWS")
    return value == "readonly"


def _parse_allowed_hosts(variables: _Variables, host: str) -> tuple[str, ...]:
    if variables.text("DOKIMOS_ALLOWED_HOSTS") is not None:
        return tuple(name.lower() for name in variables.names("DOKIMOS_ALLOWED_HOSTS"))
    # A page of another site that rebinds its name to 127.0.0.1 sends its own name here.
    return _LOOPBACK_HOSTS if host in _LOOPBACK or host.startswith("127.") else ("*",)
