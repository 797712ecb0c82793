"""The identity provider: found, asked, believed only as far as its signatures go."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

from dokimos._core.extras import require
from dokimos._http.api_client import ApiClient
from dokimos._http.credentials import Secret
from dokimos.errors import ConfigurationError, ServerError, ServerRefusedError
from dokimos.server._db.clock import SECOND, now
from dokimos.server._oidc.attempt import Attempt
from dokimos.server._oidc.claims import lacks_claims, read_identity
from dokimos.server._oidc.discovery import Metadata, UnusableProvider, parse_metadata, well_known_url
from dokimos.server._oidc.id_token import Expectation, UnknownKey, import_keys, verify_id_token
from dokimos.server._services.accounts.users import Identity
from dokimos.server._services.errors import ForbiddenError, UnavailableError
from dokimos.server._sign_in_settings import OidcSettings

if TYPE_CHECKING:
    from joserfc.jwk import Key

_LOGGER: Final = logging.getLogger("dokimos.server")
_CACHE_SECONDS: Final = 3600.0
"""How long it is believed what the provider said about itself, and that a key is still its own."""
_REFRESH_SECONDS: Final = 10.0
"""How often its keys are read again at most, because a token names one that is not known."""
_PATIENCE_SECONDS: Final = 5.0
"""How long a provider that was away is not asked again: those who wait must not queue up behind it."""
_TIMEOUT_SECONDS: Final = 10.0
_MAX_REPLY: Final = 1024 * 1024
_MAX_HINT: Final = 3500
"""The longest ID token that is sent along when signing out: addresses have limits."""
_FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Somebody whom the provider has vouched for."""

    identity: Identity
    id_token: str


@dataclass(frozen=True, slots=True)
class _Cached:
    """What the provider has said, and when."""

    metadata: Metadata
    keys: list[Key]
    read_at: float


class Provider:
    """One identity provider.

    Args:
        settings: Which one, and what its answers mean.
        clock: Returns seconds, of a clock that nobody sets.
        wall: Returns the time in seconds since 1970, which the provider's tokens name.
    """

    def __init__(
        self,
        settings: OidcSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = lambda: now() / SECOND,
    ) -> None:
        require("authlib", extra="oidc")
        require("joserfc", extra="oidc")
        self._settings = settings
        self._clock = clock
        self._wall = wall
        self._cached: _Cached | None = None
        self._failed_at = float("-inf")
        self._reading = asyncio.Lock()

    async def begin(self, attempt: Attempt, redirect_uri: str) -> str:
        """Return the address at the provider where somebody signs in.

        Raises:
            UnavailableError: The provider is away, or is not set up as this server expects.
        """
        cached = await self._read()
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self._settings.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        return _add_query(cached.metadata.authorization_endpoint, query)

    async def finish(self, attempt: Attempt, code: str, redirect_uri: str, *, issuer: str | None) -> SignedIn:
        """Return who has signed in, for the code with which the provider has sent them back.

        Args:
            attempt: What their browser has kept.
            code: What the provider has given them.
            redirect_uri: Where it has sent them.
            issuer: What the answer says about where it comes from, None where it says nothing.

        Raises:
            ForbiddenError: The code or what it brings cannot be trusted, or they may not sign in.
            UnavailableError: The provider is away, or is not set up as this server expects.
        """
        metadata = (await self._read()).metadata
        if issuer != metadata.issuer and (issuer is not None or metadata.names_itself):
            raise ForbiddenError("The answer comes from another identity provider than this server's.")
        reply = await self._exchange(metadata, attempt, code, redirect_uri)
        id_token, access_token = reply.get("id_token"), reply.get("access_token")
        if not isinstance(id_token, str):
            raise self._give_up("its answer holds no ID token; is 'openid' among the scopes?")
        access_token = access_token if isinstance(access_token, str) else None
        claims = await self._verify(metadata, id_token, access_token, attempt.nonce)
        if lacks_claims(claims, self._settings) and metadata.userinfo_endpoint and access_token:
            claims = {**await self._ask_more(metadata.userinfo_endpoint, access_token, claims), **claims}
        return SignedIn(read_identity(claims, self._settings), id_token)

    async def sign_out_url(self, id_token: str | None, return_to: str) -> str | None:
        """Return the address at the provider where somebody signs out there, None where it has none."""
        try:
            endpoint = (await self._read()).metadata.end_session_endpoint
        except UnavailableError:
            return None  # signing out here has still succeeded
        if endpoint is None:
            return None
        query = {"client_id": self._settings.client_id, "post_logout_redirect_uri": return_to}
        if id_token is not None and len(id_token) <= _MAX_HINT:
            query["id_token_hint"] = id_token
        return _add_query(endpoint, query)

    async def _verify(
        self, metadata: Metadata, id_token: str, access_token: str | None, nonce: str
    ) -> dict[str, Any]:
        expected = Expectation(
            issuer=metadata.issuer,
            client_id=self._settings.client_id,
            nonce=nonce,
            algorithms=metadata.algorithms,
            access_token=access_token,
        )
        cached = await self._read()
        try:
            return verify_id_token(id_token, cached.keys, expected, self._wall())
        except UnknownKey:  # the provider may have changed its keys since
            cached = await self._read(newer_than=cached)
        try:
            return verify_id_token(id_token, cached.keys, expected, self._wall())
        except UnknownKey:
            raise ForbiddenError(
                "The answer of the identity provider cannot be trusted: it is signed with a key that the "
                "provider does not have. Sign in again."
            ) from None

    async def _exchange(
        self, metadata: Metadata, attempt: Attempt, code: str, redirect_uri: str
    ) -> Mapping[str, Any]:
        """Exchange the code for tokens."""
        settings = self._settings
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        headers: dict[str, str | Secret] = dict(_FORM)
        if settings.client_secret is not None and metadata.takes_basic_login:
            login = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}"
            headers["Authorization"] = Secret(f"Basic {base64.b64encode(login.encode()).decode()}")
        else:
            form["client_id"] = settings.client_id
            if settings.client_secret is not None:
                form["client_secret"] = settings.client_secret
        try:
            reply = await self._call("POST", metadata.token_endpoint, headers, urlencode(form).encode())
        except ServerRefusedError as refusal:
            details = refusal.details
            error = details.get("error") if isinstance(details, dict) else None
            if error == "invalid_grant":
                raise ForbiddenError(
                    "The identity provider does not accept this sign-in any more; sign in again."
                ) from None
            raise self._give_up(str(refusal)) from None
        if not isinstance(reply, dict):
            raise self._give_up("its answer to the code is not an object")
        return reply

    async def _ask_more(self, url: str, access_token: str, claims: Mapping[str, Any]) -> dict[str, Any]:
        """Return the claims that the provider says elsewhere than in the ID token."""
        headers = {"Authorization": Secret(f"Bearer {access_token}")}
        try:
            more = await self._call("GET", url, headers)
        except ServerRefusedError as refusal:
            raise self._give_up(str(refusal)) from None
        if not isinstance(more, dict) or more.get("sub") != claims["sub"]:
            raise ForbiddenError("The identity provider's two answers are about different people.")
        return more

    async def _read(self, *, newer_than: _Cached | None = None) -> _Cached:
        """Return what the provider says about itself; read again where that is too old, or is asked for."""
        async with self._reading:
            cached, moment = self._cached, self._clock()
            age = float("inf") if cached is None else moment - cached.read_at
            is_asked_for = cached is newer_than and age >= _REFRESH_SECONDS
            if cached is not None and age < _CACHE_SECONDS and not is_asked_for:
                return cached
            if moment - self._failed_at < _PATIENCE_SECONDS:
                raise _unavailable()
            settings = self._settings
            try:
                document = await self._call("GET", well_known_url(settings.issuer))
                metadata = parse_metadata(document, settings.issuer, settings.policy)
                keys = import_keys(await self._call("GET", metadata.jwks_uri))
                if not keys:
                    raise UnusableProvider("it has no keys with which it could sign")
            except (UnusableProvider, ServerRefusedError) as problem:
                self._failed_at = self._clock()
                raise self._give_up(str(problem)) from None
            except UnavailableError:
                self._failed_at = self._clock()
                raise
            self._cached = _Cached(metadata, keys, self._clock())
            return self._cached

    async def _call(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str | Secret] | None = None,
        content: bytes | None = None,
    ) -> Any:
        """Send a request to the provider; raises `ServerRefusedError` and `UnavailableError`."""
        try:
            async with ApiClient(
                base_url=url,
                policy=self._settings.policy,
                timeout=_TIMEOUT_SECONDS,
                attempts=1 if method == "POST" else 2,
                max_reply_bytes=_MAX_REPLY,
            ) as api:
                return (await api.request(method, "", content=content, headers=headers)).json()
        except ServerRefusedError:
            raise
        except (ServerError, ConfigurationError) as error:
            raise self._give_up(str(error)) from None

    def _give_up(self, problem: str) -> UnavailableError:
        """Log what is wrong, and return what the caller is told: not what it says about the own network."""
        _LOGGER.error("Nobody can sign in with the identity provider %s: %s", self._settings.issuer, problem)
        return _unavailable()


def _unavailable() -> UnavailableError:
    return UnavailableError(
        "The identity provider cannot be used at the moment; the log of the server says why. Try again, or "
        "sign in with a key.",
        retry_seconds=5,
    )


def _add_query(url: str, query: Mapping[str, str]) -> str:
    return url + ("&" if urlsplit(url).query else "?") + urlencode(query)
