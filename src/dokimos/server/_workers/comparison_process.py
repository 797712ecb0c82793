"""The process that compares runs, as the server sees it.

A comparison of 10,000 items takes a second of CPU. In a thread it would hold up every other request; in a
process of its own, one at a time and with a lower priority, it does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import pickle
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, Final

from dokimos.server._services.comparisons.comparison_jobs import ComparisonJob, ComparisonOutcome
from dokimos.server._services.errors import ServiceError, UnavailableError
from dokimos.server._settings import ServerSettings

_LOGGER: Final = logging.getLogger("dokimos.server")
_LENGTH: Final = struct.Struct(">Q")
_IDLE_SECONDS: Final = 300.0
"""After which a process that has nothing to do ends, and its memory is free."""
_MAX_SECONDS: Final = 1800.0
"""After which a comparison counts as stuck, on a database that does not answer for example."""
_ATTEMPTS: Final = 2
"""How often a comparison is tried whose process ends: it may have been killed for another reason."""
_INTERRUPTED_SECONDS: Final = 5
_MODULE: Final = "dokimos.server._workers.comparison_main"


class _StuckError(Exception):
    """A comparison that took too long."""


class ComparisonProcess:
    """Compares runs in one process, which starts when it is first needed and again when it has died.

    A process that has taken much memory ends after its answer, and the next comparison has a new one.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        # One thread talks to the process, so that jobs take turns.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dokimos-comparison")
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._waiting = 0
        self._idle: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process, None where none runs."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    async def compare(self, job: ComparisonJob) -> ComparisonOutcome:
        """Compare two runs.

        Raises:
            ServiceError: They cannot be compared so, or the process ended.
            RuntimeError: The comparison failed; the message is for the log.
        """
        if self._is_closed:
            raise UnavailableError("The server is stopping.")
        loop = asyncio.get_running_loop()
        if self._idle is not None:
            self._idle.cancel()
        self._waiting += 1
        try:
            answer = await loop.run_in_executor(self._thread, self._ask, job)
        finally:
            self._waiting -= 1
            self._idle = loop.call_later(_IDLE_SECONDS, self._stop_if_idle)
        if isinstance(answer, ComparisonOutcome):
            return answer
        if isinstance(answer, ServiceError):
            raise answer
        raise RuntimeError(f"Comparing {job.candidate_id} with {job.baseline_id} failed:\n{answer}")

    async def close(self) -> None:
        """End the process, and what it was doing."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()
        if self._idle is not None:
            self._idle.cancel()
        await asyncio.get_running_loop().run_in_executor(
            None, lambda: self._thread.shutdown(wait=True, cancel_futures=True)
        )
        self._forget()

    def _ask(self, job: ComparisonJob) -> object:
        for _ in range(_ATTEMPTS):
            process = self._start()
            try:
                answer, is_last = self._exchange(process, job)
            except _StuckError:
                self._forget()
                minutes = _MAX_SECONDS / 60
                return UnavailableError(
                    f"The comparison took more than {minutes:.0f} minutes, and was ended."
                )
            except (OSError, EOFError):
                self._forget()
                if self._is_closed:
                    break
                _LOGGER.error(
                    "The process that compares runs ended (%s) while it compared %s with %s.",
                    process.returncode,
                    job.candidate_id,
                    job.baseline_id,
                )
            else:
                if is_last:
                    self._forget()
                return answer
        return UnavailableError(
            "The comparison was interrupted, since the server is stopping or the process that compares runs "
            "was killed; ask for it again later.",
            retry_seconds=_INTERRUPTED_SECONDS,
        )

    def _exchange(self, process: subprocess.Popen[bytes], job: ComparisonJob) -> tuple[object, bool]:
        """Return the answer of the process, and whether it ends after that."""
        assert process.stdin is not None
        assert process.stdout is not None
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            process.kill()

        deadline = threading.Timer(_MAX_SECONDS, end)
        deadline.daemon = True
        deadline.start()
        try:
            write_frame(process.stdin, job)
            answer: tuple[object, bool] = read_frame(process.stdout)
        except (OSError, EOFError) as error:
            raise (_StuckError() if is_late.is_set() else error) from None
        finally:
            deadline.cancel()
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is not None:
            self._forget()
        with self._lock:
            if self._is_closed:
                raise UnavailableError("The server is stopping.")
            if self._process is None:
                try:
                    self._process = _start_process(self._settings)
                except OSError as error:  # no memory, no room for another process, or it ended at once
                    _LOGGER.error("The process that compares runs could not be started: %s", error)
                    raise UnavailableError(
                        "The process that compares runs could not be started; ask for the comparison again "
                        "later.",
                        retry_seconds=_INTERRUPTED_SECONDS,
                    ) from error
            return self._process

    def _forget(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            _end_process(process)

    def _stop_if_idle(self) -> None:
        if not self._waiting:
            self._forget()


def _start_process(settings: ServerSettings) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        # -P: what is in the current folder is not imported.
        [sys.executable, "-P", "-m", _MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    try:
        assert process.stdin is not None
        write_frame(process.stdin, settings)  # by the pipe: it holds the password of the database
    except OSError:
        _end_process(process)
        raise
    return process


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def write_frame(stream: IO[bytes], value: object) -> None:
    """Write a value with its length before it."""
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> Any:
    """Read a value that `write_frame` wrote.

    Raises:
        EOFError: The other process has ended.
    """
    (length,) = _LENGTH.unpack(_read_exactly(stream, _LENGTH.size))
    return pickle.loads(_read_exactly(stream, length))  # from a process of this server


def _read_exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data
