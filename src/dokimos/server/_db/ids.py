"""Identifiers: UUIDs that sort by the time they were made."""

from __future__ import annotations

import os
from typing import Final
from uuid import UUID

from dokimos.server._db.clock import now

_VERSION_7: Final = 0x7 << 76
_VARIANT: Final = 0x2 << 62
_RANDOM: Final = (0xFFF << 64) | ((1 << 62) - 1)


def new_id() -> str:
    """Return a new UUID (version 7, RFC 9562) as text.

    Its first 48 bits are the time in milliseconds, so that an index over millions of them grows at its end:
    random ones would touch a page of their own for each row.
    """
    milliseconds = now() // 1000
    random = int.from_bytes(os.urandom(10)) & _RANDOM
    return _as_text((milliseconds << 80) | _VERSION_7 | _VARIANT | random)


def new_ids(count: int) -> list[str]:
    """Return new UUIDs that sort in the order of the list."""
    milliseconds = now() // 1000 << 80
    # The high random bits are a counter, so that those of one millisecond keep their order.
    start = int.from_bytes(os.urandom(1)) << 2
    tail = os.urandom(8 * count)
    return [
        _as_text(
            (milliseconds + (((start + index) >> 12) << 80))
            | _VERSION_7
            | (((start + index) & 0xFFF) << 64)
            | _VARIANT
            | (int.from_bytes(tail[8 * index : 8 * index + 8]) >> 2)
        )
        for index in range(count)
    ]


def first_id(moment: int) -> str:
    """Return the smallest identifier that something got at a time, in microseconds since 1970."""
    return _as_text(max(moment, 0) // 1000 << 80)


def time_of_id(identifier: str) -> int:
    """Return when something got its identifier, in microseconds since 1970."""
    return int(identifier.replace("-", "")[:12], 16) * 1000


def parse_id(text: str) -> str | None:
    """Return a UUID in its canonical form, None where the text is not one."""
    try:
        return str(UUID(text)) if len(text) == 36 else None
    except ValueError:
        return None


def shift_id(identifier: str, offset: int) -> str:
    """Return the identifier of the part `offset` of something, derived from the identifier of the whole."""
    tail = int(identifier[-12:], 16) ^ (offset + 1)
    return f"{identifier[:-12]}{tail:012x}"


def _as_text(number: int) -> str:
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
