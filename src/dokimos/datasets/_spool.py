"""Pipes that can be read more than once."""

from __future__ import annotations

import io
import tempfile
import threading
import weakref
from collections.abc import Callable
from typing import Any, BinaryIO, Final, cast

_PIECE: Final = 1 << 18


class Spool:
    """Keeps what comes out of a pipe in a temporary file; each reader starts at the beginning.

    A reader gets what is there as soon as it is there, and never waits for more than one piece.
    """

    def __init__(self, open_pipe: Callable[[], Any], *, ours: bool) -> None:
        """Open the pipe when the first reader reads; one that is `ours` is closed at its end."""
        self._open_pipe = open_pipe
        self._ours = ours
        self._pipe: Any = None
        self._file: Any = tempfile.TemporaryFile(prefix="dokimos-", buffering=0)  # noqa: SIM115 - closed below
        self._size = 0
        self._ended = False
        self._lock = threading.Lock()
        # Not __del__, which may run when the interpreter has already taken half of its modules down.
        weakref.finalize(self, self._file.close)

    def open(self) -> BinaryIO:
        """Return a reader from the beginning on."""
        return cast("BinaryIO", io.BufferedReader(_Reader(self), _PIECE))

    def read(self, at: int, room: int) -> bytes:
        """Return up to `room` bytes from there on; none where the pipe has ended before."""
        with self._lock:
            if at >= self._size and not self._ended:
                self._take_in()
            self._file.seek(at)
            return cast("bytes", self._file.read(room))

    def size(self) -> int:
        """Wait for the end of the pipe, and return how much came out of it."""
        with self._lock:
            while not self._ended:
                self._take_in()
        return self._size

    def _take_in(self) -> None:
        if self._pipe is None:
            self._pipe = self._open_pipe()
            if self._ours:
                weakref.finalize(self, self._pipe.close)
        # read1() returns what has arrived; read() would wait for a whole piece.
        piece = getattr(self._pipe, "read1", self._pipe.read)(_PIECE)
        if not piece:
            self._ended = True
            if self._ours:
                self._pipe.close()
        self._file.seek(self._size)
        # An unbuffered file may take less than it is given.
        while piece:
            written = self._file.write(piece)
            self._size += written
            piece = piece[written:]


class _Reader(io.RawIOBase):
    """One of the readers of a spool."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._spool.read(self._at, len(buffer))
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence)
        self._at = (self._spool.size() if start is None else start) + offset
        return self._at
