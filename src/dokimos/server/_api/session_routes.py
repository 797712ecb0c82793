"""Routes with which a browser signs in and out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response
from starlette.requests import Request

from dokimos.server._api.access import SESSION_COOKIE, Access, KeyRing, access, address_of, identify_caller
from dokimos.server._api.json_body import StrictBody, WireModel, describe_body, json_body
from dokimos.server._api.parameters import Store
from dokimos.server._api.same_origin import check_same_origin
from dokimos.server._services.errors import UnauthorizedError
from dokimos.server._services.principal import ANONYMOUS, SYSTEM, Principal
from dokimos.server._services.sessions import SECONDS, begin_session, end_session

ROUTER = APIRouter(prefix="/api/v1/session", tags=["Session"])


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


@ROUTER.post("", response_model=SessionAnswer, openapi_extra=describe_body(SignInBody))
@access(Access.PUBLIC)
async def sign_in(
    request: Request, store: Store, body: Annotated[SignInBody, Depends(json_body(SignInBody))]
) -> Response:
    """Sign in with a key; the answer sets a cookie that stands for it for seven days."""
    check_same_origin(request, has_cookie=False)
    keys: KeyRing = request.app.state.keys
    caller = await keys.identify(body.key, address_of(request))
    if caller is None or not keys.is_keyed:
        raise UnauthorizedError("Invalid or missing API key")
    own_key = request.app.state.settings.api_key if caller is SYSTEM else None
    key_id = None if caller is SYSTEM else caller.id
    token = await store.write(lambda connection: begin_session(connection, key_id, own_key))
    response = JSONResponse(_answer(caller, needs_key=True))
    response.set_cookie(
        SESSION_COOKIE, token, max_age=SECONDS, httponly=True, samesite="lax", secure=_is_https(request)
    )
    return response


@ROUTER.get("", response_model=SessionAnswer)
@access(Access.PUBLIC)
async def get_session(request: Request) -> dict[str, Any]:
    """Say who calls, with a key or with a cookie."""
    caller = await identify_caller(request)
    return _answer(caller or ANONYMOUS, needs_key=request.app.state.keys.is_keyed)


@ROUTER.delete("", status_code=204)
@access(Access.PUBLIC)
async def sign_out(request: Request, store: Store) -> Response:
    """Sign out: the cookie stands for nothing any more."""
    token = request.cookies.get(SESSION_COOKIE)
    check_same_origin(request, has_cookie=token is not None)
    if token is not None:
        await store.write(lambda connection: end_session(connection, token))
        request.app.state.keys.note_change()
    response = Response(status_code=204)
    response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="lax", secure=_is_https(request))
    return response


def _answer(caller: Principal, *, needs_key: bool) -> dict[str, Any]:
    return {
        "isAuthenticated": caller is not ANONYMOUS,
        "needsKey": needs_key,
        "id": caller.id,
        "role": caller.role.name,
        "tenantId": caller.tenant,
    }


def _is_https(request: Request) -> bool:
    """Whether the browser speaks TLS, with this server or with a proxy before it."""
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return request.url.scheme == "https" or forwarded == "https"
