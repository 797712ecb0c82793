"""The `Idempotency-Key` header: the replay of a request with the same key changes nothing."""

from __future__ import annotations

import hashlib
from typing import Annotated, Final

from fastapi import Depends, Header
from pydantic_core import to_json

from dokimos.server._services.errors import InvalidRequestError

_MAX_LENGTH: Final = 255


def check_key(key: str | None) -> str | None:
    """Return the value of the header, None for none or a blank one.

    Raises:
        InvalidRequestError: It is longer than 255 characters.
    """
    if key is None or not key.strip():
        return None
    if len(key) > _MAX_LENGTH:
        raise InvalidRequestError(f"must be at most {_MAX_LENGTH} characters", field="Idempotency-Key")
    return key


async def _read_key(idempotency_key: Annotated[str | None, Header()] = None) -> str | None:
    return check_key(idempotency_key)


IdempotencyKey = Annotated[str | None, Depends(_read_key)]
"""The key with which a client repeats a request, None where it gave none."""


def hash_body(value: object) -> str:
    """Return a hash of a parsed body, equal for equal JSON whatever the white space."""
    try:
        text = to_json(value)
    except ValueError:  # lone surrogates, which UTF-8 cannot hold
        text = repr(value).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()
