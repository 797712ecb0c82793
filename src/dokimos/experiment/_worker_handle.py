"""One worker process as the process of the run sees it: started, written to, read from and ended."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from dokimos._runtime.file_access import files_read
from dokimos.errors import ConfigurationError
from dokimos.experiment._worker_messages import END, FAILED, NO_JOB, RECALL, decode, encode

if TYPE_CHECKING:
    from dokimos.experiment._remote_job import RemoteJob

WORKER_NAME: Final = "dokimos-worker"
_END_SECONDS: Final = 2.0
"""How long workers get to end by themselves."""


class WorkerHandle:
    """One process, with a thread that writes to it and one that reads from it."""

    def __init__(self, number: int) -> None:
        from dokimos.experiment._worker_process import run_worker

        self.number = number
        self.jobs: dict[int, RemoteJob] = {}
        """What it has been given and not done yet, oldest first."""
        self.is_reserved = False
        """Whether it works on an item that ended another worker, and gets no other meanwhile."""
        self._is_heard = False
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        context = multiprocessing.get_context("spawn")
        self._connection, self._other_end = context.Pipe()
        name = f"{WORKER_NAME}-{number}"
        self._process = context.Process(target=run_worker, args=(self._other_end,), name=name)

    def start(self) -> None:
        """Start the process."""
        with _interrupts_blocked():
            self._process.start()
        self._other_end.close()

    def prepare(self, setup: bytes, advice: str) -> None:
        """Wait until it has imported the task.

        Raises:
            ConfigurationError: where it does not get there; `advice` says what to do where it ended.
        """
        try:
            self._connection.send_bytes(encode(NO_JOB, (bool(files_read.started_ns),)))
            self._connection.send_bytes(setup)
            message = decode(self._connection.recv_bytes())
        except (EOFError, OSError):
            ended = f"A worker process ended before it was ready: {self.describe_end()}."
            raise ConfigurationError(f"{ended} {advice}".rstrip()) from None
        if message[0] == FAILED:
            raise ConfigurationError(
                f"A worker process cannot import the task or an evaluator: {message[1]}. Put them at the top "
                "level of a module that can be imported, or run with processes=1."
            )

    def listen(
        self, on_message: Callable[[WorkerHandle, bytes], None], on_end: Callable[[WorkerHandle], None]
    ) -> None:
        """Start the threads; what they call hears each message, and that the process has ended."""
        self._is_heard = True
        for target, args in ((self._read, (on_message, on_end)), (self._write, ())):
            threading.Thread(target=target, args=args, name=f"dokimos-{target.__name__}", daemon=True).start()

    def send(self, data: bytes) -> None:
        self._outbox.put(data)

    def recall(self, numbers: list[int]) -> None:
        """Ask it to give jobs back, as far as it has not begun with them."""
        if numbers:
            self._outbox.put(encode(NO_JOB, (RECALL, numbers)))

    def end(self) -> None:
        """Tell it to end: at once if it is working on something."""
        if not self._is_heard:  # the others could not be started
            self.kill()
            return
        self._outbox.put(encode(NO_JOB, (END,)))
        self._outbox.put(None)

    def kill(self) -> None:
        """End it at once."""
        with contextlib.suppress(ValueError, AttributeError):  # it was never started
            self._process.kill()
            self._process.join()

    def join(self, deadline: float) -> None:
        """Wait until it has ended; kill it where it has not by then, by the monotonic clock."""
        self._process.join(max(deadline - time.monotonic(), 0.0))
        if self._process.is_alive():
            self.kill()

    @property
    def has_ended(self) -> bool:
        return self._process.exitcode is not None

    def describe_end(self) -> str:
        """Say how it ended, such as "killed by SIGKILL"."""
        self._process.join(_END_SECONDS)
        code = self._process.exitcode
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"

    def _read(
        self, on_message: Callable[[WorkerHandle, bytes], None], on_end: Callable[[WorkerHandle], None]
    ) -> None:
        try:
            while True:
                on_message(self, self._connection.recv_bytes())
        except (EOFError, OSError):
            pass
        finally:
            on_end(self)

    def _write(self) -> None:
        # In a thread of its own: a worker that computes may not read for a while.
        while (data := self._outbox.get()) is not None:
            try:
                self._connection.send_bytes(data)
            except OSError:
                return  # it has ended, as the other thread hears, too


def end_workers(workers: list[WorkerHandle]) -> None:
    """End workers, all at once; those that do not end by themselves in two seconds are killed."""
    for worker in workers:
        worker.end()
    deadline = time.monotonic() + _END_SECONDS
    for worker in workers:
        worker.join(deadline)


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
