"""Workers that are processes of this machine, each at the other end of a pipe."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from typing import Final

from dokimos._core.text import error_text
from dokimos._runtime.file_access import files_read
from dokimos.errors import ConfigurationError
from dokimos.experiment._worker_handle import END_SECONDS, WorkerHandle
from dokimos.experiment._worker_messages import END, FAILED, NO_JOB, PRINTED, decode, decode_number, encode
from dokimos.experiment._worker_output import print_output
from dokimos.experiment._worker_script import SCRIPT_ADVICE, WORKER_NAME, is_worker

_READ_SECONDS: Final = 0.5
"""How long to read what a worker has sent that has ended: a process that it has started may hold its pipe."""
_KILL_ADVICE: Final = "Where memory runs out, a process is killed, too: run with fewer of them."
_TOO_MANY: Final = (
    "Run with fewer processes, or raise what this machine allows (ulimit -n and ulimit -u say what)."
)


class ProcessHost:
    """This machine, on which worker processes are started."""

    advice = SCRIPT_ADVICE
    announcement = ""
    waits_for_all = True

    def open(self) -> None:
        if is_worker():
            raise ConfigurationError(
                "This run was started in a worker process of another one, by its task or an evaluator, and "
                "cannot have workers, too. Run it with processes=1."
            )

    def create(self, number: int) -> ProcessHandle:
        return ProcessHandle(number)

    def close(self) -> None:
        """Nothing is left when the workers have ended."""


class ProcessHandle(WorkerHandle):
    """One process."""

    def __init__(self, number: int) -> None:
        from dokimos.experiment._worker_process import run_worker

        super().__init__(number)
        context = multiprocessing.get_context("spawn")
        with _describing_limits(number):
            self._connection, self._other_end = context.Pipe()
        name = f"{WORKER_NAME}-{number}"
        self._process = context.Process(target=run_worker, args=(self._other_end,), name=name)

    def start(self) -> None:
        try:
            with _describing_limits(self.number), _interrupts_blocked():
                self._process.start()
        finally:
            self._other_end.close()

    def prepare(self, setup: bytes, advice: str) -> None:
        try:
            self._connection.send_bytes(encode(NO_JOB, (bool(files_read.started_ns),)))
            self._connection.send_bytes(setup)
            while (message := decode(self._connection.recv_bytes()))[0] == PRINTED:
                print_output(*message[1:])
        except (EOFError, OSError):
            ended = f"A worker process ended before it was ready: {self.describe_end()}."
            if self._was_killed:
                advice = _KILL_ADVICE if advice else ""
            raise ConfigurationError(f"{ended} {advice}".rstrip()) from None
        if message[0] == FAILED:
            raise ConfigurationError(
                f"A worker process cannot import the task or an evaluator: {message[1]}. Put them at the top "
                "level of a module that can be imported, or run with processes=1."
            )

    def end(self) -> None:
        if not self._threads:  # the others could not be started
            self.kill()
            return
        self._outbox.put(encode(NO_JOB, (END,)))
        self._outbox.put(None)

    def kill(self) -> None:
        with contextlib.suppress(ValueError, AttributeError):  # it was never started
            self._process.kill()
            self._process.join()

    def join(self, deadline: float) -> None:
        self._process.join(max(deadline - time.monotonic(), 0.0))
        if self._process.is_alive():
            self.kill()
        for reader in self._threads[:1]:  # so that what it printed last is not printed later than that
            reader.join(_READ_SECONDS)

    @property
    def has_ended(self) -> bool:
        return self._process.exitcode is not None

    @property
    def _was_killed(self) -> bool:
        """Whether a signal ended it, so that it is not what the script does."""
        return (self._process.exitcode or 0) < 0

    def describe_end(self) -> str:
        self._process.join(END_SECONDS)
        code = self._process.exitcode
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"

    def _read(self, on_message: Callable[[bytes], None]) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                data = self._connection.recv_bytes()
                if decode_number(data) == NO_JOB:
                    print_output(*decode(data)[1:])
                else:
                    on_message(data)

    def _write(self) -> None:
        # In a thread of its own: a worker that computes may not read for a while.
        while (data := self._outbox.get()) is not None:
            try:
                self._connection.send_bytes(data)
            except OSError:
                return  # it has ended, as the other thread hears, too


@contextlib.contextmanager
def _describing_limits(number: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # no file, process or memory is left
        problem = f"Worker process {number} cannot be started: {error_text(error)}."
        raise ConfigurationError(f"{problem} {_TOO_MANY}") from error


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes that hear nothing of Ctrl-C before they can say that it is not theirs."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # else the start does that, and lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
