"""Whom a key, the cookie of a session or the headers of a proxy stand for."""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Row

from dokimos.server._api.http.failed_logins import FailedLogins
from dokimos.server._api.http.rate_limits import RateLimits
from dokimos.server._db.clock import now
from dokimos.server._db.database import Database, DatabaseUnavailable, Lane
from dokimos.server._services.accounts.api_keys import USE_INTERVAL, LoadedKey, load_keys, note_use
from dokimos.server._services.accounts.principal import SYSTEM, Principal, Role
from dokimos.server._services.accounts.secret_hash import hash_secret
from dokimos.server._services.accounts.sessions import (
    SEEN_INTERVAL,
    FoundSession,
    NewSession,
    find_session,
    note_seen,
    prove,
)
from dokimos.server._services.accounts.users import (
    Identity,
    find_identity,
    has_administrator,
    principal_of_user,
    record_sign_in,
)
from dokimos.server._services.errors import TooManyFailuresError
from dokimos.server._settings import ServerSettings

T = TypeVar("T")
_LOGGER: Final = logging.getLogger("dokimos.server")
_RELOAD_SECONDS: Final = 5.0
"""How long a replica may continue with keys that another one has changed, where it was not told of that."""


class KeyRing:
    """The keys of the server, in memory, and how callers are identified."""

    def __init__(self, database: Database, settings: ServerSettings) -> None:
        self._database = database
        self._settings = settings
        self._keys: dict[str, LoadedKey] = {}
        """By the hash of their texts, of which a key that is being rotated has two."""
        self._has_administrator = False
        """Whether a person may manage all keys."""
        self._limits: dict[str, int] = {}
        """The requests per minute of keys that have a limit of their own, by their ids."""
        self._loaded_at = float("-inf")
        self._loading = asyncio.Lock()
        self._moments: dict[tuple[str, str], int] = {}
        """When something was last done for a key that is done once in `USE_INTERVAL`."""
        self._rates = RateLimits()
        self.failures = FailedLogins(settings.failed_logins_per_minute)
        self._announce: Callable[[], None] = lambda: None
        self.changes = 0
        """How often keys or sessions were changed, at any server: a long answer asks again then."""

    def announce_to(self, announce: Callable[[], None]) -> None:
        """Have a function called after each change, which tells the other servers on the database."""
        self._announce = announce

    async def reload(self) -> None:
        """Read the keys from the database; whoever changes one calls this before it answers."""
        async with self._loading:
            await self._load()
        self.note_change()

    def note_change(self) -> None:
        """Have callers that are still connected identified again, at all servers."""
        self.changes += 1
        self._announce()

    def expire(self) -> None:
        """Read the keys again before anyone is identified: another server has, or may have, changed them."""
        self.changes += 1
        self._loaded_at = float("-inf")

    async def identify(self, token: str | None, address: str) -> Principal | None:
        """Return whom a token stands for; None for no token, or one that is not known or has expired.

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
        key_hash = hash_secret(token)
        key = self._keys.get(key_hash)
        if key is not None:
            return await self._accept(key)
        if self.failures.has_failed_with(address, key_hash):
            return None
        self.check_failures(address)
        own = self._settings.api_key
        # Headers are read as Latin-1: this gives back the bytes that were sent.
        if own is not None and hmac.compare_digest(own.encode(), token.encode("latin-1", "replace")):
            return SYSTEM
        self.failures.note_failure(address, key_hash)
        return None

    def check_failures(self, address: str) -> None:
        """Raise `TooManyFailuresError` where an address has to wait before it may try to sign in again."""
        seconds = self.failures.seconds_to_wait(address)
        if seconds > 0:
            raise TooManyFailuresError(math.ceil(seconds))

    async def identify_session(self, token: str) -> Principal | None:
        """Return whom the session of a cookie stands for; None where it has ended, or its key has."""
        await self._refresh()
        if not self.is_keyed:
            return SYSTEM
        found, principal = await self._read(lambda connection: self._find_session(connection, token))
        if found is not None and principal is not None:
            await self._note_session(found)
        return principal

    async def identify_user(self, identity: Identity) -> Principal:
        """Return who somebody is whom a trusted proxy names.

        Raises:
            ForbiddenError: An administrator has disabled this user.
        """

        def find(connection: Connection) -> Principal | None:
            user = find_identity(connection, identity)
            return None if user is None else self._principal_of_user(connection, user)

        def record(connection: Connection) -> Principal:
            return self._principal_of_user(connection, record_sign_in(connection, identity))

        known: Principal | None = await self._read(find)
        return known if known is not None else await self._database.write(record)

    def describe_session(self, token: str, caller: Principal) -> NewSession:
        """Return whose session begins with a key that was accepted."""
        if caller is SYSTEM:
            return NewSession(own_key=self._settings.api_key)
        return NewSession(key_id=caller.id, key_hash=hash_secret(token))

    def count_request(self, caller: Principal) -> None:
        """Count a request of a key or a person.

        Raises:
            RateLimitError: It has made as many as it may at the moment.
        """
        if caller is not SYSTEM:  # whoever runs the server always gets in
            limit = self._limits.get(caller.id, self._settings.requests_per_minute)
            self._rates.take(caller.id, limit)

    @property
    def failure_count(self) -> int:
        """How many wrong keys were tried, each once for its address."""
        return self.failures.count

    @property
    def is_keyed(self) -> bool:
        """Whether callers can say who they are, so that writing needs it; keys that have expired count.

        A server whose last key expires must not be open to everyone from then on.
        """
        return bool(self._keys) or not self.opens_without_keys

    @property
    def opens_without_keys(self) -> bool:
        """Whether the server is open to everyone when its tables hold no key."""
        return self._settings.api_key is None and not self._settings.has_sign_in

    @property
    def advice(self) -> str | None:
        """What to do where keys exist, and neither one of them nor a person may manage all; else None."""
        if not self._keys or self._settings.api_key is not None or self._has_administrator:
            return None
        moment = now()
        for key in self._keys.values():
            is_admin = key.principal.role is Role.ADMIN and not key.principal.is_restricted
            if is_admin and not key.has_expired(moment):
                return None
        return (
            "No key may manage all keys of this server. To create an ADMIN key, start the server again with "
            "DOKIMOS_API_KEY, and use that one."
        )

    @property
    def _may_write_shared(self) -> bool:
        return not self._settings.read_only_shared_rows

    async def _accept(self, key: LoadedKey) -> Principal | None:
        if key.has_expired(now()):
            if self._is_due("expiry", key.principal.id):
                _LOGGER.warning(
                    "A request came with the API key '%s' (%s), whose text has expired.",
                    key.name,
                    key.principal.id,
                )
            return None
        await self._note_use(key.principal.id)
        return key.principal

    def _find_session(
        self, connection: Connection, token: str
    ) -> tuple[FoundSession | None, Principal | None]:
        """Look up a session, and whom it stands for."""
        found = find_session(connection, token, self._settings.session_idle_hours)
        if found is None:
            return None, None
        if found.user is not None:
            return found, self._principal_of_user(connection, found.user)
        session = found.row
        if session.own_key_proof is not None:
            own = self._settings.api_key
            is_same = own is not None and hmac.compare_digest(session.own_key_proof, prove(token, own))
            return found, SYSTEM if is_same else None
        key = self._keys.get(session.key_hash)
        return found, None if key is None or key.has_expired(now()) else key.principal

    def _principal_of_user(self, connection: Connection, user: Row[Any]) -> Principal:
        return principal_of_user(connection, user, may_write_shared=self._may_write_shared)

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
        may_write_shared = self._may_write_shared
        moment, changes = time.monotonic(), self.changes
        self._keys = await self._read(
            lambda connection: load_keys(connection, may_write_shared=may_write_shared)
        )
        self._has_administrator = await self._read(self._find_administrator)
        self._limits = {
            key.principal.id: key.requests_per_minute
            for key in self._keys.values()
            if key.requests_per_minute is not None
        }
        if changes == self.changes:  # else what was read may be older than what another server has changed
            self._loaded_at = moment

    def _find_administrator(self, connection: Connection) -> bool:
        """Whether a person may manage all keys, by the role of their groups or one that was given here."""
        ways = [way for way in (self._settings.oidc, self._settings.trusted_header) if way is not None]
        if not ways:
            return False
        return any(way.rules.makes_administrators for way in ways) or has_administrator(connection)

    async def _read(self, query: Callable[[Connection], T]) -> T:
        return await self._database.read(query, Lane.KEY)

    async def _note_use(self, key_id: str) -> None:
        if self._is_due("use", key_id):
            moment = now()
            await self._write_if_possible(lambda connection: note_use(connection, key_id, moment))

    async def _note_session(self, found: FoundSession) -> None:
        session, moment = found.row, now()
        if session.api_key_id is not None:
            await self._note_use(session.api_key_id)
        if abs(moment - (session.last_seen_at or 0)) >= SEEN_INTERVAL:
            await self._write_if_possible(lambda connection: note_seen(connection, session, moment))

    async def _write_if_possible(self, change: Callable[[Connection], Any]) -> None:
        # Reading goes on where the disk is full: the time of the last use is not worth a refusal.
        with suppress(DatabaseUnavailable):
            await self._database.write(change)

    def _is_due(self, action: str, key_id: str) -> bool:
        """Whether something that is done once a minute for a key is to be done now."""
        moment = now()
        # In both directions: a clock that was set back must not end this for as long.
        if abs(moment - self._moments.get((action, key_id), 0)) < USE_INTERVAL:
            return False
        self._moments[action, key_id] = moment
        return True
