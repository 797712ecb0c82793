"""A worker on Ray and how it is configured, without Ray: messages that are sent twice or lost on the way."""

import sys
import threading

import pytest

from dokimos import RayExecutor
from dokimos._cli.executors import executor_changes
from dokimos._cli.run_settings import RunSettings
from dokimos.errors import ConfigurationError
from dokimos.evaluators import ExactMatch
from dokimos.experiment import _ray_head, _ray_worker
from dokimos.experiment._ray_cluster import advise
from dokimos.experiment._ray_handle import actor_options, describe_needs
from dokimos.experiment._ray_head import HeadWatch, find_patience
from dokimos.experiment._ray_versions import Versions, check_versions
from dokimos.experiment._ray_worker import RayWorker
from dokimos.experiment._run_options import RunOptions
from dokimos.experiment._worker_messages import END, FAILED, NO_JOB, READY, decode, encode
from dokimos.experiment._worker_setup import WorkerSetup


def shout(question):
    return question.upper()


@pytest.fixture
def worker():
    made = RayWorker(None, [], None)
    yield made
    made.put(2**60, [])  # of no effect
    # The first of them is for one that has not been prepared: it would take anything else for the wish to
    # record the files that this process reads, which never ends.
    for message in (False, END):
        made._inbox.put(encode(NO_JOB, (message,)))
    with made._changed:
        assert made._changed.wait_for(lambda: made._has_ended, 60)


def prepare(worker):
    setup = WorkerSetup(task=None, evaluators=(ExactMatch(),), options=RunOptions(), jobs_at_once=1)
    worker.put(0, [encode(NO_JOB, (False,)), setup.encode()])
    return worker.take(0)


def test_a_message_that_comes_twice_is_taken_once(worker):
    setup = WorkerSetup(task=None, evaluators=(), options=RunOptions(), jobs_at_once=1).encode()
    first = encode(NO_JOB, (False,))
    worker.put(0, [first])
    worker.put(0, [first, setup])
    worker.put(1, [setup])
    [ready] = worker.take(0)
    assert decode(ready) == (READY,)
    assert worker._inbox.empty()


def test_a_message_after_one_that_is_missing_waits_to_be_sent_again(worker):
    worker.put(1, [b"later"])
    assert worker._received == 0
    assert worker._inbox.empty()


def test_what_goes_out_is_kept_until_it_has_arrived(worker):
    [ready] = prepare(worker)
    assert worker.take(0) == [ready], "the answer was lost, so it is asked for again"
    worker.send_bytes(b"second")
    assert worker.take(1) == [b"second"]
    worker.send_bytes(b"third")
    assert worker.take(1) == [b"second", b"third"]
    assert worker.take(2) == [b"third"]
    assert worker.take(1) == [b"third"], "a call that was overtaken by a later one"


def test_one_that_waits_gets_what_comes(worker):
    prepare(worker)
    received = []
    waiting = threading.Thread(target=lambda: received.extend(worker.take(1)))
    waiting.start()
    worker.send_bytes(b"late")
    waiting.join(30)
    assert received == [b"late"]


@pytest.fixture
def waits_for_ever(monkeypatch):
    """Messages never go because of the time alone."""
    monkeypatch.setattr(_ray_worker, "GATHER_SECONDS", 3600.0)


def taking(worker, first, received):
    """Start a call of `take` in a thread."""
    waiting = threading.Thread(target=lambda: received.append(worker.take(first)), daemon=True)
    waiting.start()
    return waiting


def test_what_a_busy_worker_sends_goes_together(worker, waits_for_ever):
    prepare(worker)  # whose answer goes at once: it has nothing to do yet
    received = []
    waiting = taking(worker, 1, received)
    messages = [str(number).encode() for number in range(20)]
    for message in messages:
        worker.send_bytes(message)
    assert not received
    worker.flush()
    waiting.join(30)
    assert received == [messages]
    worker.flush()  # with nothing that has not gone yet
    assert worker.take(1) == messages, "the answer was lost"


def test_many_messages_wait_for_no_more(worker, waits_for_ever):
    prepare(worker)
    received = []
    waiting = taking(worker, 1, received)
    messages = [str(number).encode() for number in range(_ray_worker.MANY)]
    for message in messages:
        worker.send_bytes(message)
    waiting.join(30)
    assert received == [messages]


def test_a_worker_that_is_busy_for_long_does_not_hold_messages_back(worker, monkeypatch):
    prepare(worker)
    monkeypatch.setattr(_ray_worker, "GATHER_SECONDS", 0.0)
    worker.send_bytes(b"first")
    assert worker.take(1) == [b"first"]


def test_an_application_that_cannot_be_imported_is_told(tmp_path, monkeypatch):
    for name in ("__main__", "__mp_main__"):  # which the worker takes for those of a process of its own
        monkeypatch.setitem(sys.modules, name, sys.modules["__main__"])
    (tmp_path / "app.py").write_text("import nothing_of_this_name\n")
    worker = RayWorker(None, [], str(tmp_path / "app.py"))
    [message] = worker.take(0)
    kind, text = decode(message)
    assert kind == FAILED
    assert "nothing_of_this_name" in text
    assert worker.take(1) is None


def test_how_the_command_line_names_a_cluster():
    def changes(**settings):
        return executor_changes(RunSettings(**settings))

    assert changes() == {}
    assert changes(processes=2) == {"processes": 2, "executor": None}
    assert changes(on="here", processes=2) == {"processes": 2, "executor": None}
    assert changes(on="ray")["executor"] == changes(on="local")["executor"] == RayExecutor()
    assert changes(on="ray://h:10001", ray_workers=3, ray_resources="num_gpus=0.25, license=1")[
        "executor"
    ] == (RayExecutor(address="ray://h:10001", num_workers=3, resources={"num_gpus": 0.25, "license": 1}))
    for settings, problem in (
        ({"on": "ray", "processes": 2}, "both say where"),
        ({"on": "ray://h:10001"}, "needs --ray-workers"),
        ({"on": " "}, "--on takes"),
        ({"on": "here", "ray_workers": 2}, "need --on"),
        ({"ray_workers": 2}, "need --on"),
        ({"on": "ray", "ray_resources": "num_gpus"}, "takes NAME=AMOUNT"),
        ({"on": "ray", "ray_resources": "=1"}, "takes NAME=AMOUNT"),
    ):
        with pytest.raises(Exception, match=problem):
            changes(**settings)


def test_executors_are_checked():
    for settings, problem in (
        ({"address": ""}, "address must be"),
        ({"address": "ray://h:10001"}, "how many workers"),
        ({"num_workers": 0}, "at least 1"),
        ({"resources": {"num_gpus": -1}}, "0 or more"),
        ({"resources": {"num_gpus": "many"}}, "0 or more"),
        ({"runtime_env": []}, "mapping"),
        ({"runtime_env": {"pip": ["torch"]}}, "for a cluster that is joined"),
        ({"start_timeout": 0}, "more than 0 seconds"),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            RayExecutor(**settings)


def test_resources_have_the_names_of_ray():
    executor = RayExecutor(resources={"num_gpus": 0.5, "license": 1})
    options = {"num_cpus": 1, "num_gpus": 0.5, "resources": {"license": 1}}
    assert actor_options(executor, is_local=False) == options
    assert actor_options(RayExecutor(resources={"num_cpus": 0.1}), is_local=True) == {"num_cpus": 0.1}
    assert actor_options(RayExecutor(), is_local=True) == {"num_cpus": 0}
    assert describe_needs(executor) == "num_cpus=1, num_gpus=0.5, license=1"


@pytest.mark.parametrize(
    ("nodes", "here"),
    [
        (("0.2.0", "3.11.4"), ("0.2.0", "3.11.9")),
        (("0.2", "3.11.4"), ("0.2.0", "3.11.4")),
        (("0.2.0+cu12", "3.11.4"), ("v0.2.0", "3.11.4")),
    ],
)
def test_versions_that_go_together(nodes, here):
    check_versions(Versions(*nodes), Versions(*here))


@pytest.mark.parametrize(
    ("nodes", "remedy"),
    [
        (
            ("0.1.0", "3.11.4"),
            r"Install dokimos 0\.2\.0 on .* Or start the run with dokimos 0\.1\.0\.",
        ),
        (("0.20.0", "3.11.4"), r"Install dokimos 0\.2\.0"),
        (("0.2.0rc1", "3.11.4"), r"Install dokimos 0\.2\.0"),
        (
            ("0.2.0", "3.1.4"),
            r"with Python 3\.1, or give the nodes an image with Python 3\.11\.",
        ),
        (
            ("0.2.0", "3.12.0"),
            r"0\.2\.0 on Python 3\.12\.0, this process 0\.2\.0 on 3\.11\.4\. Start",
        ),
    ],
)
def test_versions_that_differ_say_what_to_do(nodes, remedy):
    with pytest.raises(ConfigurationError, match=remedy):
        check_versions(Versions(*nodes), Versions("0.2.0", "3.11.4"))


def test_a_cluster_that_cannot_be_joined_says_what_its_problem_needs():
    versions = "Version mismatch: The cluster was started with: Ray: 2.60.0 Python: 3.11.4"
    assert "Start the run with the Python and the Ray that the nodes have" in advise(versions)
    assert "An address is ray://host:10001" in advise("ray client connection timeout")


class ScriptedHead(HeadWatch):
    """A head that answers as often as it is said to, then never."""

    def __init__(self, *answers):
        super().__init__("[::1]:6379", most_missed=3)
        self.answers = list(answers)

    def _answers(self):
        return bool(self.answers) and self.answers.pop(0)


@pytest.fixture
def _checks_at_once(monkeypatch):
    monkeypatch.setattr(_ray_head, "CHECK_SECONDS", 0.0)


@pytest.mark.usefixtures("_checks_at_once")
def test_a_head_that_does_not_answer_for_too_long_is_lost():
    watch = ScriptedHead(True, False, False, True, False)
    watch._watch()
    assert watch.is_lost
    assert watch.answers == [], "two misses in a row were not enough"


@pytest.mark.usefixtures("_checks_at_once")
def test_a_head_is_not_lost_once_nobody_watches():
    watch = ScriptedHead()
    watch.stop()
    watch._watch()
    assert not watch.is_lost


@pytest.mark.parametrize(("of_ray", "seconds"), [(None, 30), ("300", 150), ("soon", 30)])
def test_a_head_may_be_away_for_half_of_what_ray_waits(monkeypatch, of_ray, seconds):
    name = "RAY_gcs_rpc_server_reconnect_timeout_s"
    monkeypatch.delenv(name, raising=False) if of_ray is None else monkeypatch.setenv(name, of_ray)
    assert find_patience() == seconds
