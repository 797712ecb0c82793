"""What an operator, or whoever helps one, asks about a server; nothing of it is secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from sqlalchemy import Connection

from dokimos.server._db.migrate import read_version
from dokimos.server._settings import ServerSettings

SettingValue = str | int | float | bool | list[str] | None
_SECRET: Final = re.compile("secret|password|passphrase|token|api_key|encryption_key")
_LISTS_OF_VARIABLES: Final = ("ignored_variables", "set_variables")


def database_version(connection: Connection) -> str:
    """Return the version of SQLite or PostgreSQL."""
    query = "SHOW server_version" if connection.dialect.name == "postgresql" else "SELECT sqlite_version()"
    version: str = connection.exec_driver_sql(query).scalar_one()
    return version


def describe_engine(connection: Connection) -> str:
    """Return the name and the version of SQLite or PostgreSQL."""
    name = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}[connection.dialect.name]
    return f"{name} {database_version(connection)}"


def schema_version(connection: Connection) -> str:
    """Return the last migration that the database has."""
    version = read_version(connection)
    assert version is not None, "a server migrates its database before it answers"
    return version


def database_location(settings: ServerSettings) -> str:
    """Return where the data is: a file, or an address without the account."""
    if settings.database_url is None:
        return str(settings.sqlite_path.absolute())
    parts = urlsplit(settings.database_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """A setting of the server; the values of a secret say only whether there is one: `"set"` or None."""

    name: str
    value: SettingValue
    default: SettingValue
    is_secret: bool


def describe_settings(settings: ServerSettings) -> list[SettingInfo]:
    """Return all settings; those of a group have its name before theirs, as in `oidc.issuer`.

    A setting is secret if its `repr` is hidden, or if its name says so.
    """
    return list(_describe_fields(settings, ""))


def _describe_fields(settings: Any, prefix: str) -> Iterator[SettingInfo]:
    for each in fields(settings):
        name, value, default = f"{prefix}{each.name}", getattr(settings, each.name), _default_of(each)
        if name in _LISTS_OF_VARIABLES:
            continue
        if not each.repr or _SECRET.search(each.name) is not None:
            yield SettingInfo(name, "set" if value else None, "set" if default else None, is_secret=True)
        elif is_dataclass(value):
            yield from _describe_fields(value, f"{name}.")
        else:
            yield SettingInfo(name, _as_json(value), _as_json(default), is_secret=False)


def describe_server(connection: Connection, settings: ServerSettings, *, is_keyed: bool) -> str:
    """Return what the log says when the server has started, as a sentence without its end."""
    if not is_keyed:
        access = "no key is needed"
    elif settings.require_auth_for_reads:
        access = "a key is needed"
    else:
        access = "a key is needed to write, and none to read"
    return (
        f"{describe_engine(connection)} at {database_location(settings)}, schema "
        f"{schema_version(connection)}; {access}"
    )


def _default_of(each: Field[Any]) -> object:
    if each.default_factory is not MISSING:
        return each.default_factory()
    return None if each.default is MISSING else each.default


def _as_json(value: object) -> SettingValue:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list | frozenset | set):
        return [str(part) for part in value]
    return str(value)
