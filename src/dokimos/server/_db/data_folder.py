"""The folder of the SQLite files: one process at a time writes there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from dokimos._runtime.file_lock import LockTaken, ProcessLock
from dokimos.errors import ConfigurationError
from dokimos.server._settings import ServerSettings

RESTORING_SUFFIX: Final = ".restoring"
"""Of a file that a restore builds beside the one whose place it takes at its end."""


def describe_unfinished_restore(settings: ServerSettings) -> str | None:
    """Say what a restore has left that was killed, None where there is nothing."""
    if settings.database_url is not None:
        return None
    left = sorted(settings.data_dir.glob(f"*{RESTORING_SUFFIX}"))
    if not left:
        return None
    names = " and ".join(str(path) for path in left)
    return (
        f"a restore was killed, or is still running; it has left {names}. Repeat it (dokimos db restore "
        "--replace FILE): of a backup with traces, these may have been restored and the rest not. If all is "
        "as it should be, delete what is left"
    )


@contextlib.contextmanager
def hold_data_folder(settings: ServerSettings, refuse: Callable[[str], str]) -> Iterator[None]:
    """Keep other processes from writing to the SQLite files inside the block; with PostgreSQL, do nothing.

    What only reads, as the process that compares runs does, needs no lock.

    Args:
        settings: Name the folder.
        refuse: Makes the message for when another process writes there, of ` (process 4711)`, or of nothing
            where it is not known which one.

    Raises:
        ConfigurationError: Another process writes there, or the folder cannot be used.
    """
    if settings.database_url is not None:
        yield
        return
    folder = settings.data_dir
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = ProcessLock(folder / "server.lock")
    except LockTaken as taken:
        raise ConfigurationError(refuse(taken.holder)) from None
    except OSError as error:
        raise ConfigurationError(f"The database cannot be used: {folder}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()
