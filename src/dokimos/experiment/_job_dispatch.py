"""Which worker gets which job: the one with the fewest, as much as it does while messages travel."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import Final

from dokimos.experiment._remote_job import RemoteJob
from dokimos.experiment._task_calls import NotBegunError
from dokimos.experiment._worker_handle import WorkerHandle

HALVING_SECONDS: Final = 30.0
"""Suspects that take longer than that one by one are tried in halves. Each half that has the culprit costs a
worker, whose start takes two to three seconds on Ray."""
_FEW: Final = 4
"""So many are tried one by one in any case: halving would not need fewer workers."""


class JobDispatcher:
    """The jobs of a run that are not done, and the workers that are ready. Used on one event loop."""

    def __init__(self, *, jobs_at_once: int, most_ahead: int) -> None:
        self.workers: list[WorkerHandle] = []
        self.is_stopped = False
        self._failure: BaseException | None = None
        """Why there will be no worker any more."""
        self._jobs_at_once = jobs_at_once
        self._most_ahead = most_ahead
        self._waiting: deque[RemoteJob] = deque()
        """Jobs that wait until a worker may have them."""
        self._suspects: deque[Sequence[RemoteJob]] = deque()
        """Jobs during which a worker ended; each group is worked on by a worker that has nothing else."""

    def add(self, worker: WorkerHandle) -> None:
        """Give a worker that is ready its share of what there is to do."""
        worker.window.set_limits(self._jobs_at_once, self._most_ahead)
        self.workers.append(worker)
        self._give_work()
        if len(worker.jobs) < self._jobs_at_once:
            self._share_out()

    def submit(self, remote: RemoteJob) -> None:
        """Give a job to a worker, now or as soon as one may have it."""
        if self.is_stopped:
            remote.fail(NotBegunError())
            return
        if self._failure is not None:
            remote.fail(self._failure)
            return
        self._waiting.append(remote)
        self._give_waiting()

    def suspect(self, jobs: Sequence[RemoteJob], job_seconds: float) -> None:
        """Have jobs done by workers that have nothing else, since a worker may have ended because of one.

        One by one, each is done only once more; so that is done unless it takes long, as where a worker works
        on many at once. Then each half is done as a whole, and halved again if its worker ends.

        Args:
            jobs: Those that the worker may have begun with.
            job_seconds: How long one takes by itself.
        """
        if self._failure is not None:
            for remote in jobs:
                remote.fail(self._failure)
            return
        is_halved = len(jobs) > _FEW and len(jobs) * job_seconds > HALVING_SECONDS
        size = math.ceil(len(jobs) / 2) if is_halved else 1
        self._suspects.extend(jobs[start : start + size] for start in range(0, len(jobs), size))
        self._give_work()

    def take_off(self, worker: WorkerHandle, remote: RemoteJob) -> bool:
        """Note that a worker no longer has a job; False if it has ended, so that others have it."""
        if worker.jobs.pop(remote.number, None) is None:
            return False
        worker.is_reserved = worker.is_reserved and bool(worker.jobs)
        self._give_work()
        return True

    def finish(self, worker: WorkerHandle, remote: RemoteJob) -> None:
        """Note that a worker has done a job, and see that it is not without one while others wait."""
        worker.window.count_done(time.monotonic())
        self.take_off(worker, remote)
        if len(worker.jobs) < self._jobs_at_once:
            self._share_out()

    def take_back(self, worker: WorkerHandle, remote: RemoteJob) -> None:
        """Give another worker a job that one has given back."""
        if self.take_off(worker, remote):
            self.submit(remote)

    def stop(self) -> None:
        """Begin with no further job: those that have not begun raise `NotBegunError`."""
        self.is_stopped = True
        self._fail_waiting(NotBegunError())
        for worker in self.workers:
            worker.recall(list(worker.jobs))

    def break_off(self, error: BaseException) -> None:
        """Raise an error wherever a job is waited for, now and from now on: no worker is left."""
        self._failure = error
        self._fail_waiting(error)

    def _fail_waiting(self, error: BaseException) -> None:
        for remote in (*self._waiting, *chain.from_iterable(self._suspects)):
            remote.fail(error)
        self._waiting.clear()
        self._suspects.clear()

    def _give_work(self) -> None:
        """Give workers what waits: to one that has nothing else, items that may have ended another worker."""
        for worker in self.workers:
            if self._suspects and not worker.jobs:
                worker.is_reserved = True
                for remote in self._suspects.popleft():
                    self._give(worker, remote)
        self._give_waiting()

    def _give_waiting(self) -> None:
        while self._waiting:
            free = [one for one in self.workers if not one.is_reserved and len(one.jobs) < one.window.limit]
            if not free:
                return
            self._give(min(free, key=lambda one: len(one.jobs)), self._waiting.popleft())

    def _give(self, worker: WorkerHandle, remote: RemoteJob) -> None:
        if not worker.jobs:
            worker.window.begin(time.monotonic())
        remote.is_recalled = False
        worker.jobs[remote.number] = remote
        worker.send(remote.data)

    def _share_out(self) -> None:
        """Take half of what waits behind other jobs back while a worker has nothing to do."""
        if self._waiting or self._suspects:
            return
        unreserved = (worker for worker in self.workers if not worker.is_reserved)
        fullest = max(unreserved, key=lambda one: len(one.jobs), default=None)
        if fullest is None:
            return
        surplus = [job for job in list(fullest.jobs.values())[self._jobs_at_once :] if not job.is_recalled]
        recalled = surplus[len(surplus) - math.ceil(len(surplus) / 2) :]
        for remote in recalled:
            remote.is_recalled = True
        fullest.recall([remote.number for remote in recalled])
