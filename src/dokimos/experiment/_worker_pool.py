"""The worker processes of a run: started before it, given its items, replaced where one ends.

What asks models stays in the process of the run, so that there is one account, one cache and one pace for all
calls: async tasks, evaluators with a judge, and whatever a worker finds to ask one. The journal is written
here, too: outputs by the threads that read from the workers, as soon as they arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import multiprocessing.util
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from dokimos._core.example import Example
from dokimos._core.results import EvalResult
from dokimos._core.text import pluralize
from dokimos._core.tracebacks import format_located_error
from dokimos._runtime.concurrency import call_in_thread, post_to_loop
from dokimos._runtime.file_access import files_read
from dokimos.errors import ConfigurationError, RunError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._outcomes import error_result
from dokimos.experiment._remote_job import RemoteJob, Scored, settle
from dokimos.experiment._task_calls import ItemSink, NotBegunError, TaskCaller, TaskOutcome
from dokimos.experiment._worker_handle import WORKER_NAME, WorkerHandle, end_workers
from dokimos.experiment._worker_messages import (
    NO_JOB,
    OUTCOME,
    RAISED,
    RETURNED,
    UNREADABLE,
    Job,
    decode,
    decode_number,
)
from dokimos.experiment._worker_setup import WorkerSetup

JOBS_AHEAD: Final = 3
"""How many items wait in a worker, so that it never waits for the process of the run."""
MOST_DEATHS: Final = 2
"""An item that was being worked on when so many workers ended is an error."""
_LOOK_SECONDS: Final = 1.0
"""How often to look whether silent workers are still there."""
_MAIN_ADVICE: Final = (
    "A script that starts a run has to be a file that each worker imports, with what starts the run under "
    "if __name__ == '__main__':."
)


class WorkerPool:
    """The workers of one run. All but `close` is called on its event loop."""

    def __init__(self, setup: WorkerSetup, caller: TaskCaller, *, count: int, parallelism: int) -> None:
        """Plan so many workers; none is started yet.

        Args:
            setup: What they are told.
            caller: Which counts their calls and knows prices.
            count: How many there are.
            parallelism: How many items may be worked on in the process of the run.

        Raises:
            ConfigurationError: if the task cannot be pickled.
        """
        self.calls_task = setup.task is not None
        """Whether the workers call the task."""
        self.here = asyncio.Semaphore(parallelism)
        """What is done in the process of the run takes a place of it."""
        self._setup = setup.encode()
        self._evaluators = setup.evaluators
        self._places = {id(evaluator): place for place, evaluator in enumerate(setup.evaluators)}
        self._caller = caller
        self._count = count
        self._jobs_at_once = setup.jobs_at_once
        self._workers: list[WorkerHandle] = []
        self._starting: set[WorkerHandle] = set()
        self._opening = threading.Lock()
        """Held while a process is started or all are ended, so that none is left behind."""
        self._waiting: list[RemoteJob] = []
        """Jobs that wait until a worker is free for them."""
        self._suspects: list[RemoteJob] = []
        """Jobs during which a worker ended; each is worked on by a worker that has nothing else."""
        self._last_number = NO_JOB
        self._input_keys: frozenset[str] | None = None
        self._replacements: set[asyncio.Task[None]] = set()
        self._failures = 0
        """Workers that ended without having worked on anything, since the last job was done."""
        self._is_stopped = False
        self._is_closed = False

    @property
    def items_at_once(self) -> int:
        """How many items are going on, those that wait in the workers included."""
        return self._count * (self._jobs_at_once + JOBS_AHEAD)

    async def open(self) -> None:
        """Start the workers and wait until they have imported the task.

        Raises:
            ConfigurationError: if they cannot.
        """
        if multiprocessing.current_process().name.startswith(WORKER_NAME):
            raise ConfigurationError(f"This run was started by a worker process of another. {_MAIN_ADVICE}")
        self._loop = asyncio.get_running_loop()
        # Before the standard library waits for them at exit, in a program whose main thread ends first.
        self._finalizer = multiprocessing.util.Finalize(None, self.close, exitpriority=10)
        numbers = range(1, self._count + 1)
        starts = [call_in_thread(self._start_worker, number, _MAIN_ADVICE) for number in numbers]
        for worker in await asyncio.gather(*starts):
            self._adopt(worker)
        self._loop.call_later(_LOOK_SECONDS, self._look_after_workers, ())

    def set_input_keys(self, keys: frozenset[str] | None) -> None:
        """Say which names of inputs decide how the task is called."""
        self._input_keys = keys

    def takes(self, evaluator: Evaluator) -> bool:
        """Say whether the workers score with an evaluator."""
        return id(evaluator) in self._places

    def evaluators_at(self, places: Sequence[int]) -> list[Evaluator]:
        return [self._evaluators[place] for place in places]

    def keep(self, evaluators: Sequence[Evaluator]) -> None:
        """Score with these evaluators in the process of the run from now on."""
        for evaluator in evaluators:
            self._places.pop(id(evaluator), None)

    def submit(
        self,
        run_index: int,
        example: Example,
        evaluators: Sequence[Evaluator],
        *,
        sink: ItemSink | None = None,
        outcome: TaskOutcome | None = None,
    ) -> RemoteJob:
        """Give an item to the worker that has the fewest; `outcome` is of a task that was called already.

        Raises whatever pickling the item raises.
        """
        places = tuple(self._places[id(evaluator)] for evaluator in evaluators)
        job = Job(run_index, example, places, self._input_keys)
        self._last_number += 1
        remote = RemoteJob(
            self._last_number, job, sink, self._loop.create_future(), self._loop.create_future()
        )
        if outcome is not None:
            remote.received = outcome
            remote.outcome.set_result(outcome)
        if self._is_stopped:
            remote.fail(NotBegunError())
            return remote
        remote.encode()
        self._assign(remote)
        return remote

    def stop(self) -> None:
        """Begin with no further item: those that have not begun raise `NotBegunError`."""
        self._is_stopped = True
        for remote in (*self._waiting, *self._suspects):
            remote.fail(NotBegunError())
        self._waiting, self._suspects = [], []
        for worker in self._workers:
            worker.recall(list(worker.jobs))

    def close(self) -> None:
        """End all workers; what they are still working on is lost. From any thread, any number of times."""
        with self._opening:
            self._is_closed = True
            workers, self._workers = self._workers, []
            starting, self._starting = self._starting, set()
        for worker in starting:
            worker.kill()
        end_workers(workers)
        finalizer = getattr(self, "_finalizer", None)
        if finalizer is not None:
            finalizer.cancel()

    def _start_worker(self, number: int, advice: str = "") -> WorkerHandle:
        """Start a worker and wait until it is ready, in a thread. Raises `ConfigurationError`."""
        worker = WorkerHandle(number)
        with self._opening:
            if self._is_closed:
                raise RunError("The run has ended.")
            worker.start()
            self._starting.add(worker)
        try:
            worker.prepare(self._setup, advice)
        except BaseException:
            with self._opening:
                self._starting.discard(worker)
            worker.kill()
            raise
        return worker

    def _adopt(self, worker: WorkerHandle) -> None:
        with self._opening:
            if self._is_closed:
                return  # and it was killed, among those that start
            self._starting.discard(worker)
            self._workers.append(worker)
        worker.listen(self._on_message, self._on_end_of_messages)
        self._give_work()

    def _assign(self, remote: RemoteJob) -> None:
        free = [worker for worker in self._workers if not worker.is_reserved]
        if not free:
            self._waiting.append(remote)
            return
        worker = min(free, key=lambda one: len(one.jobs))
        worker.jobs[remote.number] = remote
        worker.send(remote.data)

    def _give_work(self) -> None:
        """Give workers what waits: to one that has nothing else an item that ended another worker."""
        for worker in self._workers:
            if self._suspects and not worker.jobs:
                remote = self._suspects.pop(0)
                worker.is_reserved = True
                worker.jobs[remote.number] = remote
                worker.send(remote.data)
        waiting, self._waiting = self._waiting, []
        for remote in waiting:
            self._assign(remote)

    # Up to `_on_end_of_messages` this runs in the threads that read from workers, then on the event loop.

    def _on_message(self, worker: WorkerHandle, data: bytes) -> None:
        remote = worker.jobs.get(decode_number(data))
        if remote is None:
            return
        try:
            kind, *content = decode(data)
            if kind == OUTCOME:
                self._on_outcome(remote, self._caller.add_price(TaskOutcome(*content)))
                return
        except BaseException as error:  # unpickling runs users' code
            self._on_unreadable(worker, remote, error)
            return
        handlers: dict[str, Callable[..., None]] = {
            RETURNED: self._on_returned,
            RAISED: self._on_raised,
            UNREADABLE: self._on_unread,
        }
        handle = handlers.get(kind, self._on_done)
        post_to_loop(self._loop, partial(handle, worker, remote, *content))

    def _on_outcome(self, remote: RemoteJob, outcome: TaskOutcome) -> None:
        if remote.sink is not None:
            remote.sink(outcome)
        remote.received = outcome
        post_to_loop(self._loop, lambda: settle(remote.outcome, outcome))

    def _on_unreadable(self, worker: WorkerHandle, remote: RemoteJob, error: BaseException) -> None:
        problem = f"what its process sent cannot be read: {format_located_error(error)}"
        if remote.received is None:
            self._on_outcome(remote, TaskOutcome(error=problem))
            return
        results = self._error_results(remote, problem)
        post_to_loop(self._loop, lambda: self._on_done(worker, remote, Scored(results), (0, 0, None), {}))

    def _on_end_of_messages(self, worker: WorkerHandle) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._on_exit, worker)

    def _on_done(
        self,
        worker: WorkerHandle,
        remote: RemoteJob,
        scored: Scored | None,
        counts: tuple[int, int, str | None],
        news: Mapping[str, list[str]],
    ) -> None:
        """Take in what became of a job; no `scored` means that its task would ask a model."""
        self._take_off(worker, remote)
        self._failures = 0
        self._caller.add_counts(*counts)
        files_read.add_news(news)
        if scored is None:
            remote.hand_back(for_all=True)
        else:
            settle(remote.done, Scored(*scored))
        if len(worker.jobs) < self._jobs_at_once:
            self._share_out()

    def _on_raised(self, worker: WorkerHandle, remote: RemoteJob, error: BaseException) -> None:
        """Raise here what ends a run, such as the Ctrl-C that a task raised."""
        self._take_off(worker, remote)
        remote.fail(error)

    def _on_unread(self, worker: WorkerHandle, remote: RemoteJob) -> None:
        """Work on an item here that is of a class that the worker cannot have."""
        self._take_off(worker, remote)
        remote.hand_back(for_all=False)

    def _on_returned(self, worker: WorkerHandle, remote: RemoteJob) -> None:
        if not self._take_off(worker, remote):
            return  # its worker has ended meanwhile
        if self._is_stopped:
            remote.fail(NotBegunError())
        else:
            self._assign(remote)

    def _take_off(self, worker: WorkerHandle, remote: RemoteJob) -> bool:
        if worker.jobs.pop(remote.number, None) is None:
            return False
        worker.is_reserved = False
        self._give_work()
        return True

    def _share_out(self) -> None:
        """Take an item back that waits behind others while a worker has nothing to do."""
        fullest = max(self._workers, key=lambda one: len(one.jobs), default=None)
        if fullest is not None and len(fullest.jobs) > self._jobs_at_once:
            fullest.recall([next(reversed(fullest.jobs))])

    def _look_after_workers(self, ended_before: Collection[WorkerHandle]) -> None:
        """Notice workers that have ended while a process that they had started holds their pipe."""
        if self._is_closed:
            return
        ended = [worker for worker in self._workers if worker.has_ended]
        for worker in ended:
            if worker in ended_before:  # what it had sent has been read by now
                self._on_exit(worker)
        self._loop.call_later(_LOOK_SECONDS, self._look_after_workers, ended)

    def _on_exit(self, worker: WorkerHandle) -> None:
        """Give what a worker had to others, and start another one in its place."""
        if self._is_closed or worker not in self._workers:
            return
        self._workers.remove(worker)
        how = worker.describe_end()
        jobs = list(worker.jobs.values())
        worker.jobs.clear()
        self._failures += 0 if jobs else 1
        replacement = self._loop.create_task(self._replace(worker.number, how))
        self._replacements.add(replacement)
        replacement.add_done_callback(self._replacements.discard)
        for place, remote in enumerate(jobs):
            self._rescue(remote, how, has_begun=place < self._jobs_at_once)

    def _rescue(self, remote: RemoteJob, how: str, *, has_begun: bool) -> None:
        """Decide what becomes of a job whose worker has ended."""
        if remote.received is not None and remote.received.error is not None:
            settle(remote.done, Scored())
        elif self._is_stopped:
            remote.fail(NotBegunError())
        elif has_begun and remote.deaths + 1 >= MOST_DEATHS:
            ended = pluralize(MOST_DEATHS, "worker process", "worker processes")
            self._give_up(remote, f"{ended} ended while working on it: {how}")
        elif not remote.can_be_sent():
            self._give_up(remote, f"its worker process ended ({how}), and no other can be sent its output")
        elif has_begun:
            remote.deaths += 1
            self._suspects.append(remote)
            self._give_work()
        else:
            self._assign(remote)

    async def _replace(self, number: int, how: str) -> None:
        while not (self._is_closed or self._is_stopped):
            try:
                if self._failures > MOST_DEATHS * self._count:
                    raise RunError(f"Worker processes end as soon as they have started: {how}.")
                self._adopt(await call_in_thread(self._start_worker, number))
                return
            except ConfigurationError as error:  # it was killed, too
                self._failures += 1
                how = str(error).rstrip(".")
            except RunError as error:
                if not self._workers and len(self._replacements) == 1:
                    self._break(error)
                return

    def _break(self, error: Exception) -> None:
        """Let the run break, since the last worker has ended and another one cannot be started."""
        for remote in (*self._waiting, *self._suspects):
            remote.fail(error)

    def _give_up(self, remote: RemoteJob, problem: str) -> None:
        if remote.received is None:
            self._on_outcome(remote, TaskOutcome(error=problem))
        settle(remote.done, Scored(self._error_results(remote, problem)))

    def _error_results(self, remote: RemoteJob, problem: str) -> tuple[EvalResult, ...]:
        error = RuntimeError(problem)
        return tuple(
            error_result(evaluator, error) for evaluator in self.evaluators_at(remote.job.evaluators)
        )
