"""Which items of a batch a server refuses."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final

from dokimos.errors import DokimosError, ServerRefusedError

_DIVISIBLE: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
"""Refusals that may be about one item of a batch only."""
_NAMED_ITEM: Final = re.compile(r"items\[(\d+)\]")


def is_divisible(error: DokimosError) -> bool:
    """Return whether a refusal may be about single items, so that a smaller batch may be accepted."""
    return isinstance(error, ServerRefusedError) and error.status in _DIVISIBLE


def find_culprit(error: DokimosError, count: int) -> int | None:
    """Return the place of the item that a refusal names, None where it names none."""
    if not isinstance(error, ServerRefusedError) or error.status != HTTPStatus.BAD_REQUEST:
        return None
    message = error.details.get("message") if isinstance(error.details, dict) else None
    match = _NAMED_ITEM.match(message) if isinstance(message, str) else None
    index = count if match is None else int(match[1])
    return index if index < count else None
