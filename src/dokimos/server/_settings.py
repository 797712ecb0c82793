"""The settings of the server, from environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qs, quote, urlsplit

from dokimos._http.address_policy import ALLOWED_HOSTS, AddressPolicy
from dokimos.errors import ConfigurationError
from dokimos.server._clickhouse_address import is_clickhouse_url, parse_clickhouse_url
from dokimos.server._environment import Variables
from dokimos.server._judge_settings import JudgeSettings, read_judge_settings
from dokimos.server._online_settings import OnlineSettings, read_online_settings
from dokimos.server._sign_in_settings import (
    OidcSettings,
    TrustedHeader,
    read_oidc,
    read_public_url,
    read_trusted_header,
    refuse_any_proxy,
)
from dokimos.server._trace_settings import TraceSettings, read_trace_settings

MEBIBYTE: Final = 1024 * 1024
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_LOOPBACK_ADDRESSES: Final = ("127.0.0.1", "::1")
_LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
_DATABASE_VARIABLES: Final = ("DB_HOST", "DB_PORT", "DB_NAME", "DB_USERNAME", "DB_PASSWORD")


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
    grpc_port: int | None = None
    """The port to which exporters send over gRPC; 0 lets the system choose one, None listens on none."""
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
    oidc: OidcSettings | None = None
    """The identity provider with which people sign in, None for none."""
    trusted_header: TrustedHeader | None = None
    """The headers in which a trusted proxy says who calls, None where no proxy does."""
    public_url: str | None = None
    """The address at which browsers reach the server, such as `https://dokimos.example.com`; by default as
    the requests say. With a path, the server is below that path of another site."""
    session_hours: float = 168.0
    """Hours after which a session of a browser ends."""
    session_idle_hours: float = 0.0
    """Hours without a request after which a session ends; 0 sets no limit."""
    requests_per_minute: int = 0
    """Requests in a minute of each key that has no limit of its own, and of each person; 0 for any number."""
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
    max_event_streams_per_caller: int = 100
    """How many of them may have one key or, without a key of their own, one address; 0 sets no limit."""
    stale_run_hours: float = 24.0
    """Hours without a sign of life after which a running run is marked as failed; 0 never does."""
    run_retention_days: float = -1.0
    """Days after their end at which runs are removed, where a project says nothing else; -1 keeps them."""
    comparison_memory_bytes: int = 2048 * MEBIBYTE
    """What the process that compares runs may take."""
    max_waiting_comparisons: int = 20
    """How many comparisons of each kind may wait to be computed; more are refused with 503."""
    comparison_retention_days: float = 30.0
    """Days after which a comparison that was asked for is removed; -1 keeps it."""
    max_comparison_cases: int = 10_000_000
    """How many cases all stored comparisons may have: about 0.2 KB each on disk."""
    drain_seconds: float = 0.0
    """How long the server goes on answering once it is asked to stop, while it says that it is not ready."""
    stop_timeout: float = 20.0
    """Seconds that requests may take which are under way when the server stops answering."""
    audit_retention_days: float = 365.0
    """Days after which a row of the audit log is removed; -1 keeps it."""
    public_metrics: bool = False
    """Whether reading metrics needs no key."""
    log_format: Literal["text", "json"] = "text"
    """Lines for people, or one JSON object in each line."""
    access_log_level: str = "WARNING"
    """INFO logs each request, WARNING those that the server failed, CRITICAL none."""
    address_policy: AddressPolicy = field(default_factory=AddressPolicy)
    """Which private addresses the server may call."""
    encryption_keys: tuple[str, ...] = field(default=(), repr=False)
    """The passphrase that encrypts secrets, then former ones; without any, they are stored plainly."""
    alert_log_days: float = 30.0
    """Days that the log of a webhook is kept; -1 keeps it."""
    judging: JudgeSettings = field(default_factory=JudgeSettings)
    """How stored runs are scored."""
    traces: TraceSettings = field(default_factory=TraceSettings)
    """How production traces are taken in and kept."""
    online: OnlineSettings = field(default_factory=OnlineSettings)
    """How production traces are scored."""
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""
    sql_log_level: str = "WARNING"
    """The level at which statements are logged."""
    ignored_variables: tuple[str, ...] = ()
    """Variables of Spring that are set and mean nothing here; the server warns about them."""
    set_variables: tuple[str, ...] = field(default=(), compare=False)
    """The variables that are set and were read."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> ServerSettings:
        """Read the settings from environment variables; an empty variable counts as not set.

        Raises:
            ConfigurationError: A value cannot be used; the message names the variable.
        """
        variables = Variables(os.environ if environment is None else environment)
        host = variables.text("SERVER_ADDRESS") or "0.0.0.0"
        return cls(
            host=host,
            port=variables.integer("SERVER_PORT", 8080, low=0, high=65535),
            grpc_port=_grpc_port(variables),
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
            **_read_sign_in(variables),
            **_read_request_limits(variables),
            **_read_comparison_limits(variables),
            **_read_retention(variables),
            drain_seconds=variables.number("DOKIMOS_DRAIN_SECONDS", 0.0),
            stop_timeout=variables.number("DOKIMOS_STOP_TIMEOUT_SECONDS", 20.0),
            public_metrics=variables.boolean("DOKIMOS_PUBLIC_METRICS"),
            log_format=_log_format(variables),
            access_log_level=variables.level("DOKIMOS_ACCESS_LOG_LEVEL", "WARN"),
            address_policy=AddressPolicy.parse(variables.text(ALLOWED_HOSTS) or ""),
            encryption_keys=_encryption_keys(variables),
            judging=read_judge_settings(variables),
            traces=read_trace_settings(variables, *_trace_database_urls(variables)),
            online=read_online_settings(variables),
            log_level=variables.level("LOG_LEVEL", "INFO"),
            sql_log_level=variables.level("SQL_LOG_LEVEL", "WARNING"),
            ignored_variables=variables.list_ignored(),
            set_variables=variables.list_set(),  # last, when all others have been read
        )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in _LOOPBACK or self.host.startswith("127.")

    @property
    def root_path(self) -> str:
        """The path of the site below which the server is, such as `/dokimos`; empty at the root."""
        return "" if self.public_url is None else urlsplit(self.public_url).path.rstrip("/")

    @property
    def has_sign_in(self) -> bool:
        """Whether people sign in, beside keys: with an identity provider or through a proxy."""
        return self.oidc is not None or self.trusted_header is not None

    @property
    def sqlite_path(self) -> Path:
        """The file of the SQLite database, where there is no `database_url`."""
        return self.data_dir / "server.db"

    @property
    def sqlite_trace_path(self) -> Path:
        """The file of the traces, where there is no `database_url` and none of their own."""
        return self.data_dir / "traces.db"


def _grpc_port(variables: Variables) -> int | None:
    port = variables.integer("DOKIMOS_GRPC_PORT", -1, low=0, high=65535)
    return None if port < 0 else port


def _read_sign_in(variables: Variables) -> dict[str, Any]:
    hours = variables.number("DOKIMOS_SESSION_HOURS", 168.0)
    if hours == 0:
        raise ConfigurationError(
            "DOKIMOS_SESSION_HOURS must be more than 0, or every session would end at once.",
            setting="DOKIMOS_SESSION_HOURS",
        )
    header = read_trusted_header(variables)
    if header is not None:
        refuse_any_proxy(variables.names("DOKIMOS_TRUSTED_PROXIES"))
    return {
        "oidc": read_oidc(variables),
        "trusted_header": header,
        "public_url": read_public_url(variables),
        "session_hours": hours,
        "session_idle_hours": variables.number("DOKIMOS_SESSION_IDLE_HOURS", 0.0),
        "requests_per_minute": variables.integer("DOKIMOS_REQUESTS_PER_MINUTE", 0, low=0),
    }


def _read_request_limits(variables: Variables) -> dict[str, Any]:
    return {
        "max_requests": variables.integer("DOKIMOS_MAX_REQUESTS", 500, low=1),
        "min_body_rate": variables.integer("DOKIMOS_MIN_BODY_BYTES_PER_SECOND", 4096, low=0),
        "max_upload_bytes": variables.integer("DOKIMOS_MAX_UPLOAD_MIB", 2048, low=1) * MEBIBYTE,
        "read_timeout": variables.number("DOKIMOS_READ_TIMEOUT_SECONDS", 10.0),
        "max_event_streams": variables.integer("DOKIMOS_MAX_EVENT_STREAMS", 500, low=0, high=100_000),
        "max_event_streams_per_caller": variables.integer("DOKIMOS_MAX_EVENT_STREAMS_PER_CALLER", 100, low=0),
    }


def _read_comparison_limits(variables: Variables) -> dict[str, Any]:
    memory = variables.integer("DOKIMOS_COMPARISON_MEMORY_MIB", 2048, low=256)
    return {
        "comparison_memory_bytes": memory * MEBIBYTE,
        "max_waiting_comparisons": variables.integer("DOKIMOS_MAX_WAITING_COMPARISONS", 20, low=1),
        "max_comparison_cases": variables.integer("DOKIMOS_MAX_COMPARISON_CASES", 10_000_000, low=0),
    }


def _read_retention(variables: Variables) -> dict[str, Any]:
    """How long rows are kept, and after which silence a run ends."""

    def days(name: str, default: float) -> float:
        return variables.number(name, default, forever="for ever")

    return {
        "stale_run_hours": variables.number("DOKIMOS_STALE_RUN_HOURS", 24.0),
        "run_retention_days": days("DOKIMOS_RUN_RETENTION_DAYS", -1.0),
        "comparison_retention_days": days("DOKIMOS_COMPARISON_RETENTION_DAYS", 30.0),
        "audit_retention_days": days("DOKIMOS_AUDIT_RETENTION_DAYS", 365.0),
        "alert_log_days": days("DOKIMOS_ALERT_LOG_DAYS", 30.0),
    }


def _database_url(variables: Variables) -> str | None:
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


def _trace_database_urls(variables: Variables) -> tuple[str | None, str | None]:
    """The address of a PostgreSQL for traces alone, and that of a ClickHouse for their spans."""
    name = "DOKIMOS_TRACE_DATABASE_URL"
    url = variables.text(name)
    if url is None:
        return None, None
    if not is_clickhouse_url(url):
        return _postgresql_url(url, name, variables), None
    try:
        parse_clickhouse_url(url)
    except ValueError as error:
        raise ConfigurationError(f"{name} {error}.", setting=name) from None
    return None, url


def _postgresql_url(url: str, variable: str, variables: Variables) -> str:
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


def _credentials(variables: Variables) -> str:
    names = (variables.text("DB_USERNAME") or "dokimos", variables.text("DB_PASSWORD") or "dokimos")
    return ":".join(quote(name, safe="") for name in names)


def _encryption_keys(variables: Variables) -> tuple[str, ...]:
    present = variables.text("DOKIMOS_ENCRYPTION_KEY")
    former = variables.names("DOKIMOS_FORMER_ENCRYPTION_KEYS")
    if present is None and former:
        raise ConfigurationError(
            "DOKIMOS_FORMER_ENCRYPTION_KEYS is set without DOKIMOS_ENCRYPTION_KEY; set the present key too.",
            setting="DOKIMOS_FORMER_ENCRYPTION_KEYS",
        )
    return () if present is None else (present, *former)


def _are_shared_rows_read_only(variables: Variables) -> bool:
    value = variables.text("DOKIMOS_SHARED_ROWS") or "writable"
    if value not in ("writable", "readonly"):
        message = f"DOKIMOS_SHARED_ROWS must be 'writable' or 'readonly', not {value!r}."
        raise ConfigurationError(message, setting="DOKIMOS_SHARED_ROWS")
    return value == "readonly"


def _log_format(variables: Variables) -> Literal["text", "json"]:
    match variables.text("DOKIMOS_LOG_FORMAT") or "text":
        case "text":
            return "text"
        case "json":
            return "json"
        case other:
            message = f"DOKIMOS_LOG_FORMAT must be 'text' or 'json', not {other!r}."
            raise ConfigurationError(message, setting="DOKIMOS_LOG_FORMAT")


def _parse_allowed_hosts(variables: Variables, host: str) -> tuple[str, ...]:
    if variables.text("DOKIMOS_ALLOWED_HOSTS") is not None:
        return tuple(name.lower() for name in variables.names("DOKIMOS_ALLOWED_HOSTS"))
    # A page of another site that rebinds its name to 127.0.0.1 sends its own name here.
    return _LOOPBACK_HOSTS if host in _LOOPBACK or host.startswith("127.") else ("*",)
