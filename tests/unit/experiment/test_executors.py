"""Where a run works: which worker gets which item, and how many at once."""

import asyncio
import math
import queue
import threading
from dataclasses import dataclass

import pytest

from dokimos import (
    Budget,
    Example,
    Executor,
    Experiment,
    LocalExecutor,
    ProcessExecutor,
    RunOptions,
    Score,
)
from dokimos.errors import ConfigurationError, RunError
from dokimos.evaluators import Evaluator, ExactMatch, TokenF1
from dokimos.experiment import _worker_process
from dokimos.experiment._experiment import with_keywords
from dokimos.experiment._job_dispatch import JobDispatcher
from dokimos.experiment._job_window import JobWindow
from dokimos.experiment._remote_item import RemoteItem
from dokimos.experiment._remote_job import RemoteJob
from dokimos.experiment._run_options import executor_of
from dokimos.experiment._task_calls import NotBegunError, TaskCaller, TaskOutcome
from dokimos.experiment._worker_handle import HostLostError, WorkerHandle
from dokimos.experiment._worker_messages import NO_JOB, Job, decode, decode_number, encode
from dokimos.experiment._worker_process import serve
from dokimos.judges._budget import MemoryLedger

started = []
"""The workers of a test that are threads."""


@pytest.fixture(autouse=True)
def exits_of_workers(monkeypatch):
    """Workers here are threads: where one would end its process, it would end that of the tests.

    None of them outlives its test, also where a run gives it up without a word.
    """
    exits = []

    def exit_now():
        exits.append(threading.current_thread().name)
        raise SystemExit

    monkeypatch.setattr(_worker_process, "_exit_now", exit_now)
    yield
    while started:
        started.pop().release()
    assert exits == []


QUESTIONS = [Example.of(f"q{number}", f"Q{number}") for number in range(40)]


def shout(question):
    return question.upper()


class InboxWorker(WorkerHandle):
    """A worker whose messages are kept."""

    def __init__(self, number=1):
        super().__init__(number)
        self.sent = []
        self.recalled = []

    def send(self, data):
        self.sent.append(decode_number(data))

    def recall(self, numbers):
        self.recalled = numbers

    def start(self): ...
    def prepare(self, setup, advice): ...
    def end(self): ...
    def kill(self): ...
    def join(self, deadline): ...
    def describe_end(self): ...
    def _read(self, on_message): ...
    def _write(self): ...

    @property
    def has_ended(self):
        return False


def jobs(count):
    loop = asyncio.get_running_loop()
    made = []
    for number in range(1, count + 1):
        job = RemoteJob(number, Job(0, QUESTIONS[0], ()), None, loop.create_future(), loop.create_future())
        job.encode()
        made.append(job)
    return made


def dispatcher(*workers, at_once=1, most_ahead=3):
    made = JobDispatcher(jobs_at_once=at_once, most_ahead=most_ahead)
    for worker in workers:
        made.add(worker)
    return made


async def test_a_worker_gets_no_more_than_its_window_and_the_rest_when_one_is_done():
    worker = InboxWorker()
    dispatch = dispatcher(worker)
    first, *rest = jobs(6)
    for job in (first, *rest):
        dispatch.submit(job)
    assert worker.sent == [1, 2, 3, 4]
    dispatch.finish(worker, first)
    assert worker.sent == [1, 2, 3, 4, 5]


async def test_a_worker_that_joins_late_gets_what_waits_and_half_of_what_waits_behind_others():
    early, late = InboxWorker(), InboxWorker(2)
    dispatch = dispatcher(early, most_ahead=8)
    early.window.limit = 9
    for job in jobs(9):
        dispatch.submit(job)
    dispatch.add(late)
    assert early.recalled == [6, 7, 8, 9], "the newest half of the eight that wait behind the first"


async def test_a_job_is_not_recalled_twice_and_goes_to_the_worker_without_one():
    early, late = InboxWorker(), InboxWorker(2)
    dispatch = dispatcher(early)
    made = jobs(3)
    for job in made:
        dispatch.submit(job)
    dispatch.add(late)
    assert early.recalled == [3]
    dispatch.finish(early, made[0])
    dispatch.take_back(early, made[2])
    assert late.sent == [3]
    assert list(early.jobs) == [2]


async def test_a_suspect_is_worked_on_by_a_worker_that_has_nothing_else():
    worker = InboxWorker()
    dispatch = dispatcher(worker)
    first, suspect, other = jobs(3)
    dispatch.submit(first)
    dispatch.suspect([suspect], job_seconds=60)
    assert worker.sent == [1]
    dispatch.finish(worker, first)
    dispatch.submit(other)
    assert worker.sent == [1, 2], "nothing beside a suspect"
    dispatch.finish(worker, suspect)
    assert worker.sent == [1, 2, 3]


async def test_suspects_that_are_quick_are_tried_one_by_one():
    worker = InboxWorker()
    dispatch = dispatcher(worker, at_once=2)
    suspects = jobs(64)
    dispatch.suspect(suspects, job_seconds=0.01)
    assert worker.sent == [1]
    dispatch.finish(worker, suspects[0])
    assert worker.sent == [1, 2]


async def test_suspects_that_take_long_are_tried_in_halves_with_nothing_beside_them():
    first, second = InboxWorker(), InboxWorker(2)
    dispatch = dispatcher(first, second, at_once=3)
    *suspects, other = jobs(9)
    dispatch.suspect(suspects, job_seconds=30)
    assert (first.sent, second.sent) == ([1, 2, 3, 4], [5, 6, 7, 8])
    dispatch.submit(other)
    for done in suspects[:3]:
        dispatch.finish(first, done)
    assert first.sent == [1, 2, 3, 4], "one suspect is still going on"
    dispatch.finish(first, suspects[3])
    assert first.sent == [1, 2, 3, 4, 9]
    dispatch.finish(first, other)
    assert second.recalled == [], "suspects stay together"


@pytest.mark.parametrize("culprit", [1, 40, 66])
async def test_the_culprit_among_many_suspects_costs_few_workers(culprit):
    dispatch = dispatcher(at_once=64)
    dispatch.suspect(jobs(66), job_seconds=10)
    worker, attempts, ended = InboxWorker(), 0, 0
    dispatch.add(worker)
    while worker.jobs:
        attempts += 1
        held = list(worker.jobs.values())
        if culprit not in worker.jobs:
            for job in held:
                dispatch.finish(worker, job)
            continue
        ended += 1
        dispatch.workers.remove(worker)
        if len(held) > 1:
            dispatch.suspect(held, job_seconds=10)
        worker = InboxWorker()
        dispatch.add(worker)
    assert ended <= 6
    assert attempts <= 14, "of whole groups; one by one it would be 66"


async def test_after_a_stop_what_waits_is_not_begun():
    worker = InboxWorker()
    dispatch = dispatcher(worker, most_ahead=1)
    made = jobs(4)
    for job in made[:3]:
        dispatch.submit(job)
    dispatch.stop()
    dispatch.submit(made[3])
    assert worker.recalled == [1, 2]
    for job in made[2:]:
        with pytest.raises(NotBegunError):
            await job.done


def test_a_window_grows_with_the_pace_of_its_worker_up_to_its_limit():
    window = JobWindow()
    window.set_limits(2, 64)
    assert window.limit == 5
    window.begin(0.0)
    for done in range(1, 5):
        window.count_done(done / 32)  # 32 in a second, so 8 in the time that is sent ahead
    assert window.limit == 2 + 8
    for done in range(1, 129):
        window.count_done(1 + done / 1024)
    assert window.limit == 2 + 64


def test_a_window_is_small_where_an_item_takes_long():
    window = JobWindow()
    window.set_limits(1, 64)
    window.begin(0.0)
    window.count_done(30.0)
    assert window.limit == 2


def test_a_window_knows_how_long_a_job_takes_by_itself():
    window = JobWindow()
    window.set_limits(4, 64)
    assert window.job_seconds == math.inf, "until one was done"
    window.begin(100.0)
    for _ in range(8):
        window.count_done(100.5)  # together
    window.begin(200.0)  # after a time without work
    for _ in range(8):
        window.count_done(200.5)
    assert window.job_seconds == pytest.approx(4 * 1.0 / 16)


def test_how_the_options_name_an_executor():
    assert isinstance(executor_of(RunOptions()), LocalExecutor)
    assert executor_of(RunOptions(processes=3)) == ProcessExecutor(3)
    assert executor_of(RunOptions(executor=ProcessExecutor(2))) == ProcessExecutor(2)
    with pytest.raises(ConfigurationError, match="both say where the run works"):
        RunOptions(processes=2, executor=LocalExecutor())
    with pytest.raises(ConfigurationError, match="executor must be LocalExecutor"):
        RunOptions(executor="ray")
    with pytest.raises(ConfigurationError, match="whole number of at least 1"):
        ProcessExecutor(0)


def test_what_a_run_is_given_replaces_where_its_experiment_works():
    for_processes = Experiment(QUESTIONS, shout, [ExactMatch()], processes=2)
    assert with_keywords(for_processes.options, {"executor": LocalExecutor()}).processes == 1
    for_executor = Experiment(QUESTIONS, shout, [ExactMatch()], executor=LocalExecutor())
    assert with_keywords(for_executor.options, {"processes": 2}).executor is None
    with pytest.raises(ConfigurationError, match="both say where the run works"):
        for_executor.run(processes=2, executor=LocalExecutor())


class QueueEnd:
    """One end of a connection over two queues."""

    def __init__(self, inbox, outbox):
        self.inbox, self.outbox = inbox, outbox

    def send_bytes(self, data):
        self.outbox.put(data)

    def recv_bytes(self):
        data = self.inbox.get()
        if data is None:
            raise EOFError
        return data


class ThreadHandle(WorkerHandle):
    """A worker that is a thread: what any transport of messages has to do, and no more."""

    def start(self):
        there, back = queue.Queue(), queue.Queue()
        self.connection = QueueEnd(back, there)
        self.other = QueueEnd(there, back)
        self.thread = threading.Thread(target=serve, args=(self.other,), daemon=True)
        self.thread.start()
        started.append(self)

    def release(self):
        """Let the thread end, whichever message it waits for."""
        for message in ((False,), ("end",)):
            self.connection.send_bytes(encode(NO_JOB, message))
        self.thread.join(60)
        assert not self.thread.is_alive()

    def prepare(self, setup, advice):
        self.connection.send_bytes(encode(NO_JOB, (False,)))
        self.connection.send_bytes(setup)
        assert decode(self.connection.recv_bytes()) == ("ready",)

    def end(self):
        self._outbox.put(encode(NO_JOB, ("end",)))
        self._outbox.put(None)
        self.connection.inbox.put(None)

    def kill(self):
        self.end()

    def join(self, deadline):
        self.thread.join()

    @property
    def has_ended(self):
        return not self.thread.is_alive()

    def describe_end(self):
        return "ended"

    def _read(self, on_message):
        while True:
            try:
                on_message(self.connection.recv_bytes())
            except EOFError:
                return

    def _write(self):
        while (data := self._outbox.get()) is not None:
            self.connection.send_bytes(data)


class ThreadHost:
    advice = ""
    announcement = "Starting threads ..."
    waits_for_all = False

    def __init__(self, log):
        self.log = log

    def open(self):
        self.log.append("open")

    def create(self, number):
        return ThreadHandle(number)

    def close(self):
        self.log.append("close")


@dataclass(frozen=True)
class ThreadExecutor(Executor):
    log: list

    @property
    def workers(self):
        return 3

    def host(self):
        return ThreadHost(self.log)


scored_here = threading.Event()


@dataclass(frozen=True, kw_only=True)
class AfterTheOther(Evaluator):
    """Goes to a worker, and ends only when the other evaluator has scored the item."""

    def score(self, case):
        return Score(float(scored_here.wait(60)), "")


@dataclass(frozen=True, kw_only=True)
class Here(Evaluator):
    """Async, so it scores in the process of the run."""

    async def score(self, case):
        scored_here.set()
        return Score(1.0, "")


def test_what_stays_scores_while_a_worker_does(tmp_path):
    scored_here.clear()
    plan = Experiment(
        QUESTIONS[:1], shout, [AfterTheOther(threshold=1), Here()], quiet=True, run_dir=tmp_path
    )
    assert plan.run(executor=ThreadExecutor([])).pass_rate == 1.0


class TakingPool:
    """Takes evaluators of some kinds, and every job."""

    def __init__(self, *kinds):
        self.kinds = kinds

    def takes(self, evaluator):
        return isinstance(evaluator, self.kinds)

    def submit(self, *args, **keywords):
        return RemoteJob(1, Job(0, QUESTIONS[0], ()), None, None, None)


@pytest.mark.parametrize(
    ("kinds", "budget", "expected"),
    [
        ((ExactMatch, TokenF1), None, False),
        ((ExactMatch,), None, True),
        ((ExactMatch, TokenF1), Budget(max_cost_usd=1), True),
    ],
    ids=["nothing happens before the item is scored", "something scores it here", "a budget waits for it"],
)
def test_when_what_the_task_returned_is_awaited(kinds, budget, expected):
    caller = TaskCaller(shout, RunOptions(), None if budget is None else MemoryLedger(budget))
    item = RemoteItem(TakingPool(*kinds), caller, 0, QUESTIONS[0], None)
    assert item._submit([ExactMatch(), TokenF1()])
    assert item._job.is_outcome_awaited is expected


async def test_what_was_received_is_heard_of_where_a_job_is_given_up():
    [job] = jobs(1)
    job.receive(TaskOutcome({"output": "kept"}))
    assert not job.outcome.done()
    job.report_outcome()
    assert job.outcome.result().outputs == {"output": "kept"}


@pytest.mark.parametrize("journal", [True, False])
def test_a_run_knows_its_executor_by_the_seam_only(tmp_path, journal):
    plan = Experiment(QUESTIONS, shout, [ExactMatch()], quiet=True, journal=journal, run_dir=tmp_path)
    log = []
    away, here = plan.run(executor=ThreadExecutor(log)), plan.run(executor=LocalExecutor())
    assert log == ["open", "close"]
    assert [(item.index, item.actual_outputs, item.eval_results) for item in away.item_results] == [
        (item.index, item.actual_outputs, item.eval_results) for item in here.item_results
    ]


class ShortLivedHandle(ThreadHandle):
    """A worker that ends when it is given its first item."""

    def _write(self):
        self._outbox.get()
        self.connection.send_bytes(encode(NO_JOB, ("end",)))
        self.thread.join()
        self.connection.inbox.put(None)


class NoThreadsHandle(ThreadHandle):
    def listen(self, on_message, on_end):
        raise RuntimeError("can't start new thread")


class UnstartableHandle(ThreadHandle):
    def start(self):
        raise OSError(24, "Too many open files")

    def kill(self): ...


class UnpreparedHandle(ThreadHandle):
    def prepare(self, setup, advice):
        raise ConfigurationError("A worker process ended before it was ready.")


class LostHandle(ThreadHandle):
    def prepare(self, setup, advice):
        raise HostLostError("The cluster cannot be reached.")


@dataclass(frozen=True)
class ShortLivedExecutor(Executor):
    """Workers that end when they are given something, followed by those of another class."""

    next: type
    made: list
    count: int = 3

    @property
    def workers(self):
        return self.count

    def host(self):
        host = ThreadHost([])
        host.waits_for_all = True
        host.create = self.create
        return host

    def create(self, number):
        self.made.append((self.next if len(self.made) >= self.count else ShortLivedHandle)(number))
        return self.made[-1]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(
    ("following", "why"),
    [
        (UnstartableHandle, "Too many open files"),
        (NoThreadsHandle, "can't start new thread"),
        (UnpreparedHandle, "before it was ready"),
    ],
)
def test_a_run_ends_when_its_workers_have_ended_and_none_can_be_started(count, following, why):
    plan = Experiment(QUESTIONS, shout, [ExactMatch()], quiet=True, journal=False)
    with pytest.raises(RunError, match=f"cannot be started, or end as soon as they have: .*{why}"):
        plan.run(executor=ShortLivedExecutor(following, [], count))


def test_a_run_breaks_at_once_when_what_workers_run_on_is_lost():
    plan = Experiment(QUESTIONS, shout, [ExactMatch()], quiet=True, journal=False)
    made = []
    with pytest.raises(RunError, match="The cluster cannot be reached"):
        plan.run(executor=ShortLivedExecutor(LostHandle, made))
    assert len(made) == 3 + 3, "each was replaced once"


@dataclass(frozen=True)
class PreparedExecutor(ThreadExecutor):
    """Workers that get ready as a function of the number says, by raising or by waiting."""

    prepare: object = None

    def host(self):
        host = ThreadHost([])
        host.create = self.create
        return host

    def create(self, number):
        handle = ThreadHandle(number)
        usual = handle.prepare

        def prepare(setup, advice):
            self.prepare(number)
            usual(setup, advice)

        handle.prepare = prepare
        return handle


def run_prepared(prepare):
    plan = Experiment(QUESTIONS, shout, [ExactMatch()], quiet=True, journal=False)
    return plan.run(executor=PreparedExecutor([], prepare))


def test_a_worker_that_is_lost_before_it_is_ready_costs_nothing():
    lost = []

    def prepare(number):
        if number == 1 and not lost:
            lost.append(number)
            raise RunError("Its node has left.")

    assert run_prepared(prepare).pass_rate == 1.0
    assert lost == [1]


def test_what_no_worker_can_import_ends_a_run_that_has_not_begun():
    over = threading.Event()

    def prepare(number):
        if number == 1:
            raise ConfigurationError("It cannot be imported.")
        assert over.wait(60)

    with pytest.raises(ConfigurationError, match="cannot be imported"):
        run_prepared(prepare)
    over.set()


def test_a_run_for_which_no_worker_gets_ready_says_why():
    def prepare(number):
        raise RunError("Its node has left.")

    with pytest.raises(RunError, match="Its node has left"):
        run_prepared(prepare)


def test_nothing_of_a_replaced_worker_is_left():
    made = []
    result = Experiment(QUESTIONS, shout, [ExactMatch()], quiet=True, journal=False).run(
        executor=ShortLivedExecutor(ThreadHandle, made)
    )
    assert result.pass_rate == 1.0
    assert len(made) == 6
    for worker in made:
        for thread in worker._threads:
            thread.join(30)
            assert not thread.is_alive(), thread.name


async def test_what_comes_after_the_last_worker_is_told_so():
    dispatch = dispatcher()
    waits, later, suspect = jobs(3)
    dispatch.submit(waits)
    dispatch.break_off(RunError("No worker is left."))
    dispatch.submit(later)
    dispatch.suspect([suspect], job_seconds=60)
    for job in (waits, later, suspect):
        with pytest.raises(RunError, match="No worker is left"):
            await job.done


@pytest.mark.parametrize("quiet", [True, False])
def test_it_is_said_what_takes_long_before_a_run(capsys, quiet):
    plan = Experiment(QUESTIONS, shout, [ExactMatch()], quiet=quiet, journal=False)
    plan.run(executor=ThreadExecutor([]))
    assert ("Starting threads ..." in capsys.readouterr().err) is not quiet
