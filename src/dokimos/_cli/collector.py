"""Commands that read whole runs work without the garbage collector, and a process ends without it."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from dokimos._cli.finalizers import may_notice_end
from dokimos._runtime.start_collector import start_collector

_PACKAGES: Final = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")
_PYTHON_AND_OURS: Final = (
    os.path.dirname(os.__file__) + os.sep,
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
)


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


def skip_last_collections() -> None:
    """Let the process end without collecting garbage, unless code of the user is loaded.

    As it ends, Python takes apart all modules and collects what is in cycles, only for the system to take
    the memory back: a tenth of the CPU of `dokimos evaluators` (`benchmarks/install_budget.py`) and a fifth
    of that of a suite with a declared agent (`benchmarks/suites_agent.py`). But it also writes out and closes
    files that are still open, which a user's class may rely on.
    """
    with suppress(Exception):  # anything may stand in for a module, also what cannot be looked at
        if not _has_user_code():
            gc.freeze()


def skip_unnoticed_collections() -> None:
    """Do so with code of the user too, if nothing of it is left whose end could be noticed.

    To be called as the last of what `atexit` calls, since others may open something too.
    """
    with suppress(Exception, KeyboardInterrupt):  # Ctrl-C comes too late here
        if not may_notice_end():
            gc.freeze()


def _has_user_code() -> bool:
    """Whether a module was imported that the user names, or that is not of Python or an installed package."""
    if start_collector.has_user_code:
        return True
    main = sys.modules.get("__main__")  # the script that starts the command, wherever it was installed
    # Not getattr: some modules import others when they are asked for what they have not.
    files = (
        getattr(module, "__dict__", {}).get("__file__")
        for module in list(sys.modules.values())
        if module is not main
    )
    return any(
        isinstance(file, str)
        and not file.startswith(_PYTHON_AND_OURS)
        and not any(folder in file for folder in _PACKAGES)
        for file in files
    )
