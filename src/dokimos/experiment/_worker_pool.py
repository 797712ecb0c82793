"""The workers of a run: started before it, given its items, replaced where one ends.

What asks models stays in the process of the run, so that there is one account, one cache and one pace for all
calls: async tasks, evaluators with a judge, and whatever a worker finds to ask one. The journal is written
here, too: outputs by the threads that read from the workers, as soon as they arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing.util
import threading
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.results import EvalResult
from dokimos._core.tracebacks import format_located_error
from dokimos._runtime.concurrency import call_in_thread, post_to_loop, start_pooled_call
from dokimos._runtime.file_access import files_read
from dokimos.errors import RunError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._outcomes import error_result
from dokimos.experiment._executor import Executor
from dokimos.experiment._job_dispatch import JobDispatcher
from dokimos.experiment._remote_job import RemoteJob, Scored, settle
from dokimos.experiment._task_calls import ItemSink, NotBegunError, TaskCaller, TaskOutcome
from dokimos.experiment._worker_handle import HostLostError, WorkerHandle, end_workers, wait_for_first
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

MOST_DEATHS: Final = 2
"""An item that was being worked on when so many workers ended is an error."""
MOST_MOVES: Final = 9
"""An item whose worker was taken away more often, with its machine, is an error: it may be the reason."""
_LOOK_SECONDS: Final = 1.0
"""How often to look whether silent workers are still there."""


class WorkerPool:
    """The workers of one run. All but `close` is called on its event loop."""

    def __init__(
        self, setup: WorkerSetup, executor: Executor, caller: TaskCaller, *, parallelism: int
    ) -> None:
        """Plan the workers; none is started yet.

        Args:
            setup: What they are told.
            executor: Where they run.
            caller: Which counts their calls and knows prices.
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
        self._count = executor.workers
        self._jobs_at_once = setup.jobs_at_once
        self._most_ahead = executor.most_ahead
        self._host = executor.host()
        self._jobs = JobDispatcher(jobs_at_once=setup.jobs_at_once, most_ahead=executor.most_ahead)
        self._starting: set[WorkerHandle] = set()
        self._opening = threading.Lock()
        """Held while a worker is started or all are ended, so that none is left behind."""
        self._last_number = NO_JOB
        self._input_keys: frozenset[str] | None = None
        self._late: set[asyncio.Task[None]] = set()
        """Workers that are started while the run goes on."""
        self._starts = 0  # those of them that may still get ready
        self._failures = 0
        """Workers that ended without having worked on anything, since the last job was done."""
        self._start_problem: str | None = None  # of one of them: it tells more than that another one ended
        self._is_closed = False

    @property
    def announcement(self) -> str:
        """What is said while `open` goes on; empty where that takes a moment only."""
        return self._host.announcement

    @property
    def items_at_once(self) -> int:
        """How many items are going on, those that wait in the workers included."""
        return self._count * (self._jobs_at_once + self._most_ahead)

    async def open(self) -> None:
        """Start the workers and wait until they, or the first of them, have imported the task.

        Raises:
            ConfigurationError: if they cannot.
        """
        self._loop = asyncio.get_running_loop()
        # Before the standard library waits for them at exit, in a program whose main thread ends first.
        self._finalizer = multiprocessing.util.Finalize(None, self.close, exitpriority=10)
        await call_in_thread(self._open_host)
        starts = {
            start_pooled_call(self._start_worker, number, self._host.advice): number
            for number in range(1, self._count + 1)
        }
        if self._host.waits_for_all:
            await asyncio.gather(*starts)
        else:
            await wait_for_first(starts)
        for start, number in starts.items():
            if start.done() and start.exception() is None:
                self._adopt(start.result())
            else:
                self._go_on_with(self._adopt_late(start, number))
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
        if not self._jobs.is_stopped:
            remote.encode()
        self._jobs.submit(remote)
        return remote

    def stop(self) -> None:
        """Begin with no further item: those that have not begun raise `NotBegunError`."""
        self._jobs.stop()

    def close(self) -> None:
        """End all workers; what they are still working on is lost. From any thread, any number of times."""
        with self._opening:
            if self._is_closed:
                return
            self._is_closed = True
            workers, self._jobs.workers = self._jobs.workers, []
            starting, self._starting = self._starting, set()
        for worker in starting:
            worker.kill()
        end_workers(workers)
        self._host.close()
        finalizer = getattr(self, "_finalizer", None)
        if finalizer is not None:
            finalizer.cancel()

    def _open_host(self) -> None:
        self._host.open()
        with self._opening:
            is_closed = self._is_closed
        if is_closed:  # meanwhile, so that it has not let go of everything
            self._host.close()

    def _start_worker(self, number: int, advice: str = "") -> WorkerHandle:
        """Start a worker and wait until it is ready, in a thread. Raises `ConfigurationError`."""
        with self._opening:
            if self._is_closed:
                raise RunError("The run has ended.")
            worker = self._host.create(number)
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
            try:
                worker.listen(self._on_message, self._on_end_of_messages)
            except BaseException:
                worker.kill()
                worker.hang_up()
                raise
            self._jobs.add(worker)

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
        remote.receive(outcome)
        post_to_loop(self._loop, remote.report_outcome, is_urgent=remote.is_outcome_awaited)

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
        self._jobs.finish(worker, remote)
        self._failures, self._start_problem = 0, None
        self._caller.add_counts(*counts)
        files_read.add_news(news)
        if scored is None:
            remote.hand_back(for_all=True)
        else:
            settle(remote.done, Scored(*scored))

    def _on_raised(self, worker: WorkerHandle, remote: RemoteJob, error: BaseException) -> None:
        """Raise here what ends a run, such as the Ctrl-C that a task raised."""
        self._jobs.take_off(worker, remote)
        remote.fail(error)

    def _on_unread(self, worker: WorkerHandle, remote: RemoteJob) -> None:
        """Work on an item here that is of a class that the worker cannot have."""
        self._jobs.take_off(worker, remote)
        remote.hand_back(for_all=False)

    def _on_returned(self, worker: WorkerHandle, remote: RemoteJob) -> None:
        self._jobs.take_back(worker, remote)

    def _look_after_workers(self, ended_before: Collection[WorkerHandle]) -> None:
        """Notice workers that have ended while a process that they had started holds their pipe."""
        if self._is_closed:
            return
        ended = [worker for worker in self._jobs.workers if worker.has_ended]
        for worker in ended:
            if worker in ended_before:  # what it had sent has been read by now
                self._on_exit(worker)
        self._loop.call_later(_LOOK_SECONDS, self._look_after_workers, ended)

    def _on_exit(self, worker: WorkerHandle) -> None:
        """Give what a worker had to others, and start another one in its place."""
        if self._is_closed or worker not in self._jobs.workers:
            return
        self._jobs.workers.remove(worker)
        worker.hang_up()
        how = worker.describe_end()
        jobs = list(worker.jobs.values())
        worker.jobs.clear()
        self._failures += 0 if jobs else 1
        self._go_on_with(self._replace(worker.number, how))
        begun = jobs[: self._jobs_at_once] if worker.delivers_before_end else jobs  # any may have
        for remote in begun:  # which of several it was is not known
            remote.moves += worker.was_preempted
            remote.deaths += len(begun) == 1 and not worker.was_preempted
        suspects = [] if worker.was_preempted else [one for one in begun if self._is_rescued(one, how)]
        self._jobs.suspect(suspects, worker.window.job_seconds)
        for remote in jobs if worker.was_preempted else jobs[len(begun) :]:
            if self._is_rescued(remote, how):
                self._jobs.submit(remote)

    def _is_rescued(self, remote: RemoteJob, how: str) -> bool:
        """Say whether another worker is to have a job whose worker has ended; else it has got its end."""
        remote.report_outcome()
        if remote.received is not None and remote.received.error is not None:
            settle(remote.done, Scored())
        elif self._jobs.is_stopped:
            remote.fail(NotBegunError())
        elif remote.deaths >= MOST_DEATHS:
            self._give_up(remote, f"{MOST_DEATHS} workers ended while working on it: {how}")
        elif remote.moves > MOST_MOVES:
            self._give_up(remote, f"{remote.moves} workers were taken away while they had it: {how}")
        elif not remote.can_be_sent():
            self._give_up(remote, f"its worker ended ({how}), and no other can be sent its output")
        else:
            return True
        return False

    def _go_on_with(self, start: Coroutine[Any, Any, None]) -> None:
        self._starts += 1
        task = self._loop.create_task(self._finish(start))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _finish(self, start: Coroutine[Any, Any, None]) -> None:
        """Await the start of a worker; the run breaks where none is left and none will come."""
        try:
            await start
            return
        except Exception as error:
            problem = error
        finally:
            self._starts -= 1
        if not self._jobs.workers and not self._starts:
            self._jobs.break_off(problem)

    async def _adopt_late(self, start: asyncio.Future[WorkerHandle], number: int) -> None:
        """Take in a worker that gets ready while others work already."""
        try:
            self._adopt(await start)
        except Exception as error:
            self._note_failed_start(error)
            await self._replace(number)

    def _note_failed_start(self, error: Exception) -> None:
        self._failures += 1
        self._start_problem = str(error).rstrip(".")

    async def _replace(self, number: int, how: str = "") -> None:
        """Start a worker for one that ended, and `how`. Raises `RunError` where that has failed too often."""
        while not (self._is_closed or self._jobs.is_stopped):
            if self._failures > MOST_DEATHS * self._count:
                why = self._start_problem or how
                raise RunError(f"Workers cannot be started, or end as soon as they have: {why}.")
            try:
                self._adopt(await call_in_thread(self._start_worker, number))
                return
            except HostLostError:
                raise
            except Exception as error:  # it was killed, too; or this machine has no process or thread left
                self._note_failed_start(error)

    def _give_up(self, remote: RemoteJob, problem: str) -> None:
        if remote.received is None:
            self._on_outcome(remote, TaskOutcome(error=problem))
        settle(remote.done, Scored(self._error_results(remote, problem)))

    def _error_results(self, remote: RemoteJob, problem: str) -> tuple[EvalResult, ...]:
        error = RuntimeError(problem)
        return tuple(
            error_result(evaluator, error) for evaluator in self.evaluators_at(remote.job.evaluators)
        )
