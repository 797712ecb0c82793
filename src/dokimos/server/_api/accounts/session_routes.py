"""Routes with which a browser signs in with a key, sees who it is, and signs out."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from starlette.requests import Request

from dokimos.server._api.accounts.key_ring import KeyRing
from dokimos.server._api.accounts.member_schemas import ProjectRoleAnswer
from dokimos.server._api.accounts.session_cookies import clear_session, describe_place, set_session
from dokimos.server._api.accounts.trusted_header import read_identity
from dokimos.server._api.http.access import SESSION_COOKIE, Access, access, address_of, identify_caller
from dokimos.server._api.http.json_body import StrictBody, WireModel, describe_body, json_body
from dokimos.server._api.http.parameters import Store
from dokimos.server._api.http.same_origin import check_same_origin
from dokimos.server._services.accounts.members import name_project_roles
from dokimos.server._services.accounts.principal import ANONYMOUS, Principal
from dokimos.server._services.accounts.sessions import begin_session, end_session
from dokimos.server._services.errors import UnauthorizedError
from dokimos.server._services.request_context import note_principal
from dokimos.server._settings import ServerSettings

ROUTER = APIRouter(prefix="/api/v1/session", tags=["Session"])
SignInWay = Literal["key", "oidc", "proxy"]


class SignInBody(StrictBody):
    """The key with which a browser signs in."""

    key: str


class SessionAnswer(WireModel):
    """Who calls, and what it may do."""

    is_authenticated: bool
    needs_key: bool
    """Whether keys exist, so that writing needs one."""
    id: str
    role: str
    tenant_id: str | None
    projects: list[ProjectRoleAnswer]
    """The roles in single projects beside that one; the higher one counts."""
    sign_in_ways: list[SignInWay]
    """How people can sign in: with a key, with the identity provider, through the proxy before the server."""
    signed_in_with: SignInWay | None
    """How the caller did; null where nobody has, or the server is open."""


@ROUTER.post("", response_model=SessionAnswer, openapi_extra=describe_body(SignInBody))
@access(Access.PUBLIC)
async def sign_in(
    request: Request, store: Store, body: Annotated[SignInBody, Depends(json_body(SignInBody))]
) -> Response:
    """Sign in with a key; the answer sets a cookie that stands for it until the session ends."""
    check_same_origin(request, has_cookie=False)
    keys: KeyRing = request.app.state.keys
    settings: ServerSettings = request.app.state.settings
    caller = await keys.identify(body.key, address_of(request))
    if caller is None or not keys.is_keyed:
        raise UnauthorizedError("Invalid or missing API key")
    note_principal(caller)
    keys.count_request(caller)  # the route is for everyone, so nothing else has
    session = replace(keys.describe_session(body.key, caller), **describe_place(request))
    token = await store.write(lambda connection: begin_session(connection, session, settings.session_hours))
    response = JSONResponse(await _describe(request, store, caller))
    set_session(request, response, token)
    return response


@ROUTER.get("", response_model=SessionAnswer)
@access(Access.PUBLIC)
async def get_session(request: Request, store: Store) -> dict[str, Any]:
    """Say who calls: with a key, with a cookie, or through a trusted proxy."""
    return await _describe(request, store, await identify_caller(request) or ANONYMOUS)


@ROUTER.delete("", status_code=204)
@access(Access.PUBLIC)
async def sign_out(request: Request, store: Store) -> Response:
    """Sign out: the cookie stands for nothing any more."""
    token = request.cookies.get(SESSION_COOKIE)
    check_same_origin(request, has_cookie=token is not None)
    if token is not None:
        keys: KeyRing = request.app.state.keys
        note_principal(await keys.identify_session(token) or ANONYMOUS)
        await store.write(lambda connection: end_session(connection, token))
        keys.note_change()
    response = Response(status_code=204)
    clear_session(request, response)
    return response


async def _describe(request: Request, store: Store, caller: Principal) -> dict[str, Any]:
    projects: list[dict[str, str]] = []
    if caller.project_roles:
        projects = await store.read(lambda connection: name_project_roles(connection, caller))
    return {
        "isAuthenticated": caller is not ANONYMOUS,
        "needsKey": request.app.state.keys.is_keyed,
        "id": caller.id,
        "role": caller.role.name,
        "tenantId": caller.tenant,
        "projects": projects,
        "signInWays": _sign_in_ways(request.app.state.settings),
        "signedInWith": _way_of(request, caller),
    }


def _way_of(request: Request, caller: Principal) -> SignInWay | None:
    if caller is ANONYMOUS or not request.app.state.keys.is_keyed:
        return None
    if caller.kind != "user":
        return "key"
    return "oidc" if read_identity(request) is None else "proxy"


def _sign_in_ways(settings: ServerSettings) -> list[SignInWay]:
    ways: list[SignInWay] = ["key"]
    if settings.oidc is not None:
        ways.append("oidc")
    if settings.trusted_header is not None:
        ways.append("proxy")
    return ways
