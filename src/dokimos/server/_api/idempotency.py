"""The `Idempotency-Key` header."""

from __future__ import annotations

import hashlib
from typing import Annotated, Final

from fastapi import Depends, Header
from pydantic_core import to_json

from dokimos.server._services.errors import InvalidRequestError

_MAX_LENGTH: Final = 255


async def _read_key(idempotency_key: Annotated[str | None, Header()] = None) -> str | None:
    if idempotency_key is None or not idempotency_key.strip():
        return None
    if len(idempotency_key) > _MAX_LENGTH:
        raise InvalidRequestError(f"must be at most {_MAX_LENGTH} characters", field="Idempotency-Key")
    return idempotency_key


IdempotencyKey = Annotated[str | None, Depends(_read_key)]
"""The key with which a client repeats a request, None where it gave none."""


def hash_body(value: object) -> str:
    """Return a hash of a parsed body, equal for equal JSON whatever the white space."""
    try:
        text = to_json(value)
    except ValueError:  # lone surrogates, which UTF-8 cannot hold
        text = repr(value).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()
