"""Secrets that cannot be printed by accident, and their redaction in texts, URLs and responses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from dokimos._runtime.redaction import REDACTED, SHORTEST_SECRET

_SHORTEST: Final = 8
"""A shorter value is cut out of no text, nor is one without a digit: `ollama`, `not-needed`."""
_HARMLESS: Final = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_LOOKS_LIKE_A_KEY: Final = re.compile(
    r"\b(?:sk|pk|key|api|gsk|xai)[-_](?=[a-z_.-]*[\d*])[a-z0-9_*.-]{8,}|\bBearer\s+\S{8,}", re.IGNORECASE
)


class Secret:
    """A text that is printed, logged and exported as `[secret]`."""

    __slots__ = ("_value",)

    def __init__(self, value: str | Secret) -> None:
        self._value: str = value.reveal() if isinstance(value, Secret) else value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return REDACTED

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)


def secrets_of_headers(headers: Mapping[str, str | Secret]) -> tuple[Secret, ...]:
    """Return the values of headers, any of which may be a key, except those about the form of an answer."""
    return tuple(Secret(value) for name, value in headers.items() if name.lower() not in _HARMLESS)


def words_of(secrets: Iterable[Secret]) -> tuple[Secret, ...]:
    """Return the words of secrets: of `Bearer KEY` a server may repeat the key alone."""
    return tuple(Secret(word) for secret in secrets for word in secret.reveal().split())


def redact(text: str, secrets: Iterable[Secret] = ()) -> str:
    """Redact the given secrets in `text`, and whatever looks like a key."""
    for secret in secrets:
        value = secret.reveal()
        if _is_key(value):
            text = text.replace(value, REDACTED)
    return _LOOKS_LIKE_A_KEY.sub(REDACTED, text)


def _is_key(value: str) -> bool:
    """Tell a key from the word that is given where a server wants none: an error is short, and names it."""
    return len(value) >= SHORTEST_SECRET or (len(value) >= _SHORTEST and any(map(str.isdigit, value)))


def redact_credentials(content: bytes, secrets: Iterable[Secret]) -> bytes:
    """Redact the keys in a response: some servers send back what they were sent.

    A key has no white space and is not a URL; the words of a title are not cut out.
    """
    for secret in secrets:
        for word in secret.reveal().split():
            if len(word) >= SHORTEST_SECRET and "://" not in word:
                content = content.replace(word.encode(), REDACTED.encode())
    return content


def redact_url(url: str) -> str:
    """Redact a URL: without user, password, query and fragment, which may hold secrets."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return f"{url.partition('://')[0]}://..."
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
