"""Commands that read whole runs work without the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_collector() -> Iterator[None]:
    """Look for no garbage in this block, or in the function that this decorates.

    What a command loads lives as long as the command, and hardly any of it is in cycles: to look through it
    again and again takes a quarter of the time of a merge, and a third of that of a comparison
    (`benchmarks/finished_runs.py`, with and without `--collector`).
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
