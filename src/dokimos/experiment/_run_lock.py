"""The lock of a run folder: one process at a time works on a run."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from dokimos._runtime.file_lock import NO_LOCKS_HERE, lock_file, unlock_file
from dokimos.errors import RunLockedError


class RunLock:
    """An advisory lock on a file in the run folder; the system releases it when its process dies."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            lock_file(self._file, wait=False)
        except OSError as error:
            if error.errno in NO_LOCKS_HERE:
                return  # the file system has no locks: run without one
            holder = os.pread(self._file, 32, 0).decode() if hasattr(os, "pread") else ""
            os.close(self._file)
            who = f" (process {holder})" if holder.strip().isdigit() else ""
            raise RunLockedError(
                f"Run {folder.name} is being worked on by another process{who}; wait for it or stop it."
            ) from None
        os.ftruncate(self._file, 0)
        os.write(self._file, str(os.getpid()).encode())

    def release(self) -> None:
        """Release the lock. A process forked meanwhile holds the file too, so closing it is not enough."""
        with contextlib.suppress(OSError):
            unlock_file(self._file)
        with contextlib.suppress(OSError):
            os.close(self._file)
