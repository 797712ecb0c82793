"""Settings that all tests share."""

import asyncio
import compileall
import contextlib
import gc
import importlib.util
import math
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import dokimos
from dokimos._runtime.time_limits import count_extra_time, give_extra_time
from dokimos.testing import _plugin as plugin

# The machine may be busy: how long an example takes says nothing about the code.
settings.register_profile("dokimos", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dokimos")

# A shell starts what it puts in the background with Ctrl-C ignored, and so would be all that tests start.
in_main_thread = threading.current_thread() is threading.main_thread()
if in_main_thread and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """Compile the sources for all commands that tests start; what tests write is never compiled to a file.

    Python takes a compiled file for the source's as long as the source's size and its time in seconds are
    the same: a test that changes `upper` to `lower` and goes on at once would run the old module.
    """
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(dokimos.__path__[0], quiet=2, workers=0)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # For the sessions of pytest that tests start, too: as in pyproject.toml, since its import takes a second.
    os.environ["PYTEST_ADDOPTS"] = f"{os.environ.get('PYTEST_ADDOPTS', '')} -p no:schemathesis".strip()


def pytest_collection_finish(session):
    sys.dont_write_bytecode = True  # not before: the tests themselves may be kept as pytest rewrites them


@pytest.fixture(scope="session", autouse=True)
def _outside_the_checkout(tmp_path_factory):
    """What tests run neither takes the checkout for its project nor leaves runs in it."""
    folder = tmp_path_factory.mktemp("here")
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugin, "SESSIONS", [])
        yield


@pytest.fixture(scope="session")
def _temporary_folder(tmp_path_factory):
    return str(tmp_path_factory.getbasetemp())


SIGNALS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD", "SIGPIPE", "SIGVTALRM", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
]


def _describe_process():
    return {
        "the working directory": os.getcwd(),
        "whether garbage is collected": gc.isenabled(),
        "the module __main__": sys.modules["__main__"],
        "the switch interval": sys.getswitchinterval(),
        "sys.excepthook": sys.excepthook,
        "threading.excepthook": threading.excepthook,
        **{f"the handler of {number.name}": signal.getsignal(number) for number in SIGNALS},
    }


# Named so that it is set up before all others, and sees the process when they have ended.
@pytest.fixture(autouse=True)
def _a_process_for_all_tests():
    """A test that leaves the process changed fails by itself, and not whichever comes to be after it.

    Variables are put back without a word: a suite may export those of its `.env` file, for good.
    """
    before, variables = _describe_process(), dict(os.environ)
    yield
    for name in os.environ.keys() | variables.keys():
        if name != "PYTEST_CURRENT_TEST" and os.environ.get(name) != variables.get(name):
            os.environ.pop(name, None)
            os.environ |= {name: variables[name]} if name in variables else {}
    after = _describe_process()
    changed = {name: (before[name], after[name]) for name in before if after[name] != before[name]}
    if changed:
        pytest.fail(f"The test has left the process of all tests changed (before, now): {changed}")


@pytest.fixture(autouse=True)
def _forget_modules_of_tests(_temporary_folder):
    """What a test wrote and imported, such as an `app.py`, is not what the next one imports by that name."""
    before, path = set(sys.modules), set(sys.path)
    yield
    for name in sys.modules.keys() - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(_temporary_folder):
            del sys.modules[name]
    sys.path[:] = [each for each in sys.path if each in path or not each.startswith(_temporary_folder)]


@pytest.fixture(autouse=True)
def _forget_endpoints():
    """What was learned of a model's server is not known of the next one, which may get its port."""
    module = sys.modules.get("dokimos.judges._capabilities")
    if module is not None:
        module.forget_capabilities()


@pytest.fixture(scope="session")
def wait_until():
    """A function that waits for a condition, and fails where it does not come true in time."""

    def wait(condition, seconds=60.0):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not happen in time"
            time.sleep(0.002)  # between two looks

    return wait


class TimeLimits:
    """Time limits of calls that pass when the call says so, however long it takes until then.

    With the real clock, what is quick runs into a short limit on a machine that stalls for a moment.
    """

    def __init__(self):
        self.begun = []
        """The seconds of each limit, in the order in which they began."""
        self.extra = []
        """What each limit of a task or an evaluator got on top."""

    @staticmethod
    def reach():
        """Let the limits pass inside which the code that calls this runs."""
        give_extra_time(-math.inf)

    async def wait_with_limit(self, work, seconds, extra):
        self.begun.append(seconds)
        self.extra.append(extra)
        while not work.done() and extra.seconds >= 0:
            await asyncio.wait((work,), timeout=0.01)

    @contextlib.asynccontextmanager
    async def limit_time(self, seconds):
        self.begun.append(seconds)
        with count_extra_time() as extra:
            async with asyncio.timeout(None) as limit:

                async def look():
                    while extra.seconds >= 0:
                        await asyncio.sleep(0.01)
                    limit.reschedule(0)

                looking = asyncio.create_task(look())
                try:
                    yield limit
                finally:
                    looking.cancel()


@pytest.fixture
def limits(monkeypatch):
    """The time limits of tasks, evaluators and applications of suites, which pass when a call says so."""
    made = TimeLimits()
    monkeypatch.setattr("dokimos.experiment._task_calls.wait_with_limit", made.wait_with_limit)
    monkeypatch.setattr("dokimos._runtime.scoring_threads.wait_with_limit", made.wait_with_limit)
    monkeypatch.setattr("dokimos.suites._task.limit_time", made.limit_time)
    return made


@pytest.fixture(scope="session")
def scripted():
    """The module with the server that speaks every protocol of a model and misbehaves on demand."""
    return load_server("scripted")


@pytest.fixture(scope="session")
def serve():
    """A class of servers whose answers are a function of the request: `with serve(answer) as server`."""
    return load_server("http_api").HttpApi


def load_server(name):
    path = Path(__file__).parent / "servers" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def nobody():
    """The address of a port on which nobody listens, held so that nobody else can."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture
def server(scripted):
    """A model server on this machine, with nothing wrong with it yet."""
    with scripted.ScriptedServer() as running:
        yield running


@pytest.fixture
def live():
    """The module that starts a dokimos server in a thread; the test is skipped without the extra."""
    pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
    pytest.importorskip("sqlalchemy", reason="the extra 'server' is not installed")
    return load_server("live")


@pytest.fixture
def live_server(live, tmp_path):
    """The address of a dokimos server that is open and empty."""
    with live.serving(data_dir=tmp_path / "server") as address:
        yield address
