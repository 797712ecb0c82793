"""What a worker says, without a process or a cluster around it."""

import queue
import threading

from dokimos import Example, RunOptions
from dokimos.experiment._worker_messages import NO_JOB, Job, decode, decode_number, encode
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
    # It is left waiting for a message: where a job has hardly ended, one that ends it may end this process.
    threading.Thread(target=serve, args=(connection,), kwargs=keywords, daemon=True).start()
    started, ended = (idle.get(timeout=PATIENCE) for _ in range(2))
    assert started == [("ready", NO_JOB)]
    assert ended == [("ready", NO_JOB)] + [
        (kind, number) for number in (1, 2, 3) for kind in ("outcome", "done")
    ]
