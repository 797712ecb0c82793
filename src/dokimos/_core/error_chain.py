"""An exception, and those behind it."""

from __future__ import annotations

from collections.abc import Iterator


def error_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, what it was raised from, and so on; each once, since a chain may be a ring."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        yield current
        seen.add(id(current))
        current = current.__context__ if current.__cause__ is None else current.__cause__  # may be falsy
