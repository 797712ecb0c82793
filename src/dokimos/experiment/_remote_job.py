"""An item in the hands of a worker process, and what comes back of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, NamedTuple

from dokimos._core.results import EvalResult
from dokimos.experiment._task_calls import ItemSink, TaskOutcome
from dokimos.experiment._worker_messages import Job, encode


class TaskStaysError(Exception):
    """The task is called in the process of the run; `for_all` says whether for all items."""

    def __init__(self, *, for_all: bool) -> None:
        super().__init__()
        self.for_all = for_all


class Scored(NamedTuple):
    """What a worker has made of the outputs of an item."""

    results: tuple[EvalResult, ...] = ()
    here: tuple[int, ...] = ()
    """The places of evaluators that have to score in the process of the run."""
    for_all: bool = False
    """Whether they score all other items there, too."""


@dataclass(slots=True, eq=False)
class RemoteJob:
    """An item in the hands of a worker."""

    number: int
    job: Job
    sink: ItemSink | None
    """Receives what the task returned, in the thread that reads it."""
    outcome: asyncio.Future[TaskOutcome]
    done: asyncio.Future[Scored]
    is_outcome_awaited: bool = True
    """Whether what the task returned is of use before the job is done."""
    data: bytes = b""
    """What the worker is sent."""
    received: TaskOutcome | None = None
    deaths: int = 0
    """Workers that ended while it was being worked on."""
    moves: int = 0
    """Workers that were taken away with their machine while they had it."""
    is_recalled: bool = False
    """Whether its worker was asked to give it back."""

    def receive(self, outcome: TaskOutcome) -> None:
        """Write down what the task returned, in the thread that reads it."""
        if self.sink is not None:
            self.sink(outcome)
        self.received = outcome

    def report_outcome(self) -> None:
        """Say what the task returned where that is waited for, if it has."""
        if self.received is not None:
            settle(self.outcome, self.received)

    def fail(self, error: BaseException) -> None:
        """Raise an error where the item is waited for."""
        for future in (self.outcome, self.done):
            if not future.done():
                future.set_exception(error)
                future.exception()  # asyncio need not report one that nobody waits for

    def hand_back(self, *, for_all: bool) -> None:
        """Let the process of the run do what this job was to do."""
        if self.outcome.done():
            settle(self.done, Scored((), self.job.evaluators, for_all))
        else:
            self.fail(TaskStaysError(for_all=for_all))

    def encode(self) -> None:
        """Encode what the worker is sent. Raises whatever pickling it raises."""
        job, received = self.job, self.received
        if received is not None:
            job = job._replace(outputs=dict(received.outputs), metrics=received.metrics)
        elif self.data:
            return
        self.data = encode(self.number, job)

    def can_be_sent(self) -> bool:
        """Encode it anew, with what has been received of it; False where that cannot be pickled."""
        try:
            self.encode()
        except Exception:  # pickling runs users' code
            return False
        return True


def settle(future: asyncio.Future[Any], result: object) -> None:
    """Give a future its result, unless it was cancelled or has one."""
    if not future.done():
        future.set_result(result)
