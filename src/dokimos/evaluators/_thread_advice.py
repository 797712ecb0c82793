"""What to do about errors of things that belong to another thread."""

from __future__ import annotations

import re
from typing import Final

from dokimos._core.error_chain import error_chain
from dokimos._core.text import plain_message

_WRONG_THREAD: Final = re.compile(
    r"\b(?:different|same|another|other|wrong|main|current|in|in a) thread\b", re.IGNORECASE
)
"""What errors say whose cause is that a thing belongs to another thread."""


def thread_advice(error: BaseException) -> str:
    """Return what to do about an error that says that something was used in the wrong thread, else ""."""
    if not any(_WRONG_THREAD.search(plain_message(one)) for one in error_chain(error)):
        return ""
    from dokimos._runtime.concurrency import is_worker_thread

    # In the thread of the run the advice would be wrong, whatever the text says.
    if not is_worker_thread():
        return ""
    return (
        ". Sync evaluators run in threads: blocking=False keeps this one in the thread of the run, "
        "serial=True gives it one thread of its own."
    )
