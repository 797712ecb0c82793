"""The lock of a run folder: one process at a time works on a run."""

from __future__ import annotations

from pathlib import Path

from dokimos._runtime.file_lock import LockTaken, ProcessLock
from dokimos.errors import RunLockedError


class RunLock(ProcessLock):
    """An advisory lock on a file in the run folder; the system releases it when its process dies."""

    def __init__(self, folder: Path) -> None:
        try:
            super().__init__(folder / "lock")
        except LockTaken as taken:
            raise RunLockedError(
                f"Run {folder.name} is being worked on by another process{taken.holder}; wait for it or stop "
                "it."
            ) from None
