"""What is printed in a worker process, on its way to the process of the run.

Printed there by the worker itself, it would run into the progress line of the run, lines of several workers
would run into each other, and a notebook, a test that captures output or `redirect_stdout` would not see it.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TextIO

from dokimos.experiment._worker_messages import NO_JOB, PRINTED, encode

if TYPE_CHECKING:
    from dokimos.experiment._worker_process import Connection

_STREAMS: Final = ("stdout", "stderr")
_LONGEST_LINE: Final = 256 * 1024
"""Bytes of a line that is sent in one piece: of a longer one, `print` writes the end by itself."""
_printing = threading.Lock()
"""Held while a text of a worker is printed, so that it stays in one piece."""


def print_output(stream: str, text: str) -> None:
    """Print what a worker has printed; that nobody reads it any more ends no run."""
    target: TextIO | None = getattr(sys, stream)
    if target is None:  # as under pythonw
        return
    with contextlib.suppress(Exception), _printing:
        target.write(text)
        if not text.endswith("\n"):  # the worker has flushed a line that is not complete
            target.flush()


def send_output(connection: Connection) -> None:
    """Send what this process prints over a connection from now on."""
    for name in _STREAMS:
        stream: TextIO | None = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):
            continue  # missing, or replaced by the script with one of its own
        with contextlib.suppress(OSError):
            stream.flush()
        sent = io.TextIOWrapper(
            io.BufferedWriter(_SentOutput(name, stream, connection), _LONGEST_LINE),
            encoding=stream.encoding,  # what cannot be printed there raises in the task, as it would there
            errors=stream.errors,
            newline="\n",
            line_buffering=True,
        )
        setattr(sys, name, sent)


class SharedConnection:
    """A connection that several threads may send over, and that one may send over while it does already.

    An object that is collected while a message is on its way may print, in the midst of it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.RLock()
        self._is_sending = False
        self._waiting: deque[bytes] = deque()

    def send_bytes(self, buf: bytes, /) -> None:
        with self._lock:
            self._waiting.append(buf)
            # Between any two steps an object may be collected that prints, and so calls this.
            while self._waiting and not self._is_sending:
                self._is_sending = True
                try:
                    if self._waiting:  # which such a call has not sent just before
                        self._connection.send_bytes(self._waiting.popleft())
                finally:
                    self._is_sending = False

    def recv_bytes(self) -> bytes:
        return self._connection.recv_bytes()


class _SentOutput(io.RawIOBase):
    """Takes the place of a standard stream; for what wants a file, it is still the one that it replaces."""

    def __init__(self, name: str, replaced: TextIO, connection: Connection) -> None:
        super().__init__()
        self.name = f"<{name}>"
        self.mode = "wb"
        self._stream = name
        self._replaced = replaced
        self._connection = connection
        self._process = os.getpid()
        errors = replaced.errors or ""
        self._decoder = codecs.getincrementaldecoder(replaced.encoding)(
            errors if errors.startswith("surrogate") else "replace"
        )

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._replaced.isatty()

    def fileno(self) -> int:
        return self._replaced.fileno()

    def write(self, data: Any, /) -> int:
        content = bytes(data)
        if os.getpid() != self._process:  # a copy of this process, which must not write into the connection
            return os.write(self.fileno(), content)
        text = self._decoder.decode(content)
        try:
            if text:
                self._connection.send_bytes(encode(NO_JOB, (PRINTED, self._stream, text)))
        except OSError:  # the process of the run has gone
            return os.write(self.fileno(), content)
        return len(content)
