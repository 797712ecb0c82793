"""Texts of requests as the description of the API shows them; the services check them."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BeforeValidator, Field
from pydantic.config import JsonDict

from dokimos.server._db.clock import parse_time
from dokimos.server._services.projects.names import MAX_LENGTH

_SIGN: Final = r"[^\u0000-\u001f\u007f-\u009f]"
NAME_SCHEMA: Final[JsonDict] = {
    "minLength": 1,
    "maxLength": MAX_LENGTH,
    "pattern": rf"^{_SIGN}*[^\s\u0000-\u001f\u007f-\u009f]{_SIGN}*$",
}
Name = Annotated[str, Field(json_schema_extra=NAME_SCHEMA)]
"""A name: not blank, without control characters."""
Id = Annotated[str, Field(json_schema_extra={"format": "uuid"})]
"""An id that a body holds."""


def _parse_moment(value: object) -> int:
    try:
        return parse_time(value if isinstance(value, str) else "")
    except (ValueError, OverflowError):
        raise ValueError("must be a time in ISO 8601 with its offset, such as 2026-11-22T09:30:00Z") from None


Moment = Annotated[
    int, BeforeValidator(_parse_moment), Field(json_schema_extra={"type": "string", "format": "date-time"})
]
"""A time in ISO 8601, as microseconds since 1970."""
