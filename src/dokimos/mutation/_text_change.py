"""Show what differs between two texts that are the same for the most part."""

from __future__ import annotations

from typing import Final

_ROOM: Final = 84
_CONTEXT: Final = 24
"""Characters before the first difference that are shown."""
NOTHING: Final = "(nothing)"


def show_change(before: str, after: str) -> tuple[str, str]:
    """Return both texts on one line each, from a little before where they begin to differ."""
    first, second = " ".join(before.split()), " ".join(after.split())
    common = _common_start(first, second)
    start = max(0, common - _CONTEXT)
    if start:
        # At a word, where one is near.
        space = first.find(" ", start, common)
        start = start if space < 0 else space + 1
    return _window(first, start), _window(second, start)


def _common_start(first: str, second: str) -> int:
    shorter = min(len(first), len(second))
    return next((place for place in range(shorter) if first[place] != second[place]), shorter)


def _window(text: str, start: int) -> str:
    if not text.strip():
        return NOTHING
    part = text[start : start + _ROOM]
    head = "…" if start else ""
    tail = "…" if start + _ROOM < len(text) else ""
    return f"{head}{part}{tail}"
