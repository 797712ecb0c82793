"""Routes of API keys."""

from __future__ import annotations

import logging
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Path
from fastapi.responses import Response
from sqlalchemy import Row
from starlette.requests import Request

from dokimos.server._api.access import Access, Caller, KeyRing, access
from dokimos.server._api.json_body import WireModel, describe_body, json_body
from dokimos.server._api.parameters import Store
from dokimos.server._api.text_types import Name
from dokimos.server._db.clock import format_time
from dokimos.server._services.api_keys import create_key, delete_key, disable_key, list_keys
from dokimos.server._services.principal import Role

_LOGGER: Final = logging.getLogger("dokimos.server")
ROUTER = APIRouter(prefix="/api/v1/api-keys", tags=["API keys"])


class CreateKeyBody(WireModel):
    """A key to create."""

    name: Name
    role: Literal["VIEWER", "EDITOR", "ADMIN"]
    tenant_id: str | None = None


class KeyAnswer(WireModel):
    """A key without its text."""

    id: str
    name: str
    role: str
    tenant_id: str | None
    enabled: bool
    created_at: str
    last_used_at: str | None


class CreatedKeyAnswer(WireModel):
    """A new key; its text is never shown again."""

    key: str
    api_key: KeyAnswer
    warning: str | None
    """What to do where no key may manage all keys, because this is the first one and not an ADMIN."""


@ROUTER.post("", status_code=201, response_model=CreatedKeyAnswer, openapi_extra=describe_body(CreateKeyBody))
@access(Access.ADMIN)
async def add_key(
    request: Request,
    caller: Caller,
    store: Store,
    body: Annotated[CreateKeyBody, Depends(json_body(CreateKeyBody))],
) -> dict[str, Any]:
    """Create a key. The answer holds its text, which cannot be read again."""
    tenant = body.tenant_id or None
    created = await store.write(
        lambda connection: create_key(connection, caller, body.name, Role[body.role], tenant)
    )
    advice = await _reload_keys(request)
    return {"key": created.text, "apiKey": _answer(created.row), "warning": advice}


@ROUTER.get("", response_model=list[KeyAnswer])
@access(Access.ADMIN)
async def get_keys(caller: Caller, store: Store) -> list[dict[str, Any]]:
    """List the keys, the oldest first."""
    return [_answer(row) for row in await store.read(lambda connection: list_keys(connection, caller))]


@ROUTER.post("/{keyId}/disable", response_model=KeyAnswer)
@access(Access.ADMIN)
async def turn_off_key(
    request: Request, caller: Caller, store: Store, key_id: Annotated[UUID, Path(alias="keyId")]
) -> dict[str, Any]:
    """Refuse a key from now on; its record stays."""
    row = await store.write(lambda connection: disable_key(connection, caller, str(key_id)))
    await _reload_keys(request)
    return _answer(row)


@ROUTER.delete("/{keyId}", status_code=204)
@access(Access.ADMIN)
async def remove_key(
    request: Request, caller: Caller, store: Store, key_id: Annotated[UUID, Path(alias="keyId")]
) -> Response:
    """Delete a key."""
    await store.write(lambda connection: delete_key(connection, caller, str(key_id)))
    await _reload_keys(request)
    return Response(status_code=204)


async def _reload_keys(request: Request) -> str | None:
    """Use the keys as they are now; return what to do where none of them may manage all keys."""
    keys: KeyRing = request.app.state.keys
    await keys.reload()
    if keys.advice is not None:
        _LOGGER.warning(keys.advice)
    return keys.advice


def _answer(row: Row[Any]) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "role": row.role,
        "tenantId": row.tenant_id,
        "enabled": row.enabled,
        "createdAt": format_time(row.created_at),
        "lastUsedAt": format_time(row.last_used_at),
    }
