"""How a command ends that has run code of the user: nothing that such code does as it goes is left out."""

import gzip
import sys
from importlib.machinery import EXTENSION_SUFFIXES

import pytest
from tests.integration.test_cli_collector import COUNT_AT_EXIT, SUITE, run_python

AGENT = """
def agent(text):
    return text
"""
HELD = """
class Log:
    file = open("log.txt", "w")
    file.write("all of it")
"""
LEFT_IN_FILE = {
    "a class": HELD,
    "a class of Python": """
import textwrap
textwrap.TextWrapper.log = open("log.txt", "w")
textwrap.TextWrapper.log.write("all of it")
""",
    "a filter of logging": """
import logging

class Filter(logging.Filter):
    def __init__(self):
        super().__init__()
        self.file = open("log.txt", "w")

    def filter(self, record):
        self.file.write(record.getMessage())
        return True

logger = logging.getLogger("mine")
logger.addFilter(Filter())
logger.warning("all of it")
""",
    "a compressed file": """
import gzip

class Log:
    file = gzip.open("log.gz", "wt")
    file.write("all of it")
""",
    "a thread that is waited for": """
import threading, time

class Log:
    pass

def write():
    threading.main_thread().join()
    Log.file = open("log.txt", "w")
    Log.file.write("all of it")

threading.Thread(target=write).start()
""",
    "what was frozen": """
import atexit, gc

@atexit.register
def write():
    file = open("log.txt", "w")
    file.write("all of it")
    gc.freeze()
    type("Log", (), {"file": file})
""",
    "what is called at exit": """
import atexit

class Log:
    pass

@atexit.register
def write():
    Log.file = open("log.txt", "w")
    Log.file.write("all of it")
""",
}
SAYS_GOODBYE = {
    "an object in a cycle": """
class Node:
    def __del__(self):
        print("bye", flush=True)

Node.itself = Node()
""",
    "an object that the collector does not know": """
class Node:
    __slots__ = ()
    def __del__(self, print=print):
        print("bye", flush=True)

class Holder:
    node = Node()
""",
    "a class of a metaclass": """
class Meta(type):
    def __del__(cls, print=print):
        print("bye", flush=True)

class Node(metaclass=Meta):
    pass
""",
    "a class whose __del__ comes later": """
class Node:
    pass

Node.itself = Node()
Node.__del__ = lambda self: print("bye", flush=True)
""",
    "a generator in the middle": """
def steps(print=print):
    try:
        yield
    finally:
        print("bye", flush=True)

class Holder:
    steps = steps()

next(Holder.steps)
""",
    "a coroutine": """

class Holder:
    pass

async def step(print=print):
    try:
        await Wait()
    finally:
        print("bye", flush=True)

class Wait:
    def __await__(self):
        yield

Holder.step = step()
Holder.step.send(None)
""",
    "a weak reference": """
import functools, sys, weakref

class Node:
    pass

node = Node()
sys.reference = weakref.ref(node, functools.partial(print, "bye", flush=True))
""",
    "a finalizer": """
import weakref

class Node:
    pass

Node.itself = Node()
weakref.finalize(Node.itself, print, "bye", flush=True)
""",
    "a finalizer that is made at exit": """
import atexit, weakref

class Node:
    pass

Node.itself = Node()
atexit.register(lambda: weakref.finalize(Node.itself, print, "bye", flush=True))
""",
    "what is called at exit": """
import atexit
atexit.register(print, "bye", flush=True)
""",
    "a temporary folder": """
import tempfile, os

class Folder(tempfile.TemporaryDirectory):
    @classmethod
    def _cleanup(cls, name, *arguments, **options):
        super()._cleanup(name, *arguments, **options)
        print("bye", flush=True)

class Holder:
    folder = Folder()
""",
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path


def run_suite(folder, code):
    (folder / "app.py").write_text(code + AGENT)
    return run_python(folder, "-c", COUNT_AT_EXIT, "test", "suite.yaml", "-q")


without_windows = pytest.mark.skipif(
    sys.platform == "win32", reason="there, asyncio loads modules that always count as noticed"
)


@without_windows
def test_code_that_leaves_nothing_behind_is_not_taken_apart(folder):
    code = """
import json, logging, tempfile
from dataclasses import dataclass

logger = logging.getLogger(__name__)

@dataclass
class Order:
    number: int
    items: list

orders = [Order(1, [])]
with open("orders.json", "w") as file:
    json.dump([order.number for order in orders], file)
numbers = (order.number for order in orders)
"""
    assert run_suite(folder, code)[-1] == "frozen"


@without_windows
def test_what_http_clients_load_on_macos_hides_nothing(folder):
    code = f"""
import sys, types
sys.modules.setdefault("_scproxy", types.ModuleType("_scproxy")).__file__ = "_scproxy{EXTENSION_SUFFIXES[-1]}"
"""
    assert run_suite(folder, code)[-1] == "frozen"


@pytest.mark.parametrize("code", [pytest.param(code, id=id) for id, code in LEFT_IN_FILE.items()])
def test_a_file_that_is_not_closed_is_written_out(folder, code):
    run_suite(folder, code)

    (path,) = folder.glob("log.*")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        assert file.read() == "all of it"


@pytest.mark.parametrize("code", [pytest.param(code, id=id) for id, code in SAYS_GOODBYE.items()])
def test_what_objects_do_as_they_go_is_done(folder, code):
    assert any(line.startswith("bye") for line in run_suite(folder, code))


def test_a_connection_of_a_database_is_closed(folder):
    run_suite(
        folder,
        """
import sqlite3

class Store:
    connection = sqlite3.connect("store.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE orders (id)")
    connection.commit()
""",
    )

    assert [path.name for path in folder.glob("store.db*")] == ["store.db"]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import warnings\nwarnings.simplefilter('always')\n", id="warnings"),
        pytest.param("import gc\ngc.set_debug(gc.DEBUG_UNCOLLECTABLE)\n", id="debugging"),
        pytest.param("import gc\ngc.callbacks.append(lambda phase, counts: None)\n", id="callbacks"),
        pytest.param("import ctypes\n", id="extension"),
    ],
)
def test_what_cannot_be_looked_at_is_taken_apart(folder, code):
    assert run_suite(folder, code)[-1] == "collected"


def test_a_program_that_goes_on_after_its_command_ends_as_ever(folder):
    (folder / "app.py").write_text(AGENT)
    (folder / "program.py").write_text(
        f"""
from dokimos._cli.main import main

try:
    main(["test", "suite.yaml", "-q"])
except SystemExit:
    {HELD.replace(chr(10), chr(10) + "    ")}
"""
    )

    run_python(folder, "program.py")

    assert (folder / "log.txt").read_text() == "all of it"
