"""One worker as the process of the run sees it: started, written to, read from and ended."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from queue import SimpleQueue
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from dokimos._runtime.time_limits import retrieve_exception
from dokimos.errors import ConfigurationError, RunError
from dokimos.experiment._job_window import JobWindow
from dokimos.experiment._worker_messages import NO_JOB, RECALL, encode

if TYPE_CHECKING:
    from dokimos.experiment._remote_job import RemoteJob

END_SECONDS: Final = 2.0
"""How long workers get to end by themselves."""


class WorkerHandle(ABC):
    """One worker, with a thread that writes to it and one that reads from it.

    Whatever carries the messages has to keep this:

    - Messages arrive whole, at most once, and in the order in which they were sent.
    - `prepare` sends whether files that are read are recorded, then the setup, and waits for the answer.
    - `_read` returns once the worker has ended and what it had sent has been passed on, never by raising.
    - `_write` never waits for the worker to be idle; messages for one that has ended are dropped.
    - The worker ends when the process of the run does, however that ends.
    - `kill` may be called before `start`, from any thread, and more than once.
    """

    delivers_before_end: ClassVar[bool] = True
    """Whether all that a worker had sent is read, even if it is killed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.jobs: dict[int, RemoteJob] = {}
        """What it has been given and not done yet, oldest first."""
        self.window: JobWindow = JobWindow()
        """How much it is given at once."""
        self.is_reserved = False
        """Whether it works on items that may have ended another worker, and gets no other meanwhile."""
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    @abstractmethod
    def start(self) -> None:
        """Have it started, without waiting for it."""

    @abstractmethod
    def prepare(self, setup: bytes, advice: str) -> None:
        """Wait until it has imported the task.

        Raises:
            ConfigurationError: where no other one would get there either; `advice` says what to do.
            RunError: where another one might.
        """

    def listen(
        self, on_message: Callable[[WorkerHandle, bytes], None], on_end: Callable[[WorkerHandle], None]
    ) -> None:
        """Start the threads; what they call hears each message, and that the worker has ended."""

        def read() -> None:
            try:
                self._read(lambda data: on_message(self, data))
            finally:
                on_end(self)

        for name, target in (("read", read), ("write", self._write)):
            thread = threading.Thread(target=target, name=f"dokimos-worker-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def send(self, data: bytes) -> None:
        self._outbox.put(data)

    def recall(self, numbers: list[int]) -> None:
        """Ask it to give jobs back, as far as it has not begun with them."""
        if numbers:
            self._outbox.put(encode(NO_JOB, (RECALL, numbers)))

    def hang_up(self) -> None:
        """Let the thread that writes to it end, once it has ended."""
        self._outbox.put(None)

    @abstractmethod
    def end(self) -> None:
        """Tell it to end: at once if it is working on something."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once."""

    @abstractmethod
    def join(self, deadline: float) -> None:
        """Wait until it has ended; kill it where it has not by then, by the monotonic clock."""

    @property
    @abstractmethod
    def has_ended(self) -> bool: ...

    @property
    def was_preempted(self) -> bool:
        """Whether it ended with the machine that it ran on, so that no item is to blame."""
        return False

    @abstractmethod
    def describe_end(self) -> str:
        """Say how it ended, such as "killed by SIGKILL"."""

    @abstractmethod
    def _read(self, on_message: Callable[[bytes], None]) -> None:
        """Read until it has ended."""

    @abstractmethod
    def _write(self) -> None:
        """Send what is in the outbox until a None is there, or the worker has ended."""


class HostLostError(RunError):
    """What workers run on cannot be reached any more, so that starting another one is of no use."""


class WorkerHost(Protocol):
    """What the workers of one run are started on. All of it may block."""

    advice: str
    """What to do where a worker ends before it is ready."""
    announcement: str
    """What is said while they are started; empty where that takes a moment only."""
    waits_for_all: bool
    """Whether a run begins only with all workers; else as soon as one is ready."""

    def open(self) -> None:
        """Get ready. Raises `ConfigurationError`, and a missing extra."""

    def create(self, number: int) -> WorkerHandle:
        """Return a worker that is not started yet."""

    def close(self) -> None:
        """Let go of everything, after the workers have ended."""


def end_workers(workers: list[WorkerHandle]) -> None:
    """End workers, all at once; those that do not end by themselves in two seconds are killed."""
    for worker in workers:
        worker.end()
    deadline = time.monotonic() + END_SECONDS
    for worker in workers:
        worker.join(deadline)


async def wait_for_first(starts: Collection[asyncio.Future[WorkerHandle]]) -> None:
    """Wait until one of the workers is ready.

    Raises:
        ConfigurationError: One says that none will be.
        RunError: None of them has got there.
    """
    for start in starts:  # one that fails after another one has is heard of by nobody
        start.add_done_callback(retrieve_exception)
    waiting = set(starts)
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        problems = [start.exception() for start in done]
        if None in problems:
            return
        for problem in problems:
            if problem is not None and (not waiting or isinstance(problem, ConfigurationError)):
                raise problem
