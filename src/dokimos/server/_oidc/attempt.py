"""What a browser keeps between the two halves of a sign-in: the one here, and the one at the provider."""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import unquote

from dokimos.server._db.clock import MINUTE, SECOND, now
from dokimos.server._services.accounts.secret_hash import hash_secret
from dokimos.server._services.errors import InvalidRequestError

ATTEMPT_SECONDS: Final = 600
"""How long somebody may take at the identity provider."""
_PARTS: Final = 4
_MAX_PATH: Final = 1000
_REFUSED_IN_PATHS: Final = re.compile("[\\x00-\\x20\\x7f\\\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A sign-in that was begun.

    It is kept in a cookie that only this browser has, and nowhere else: so whoever never finishes costs
    nothing, and any server that shares the database can finish it. The answer of the provider is accepted
    only together with it. Whoever forges one gains nothing: each part only makes an answer harder to accept.
    """

    state: str
    """What the provider's answer must repeat."""
    nonce: str
    """What the ID token must repeat."""
    verifier: str
    """The secret of which the provider knows the hash (PKCE): a stolen code is worth nothing without it."""
    return_to: str
    """The path to go to afterwards."""
    begun_at: int

    @classmethod
    def begin(cls, return_to: str) -> Self:
        """Return a new attempt."""
        texts = [secrets.token_urlsafe(32) for _ in range(3)]
        return cls(state=texts[0], nonce=texts[1], verifier=texts[2], return_to=return_to, begun_at=now())

    @property
    def challenge(self) -> str:
        """The hash of the verifier, as the provider is told it."""
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        return str(create_s256_code_challenge(self.verifier))

    @property
    def state_hash(self) -> str:
        """What is kept of an attempt that has succeeded."""
        return hash_secret(self.state)

    def dump(self) -> str:
        """Return it as the value of a cookie."""
        parts = [self.state, self.nonce, self.verifier, self.return_to, self.begun_at]
        return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")

    @classmethod
    def load(cls, text: str) -> Self | None:
        """Read what `dump` wrote; None for something else, and for an attempt that took too long."""
        try:
            parts = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            *texts, begun_at = parts
        except (ValueError, TypeError, binascii.Error):
            return None
        is_attempt = len(texts) == _PARTS and all(isinstance(each, str) for each in texts)
        if not is_attempt or not isinstance(begun_at, int) or not all(texts[:3]):
            return None
        if not -MINUTE <= now() - begun_at <= ATTEMPT_SECONDS * SECOND:
            return None
        state, nonce, verifier, return_to = texts
        return cls(state=state, nonce=nonce, verifier=verifier, return_to=return_to, begun_at=begun_at)


def check_return_path(path: str) -> str:
    """Return a path of this server to go to after signing in.

    Raises:
        InvalidRequestError: It leads, or a browser would take it, to another site.
    """
    # Browsers drop tabs, line breaks and parts that are dots, and take a backslash for a slash; two slashes
    # begin a host.
    parts = re.split("[?#]", path, maxsplit=1)[0].split("/")
    is_odd = "" in parts[1:-1] or any(unquote(part) in (".", "..") for part in parts)
    is_local = path.startswith("/") and not is_odd and not _REFUSED_IN_PATHS.search(path)
    if not is_local or len(path) > _MAX_PATH:
        raise InvalidRequestError("must be a path of this server, such as /projects", field="returnTo")
    return path
