"""Locks on files; the system frees them when their process dies, so no owner is ever stale.

filelock (4.2) is the library for this. It would be one more package in every install, and leaves out what a
run relies on:

- Some network file systems have no locks (ENOLCK, EOPNOTSUPP). A run still works there, without one;
  filelock raises.
- No lock file stays behind: that of a cassette stands in a folder that people commit.
- Who comes second learns which process has the lock, because `ProcessLock` writes its id into the file; and
  what is locked may be the very file that is written (`hold_exclusively`).

On Windows a byte far behind the text is locked, because nobody else can read what is locked. A process that
was forked meanwhile has the same lock, so a lock is freed before its file is closed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final

NO_LOCKS_HERE: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)
"""What some network file systems answer, which know no locks."""
TAKEN: Final = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
"""What is answered where another has the lock; on Windows also after ten seconds of waiting for it."""
POLL_SECONDS: Final = 0.05


@contextlib.contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock file inside the block, waiting for whoever has it; the file exists only meanwhile."""
    while (file := _try_acquire(path, wait=True)) is None:
        continue
    try:
        yield
    finally:
        _release(file, path)


@contextlib.asynccontextmanager
async def hold_lock_async(path: Path) -> AsyncIterator[None]:
    """Hold a lock file inside the block, as `hold_lock` does, without keeping the event loop waiting."""
    import asyncio

    while (file := _try_acquire(path, wait=False)) is None:
        await asyncio.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        _release(file, path)


def _release(file: int, path: Path) -> None:
    with contextlib.suppress(OSError):  # Windows deletes no open file: it stays, and does no harm
        path.unlink()
    with contextlib.suppress(OSError):
        unlock_file(file)
    os.close(file)


def _try_acquire(path: Path, *, wait: bool) -> int | None:
    """Return the open lock file, None where another has it or has deleted it since it was opened."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        lock_file(file, wait=wait)
    except OSError as error:
        if error.errno in NO_LOCKS_HERE:
            return file
        os.close(file)
        if error.errno in TAKEN:
            return None
        raise
    # Whoever had the lock deletes the file on release: we may have locked the deleted one.
    if _is_same_file(file, path):
        return file
    os.close(file)  # a lock on a deleted file keeps nobody out
    return None


@contextlib.contextmanager
def hold_exclusively(path: Path, *, error: Callable[[str], Exception]) -> Iterator[None]:
    """Lock a file inside the block, and create it where there is none.

    Args:
        path: The file.
        error: Makes the error that is raised when another process has the lock.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            lock_file(file, wait=False)
        except OSError as refusal:
            if refusal.errno not in NO_LOCKS_HERE:
                raise error(f"Another process is writing to {path}; wait for it or stop it.") from None
        yield
    finally:
        with contextlib.suppress(OSError):
            unlock_file(file)
        os.close(file)


class LockTaken(Exception):
    """Another process has a lock; `holder` says which, as in ` (process 4711)`, where that is known."""

    def __init__(self, holder: str) -> None:
        super().__init__(f"Another process{holder} has the lock.")
        self.holder = holder


class ProcessLock:
    """A lock for as long as a process works on something; the system releases it when the process dies.

    Args:
        path: The file to lock, whose text becomes the id of the process. It stays when the lock is released,
            which does no harm: only the lock counts. Where the file system has no locks, there is none.

    Raises:
        LockTaken: Another process has it.
        OSError: The file cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        self._file: int | None = file
        try:
            lock_file(file, wait=False)
        except OSError as error:
            if error.errno in NO_LOCKS_HERE:
                return
            os.lseek(file, 0, os.SEEK_SET)
            holder = os.read(file, 32).decode(errors="replace").strip()
            os.close(file)
            raise LockTaken(f" (process {holder})" if holder.isdigit() else "") from None
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())

    def release(self) -> None:
        """Release the lock. A process forked meanwhile holds the file too, so closing it is not enough."""
        file, self._file = self._file, None
        if file is None:  # released already, and the descriptor may be another file's by now
            return
        with contextlib.suppress(OSError):
            unlock_file(file)
        with contextlib.suppress(OSError):
            os.close(file)


def is_locked(path: Path) -> bool:
    """Say whether another holds the lock of a file; False also where that cannot be found out.

    To find out, a lock that is free is taken for a moment: ask seldom, and not about one that somebody is
    just about to take.
    """
    try:
        file = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        lock_file(file, wait=False)
        unlock_file(file)
    except OSError as error:
        return error.errno in TAKEN
    finally:
        os.close(file)
    return False


def _is_same_file(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    _LOCKED_BYTE: Final = 1 << 30
    """Far behind the text, which others can neither read nor write where it is locked."""

    def lock_file(file: int, *, wait: bool) -> None:
        """Lock an open file. Raises `OSError` where another has it, for long or at all."""
        os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        os.lseek(file, 0, os.SEEK_SET)

    def unlock_file(file: int) -> None:
        """Free an open file."""
        os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def lock_file(file: int, *, wait: bool) -> None:
        """Lock an open file. Raises `OSError` where another has it, and it is not to be waited for."""
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))

    def unlock_file(file: int) -> None:
        """Free an open file."""
        fcntl.flock(file, fcntl.LOCK_UN)
