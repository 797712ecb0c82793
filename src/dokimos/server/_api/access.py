"""Who may call a route: each declares its role or rule, and one dependency of the application enforces it.

The rule is looked up at the route that was matched, never from the text of the path: however a path is
spelled, what runs is what is checked. A route without a rule is refused.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends
from starlette.requests import Request

from dokimos.server._api.failed_logins import FailedLogins
from dokimos.server._api.same_origin import check_same_origin
from dokimos.server._db.clock import now
from dokimos.server._db.database import Database, DatabaseUnavailable, Lane
from dokimos.server._services.api_keys import hash_key, load_principals, note_use
from dokimos.server._services.errors import (
    ForbiddenError,
    RoleError,
    TooManyFailuresError,
    UnauthorizedError,
)
from dokimos.server._services.principal import ANONYMOUS, SYSTEM, Principal, Role
from dokimos.server._services.sessions import find_session, prove
from dokimos.server._settings import ServerSettings

SESSION_COOKIE: Final = "dokimos_session"
F = TypeVar("F", bound=Callable[..., Any])
_RULE: Final = "__dokimos_access__"
_RELOAD_SECONDS: Final = 5.0
"""How long a replica may continue with keys that another one has changed."""
_USE_MICROSECONDS: Final = 60_000_000
"""How often the last use of a key is written at most."""


class Access(Enum):
    """Who may call a route."""

    PUBLIC = "public"
    """Anybody, also where reading needs a key: health checks, signing in."""
    READ = "read"
    """Anybody, unless reading needs a key."""
    PRIVATE_READ = "private read"
    """Any key, where keys exist."""
    WRITE = "write"
    """An EDITOR or ADMIN."""
    ADMIN = "admin"
    """An ADMIN."""


def access(rule: Access) -> Callable[[F], F]:
    """Declare who may call a route; below the decorator of the router."""

    def declare(endpoint: F) -> F:
        setattr(endpoint, _RULE, rule)
        return endpoint

    return declare


def rule_of(endpoint: object) -> Access | None:
    """Return the rule of a route's function, None where it has none."""
    return getattr(endpoint, _RULE, None)


class KeyRing:
    """The keys of the server, in memory."""

    def __init__(self, database: Database, settings: ServerSettings) -> None:
        self._database = database
        self._settings = settings
        self._principals: dict[str, Principal] = {}
        self._loaded_at = float("-inf")
        self._loading = asyncio.Lock()
        self._uses: dict[str, int] = {}
        self._failures = FailedLogins(settings.failed_logins_per_minute)
        self.changes = 0
        """How often keys or sessions were changed in this process: a long answer asks again then."""

    async def reload(self) -> None:
        """Read the keys from the database; whoever changes one calls this before it answers."""
        async with self._loading:
            await self._load()
        self.note_change()

    def note_change(self) -> None:
        """Have callers that are still connected identified again."""
        self.changes += 1

    async def identify(self, token: str | None, address: str) -> Principal | None:
        """Return whom a token stands for; None for no token, or one that is not known.

        Args:
            token: What was sent as the key.
            address: Where the request comes from.

        Raises:
            TooManyFailuresError: Too many wrong keys came from there. Keys that the server has made are
                still accepted, since nobody can guess them.
        """
        await self._refresh()
        if not self.is_keyed:
            return SYSTEM
        if token is None:
            return None
        # Looked up by its hash: how long that takes says nothing about the keys.
        key_hash = hash_key(token)
        principal = self._principals.get(key_hash)
        if principal is not None:
            await self._note_use(principal)
            return principal
        if self._failures.has_failed_with(address, key_hash):
            return None
        seconds = self._failures.seconds_to_wait(address)
        if seconds > 0:
            raise TooManyFailuresError(math.ceil(seconds))
        own = self._settings.api_key
        # Headers are read as Latin-1: this gives back the bytes that were sent.
        if own is not None and hmac.compare_digest(own.encode(), token.encode("latin-1", "replace")):
            return SYSTEM
        self._failures.note_failure(address, key_hash)
        return None

    async def identify_session(self, token: str) -> Principal | None:
        """Return whom the session of a cookie stands for; None where it has ended, or its key has."""
        await self._refresh()
        if not self.is_keyed:
            return SYSTEM
        session = await self._database.read(lambda connection: find_session(connection, token), Lane.KEY)
        if session is None:
            return None
        own = self._settings.api_key
        if session.own_key_proof is not None:
            is_same = own is not None and hmac.compare_digest(session.own_key_proof, prove(token, own))
            return SYSTEM if is_same else None
        return next((each for each in self._principals.values() if each.id == session.api_key_id), None)

    @property
    def is_keyed(self) -> bool:
        """Whether there is any key, so that writing needs one."""
        return self._settings.api_key is not None or bool(self._principals)

    @property
    def advice(self) -> str | None:
        """What to do where keys exist but none of them may manage all keys; None where one may."""
        if not self._principals or self._settings.api_key is not None:
            return None
        for principal in self._principals.values():
            if principal.role is Role.ADMIN and not principal.is_restricted:
                return None
        return (
            "No key may manage all keys of this server. To create an ADMIN key, start the server again with "
            "DOKIMOS_API_KEY, and use that one."
        )

    async def _refresh(self) -> None:
        if self._is_fresh:
            return
        async with self._loading:
            if not self._is_fresh:  # of many requests that come at once, the first one has loaded them
                await self._load()

    @property
    def _is_fresh(self) -> bool:
        return time.monotonic() - self._loaded_at <= _RELOAD_SECONDS

    async def _load(self) -> None:
        may_write_shared = not self._settings.read_only_shared_rows
        self._principals = await self._database.read(
            lambda connection: load_principals(connection, may_write_shared=may_write_shared), Lane.KEY
        )
        self._loaded_at = time.monotonic()

    async def _note_use(self, principal: Principal) -> None:
        moment = now()
        # In both directions: a clock that was set back must not end this for as long.
        if abs(moment - self._uses.get(principal.id, 0)) < _USE_MICROSECONDS:
            return
        self._uses[principal.id] = moment
        # Reading goes on where the disk is full: the time of the last use is not worth a refusal.
        with suppress(DatabaseUnavailable):
            await self._database.write(lambda connection: note_use(connection, principal.id, moment))


async def authorize(request: Request) -> Principal:
    """Return who calls, if it may call this route.

    Raises:
        UnauthorizedError: The route needs a key, and there is none, or a wrong one.
        TooManyFailuresError: The route needs a key, and too many wrong ones came from this address.
        ForbiddenError: The key's role is too low, or the route has no rule.
    """
    rule = rule_of(request.scope["route"].endpoint)
    if rule is None:
        raise ForbiddenError("This route has no access rule.")
    return await authorize_rule(request, rule)


async def authorize_rule(request: Request, rule: Access) -> Principal:
    """Return who calls, if the rule admits it; raises what `authorize` raises."""
    if rule is Access.PUBLIC:
        return ANONYMOUS  # without the database, which a health check must not depend on
    state = request.app.state
    is_open = rule is Access.READ and not state.settings.require_auth_for_reads
    try:
        principal = await identify_caller(request)
    except TooManyFailuresError:
        if not is_open:
            raise
        principal = None
    if principal is None:
        if is_open:  # an unknown key on a read counts as none, as documented
            return ANONYMOUS
        raise UnauthorizedError("Invalid or missing API key")
    needed = {Access.WRITE: Role.EDITOR, Access.ADMIN: Role.ADMIN}.get(rule, Role.VIEWER)
    if principal.role < needed:
        raise RoleError(f"Insufficient role: {needed.name} required")
    return principal


async def identify_caller(request: Request) -> Principal | None:
    """Return who calls, by the key of a header or else by the cookie of a session; None where it is unknown.

    Raises:
        ForbiddenError: A browser asks for a change on behalf of another site.
    """
    keys: KeyRing = request.app.state.keys
    bearer = bearer_token(request)
    if bearer is not None:
        return await keys.identify(bearer, address_of(request))
    session = request.cookies.get(SESSION_COOKIE)
    check_same_origin(request, has_cookie=session is not None)
    return await (keys.identify(None, "") if session is None else keys.identify_session(session))


Caller = Annotated[Principal, Depends(authorize)]
"""Who calls."""


def bearer_token(request: Request) -> str | None:
    """Return the token of the Authorization header, None where there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def address_of(request: Request) -> str:
    """Return the address of the client, as a trusted proxy before the server reports it."""
    return request.client.host if request.client is not None else ""
