"""The folder of the SQLite files: one process at a time writes there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from dokimos._runtime.file_lock import LockTaken, ProcessLock
from dokimos.errors import ConfigurationError
from dokimos.server._settings import ServerSettings


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
