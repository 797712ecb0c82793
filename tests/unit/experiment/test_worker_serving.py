"""What a worker says, without a process or a cluster around it."""

import queue
import threading

from dokimos import Example, RunOptions
from dokimos.experiment import _worker_process
from dokimos.experiment._worker_messages import DONE, END, NO_JOB, Job, decode, decode_number, encode
from dokimos.experiment._worker_process import serve
from dokimos.experiment._worker_setup import WorkerSetup

PATIENCE = 60
all_given = threading.Event()


def shout_when_all_are_there(question):
    assert all_given.wait(PATIENCE)
    return question.upper()


class LoggingConnection:
    """Keeps what is sent, and knows when all that was to be read has been."""

    def __init__(self, log):
        self.inbox = queue.SimpleQueue()
        self.log = log

    def send_bytes(self, data):
        self.log.append((decode(data)[0], decode_number(data)))

    def recv_bytes(self):
        self.reader = threading.current_thread()
        if self.inbox.empty():
            all_given.set()
        return self.inbox.get()


def test_a_worker_is_idle_when_nothing_waits_to_be_begun():
    all_given.clear()
    log, idle = [], queue.SimpleQueue()
    connection = LoggingConnection(log)
    setup = WorkerSetup(task=shout_when_all_are_there, evaluators=(), options=RunOptions(), jobs_at_once=1)
    connection.inbox.put(encode(NO_JOB, (False,)))
    connection.inbox.put(setup.encode())
    for number in (1, 2, 3):
        example = Example.of(f"q{number}", f"Q{number}")
        connection.inbox.put(encode(number, Job(0, example, (), frozenset({"input"}))))
    keywords = {"on_idle": lambda: idle.put(list(log))}
    threading.Thread(target=serve, args=(connection,), kwargs=keywords, daemon=True).start()
    started, done = (idle.get(timeout=PATIENCE) for _ in range(2))
    assert started == [("ready", NO_JOB)]
    assert done == [("ready", NO_JOB)] + [
        (kind, number) for number in (1, 2, 3) for kind in ("outcome", "done")
    ]
    connection.inbox.put(encode(NO_JOB, (END,)))


class EndingConnection(LoggingConnection):
    """Ends the worker as soon as its job is done, before it can do anything else."""

    def send_bytes(self, data):
        super().send_bytes(data)
        if decode(data)[0] == DONE:
            self.inbox.put(encode(NO_JOB, (END,)))
            self.reader.join(PATIENCE)


def test_a_worker_that_has_answered_all_ends_as_usual(monkeypatch):
    exits = []

    def exit_now():
        exits.append(True)
        raise SystemExit

    monkeypatch.setattr(_worker_process, "_exit_now", exit_now)
    connection = EndingConnection([])
    setup = WorkerSetup(task=str.upper, evaluators=(), options=RunOptions(), jobs_at_once=1)
    connection.inbox.put(encode(NO_JOB, (False,)))
    connection.inbox.put(setup.encode())
    connection.inbox.put(encode(1, Job(0, Example.of("q", "Q"), (), frozenset({"input"}))))
    worker = threading.Thread(target=serve, args=(connection,), daemon=True)
    worker.start()
    worker.join(PATIENCE)
    assert exits == []
    assert not worker.is_alive()
