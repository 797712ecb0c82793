"""The worker processes of a run: started before it, given its items, replaced where one ends.

What asks models stays in the process of the run, so that there is one account, one cache and one pace for all
calls: async tasks, evaluators with a judge, and whatever a worker finds to ask one. The journal is written
here, too: outputs by the threads that read from the workers, as soon as they arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import multiprocessing
import pickle
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.results import EvalResult
from dokimos._core.text import pluralize
from dokimos._core.tracebacks import format_located_error
from dokimos._runtime.concurrency import call_in_thread, post_to_loop
from dokimos._runtime.file_access import files_read
from dokimos.errors import ConfigurationError, RunError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._outcomes import error_result
from dokimos.experiment._run_options import RunOptions
from dokimos.experiment._task import prepare, task_attribute
from dokimos.experiment._task_calls import ItemSink, NotBegunError, TaskCaller, TaskOutcome
from dokimos.experiment._worker_messages import (
    END,
    FAILED,
    NO_JOB,
    OUTCOME,
    RECALL,
    RETURNED,
    Job,
    WorkerSetup,
    decode,
    decode_number,
    encode,
)

if TYPE_CHECKING:
    from dokimos.experiment._experiment import Experiment

JOBS_AHEAD: Final = 3
"""How many items wait in a worker, so that it never waits for the process of the run."""
MOST_DEATHS: Final = 2
"""An item that was being worked on when so many workers ended is an error."""
END_SECONDS: Final = 2.0
"""How long a worker gets to end by itself."""
_WORKER_NAME: Final = "dokimos-worker"


class TaskStaysError(Exception):
    """The task would ask a model: it is called in the process of the run."""


@dataclass(slots=True, eq=False)
class RemoteJob:
    """An item in the hands of a worker."""

    number: int
    job: Job
    sink: ItemSink | None
    """Receives what the task returned, in the thread that reads it."""
    outcome: asyncio.Future[TaskOutcome]
    done: asyncio.Future[tuple[tuple[EvalResult, ...], tuple[int, ...]]]
    """Results, and the places of evaluators that have to score here."""
    received: TaskOutcome | None = None
    deaths: int = 0


class WorkerPool:
    """The workers of one run. All but `close` is called on its event loop."""

    def __init__(self, plan: Experiment, options: RunOptions, caller: TaskCaller) -> None:
        self._count = options.processes
        self._caller = caller
        self._jobs_at_once = math.ceil(max(plan.parallelism, self._count) / self._count)
        task = plan.task if _may_leave(plan) else None
        evaluators = () if callable(plan.evaluators) else tuple(filter(_is_portable, plan.evaluators))
        self._places = {id(evaluator): place for place, evaluator in enumerate(evaluators)}
        self._evaluators = evaluators
        self._calls_task = task is not None
        self._setup = _encode_setup(
            WorkerSetup(
                task=task,
                evaluators=evaluators,
                options=RunOptions(
                    timeout=options.timeout,
                    retries=options.retries,
                    seed=options.seed,
                    evaluator_timeout=options.evaluator_timeout,
                ),
                jobs_at_once=self._jobs_at_once,
            )
        )
        self._workers: list[_Worker] = []
        self._waiting: list[RemoteJob] = []
        """Jobs for which there is no worker at the moment."""
        self._last_number = NO_JOB
        self._input_keys: frozenset[str] | None = None
        self._starts: set[asyncio.Task[None]] = set()
        self._failures = 0
        """Workers that ended since the last job was done."""
        self._is_stopped = False
        self._is_closed = False

    @property
    def parallelism(self) -> int:
        """How many items are worked on at once, those that wait in the workers included."""
        return self._count * (self._jobs_at_once + JOBS_AHEAD)

    async def open(self) -> None:
        """Start the workers and wait until they have imported the task.

        Raises:
            ConfigurationError: if they cannot.
        """
        if multiprocessing.current_process().name.startswith(_WORKER_NAME):
            raise ConfigurationError(
                "This module starts a run while a worker process imports it: put what starts the run under "
                "if __name__ == '__main__':."
            )
        self._loop = asyncio.get_running_loop()
        starts = [call_in_thread(self._start_worker, number) for number in range(1, self._count + 1)]
        outcomes = await asyncio.gather(*starts, return_exceptions=True)
        self._workers = [worker for worker in outcomes if isinstance(worker, _Worker)]
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                self.close()
                raise outcome
        for worker in self._workers:
            worker.listen()

    def set_input_keys(self, keys: frozenset[str] | None) -> None:
        """Say which names of inputs decide how the task is called."""
        self._input_keys = keys

    @property
    def calls_task(self) -> bool:
        """Whether the workers call the task."""
        return self._calls_task

    def keep_task(self) -> None:
        """Call the task in the process of the run from now on."""
        self._calls_task = False

    def takes(self, evaluator: Evaluator) -> bool:
        """Say whether the workers score with an evaluator."""
        return id(evaluator) in self._places

    def keep(self, places: Sequence[int]) -> list[Evaluator]:
        """Score with these evaluators in the process of the run from now on; return them."""
        kept = [self._evaluators[place] for place in places]
        for evaluator in kept:
            self._places.pop(id(evaluator), None)
        return kept

    def submit(
        self,
        run_index: int,
        example: Any,
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
        futures = self._loop.create_future(), self._loop.create_future()
        remote = RemoteJob(self._last_number, job, sink, *futures)
        if outcome is not None:
            remote.received = outcome
            remote.outcome.set_result(outcome)
        self._assign(remote)
        return remote

    def stop(self) -> None:
        """Begin with no further item: those that wait in workers raise `NotBegunError` in the end."""
        self._is_stopped = True
        for worker in self._workers:
            worker.recall(list(worker.jobs))

    def close(self) -> None:
        """End all workers; what they are still working on is lost. From any thread, any number of times."""
        self._is_closed = True
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.end()
        for worker in workers:
            worker.join()

    def _assign(self, remote: RemoteJob) -> None:
        job = remote.job
        if remote.received is not None:
            outputs, metrics = dict(remote.received.outputs), remote.received.metrics
            job = job._replace(outputs=outputs, metrics=metrics)
        data = encode(remote.number, job)
        if not self._workers:
            self._waiting.append(remote)
            return
        worker = min(self._workers, key=lambda one: len(one.jobs))
        worker.jobs[remote.number] = remote
        worker.send(data)

    def _start_worker(self, number: int) -> _Worker:
        return _Worker(number, self._setup, self)

    # What follows up to `on_end_of_messages` runs in the threads that read from workers.

    def on_message(self, worker: _Worker, data: bytes) -> None:
        """Take in what a worker says about a job."""
        remote = worker.jobs.get(decode_number(data))
        if remote is None:
            return
        try:
            kind, *content = decode(data)
        except Exception as error:  # of a class that cannot be had here
            self._on_unreadable(worker, remote, error)
            return
        if kind == OUTCOME:
            self._on_outcome(remote, self._caller.add_price(TaskOutcome(*content)))
        elif kind == RETURNED:
            post_to_loop(self._loop, lambda: self._on_returned(worker, remote))
        else:
            post_to_loop(self._loop, lambda: self._on_done(worker, remote, *content))

    def _on_outcome(self, remote: RemoteJob, outcome: TaskOutcome) -> None:
        if remote.sink is not None:
            remote.sink(outcome)
        remote.received = outcome
        post_to_loop(self._loop, lambda: _settle(remote.outcome, outcome))

    def _on_unreadable(self, worker: _Worker, remote: RemoteJob, error: Exception) -> None:
        problem = f"what its process sent cannot be read: {format_located_error(error)}"
        if remote.received is None:
            self._on_outcome(remote, TaskOutcome(error=problem))
            return
        results = self._error_results(remote, problem)
        post_to_loop(self._loop, lambda: self._on_done(worker, remote, results, (), (0, 0, None), {}))

    def on_end_of_messages(self, worker: _Worker) -> None:
        """Take in that a worker has ended."""
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._on_exit, worker)

    def _on_done(
        self,
        worker: _Worker,
        remote: RemoteJob,
        results: tuple[EvalResult, ...],
        stays: tuple[int, ...] | None,
        counts: tuple[int, int, str | None],
        news: Mapping[str, list[str]],
    ) -> None:
        worker.jobs.pop(remote.number, None)
        self._failures = 0
        self._caller.add_counts(*counts)
        files_read.add_news(news)
        if stays is None:
            if remote.outcome.done():  # it could not even be read, so nothing has been scored
                _settle(remote.done, ((), remote.job.evaluators))
            else:
                remote.outcome.set_exception(TaskStaysError())
            return
        _settle(remote.done, (results, stays))
        if len(worker.jobs) < self._jobs_at_once:
            self._share_out()

    def _share_out(self) -> None:
        """Take items back that wait behind others while a worker has nothing to do."""
        fullest = max(self._workers, key=lambda one: len(one.jobs), default=None)
        if fullest is not None and len(fullest.jobs) > self._jobs_at_once:
            fullest.recall([next(reversed(fullest.jobs))])

    def _on_returned(self, worker: _Worker, remote: RemoteJob) -> None:
        if worker.jobs.pop(remote.number, None) is None:
            return
        if not self._is_stopped:
            self._assign(remote)
            return
        for future in (remote.outcome, remote.done):
            if not future.done():
                future.set_exception(NotBegunError())
                future.exception()  # it is raised where it is waited for, and nowhere else

    def _on_exit(self, worker: _Worker) -> None:
        """Give what a worker had to others, and start another one in its place."""
        if self._is_closed or worker not in self._workers:
            return
        self._workers.remove(worker)
        how = worker.describe_end()
        jobs = list(worker.jobs.values())
        worker.jobs.clear()
        for remote in jobs[: self._jobs_at_once]:
            remote.deaths += 1
        self._failures += 1
        start = self._loop.create_task(self._replace(worker.number, how))
        self._starts.add(start)
        start.add_done_callback(self._starts.discard)
        for remote in jobs:
            if remote.received is not None and remote.received.error is not None:
                _settle(remote.done, ((), ()))
            elif remote.deaths < MOST_DEATHS:
                self._assign(remote)
            else:
                self._give_up(remote, how)

    async def _replace(self, number: int, how: str) -> None:
        try:
            if self._failures > MOST_DEATHS * self._count + 1:
                raise RunError(f"Worker processes end as soon as they have started: {how}.")
            worker = await call_in_thread(self._start_worker, number)
        except Exception as error:
            self._break(error)
            return
        if self._is_closed:
            worker.end()
            return
        self._workers.append(worker)
        worker.listen()
        waiting, self._waiting = self._waiting, []
        for remote in waiting:
            self._assign(remote)

    def _break(self, error: Exception) -> None:
        """Let the run break: there are no workers left and none can be started."""
        jobs = [remote for worker in self._workers for remote in worker.jobs.values()]
        for remote in [*jobs, *self._waiting]:
            for future in (remote.outcome, remote.done):
                if not future.done():
                    future.set_exception(error)
                    future.exception()  # it is raised where it is waited for, and nowhere else

    def _give_up(self, remote: RemoteJob, how: str) -> None:
        text = (
            f"{pluralize(MOST_DEATHS, 'worker process', 'worker processes')} ended while working on it: {how}"
        )
        if remote.received is None:
            self._on_outcome(remote, TaskOutcome(error=text))
        _settle(remote.done, (self._error_results(remote, text), ()))

    def _error_results(self, remote: RemoteJob, problem: str) -> tuple[EvalResult, ...]:
        error = RuntimeError(problem)
        return tuple(error_result(self._evaluators[place], error) for place in remote.job.evaluators)


class _Worker:
    """One process, with the threads that write to it and read from it."""

    def __init__(self, number: int, setup: bytes, pool: WorkerPool) -> None:
        """Start it and wait until it is ready. Raises `ConfigurationError` where it does not get there."""
        from dokimos.experiment._worker_process import run_worker

        self.number = number
        self.jobs: dict[int, RemoteJob] = {}
        """What it has been given and not done yet, oldest first."""
        self._pool = pool
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=run_worker, args=(other,), name=f"{_WORKER_NAME}-{number}")
        try:
            with _interrupts_blocked():
                self._process.start()
            other.close()
            self._connection.send_bytes(encode(NO_JOB, (bool(files_read.started_ns),)))
            self._connection.send_bytes(setup)
            message = decode(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._process.join(END_SECONDS)
            raise ConfigurationError(
                f"A worker process ended before it was ready: {self.describe_end()}. In a script, put what "
                "starts the run under if __name__ == '__main__':, since each worker imports the script."
            ) from None
        if message[0] == FAILED:
            raise ConfigurationError(
                f"A worker process cannot import the task or an evaluator: {message[1]}. Put them at the top "
                "level of a module that can be imported, or run with processes=1."
            )

    def listen(self) -> None:
        """Start the threads; from then on the pool hears what it says."""
        for target in (self._read, self._write):
            threading.Thread(target=target, name=f"{_WORKER_NAME}-{self.number}", daemon=True).start()

    def send(self, data: bytes) -> None:
        self._outbox.put(data)

    def recall(self, numbers: list[int]) -> None:
        """Ask it to give jobs back, as far as it has not begun with them."""
        if numbers:
            self._outbox.put(encode(NO_JOB, (RECALL, numbers)))

    def end(self) -> None:
        """Tell it to end: at once if it is working on something."""
        self._outbox.put(encode(NO_JOB, (END,)))
        self._outbox.put(None)

    def join(self) -> None:
        """Wait until it has ended; kill it where it does not within a while."""
        self._process.join(END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def describe_end(self) -> str:
        """Say how it ended, such as "killed by SIGKILL"."""
        self._process.join(END_SECONDS)
        code = self._process.exitcode
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"

    def _read(self) -> None:
        try:
            while True:
                self._pool.on_message(self, self._connection.recv_bytes())
        except (EOFError, OSError):
            self._pool.on_end_of_messages(self)

    def _write(self) -> None:
        # In a thread of its own: a worker that computes may not read for a while.
        while (data := self._outbox.get()) is not None:
            try:
                self._connection.send_bytes(data)
            except OSError:
                return  # it has ended, as the other thread hears, too


def _settle(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


def _may_leave(plan: Experiment) -> bool:
    """Say whether the task may be called in a worker: one that waits, as models let it, stays."""
    stays = prepare(plan.task).is_async or task_attribute(plan.task, "counts_own_calls")
    return not stays and task_attribute(plan.task, "aclose") is None


def _is_portable(evaluator: Evaluator) -> bool:
    """Say whether an evaluator may score in a worker."""
    if evaluator.is_async or evaluator.serial or evaluator.stays_in_thread():
        return False
    try:
        pickle.dumps(evaluator, pickle.HIGHEST_PROTOCOL)
    except Exception:
        return False
    return True


def _encode_setup(setup: WorkerSetup) -> bytes:
    try:
        return encode(NO_JOB, (setup,))
    except Exception as error:
        raise ConfigurationError(
            f"The task cannot be sent to worker processes: {format_located_error(error)}. Define it with def "
            "at the top level of a module, without lambda or objects that cannot be pickled, or run with "
            "processes=1."
        ) from error


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes that hear nothing of Ctrl-C before they can say that it is not theirs."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
