"""The route of the settings of the server."""

from __future__ import annotations

import platform
from importlib.util import find_spec
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic.alias_generators import to_camel
from sqlalchemy import Connection
from starlette.requests import Request

from dokimos._version import __version__
from dokimos.server._api.accounts.key_ring import KeyRing
from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.json_body import WireModel
from dokimos.server._api.http.parameters import Store
from dokimos.server._db.clock import format_time
from dokimos.server._services.errors import ForbiddenError
from dokimos.server._services.server_info import (
    SettingValue,
    database_location,
    database_version,
    describe_settings,
    schema_version,
)
from dokimos.server._services.start_warnings import warn_of_access, warn_of_ignored_variables
from dokimos.server._settings import ServerSettings

ROUTER = APIRouter(prefix="/api/v1/settings", tags=["Settings"])


class DatabaseAnswer(WireModel):
    """The database of the server."""

    dialect: str
    version: str
    schema_version: str
    location: str
    """A file, or an address without the account."""


class AccessAnswer(WireModel):
    """Who may do what."""

    needs_key: bool
    """Whether writing needs a key; without any key, everybody may do everything."""
    reads_need_key: bool
    shared_rows_are_read_only: bool


class CapabilitiesAnswer(WireModel):
    """What the server can do that depends on how it was installed and set up."""

    several_servers: bool
    """Whether other servers can share the database."""
    parquet: bool
    """Whether datasets are read and written as Parquet."""
    identity_provider: bool
    """Whether people sign in with an identity provider."""
    trusted_header: bool
    """Whether a proxy says who calls."""


class SettingAnswer(WireModel):
    """A setting; the values of a secret say only whether there is one."""

    name: str
    value: SettingValue
    default: SettingValue
    is_default: bool
    is_secret: bool


class ServerSettingsAnswer(WireModel):
    """How the server runs."""

    version: str
    python_version: str
    platform: str
    started_at: str | None
    database: DatabaseAnswer
    access: AccessAnswer
    capabilities: CapabilitiesAnswer
    warnings: list[str]
    variables: list[str]
    """The environment variables that are set and were read."""
    settings: list[SettingAnswer]


async def _read_settings(request: Request) -> ServerSettings:
    settings: ServerSettings = request.app.state.settings
    return settings


@ROUTER.get("", response_model=ServerSettingsAnswer)
@access(Access.ADMIN)
async def get_server_settings(
    request: Request,
    caller: Caller,
    store: Store,
    settings: Annotated[ServerSettings, Depends(_read_settings)],
) -> ServerSettingsAnswer:
    """Say how the server runs: its versions, its database, its settings and what it warns of.

    Nothing of it is secret, so that it can be sent to whoever helps.
    """
    if caller.is_restricted:
        raise ForbiddenError("Only a key without a tenant sees the settings of the server.")
    keys: KeyRing = request.app.state.keys

    def read(connection: Connection) -> DatabaseAnswer:
        return DatabaseAnswer(
            dialect=store.dialect,
            version=database_version(connection),
            schema_version=schema_version(connection),
            location=database_location(settings),
        )

    return ServerSettingsAnswer(
        version=__version__,
        python_version=platform.python_version(),
        platform=platform.platform(),
        started_at=format_time(request.app.state.started_at),
        database=await store.read(read),
        access=_describe_access(settings, keys),
        capabilities=CapabilitiesAnswer(
            several_servers=settings.database_url is not None,
            parquet=find_spec("pyarrow") is not None,
            identity_provider=settings.oidc is not None,
            trusted_header=settings.trusted_header is not None,
        ),
        warnings=_list_warnings(settings, keys),
        variables=list(settings.set_variables),
        settings=_list_settings(settings),
    )


def _list_settings(settings: ServerSettings) -> list[SettingAnswer]:
    return [
        SettingAnswer(
            name=to_camel(each.name),
            value=each.value,
            default=each.default,
            is_default=each.value == each.default,
            is_secret=each.is_secret,
        )
        for each in describe_settings(settings)
    ]


def _describe_access(settings: ServerSettings, keys: KeyRing) -> AccessAnswer:
    return AccessAnswer(
        needs_key=keys.is_keyed,
        reads_need_key=keys.is_keyed and settings.require_auth_for_reads,
        shared_rows_are_read_only=settings.read_only_shared_rows,
    )


def _list_warnings(settings: ServerSettings, keys: KeyRing) -> list[str]:
    warnings = [
        *warn_of_ignored_variables(settings),
        *warn_of_access(settings, is_keyed=keys.is_keyed),
    ]
    return [*warnings, keys.advice] if keys.advice is not None else warnings
