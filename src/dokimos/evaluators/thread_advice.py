"""What to do about errors of things that belong to another thread."""

from __future__ import annotations

import re
from typing import Final

_WRONG_THREAD: Final = re.compile(
    r"\b(?:different|same|another|other|wrong|main|current|in|in a) thread\b", re.IGNORECASE
)
"""What errors say whose cause is that a thing belongs to another thread."""


def thread_advice(error: BaseException) -> str:
    """Return what to do about an error that says that something was used in the wrong thread, else ""."""
    found: BaseException | None = error
    while found is not None and not _WRONG_THREAD.search(str(found)):
        found = found.__cause__ or found.__context__
    if found is None:
        return ""
    from dokimos.core.concurrency import in_our_thread

    if not in_our_thread():
        return ""
    return (
        ". Sync evaluators run in threads: blocking=False keeps this one in the thread of the run, "
        "serial=True gives it one thread of its own."
    )
