"""Who may call a route: each declares its role or rule, and one dependency of the application enforces it.

The rule is looked up at the route that was matched, never from the text of the path: however a path is
spelled, what runs is what is checked. A route without a rule is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends
from starlette.requests import Request

from dokimos.server._api.accounts.key_ring import KeyRing
from dokimos.server._api.accounts.trusted_header import read_identity
from dokimos.server._api.http.same_origin import check_same_origin
from dokimos.server._services.accounts.principal import ANONYMOUS, Principal, Role
from dokimos.server._services.errors import (
    ForbiddenError,
    RoleError,
    TooManyFailuresError,
    UnauthorizedError,
)
from dokimos.server._services.request_context import enter_route, note_principal
from dokimos.server._settings import ServerSettings

SESSION_COOKIE: Final = "dokimos_session"
F = TypeVar("F", bound=Callable[..., Any])
_RULE: Final = "__dokimos_access__"
_IS_COUNTED: Final = "dokimos.is_counted"
"""Set in the scope of a request that its caller's limit has counted."""


class Access(Enum):
    """Who may call a route."""

    PUBLIC = "public"
    """Anybody, also where reading needs a key: health checks, signing in."""
    READ = "read"
    """Anybody, unless reading needs a key."""
    TRACE_READ = "trace read"
    """Any key, where keys exist; anybody, where the settings make traces public."""
    PRIVATE_READ = "private read"
    """Any key, where keys exist."""
    KNOWN = "known"
    """Any caller who says who it is, about what is its own: its sessions."""
    WRITE = "write"
    """An EDITOR or ADMIN, whose role in single projects does not count."""
    PROJECT_WRITE = "project write"
    """An EDITOR or ADMIN, be it of a single project: the service checks the role in the row's project."""
    PROJECT_ADMIN = "project admin"
    """An ADMIN, be it of a single project: the service checks the role in the project."""
    ADMIN = "admin"
    """An ADMIN, whose role in single projects does not count."""


_NEEDED: Final = {
    Access.WRITE: Role.EDITOR,
    Access.PROJECT_WRITE: Role.EDITOR,
    Access.PROJECT_ADMIN: Role.ADMIN,
    Access.ADMIN: Role.ADMIN,
}
_OF_PROJECTS: Final = (Access.PROJECT_WRITE, Access.PROJECT_ADMIN)


def access(rule: Access) -> Callable[[F], F]:
    """Declare who may call a route; below the decorator of the router."""

    def declare(endpoint: F) -> F:
        setattr(endpoint, _RULE, rule)
        return endpoint

    return declare


def rule_of(endpoint: object) -> Access | None:
    """Return the rule of a route's function, None where it has none."""
    return getattr(endpoint, _RULE, None)


async def authorize(request: Request) -> Principal:
    """Return who calls, if it may call this route.

    Raises:
        UnauthorizedError: The route needs a key, and there is none, or a wrong one.
        TooManyFailuresError: The route needs a key, and too many wrong ones came from this address.
        RateLimitError: The caller has made as many requests as it may at the moment.
        ForbiddenError: The key's role is too low, or the route has no rule.
    """
    route = request.scope["route"]
    enter_route(route.path, request.path_params, route.status_code or 200)
    rule = rule_of(route.endpoint)
    if rule is None:
        raise ForbiddenError("This route has no access rule.")
    return await authorize_rule(request, rule)


async def authorize_rule(request: Request, rule: Access) -> Principal:
    """Return who calls, if the rule admits it; raises what `authorize` raises."""
    if rule is Access.PUBLIC:
        return ANONYMOUS  # without the database, which a health check must not depend on
    state = request.app.state
    settings: ServerSettings = state.settings
    is_public = rule is Access.READ or (rule is Access.TRACE_READ and settings.public_traces)
    is_open = is_public and not settings.require_auth_for_reads
    try:
        principal = await identify_caller(request)
    except TooManyFailuresError:
        if not is_open:
            raise
        principal = None
    if principal is not None:
        note_principal(principal)  # also where its role is too low: the refusal is recorded
        _count(request, principal)
    if principal is None:
        if is_open:  # an unknown key on a read counts as none, as documented
            return ANONYMOUS
        raise UnauthorizedError("Invalid or missing API key")
    # A key without any role reads what it sees, which is nothing.
    needed = _NEEDED.get(rule, Role.NONE)
    role = principal.highest_role if rule in _OF_PROJECTS else principal.role
    if role < needed:
        raise RoleError(f"Insufficient role: {needed.name} required")
    return principal


def _count(request: Request, principal: Principal) -> None:
    """Count a request once, also where its caller is identified again while the answer goes on."""
    if _IS_COUNTED not in request.scope:
        request.scope[_IS_COUNTED] = True
        request.app.state.keys.count_request(principal)


async def identify_caller(request: Request) -> Principal | None:
    """Return who calls, None where that is unknown: by a key, by what a trusted proxy says, or by a session.

    Raises:
        ForbiddenError: A browser asks for a change on behalf of another site, or whom the proxy names may not
            come in.
    """
    keys: KeyRing = request.app.state.keys
    bearer = bearer_token(request)
    if bearer is not None:
        return await keys.identify(bearer, address_of(request))
    identity = read_identity(request)
    if identity is not None:
        check_same_origin(request, has_cookie=True)  # a browser is let in by the proxy as it is by a cookie
        return await keys.identify_user(identity)
    session = request.cookies.get(SESSION_COOKIE)
    check_same_origin(request, has_cookie=session is not None)
    return await (keys.identify(None, "") if session is None else keys.identify_session(session))


async def reload_roles(request: Request) -> None:
    """Have what a request has changed about roles hold from its answer on."""
    keys: KeyRing = request.app.state.keys
    await keys.reload()


Caller = Annotated[Principal, Depends(authorize)]
"""Who calls."""


def bearer_token(request: Request) -> str | None:
    """Return the token of the Authorization header, None where there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def address_of(request: Request) -> str:
    """Return the address of the client, as a trusted proxy before the server reports it."""
    return request.client.host if request.client is not None else ""
