"""The connection to a Ray cluster, without Ray: when it ends, and a start that fails by chance."""

import threading
from types import SimpleNamespace

import pytest

from dokimos import RayExecutor
from dokimos.errors import ConfigurationError
from dokimos.experiment import _ray_cluster, _ray_handle, _ray_host
from dokimos.experiment._ray_calls import RayCalls, WorkerEndedError
from dokimos.experiment._ray_handle import RayHandle
from dokimos.experiment._ray_head import HeadWatch
from dokimos.experiment._ray_host import RayHost

FORK_FAILED = "Initialization failure from server:\nTraceback (most recent call last):\n  File ...\n{}"
NO_SERVER = FORK_FAILED.format(
    "RuntimeError: Starting Ray client server failed. See x.err for detailed logs."
)


@pytest.fixture
def host(monkeypatch):
    """A host that is connected as a driver, and what of it was going on when the connection ended."""
    made = RayHost(RayExecutor(num_workers=2))
    made._is_connected_here, made._head = True, HeadWatch("host:1", most_missed=1)
    made.going_on = []
    monkeypatch.setattr(_ray_host, "disconnect", lambda: made.going_on.append(made._calls._count))
    return made


def test_a_connection_ends_after_the_last_call(host):
    is_calling, may_return = threading.Event(), threading.Event()

    def call():
        with host._calls:
            is_calling.set()
            may_return.wait(30)

    calling, closing = threading.Thread(target=call), threading.Thread(target=host.close)
    calling.start()
    is_calling.wait(30)
    closing.start()
    until_closed = threading.Thread(target=wait_until_closed, args=[host._calls, may_return])
    until_closed.start()
    for each in (calling, closing, until_closed):
        each.join(30)
    assert host.going_on == [0]


def wait_until_closed(calls, may_return):
    while True:
        try:
            with calls:
                pass
        except WorkerEndedError:
            may_return.set()
            return


def test_a_connection_with_a_call_that_does_not_return_stays_open(host, monkeypatch, caplog):
    monkeypatch.setattr(_ray_host, "_CALL_SECONDS", 0.0)
    with host._calls:
        host.close()
    assert host.going_on == []
    assert "stays open" in caplog.text


def test_a_client_ends_whatever_goes_on(host, monkeypatch):
    monkeypatch.setattr(_ray_host, "_CLIENT_CALL_SECONDS", 0.0)
    host._head = None
    with host._calls:
        host.close()
    assert host.going_on == [1]


def test_a_connection_of_the_program_is_left_alone(host):
    host._is_connected_here = False
    host.close()
    assert host.going_on == []
    with pytest.raises(WorkerEndedError), host._calls:
        pass


class SilentRay:
    """A Ray that never has an answer, and kills what it is asked to."""

    exceptions = SimpleNamespace(
        **dict.fromkeys(("ActorUnavailableError", "ObjectLostError", "NodeDiedError"), OSError)
    )

    def __init__(self):
        self.killed = []
        self.waits = 0

    def wait(self, calls, timeout):
        self.waits += 1
        if self.waits == 3:
            self.kill_worker()
        assert self.waits <= 3, "a worker that was killed is not waited for"
        return [], calls

    def kill(self, actor):
        self.killed.append(actor)


def test_a_call_ends_when_its_worker_is_killed(monkeypatch):
    silent = SilentRay()
    monkeypatch.setattr(_ray_handle, "load_ray", lambda: silent)
    watch = HeadWatch("host:1", most_missed=1)
    handle = RayHandle(1, RayExecutor(), RayCalls(), is_local=True, head=watch)
    handle._actor = SimpleNamespace(take=SimpleNamespace(remote=lambda number: number))
    silent.kill_worker = handle.kill
    with pytest.raises(WorkerEndedError):
        handle._take()
    assert silent.killed == [handle._actor]


class FailingRay:
    """A cluster that cannot be joined at first."""

    def __init__(self, *problems):
        self.problems = list(problems)
        self.joined = 0

    def init(self, **_):
        if self.problems:
            raise ConnectionAbortedError(self.problems.pop(0))
        self.joined += 1


def test_a_server_of_the_client_that_died_at_its_start_is_asked_for_again():
    failing = FailingRay(NO_SERVER, NO_SERVER)
    _ray_cluster._join(failing, RayExecutor(address="ray://h:1", num_workers=1))
    assert failing.joined == 1


def test_a_server_that_always_dies_is_told_without_its_traceback():
    failing = FailingRay(*[NO_SERVER] * 20)
    with pytest.raises(ConfigurationError) as caught:
        _ray_cluster._join(failing, RayExecutor(address="ray://h:1", num_workers=1))
    text = "cannot be used: RuntimeError: Starting Ray client server failed. See x.err for detailed logs. An"
    assert text in str(caught.value)
    assert len(failing.problems) == 20 - _ray_cluster._ATTEMPTS


def test_another_problem_is_told_at_once():
    failing = FailingRay("ray client connection timeout", "second")
    with pytest.raises(ConfigurationError, match="cannot be used: ray client connection timeout"):
        _ray_cluster._join(failing, RayExecutor(address="ray://h:1", num_workers=1))
    assert failing.problems == ["second"]
