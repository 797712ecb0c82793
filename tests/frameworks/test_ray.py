"""Runs on a real Ray: a cluster of several nodes on this machine, whatever of it ends."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import ray
import scripted
from ray.cluster_utils import Cluster

from dokimos import Budget, Example, Experiment, RayExecutor
from dokimos.errors import ConfigurationError, MissingExtraError, RunInterrupted
from dokimos.evaluators import ExactMatch, LLMJudge, TokenF1
from dokimos.experiment import _ray_versions
from dokimos.judges import judge

APP = """
import os, signal, time
from dataclasses import dataclass
from pathlib import Path

from dokimos import CallMetrics, Example, Experiment, JudgeReply, Score, TaskResult
from dokimos.evaluators import Evaluator, ExactMatch, LLMJudge

SHARED = Path(os.environ.get("RAY_TEST_FOLDER", "."))

def note(what, text):
    with open(SHARED / what, "a") as file:
        file.write(f"{text}\\n")

def once(name):
    try:
        os.close(os.open(SHARED / f"once-{name}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True

def answer(question):
    note("asked", question)
    if question.endswith("3"):
        raise ValueError("no three")
    return {"output": question.upper(), "length": len(question)}

def answer_silently(question):
    if question.endswith("7"):
        raise ValueError("no seven")
    return question.upper()

def answer_for_money(question):
    note("asked", question)
    return TaskResult({"output": question.upper()}, CallMetrics(10, 5, cost_usd=0.01))

def answer_once_killed(question):
    note("asked", question)
    if question == "q5" and once(question):
        os.kill(os.getpid(), signal.SIGKILL)
    return question.upper()

def answer_always_killed(question):
    if question == "q5":
        os.kill(os.getpid(), signal.SIGKILL)
    return question.upper()

def answer_slowly(question):
    note("asked", question)
    time.sleep(0.05)
    return question.upper()

def list_folder(question):
    return {"output": os.listdir()}

def where(question):
    note("where", os.getpid())
    for _ in range(6000):
        if len(set((SHARED / "where").read_text().split())) > 1:
            break
        time.sleep(0.01)  # another worker may still be starting
    return {"output": os.getcwd(), "pid": os.getpid(), "node": os.environ.get("RAY_NODE_ID", "")}

class Judge:
    identity = "a judge"

    async def complete(self, prompt, *, schema=None):
        note("judged", os.getpid())
        return JudgeReply('{"score": 1, "reason": "So."}', CallMetrics(100, 10, cost_usd=0.01))

@dataclass(frozen=True, kw_only=True)
class Pid(Evaluator):
    def score(self, case):
        return Score(1.0, str(os.getpid()))

JUDGED = LLMJudge(criteria="It is right.", judge=Judge(), threshold=0.5)
QUESTIONS = [Example.of(f"q{number}", f"Q{number}") for number in range(12)]
experiment = Experiment(QUESTIONS, answer, [ExactMatch(), JUDGED], name="shout")
MANY = [Example.of(f"q{number}", f"Q{number}") for number in range(200)]
slow = Experiment(MANY, answer_slowly, [ExactMatch()])
"""


@pytest.fixture(autouse=True)
def _handler_of_sigterm():
    """Ray sets its own wherever a program connects, which would count as left behind by the test."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory):
    """Where tasks leave traces, whatever folder a node has given them."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def cluster(shared_folder):
    """A cluster of two nodes, which nothing of this process is connected to."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_TEST_FOLDER", str(shared_folder))
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        head = {"num_cpus": 2, "include_dashboard": False, "ray_client_server_port": _free_port()}
        made = Cluster(initialize_head=True, head_node_args=head)
        made.client_port = head["ray_client_server_port"]
        made.add_node(num_cpus=2)
        made.wait_for_nodes()
        yield made
        made.shutdown()


@pytest.fixture
def app(tmp_path, monkeypatch, shared_folder):
    """The module of an application, in a folder of its own."""
    for left in shared_folder.iterdir():
        left.unlink()
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_TEST_FOLDER", str(shared_folder))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "app", raising=False)
    import app

    app.lines = lambda name: (
        sorted((shared_folder / name).read_text().split()) if (shared_folder / name).exists() else []
    )
    yield app
    assert not ray.is_initialized(), "a run leaves no connection"


@pytest.fixture
def executor(cluster):
    return RayExecutor(address=cluster.address, num_workers=4)


def plan(app, task, evaluators=(), **settings):
    return Experiment(app.QUESTIONS, task, [ExactMatch(), *evaluators], quiet=True, **settings)


def contents(result):
    """What a result says, without times."""
    return [
        (item.index, item.key, item.actual_outputs, item.error, item.eval_results)
        for run in result.runs
        for item in run.item_results
    ]


def failing(result):
    return [item.key for item in result.item_results if item.error is not None]


def until(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not come about"
        time.sleep(0.02)


def test_a_run_on_a_cluster_equals_the_single_one(app, executor):
    questions = [Example.of(f"q{number}", f"Q{number}") for number in range(20_000)]
    evaluators = [ExactMatch(), TokenF1(threshold=0.5), app.JUDGED]
    both = Experiment(questions, app.answer_silently, evaluators, parallelism=16, quiet=True)
    alone = both.run(journal=False, seed=1)
    judged = app.lines("judged")
    away = both.run(executor=executor, seed=1)
    assert contents(away) == contents(alone)
    assert (away.status, away.pass_rate, away.warnings) == (alone.status, alone.pass_rate, ())
    assert app.lines("judged") == judged * 2, "the same calls, by the same process"
    assert set(judged) == {str(os.getpid())}


def test_workers_are_on_all_nodes_in_the_folder_that_was_sent(app, executor):
    Path("data.txt").write_text("sent")
    many = replace(plan(app, app.where), dataset=[Example.of(f"q{number}", "") for number in range(400)])
    result = many.run(executor=executor, journal=False)
    outputs = [item.actual_outputs for item in result.item_results]
    folders = {Path(each["output"]) for each in outputs}
    assert Path.cwd() not in folders
    assert {(folder / "data.txt").read_text() for folder in folders} == {"sent"}
    assert os.getpid() not in {each["pid"] for each in outputs}
    assert len({each["pid"] for each in outputs}) > 1


def test_an_item_whose_worker_is_killed_is_worked_on_once_more(app, executor):
    result = plan(app, app.answer_once_killed).run(executor=executor)
    assert result.pass_rate == 1.0
    assert set(app.lines("asked")) == {example.input for example in app.QUESTIONS}
    assert app.lines("asked").count("q5") == 2


def test_an_item_that_ends_each_worker_is_an_error(app, executor):
    result = plan(app, app.answer_always_killed).run(executor=executor)
    assert failing(result) == ["item-5"]
    assert "ended while working on it: the process of its actor died" in result.item_results[5].error
    assert result.summary.passed == 11


def test_a_node_that_dies_costs_no_item(app, cluster, executor):
    node = cluster.add_node(num_cpus=4)
    cluster.wait_for_nodes()

    def remove():
        until(lambda: len(app.lines("asked")) > 20)
        cluster.remove_node(node, allow_graceful=False)

    ending = threading.Thread(target=remove)
    ending.start()
    result = app.slow.run(executor=replace(executor, num_workers=6), quiet=True)
    ending.join()
    assert result.pass_rate == 1.0
    assert len(result.item_results) == 200


def test_a_run_whose_driver_is_killed_is_resumed_without_a_cluster(app, cluster):
    process = subprocess.Popen(
        [sys.executable, "-m", "dokimos", "run", "app.py:slow", "--on", cluster.address, "--ray-workers", "2"]
    )
    until(lambda: len(app.lines("asked")) > 40)
    process.kill()
    process.wait()
    journal = next(Path(".dokimos/runs").iterdir()) / "journal.jsonl"
    kept = [line for line in journal.read_text().splitlines() if json.loads(line)["t"] == "item"]
    assert kept
    done = subprocess.run(
        [sys.executable, "-m", "dokimos", "resume", "latest", "--on", "here"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "100.0 % passed (200/200)" in done.stdout, done.stderr
    again = len(app.lines("asked")) - 200
    assert again <= 2 * 65, "no more than the workers had"
    assert len(app.lines("asked")) - len(set(app.lines("asked"))) == again


def test_ctrl_c_leaves_nothing(app):
    process = subprocess.Popen(
        [sys.executable, "-m", "dokimos", "run", "app.py:slow", "--on", "local", "--ray-workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    until(lambda: len(app.lines("asked")) > 20)
    own = {process.pid} | {each.pid for each in psutil.Process(process.pid).children(recursive=True)}
    assert any("raylet" in psutil.Process(pid).name() for pid in own)
    os.killpg(process.pid, signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 130, printed
    assert "Traceback" not in printed
    assert "dokimos resume" in printed
    until(lambda: not any(psutil.pid_exists(pid) for pid in own))


def test_a_budget_holds_over_four_workers(app, executor):
    result = plan(app, app.answer_for_money).run(executor=executor, budget=Budget(max_cost_usd=0.055))
    assert result.status.value == "budget_spent"
    assert len(app.lines("asked")) == 5
    resumed = plan(app, app.answer_for_money).run(resume=result.run_id, executor=executor)
    assert resumed.summary.passed == len(app.QUESTIONS)
    assert app.lines("asked") == sorted(example.input for example in app.QUESTIONS)


def test_a_rate_limit_slows_the_calls_of_the_whole_run(app, executor):
    with scripted.ScriptedServer('{"score": 1, "reason": "So."}') as server:
        server.then(scripted.Misbehaviour(), times=6)
        server.then(scripted.too_many(retry_after=0), times=2)
        asked = judge("openai-chat:tiny", base_url=f"{server.url}/v1", api_key="k")
        judged = LLMJudge(criteria="It is right.", judge=asked, threshold=0.5)
        result = plan(app, app.answer_silently, [judged, app.Pid()], parallelism=2).run(executor=executor)
        assert len(server.received) == len(app.QUESTIONS) + 2 - 1, "one item has no output"
    assert failing(result) == ["item-7"]
    pids = {item.eval_results[2].reason for item in result.item_results if item.eval_results}
    assert str(os.getpid()) not in pids


class FlakyLink:
    """A proxy in front of a port, whose connections all end from time to time."""

    def __init__(self, port):
        self.target = ("127.0.0.1", port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            with contextlib.suppress(OSError):
                server = socket.create_connection(self.target)
                self.sockets += [client, server]
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for each in (source, sink):
            each.close()

    def drop(self):
        dropped, self.sockets = self.sockets, []
        for each in dropped:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        return len(dropped)


def test_a_connection_that_drops_costs_no_item(app, cluster):
    link = FlakyLink(cluster.client_port)

    def drop():
        for count in (20, 100):
            until(lambda count=count: len(app.lines("asked")) > count)
            assert link.drop()

    dropping = threading.Thread(target=drop)
    dropping.start()
    # In another process: one that was a client of Ray cannot become a driver.
    options = ["--on", f"ray://127.0.0.1:{link.port}", "--ray-workers", "2"]
    command = [sys.executable, "-m", "dokimos", "run", "app.py:slow", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    dropping.join()
    assert "100.0 % passed (200/200)" in done.stdout, done.stderr
    assert app.lines("asked") == sorted(example.input for example in app.MANY), "each once"


@pytest.mark.parametrize("is_client", [True, False])
def test_a_run_ends_when_its_cluster_does(app, shared_folder, is_client):
    """The cluster of another process, so that nothing of this one is connected to it."""
    port, client_port = _free_port(), _free_port()
    start = ["start", "--head", "--port", str(port), "--ray-client-server-port", str(client_port)]
    options = ["--num-cpus", "2", "--include-dashboard", "false", "--block", "--disable-usage-stats"]
    command = [sys.executable, "-m", "ray.scripts.scripts", *start, *options]
    open_access = {"RAY_AUTH_MODE": "disabled"}
    head = subprocess.Popen(command, env=os.environ | open_access, start_new_session=True)
    try:
        until(lambda: _answers(client_port))
        address = f"ray://127.0.0.1:{client_port}" if is_client else f"127.0.0.1:{port}"
        where = ["--on", address, "--ray-workers", "2"]
        process = subprocess.Popen(
            [sys.executable, "-m", "dokimos", "run", "app.py:slow", "-j", "2", *where],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | open_access | {"RAY_CLIENT_RECONNECT_GRACE_PERIOD": "3"},
            text=True,
        )
        until(
            lambda: len(app.lines("asked")) > 20, seconds=180
        )  # a client may have to ask for a server twice
    finally:
        os.killpg(head.pid, signal.SIGKILL)
        head.wait()
    printed, _ = process.communicate(timeout=100)
    assert process.returncode == 3, printed
    assert "cannot be reached any more" in printed
    assert "dokimos resume" in printed
    assert "Started a local Ray instance" not in printed
    assert len(set(app.lines("asked"))) < 200


def _answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_secrets_are_not_sent(app, executor):
    for name in (".env", ".env.local", "server.key", "data.txt", ".gitignore"):
        Path(name).write_text("secret.txt\n")
    Path("secret.txt").touch()
    result = plan(app, app.list_folder).run(executor=executor, journal=False)
    sent = set(result.item_results[0].actual_outputs["output"])
    assert {"app.py", "data.txt"} <= sent
    assert not sent & {".env", ".env.local", "server.key", "secret.txt"}


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_cluster_that_is_started_here_asks_nobody_else_anything(app, monkeypatch):
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    peers, settings = set(), set()
    package = os.path.dirname(ray.__file__)

    def watch():
        while not done.wait(0.1):
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    command = process.cmdline()[:4]
                    if any(each.startswith(("ray::", package)) for each in command):
                        environ = process.environ()
                        if "PATH" in environ:  # else its title has been written over it
                            settings.add(environ.get("RAY_USAGE_STATS_ENABLED"))
                        peers.update(each.raddr.ip for each in process.net_connections() if each.raddr)

    done = threading.Event()
    watching = threading.Thread(target=watch)
    watching.start()
    # In another process: one that has started a cluster cannot join another one.
    command = [
        sys.executable,
        "-m",
        "dokimos",
        "run",
        "app.py:experiment",
        "--on",
        "ray",
        "--ray-workers",
        "2",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    done.set()
    watching.join()
    own = {address[4][0] for address in socket.getaddrinfo(socket.gethostname(), None)} | {"127.0.0.1", "::1"}
    own |= {each.address for addresses in psutil.net_if_addrs().values() for each in addresses}
    assert "(11/12)" in ended.stdout, ended.stderr
    assert settings == {"0"}
    assert peers, "the processes of Ray have connections"
    assert {peer.removeprefix("::ffff:") for peer in peers} <= own


def test_outputs_are_scored_again_on_a_cluster(app, executor):
    stored = plan(app, app.answer_silently).run(journal=False)
    evaluators = [TokenF1(threshold=0.5), app.JUDGED]
    alone = Experiment.rescore(stored, evaluators)
    away = Experiment.rescore(stored, [*evaluators, app.Pid()], executor=executor)
    assert [item.eval_results[:2] for item in away.item_results] == [
        item.eval_results for item in alone.item_results
    ]
    pids = {item.eval_results[2].reason for item in away.item_results if item.eval_results}
    assert str(os.getpid()) not in pids


def test_a_program_that_is_connected_keeps_its_connection(app, cluster):
    ray.init(address=cluster.address, runtime_env={"working_dir": "."}, log_to_driver=False)
    try:
        result = plan(app, app.answer).run(executor=RayExecutor(num_workers=2))
        assert ray.is_initialized()
    finally:
        ray.shutdown()
    assert result.summary.passed == 11


def test_a_task_of_the_script_itself(app):
    Path("script.py").write_text(
        "from app import *\nfrom dokimos import RayExecutor\n"
        "def whisper(question):\n    return question.lower()\n"
        "if __name__ == '__main__':\n"
        "    plan = Experiment(QUESTIONS, whisper, [ExactMatch()], quiet=True)\n"
        "    result = plan.run(executor=RayExecutor(num_workers=2))\n"
        "    print(sorted(item.actual_output for item in result.item_results))\n"
    )
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(sorted(f"q{number}" for number in range(12))), done.stderr
    assert not re.search("WARNING|token", done.stderr), done.stderr


def test_what_cannot_be_sent_is_told_before_the_run(app, executor, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "far_away.py").write_text("def task(question):\n    return question\n")
    monkeypatch.syspath_prepend(elsewhere)
    import far_away

    with pytest.raises(ConfigurationError, match=r"cannot import .*far_away.*runtime_env"):
        plan(app, far_away.task).run(executor=executor)
    with pytest.raises(ConfigurationError, match="without lambda"):
        plan(app, lambda question: question).run(executor=executor)
    assert not Path(".dokimos/runs").exists() or not list(Path(".dokimos/runs").iterdir())


def test_runs_that_end_while_their_workers_start(app, executor, tmp_path_factory):
    """Ray crashes a process whose connection ends while a thread of it waits for a worker."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "far_away.py").write_text("def task(question):\n    return question\n")
    script = (
        "import sys\n"
        f"sys.path.append({str(elsewhere)!r})\n"
        "from dokimos import Experiment, RayExecutor\n"
        "from dokimos.errors import ConfigurationError\n"
        "from app import QUESTIONS\n"
        "from dokimos.evaluators import ExactMatch\n"
        "from far_away import task\n"
        f"executor = RayExecutor(address={executor.address!r}, num_workers=4)\n"
        "for _ in range(6):\n"
        "    try:\n"
        "        Experiment(QUESTIONS, task, [ExactMatch()], quiet=True).run(executor=executor)\n"
        "    except ConfigurationError as error:\n"
        "        print('RayExecutor(runtime_env=' in str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"] * 6


def test_resources_that_no_node_has(app, executor):
    needy = replace(executor, resources={"num_gpus": 0.5, "license": 1}, start_timeout=2.0)
    needs = "num_cpus=1, num_gpus=0.5, license=1 free for a worker in 2 seconds"
    with pytest.raises(ConfigurationError, match=rf"{needs}\. The cluster has 4 CPU on 2 nodes"):
        plan(app, app.answer).run(executor=needy)


def test_a_cluster_that_is_not_there(app):
    options = ["--on", "ray://127.0.0.1:1", "--ray-workers", "1"]
    command = [sys.executable, "-m", "dokimos", "run", "app.py:experiment", *options]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "The Ray cluster ray://127.0.0.1:1 cannot be used" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_nodes_with_another_version(app, executor, monkeypatch):
    monkeypatch.setattr(_ray_versions, "__version__", "0.0.1")
    with pytest.raises(ConfigurationError, match=r"The nodes have dokimos .*, this process 0\.0\.1 on"):
        plan(app, app.answer).run(executor=executor)


def test_an_interrupted_run_has_what_was_done(app, executor):
    def interrupt():
        until(lambda: len(app.lines("asked")) > 20)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(RunInterrupted) as caught:
        app.slow.run(executor=executor, quiet=True)
    assert 0 < len(caught.value.result.item_results) < 200


def test_a_machine_without_ray(app, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"dokimos\[ray\]"):
        plan(app, app.answer).run(executor=RayExecutor(num_workers=2))
