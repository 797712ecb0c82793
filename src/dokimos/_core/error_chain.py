"""An exception, and those behind it."""

from __future__ import annotations

from collections.abc import Iterator


def error_chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, what it was raised from, and so on; each once, since a chain may be a ring."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        yield found
        seen.add(id(found))
        found = found.__context__ if found.__cause__ is None else found.__cause__  # may be falsy
