"""Check an ID token: who has signed it, for whom, and for which sign-in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dokimos.server._services.errors import ForbiddenError

if TYPE_CHECKING:
    from joserfc.jwk import GuestProtocol, Key

LEEWAY_SECONDS: Final = 60
"""By how much the clocks of the provider and of this server may differ."""
_KEY_TYPES: Final = {"RS": "RSA", "ES": "EC"}
_MAX_LENGTH: Final = 100_000
_PROBLEMS: Final = {
    "iss": "it is from another issuer",
    "sub": "it does not say who somebody is",
    "aud": "it is meant for another application",
    "azp": "it was issued to another application",
    "exp": "it has expired",
    "nbf": "it is not valid yet",
    "iat": "it is from the future",
    "nonce": "it belongs to another sign-in",
    "at_hash": "it belongs to another access token",
}


class UnknownKey(Exception):
    """A token is signed with a key that the provider did not have when its keys were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What an ID token must say."""

    issuer: str
    client_id: str
    nonce: str
    algorithms: Sequence[str]
    access_token: str | None
    """What came with the token, whose hash it may hold."""


def import_keys(document: object) -> list[Key]:
    """Return the keys of a provider with which it may sign; those of other kinds are left out.

    A key that both sides would share is never among them: whoever knows the public keys could sign with one.
    """
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    found = []
    entries = document.get("keys") if isinstance(document, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        is_public = isinstance(entry, dict) and entry.get("kty") in _KEY_TYPES.values()
        if not is_public or entry.get("use", "sig") != "sig":
            continue
        try:
            found.append(import_key(entry))
        except (JoseError, ValueError, TypeError, KeyError):
            continue  # another one may be good
    return found


def verify_id_token(token: str, keys: Sequence[Key], expected: Expectation, moment: float) -> dict[str, Any]:
    """Return the claims of an ID token.

    Args:
        token: As the provider has sent it.
        keys: Those of the provider.
        expected: What it must say.
        moment: The time, in seconds since 1970.

    Raises:
        UnknownKey: It is signed with a key that is not among these.
        ForbiddenError: It cannot be trusted; the message says why.
    """
    from authlib.oidc.core import CodeIDToken
    from joserfc import jwt
    from joserfc.errors import JoseError

    def choose(guest: GuestProtocol) -> Key:
        return _choose_key(guest.headers(), keys, expected.algorithms)

    try:
        if len(token) > _MAX_LENGTH:
            raise _refuse("it is too long")
        decoded = jwt.decode(token, choose, algorithms=list(expected.algorithms))
        claims = CodeIDToken(
            decoded.claims,
            decoded.header,
            options={"iss": {"value": expected.issuer}, "aud": {"value": expected.client_id}},
            params={
                "nonce": expected.nonce,
                "client_id": expected.client_id,
                "access_token": expected.access_token,
            },
        )
        claims.validate(now=int(moment), leeway=LEEWAY_SECONDS)
    except (JoseError, ValueError, TypeError) as error:
        claim = getattr(error, "claim", None)
        raise _refuse(_PROBLEMS.get(str(claim), "its signature or its form is wrong")) from error
    return dict(claims)


def _choose_key(header: dict[str, Any], keys: Sequence[Key], algorithms: Sequence[str]) -> Key:
    """The key that a token names, of the kind that its algorithm needs."""
    algorithm = header.get("alg")
    if algorithm not in algorithms:
        raise _refuse("it is not signed as the provider announces")
    kind = _KEY_TYPES[str(algorithm)[:2]]
    fitting = [key for key in keys if key.key_type == kind and key.get("alg", algorithm) == algorithm]
    name = header.get("kid")
    if name is None:
        if len(fitting) != 1:
            raise _refuse("it does not say which key has signed it")
        return fitting[0]
    named = [key for key in fitting if key.get("kid") == name]
    if not named:
        raise UnknownKey
    return named[0]


def _refuse(problem: str) -> ForbiddenError:
    return ForbiddenError(f"The answer of the identity provider cannot be trusted: {problem}. Sign in again.")
