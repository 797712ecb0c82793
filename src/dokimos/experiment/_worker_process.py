"""A worker process of a run: it calls the task and scores outputs for the process that started it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from dokimos._core.example import Example
from dokimos._core.results import EvalResult
from dokimos._core.test_case import EvalTestCase
from dokimos._core.tracebacks import describe_exception, format_located_error
from dokimos._runtime.concurrency import post_to_loop
from dokimos._runtime.file_access import files_read
from dokimos._runtime.scoring_threads import ThreadLimit
from dokimos.errors import EndpointDownError, RunError
from dokimos.evaluators._outcomes import error_result
from dokimos.experiment._item_scoring import score_with
from dokimos.experiment._task_calls import TaskCaller, TaskOutcome
from dokimos.experiment._worker_messages import (
    DONE,
    FAILED,
    NO_JOB,
    OUTCOME,
    RAISED,
    READY,
    RECALL,
    RETURNED,
    UNREADABLE,
    AsksModelError,
    Job,
    decode,
    decode_number,
    encode,
)
from dokimos.experiment._worker_output import SharedConnection, send_output
from dokimos.experiment._worker_script import note_script_imported
from dokimos.experiment._worker_setup import WorkerSetup
from dokimos.judges._run_scope import RunScope, current_scope, enter_scope

if TYPE_CHECKING:
    from dokimos.judges._call_ledger import CallReservation
    from dokimos.judges._judge_calls import CallRequest
    from dokimos.judges._protocol import JudgeReply


_NO_COUNTS: Final = (0, 0, None)
_SEND_ADVICE: Final = (
    "Return values that can be pickled, such as texts, numbers, lists and maps, or run without workers."
)


def run_worker(connection: Connection) -> None:
    """Work on jobs until the process of the run says that it has ended, or has gone itself."""
    # Ctrl-C on a terminal reaches all its processes: that of the run decides what becomes of this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    note_script_imported()
    shared = SharedConnection(connection)
    send_output(shared)
    serve(shared)


class Connection(Protocol):
    """Where messages come from and go to: a pipe, or what stands for one."""

    def send_bytes(self, buf: bytes, /) -> None: ...

    def recv_bytes(self) -> bytes: ...


def serve(connection: Connection, *, on_idle: Callable[[], None] = lambda: None) -> None:
    """Work on the jobs that come over a connection, on an event loop of this thread.

    `on_idle` is called when something was sent and nothing waits to be begun.
    """
    try:
        [records_files] = decode(connection.recv_bytes())
        if records_files:  # before anything of the application is imported
            files_read.start()
        setup: WorkerSetup = decode(connection.recv_bytes())[0]
        worker = _Worker(connection, setup, on_idle)
    except BaseException as error:  # importing the task runs the user's code
        with suppress(OSError):
            connection.send_bytes(encode(NO_JOB, (FAILED, format_located_error(error))))
        return
    asyncio.run(worker.work())


class _Worker:
    """Takes jobs from one connection and sends there what became of them."""

    def __init__(self, connection: Connection, setup: WorkerSetup, on_idle: Callable[[], None]) -> None:
        self._connection = connection
        self._on_idle = on_idle
        self._sending = threading.Lock()
        self._evaluators = setup.evaluators
        self._options = setup.options
        self._caller = None if setup.task is None else _WorkerCaller(setup.task, setup.options, None)
        self._at_once = setup.jobs_at_once
        self._running: set[asyncio.Task[None]] = set()
        self._waiting: dict[int, asyncio.Task[None]] = {}
        """Jobs that have not begun, by number."""
        self._unanswered: set[int] = set()
        """Jobs that the run waits for, by number.

        A job leaves it before its last message is sent: the run may end as soon as it has that message,
        while the task of the job is still in `_running`.
        """

    async def work(self) -> None:
        loop = asyncio.get_running_loop()
        self._places = asyncio.Semaphore(self._at_once)
        self._threads = ThreadLimit(self._at_once)
        ended = asyncio.Event()
        threading.Thread(
            target=self._read, args=(loop, ended), name="dokimos-worker-reader", daemon=True
        ).start()
        self._send(NO_JOB, (READY,))
        self._on_idle()
        await ended.wait()

    def _read(self, loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
        while True:
            try:
                data = self._connection.recv_bytes()
            except (EOFError, OSError):
                _exit_now()  # the process of the run has gone, and nobody wants what this one is working on
            number = decode_number(data)
            try:
                message = decode(data)
                if number == NO_JOB and message[0] == RECALL:
                    post_to_loop(loop, partial(self._give_back, message[1]))
                    continue
                if number == NO_JOB:
                    if self._unanswered:
                        _exit_now()
                    post_to_loop(loop, ended.set)
                    return
                job = Job(*message)
            except BaseException:  # of a class that cannot be had here, or that misbehaves
                self._send(number, (UNREADABLE,))
                continue
            self._unanswered.add(number)
            post_to_loop(loop, partial(self._start, number, job))

    def _start(self, number: int, job: Job) -> None:
        task = asyncio.get_running_loop().create_task(self._work_on(number, job))
        self._waiting[number] = task
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _give_back(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            task = self._waiting.pop(number, None)
            if task is not None:
                task.cancel()
                self._answer(number, encode(number, (RETURNED,)))
        self._on_idle()  # another worker waits for them

    async def _work_on(self, number: int, job: Job) -> None:
        async with self._places:
            del self._waiting[number]  # from here on it cannot be given back
            try:
                await self._call_and_score(number, job)
            except (
                BaseException
            ) as error:  # what neither a task nor an evaluator turns into an error of the item
                self._send_raised(number, error)
            if not self._waiting:
                self._on_idle()

    async def _call_and_score(self, number: int, job: Job) -> None:
        guard = ModelGuard()
        enter_scope(
            RunScope(
                run_index=job.run_index,
                seed=self._options.seed,
                call_stores=(guard,),
                budget=guard,
                evaluator_timeout=self._options.evaluator_timeout,
                threads=self._threads,
            )
        )
        outputs, metrics = job.outputs, job.metrics
        if outputs is None:
            outcome = await self._call_task(number, job, guard)
            if outcome is None or outcome.error is not None:
                self._send_done(number, None if outcome is None else ([], ()))
                return
            outputs, metrics = outcome.outputs, outcome.metrics
        case = EvalTestCase(
            job.example.inputs,
            outputs,
            expected_outputs=job.example.expected_outputs,
            metadata=job.example.metadata,
            id=job.example.id,
            metrics=metrics,
            run_index=job.run_index,
        )
        self._send_done(number, await self._score(job.evaluators, case, guard))

    async def _call_task(self, number: int, job: Job, guard: ModelGuard) -> TaskOutcome | None:
        """Call the task and send its outcome; None if it would ask a model."""
        caller = self._caller
        assert caller is not None
        if job.input_keys is not None and caller.needs_input_keys:
            caller.set_input_keys(job.input_keys)

        def sink(outcome: TaskOutcome) -> None:
            if not guard.was_asked:
                self._send_outcome(number, outcome)

        try:
            outcome = await caller.call(job.example, sink)
        except AsksModelError:
            return None
        return None if guard.was_asked else outcome

    async def _score(
        self, places: Sequence[int], case: EvalTestCase, guard: ModelGuard
    ) -> tuple[list[EvalResult], tuple[int, ...]]:
        """Return the results of evaluators, and the places of those that would ask a model."""
        results: list[EvalResult] = []
        asking: list[int] = []
        for place in places:
            guard.was_asked = False
            try:
                result = await score_with(self._evaluators[place], case)
            except AsksModelError:
                guard.was_asked = True
            # Also where the error was caught: what the evaluator made of it is not its score.
            if guard.was_asked:
                asking.append(place)
            else:
                results.append(result)
        return results, tuple(asking)

    def _send_outcome(self, number: int, outcome: TaskOutcome) -> None:
        down = outcome.down
        if down is not None:  # a class of the user may not be picklable
            down = EndpointDownError(str(down), history=down.history)
        sent = outcome._replace(outputs=dict(outcome.outputs), down=down)
        try:
            data = encode(number, (OUTCOME, *sent))
        except Exception as error:
            problem = format_located_error(error).rstrip(".")
            text = f"what the task returned cannot be sent from its process: {problem}. {_SEND_ADVICE}"
            failed = TaskOutcome({}, outcome.metrics, text, detail=describe_exception(error))
            data = encode(number, (OUTCOME, *failed))
        self._send_bytes(data)

    def _send_done(self, number: int, scored: tuple[list[EvalResult], tuple[int, ...]] | None) -> None:
        """Say that a job is done: the results, and the places of evaluators that would ask a model.

        None means that the task would ask one.
        """
        caller = self._caller
        counts = _NO_COUNTS if caller is None else caller.take_counts()
        news = files_read.take_news() if files_read.started_ns else {}
        if scored is None:
            self._answer(number, encode(number, (DONE, None, _NO_COUNTS, news)))
            return
        results, asking = scored
        try:
            data = encode(number, (DONE, (tuple(results), asking, True), counts, news))
        except Exception:
            sendable = tuple(self._make_sendable(number, result) for result in results)
            data = encode(number, (DONE, (sendable, asking, True), counts, news))
        self._answer(number, data)

    def _send_raised(self, number: int, error: BaseException) -> None:
        try:
            data = encode(number, (RAISED, error))
            decode(data)
        except Exception:
            data = encode(number, (RAISED, RunError(format_located_error(error))))
        self._answer(number, data)

    def _make_sendable(self, number: int, result: EvalResult) -> EvalResult:
        try:
            encode(number, (result,))
        except Exception as error:
            [evaluator] = [one for one in self._evaluators if one.name == result.name]
            problem = TypeError(f"its result cannot be sent from its process: {format_located_error(error)}")
            return error_result(evaluator, problem)
        return result

    def _answer(self, number: int, data: bytes) -> None:
        """Send the last message of a job."""
        self._unanswered.discard(number)
        self._send_bytes(data)

    def _send(self, number: int, message: tuple[Any, ...]) -> None:
        self._send_bytes(encode(number, message))

    def _send_bytes(self, data: bytes) -> None:
        with self._sending:
            try:
                self._connection.send_bytes(data)
            except OSError:
                _exit_now()


class _WorkerCaller(TaskCaller):
    """Calls the task in a worker: one that would ask a model is not called again here."""

    def may_retry(self, outcome: TaskOutcome, example: Example) -> bool:
        guard = current_scope().budget
        has_asked = isinstance(guard, ModelGuard) and guard.was_asked
        return not has_asked and super().may_retry(outcome, example)


class ModelGuard:
    """Stands for the call stores and the budget of the run, and lets no model be asked."""

    def __init__(self) -> None:
        self.was_asked = False

    async def get(self, key: str, request: CallRequest) -> JudgeReply | None:
        self._refuse()

    async def put(self, key: str, request: CallRequest, reply: JudgeReply) -> None:
        """Keep nothing: it is a copy of what another store has."""

    async def reject(self, key: str, request: CallRequest, unusable: Exception) -> None:
        """Keep nothing: a call that failed was never made here."""

    async def reserve(
        self, identity: str, *, nested: bool = False, request: CallRequest | None = None
    ) -> CallReservation:
        self._refuse()

    def _refuse(self) -> NoReturn:
        self.was_asked = True
        raise AsksModelError("A worker process asks no model.")


def _exit_now() -> NoReturn:
    """End this process with whatever it is doing; what it printed is not lost."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(0)
