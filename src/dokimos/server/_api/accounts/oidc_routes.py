"""Routes with which people sign in and out with the identity provider."""

from __future__ import annotations

import hmac
import json
import re
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import Connection
from starlette.requests import Request

from dokimos.server._api.accounts.key_ring import KeyRing
from dokimos.server._api.accounts.session_cookies import clear_session, describe_place, is_https, set_session
from dokimos.server._api.accounts.sign_in_page import sign_in_error_page, wants_page
from dokimos.server._api.http.access import SESSION_COOKIE, Access, access, address_of
from dokimos.server._api.http.error_responses import answer_error
from dokimos.server._api.http.json_body import WireModel
from dokimos.server._api.http.parameters import Store
from dokimos.server._api.http.same_origin import check_same_origin
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.database import Database, DatabaseUnavailable
from dokimos.server._oidc.attempt import ATTEMPT_SECONDS, Attempt, check_return_path
from dokimos.server._oidc.provider import Provider, SignedIn
from dokimos.server._services.accounts.principal import ANONYMOUS
from dokimos.server._services.accounts.secret_hash import hash_secret
from dokimos.server._services.accounts.sessions import NewSession, begin_session, end_session
from dokimos.server._services.accounts.users import principal_of_user, record_sign_in, use_once
from dokimos.server._services.errors import (
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    ServiceError,
)
from dokimos.server._services.request_context import note_principal, note_sign_in
from dokimos.server._settings import ServerSettings

ROUTER = APIRouter(prefix="/api/v1/session/oidc", tags=["Session"])
_START: Final = "/api/v1/session/oidc/start"
_CALLBACK: Final = "/api/v1/session/oidc/callback"
_COOKIE: Final = "dokimos_sign_in"
_COOKIE_PATH: Final = "/api/v1/session/oidc"
_ERROR_NAME: Final = re.compile("[a-z_]{1,60}")
_REMEMBERED: Final = DAY
"""How long it is kept that an answer was accepted: far longer than any is acceptable."""
_REDIRECTS: Final[dict[int | str, dict[str, Any]]] = {
    303: {"description": "Leads on.", "headers": {"Location": {"schema": {"type": "string"}}}}
}


class SignOutAnswer(WireModel):
    """What is left to do after signing out here."""

    redirect_to: str | None
    """The address at the identity provider where the browser signs out there, null where it has none."""


@ROUTER.get("/start", status_code=303, response_class=RedirectResponse, responses=_REDIRECTS)
@access(Access.PUBLIC)
async def start_sign_in(
    request: Request,
    return_to: Annotated[
        str, Query(alias="returnTo", description="The path of this server to go to afterwards.")
    ] = "/",
) -> Response:
    """Send the browser to the identity provider to sign in there."""
    try:
        provider = _provider_of(request)
        attempt = Attempt.begin(check_return_path(return_to))
        response = RedirectResponse(await provider.begin(attempt, _redirect_uri(request)), 303)
    except ServiceError as error:
        return _answer_failure(request, error)
    response.set_cookie(
        _COOKIE,
        attempt.dump(),
        max_age=ATTEMPT_SECONDS,
        path=_COOKIE_PATH,
        httponly=True,
        samesite="lax",  # the provider's answer is a link from its page to this server
        secure=is_https(request),
    )
    return response


@ROUTER.get("/callback", status_code=303, response_class=RedirectResponse, responses=_REDIRECTS)
@access(Access.PUBLIC)
async def finish_sign_in(
    request: Request,
    store: Store,
    code: Annotated[str | None, Query()] = None,
    state: Annotated[str | None, Query()] = None,
    iss: Annotated[str | None, Query(description="Which provider answers (RFC 9207).")] = None,
    error: Annotated[str | None, Query(description="Why the provider refuses.")] = None,
) -> Response:
    """Accept the answer of the identity provider: a session begins, and the browser is led back."""
    note_sign_in()
    try:
        attempt = _read_attempt(request, state)
        if error is not None:
            name = error if _ERROR_NAME.fullmatch(error) else "unknown error"
            raise ForbiddenError(f"The identity provider has refused the sign-in: {name}.")
        if not code:
            raise InvalidRequestError("is required", field="code")
        signed_in = await _finish(request, attempt, code, iss)
        token = await _begin_session(request, store, attempt, signed_in)
    except (ServiceError, DatabaseUnavailable) as problem:
        response = _answer_failure(request, problem)
    else:
        response = RedirectResponse(attempt.return_to, 303)
        set_session(request, response, token)
    response.delete_cookie(
        _COOKIE, path=_COOKIE_PATH, httponly=True, samesite="lax", secure=is_https(request)
    )
    return response


@ROUTER.post("/sign-out", response_model=SignOutAnswer)
@access(Access.PUBLIC)
async def sign_out_everywhere(request: Request, store: Store, response: Response) -> dict[str, str | None]:
    """Sign out here, and say where the browser signs out at the identity provider."""
    provider = _provider_of(request)
    token = request.cookies.get(SESSION_COOKIE)
    check_same_origin(request, has_cookie=token is not None)
    id_token = None
    if token is not None:
        keys: KeyRing = request.app.state.keys
        note_principal(await keys.identify_session(token) or ANONYMOUS)
        id_token = await store.write(lambda connection: end_session(connection, token))
        keys.note_change()
    clear_session(request, response)
    return {"redirectTo": await provider.sign_out_url(id_token, f"{_base_url(request)}/")}


async def _finish(request: Request, attempt: Attempt, code: str, issuer: str | None) -> SignedIn:
    """Ask the provider about a code; wrong ones count as wrong keys do."""
    keys: KeyRing = request.app.state.keys
    address, code_hash = address_of(request), hash_secret(code)
    keys.check_failures(address)
    try:
        return await _provider_of(request).finish(attempt, code, _redirect_uri(request), issuer=issuer)
    except ForbiddenError:
        keys.failures.note_failure(address, code_hash)
        raise


async def _begin_session(request: Request, store: Database, attempt: Attempt, signed_in: SignedIn) -> str:
    settings: ServerSettings = request.app.state.settings
    place = describe_place(request)

    def begin(connection: Connection) -> str:
        use_once(connection, attempt.state_hash, now() + _REMEMBERED)
        user = record_sign_in(connection, signed_in.identity)
        may_write_shared = not settings.read_only_shared_rows
        note_principal(principal_of_user(connection, user, may_write_shared=may_write_shared))
        session = NewSession(user_id=user.id, id_token=signed_in.id_token, **place)
        return begin_session(connection, session, settings.session_hours)

    token = await store.write(begin)
    request.app.state.keys.note_change()  # a role may be another one now
    return token


def _read_attempt(request: Request, state: str | None) -> Attempt:
    """The sign-in that this browser has begun, if the answer of the provider belongs to it."""
    _provider_of(request)
    attempt = Attempt.load(request.cookies.get(_COOKIE, ""))
    if attempt is None:
        raise InvalidRequestError(
            "This browser has not begun to sign in, or has taken longer than 10 minutes; sign in again.",
        )
    if state is None or not hmac.compare_digest(state.encode(), attempt.state.encode()):
        raise InvalidRequestError(
            "does not belong to the sign-in of this browser; sign in again", field="state"
        )
    check_return_path(attempt.return_to)
    return attempt


def _provider_of(request: Request) -> Provider:
    provider: Provider | None = request.app.state.oidc
    if provider is None:
        raise NotFoundError("This server has no identity provider; DOKIMOS_OIDC_ISSUER would name one.")
    return provider


def _answer_failure(request: Request, error: Exception) -> Response:
    answer = answer_error(error)
    if not wants_page(request):
        return answer
    # What the answer says, and not the error itself: that of a database may hold more than is for the caller.
    body = json.loads(bytes(answer.body))
    headers = {name: value for name, value in answer.headers.items() if name == "retry-after"}
    again = request.app.state.settings.root_path + _START
    return sign_in_error_page(answer.status_code, body.get("message", body["error"]), again, headers)


def _redirect_uri(request: Request) -> str:
    return _base_url(request) + _CALLBACK


def _base_url(request: Request) -> str:
    """The address at which the browser reaches this server."""
    settings: ServerSettings = request.app.state.settings
    if settings.public_url is not None:
        return settings.public_url
    scheme = "https" if is_https(request) else "http"
    return f"{scheme}://{request.headers.get('host', '')}"
