"""What a name may be."""

from __future__ import annotations

import unicodedata
from typing import Final

from dokimos.server._services.errors import InvalidRequestError

MAX_LENGTH: Final = 255
_REFUSED: Final = ("Cc", "Cs")  # control characters, NUL among them, and lone surrogates


def check_name(name: str, field: str) -> str:
    """Return a name that is 1 to 255 characters without control characters, and not `.` or `..`.

    Everything else is allowed, slashes, percent signs and right-to-left marks too: a name is data, and
    clients percent-encode it in paths. `.` and `..` would not survive that: clients and proxies resolve them.

    Raises:
        InvalidRequestError: The name cannot be used; the message begins with `field`.
    """
    if not name.strip():
        raise InvalidRequestError("must not be blank", field=field)
    if len(name) > MAX_LENGTH:
        raise InvalidRequestError(f"must be at most {MAX_LENGTH} characters, not {len(name)}", field=field)
    if name in (".", ".."):
        raise InvalidRequestError("must not be '.' or '..'", field=field)
    if any(unicodedata.category(sign) in _REFUSED for sign in name):
        raise InvalidRequestError("must not contain control characters", field=field)
    return name
