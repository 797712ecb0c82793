"""Holding back the collection of garbage while much is made that lasts."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_held_back() -> Iterator[None]:
    """Let no garbage be looked for: modules and schemas are none, and looking costs a tenth of their import.

    What was made counts as old afterwards, so that the next search does not go through it either. Collection
    is one for all threads; where several hold it back at once, the first one to end lets it go on. What code
    in the block says of collection itself holds afterwards, too.
    """
    first, *others = gc.get_threshold()
    gc.set_threshold(0, *others)
    try:
        yield
    finally:
        if first and not gc.get_threshold()[0]:
            if not gc.get_freeze_count():  # what somebody froze stays so
                gc.freeze()
                gc.unfreeze()  # to the oldest generation
            gc.set_threshold(first, *others)
