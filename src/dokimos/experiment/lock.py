"""One process at a time on one run."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path
from typing import Final

from dokimos.errors import RunLockedError

_NO_LOCKS_HERE: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Some network file systems; a run there goes on without a lock."""


class RunLock:
    """An advisory lock on a file in the run folder; the system frees it when its process dies."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(self._file)
        except OSError as error:
            if error.errno in _NO_LOCKS_HERE:
                return
            holder = os.pread(self._file, 32, 0).decode() if hasattr(os, "pread") else ""
            os.close(self._file)
            who = f" (process {holder})" if holder.strip().isdigit() else ""
            raise RunLockedError(
                f"Run {folder.name} is being worked on by another process{who}; wait for it or stop it."
            ) from None
        os.ftruncate(self._file, 0)
        os.write(self._file, str(os.getpid()).encode())

    def release(self) -> None:
        """Free the run. A process that was forked meanwhile holds the file too, so closing is not enough."""
        with contextlib.suppress(OSError):
            _unlock(self._file)
        with contextlib.suppress(OSError):
            os.close(self._file)


if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        # A byte far behind the text, so that others can still read who holds the lock.
        os.lseek(file, 1 << 20, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        os.lseek(file, 0, os.SEEK_SET)

    def _unlock(file: int) -> None:
        os.lseek(file, 1 << 20, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)
