"""A process that searches: started once, ended at the limit and with its owner, and never inherited."""

from __future__ import annotations

import asyncio
import io
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dokimos._runtime import search_process as module
from dokimos._runtime.search_process import SearchProcess, SearchProcessError, serve

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="needs signals and fork")
SLOW = re.compile("(a+)+$")
TEXT = "a" * 40 + "b"

HEAD = """
import os, re, signal, sys, threading
from dokimos import Dataset, Example, Experiment
from dokimos._core import patterns
from dokimos._core.patterns import search_within_limit as search
from dokimos.errors import EvaluationError
from dokimos.evaluators import Regex
from dokimos._runtime.search_process import search_process

patterns.LIMIT_SECONDS = 0.2
RISKY = re.compile("(a|b)+")
SLOW = re.compile("(a+)+$")
TEXT = "a" * 40 + "b"
"""


def output_of(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", HEAD + program], capture_output=True, text=True, timeout=60, check=True
    ).stdout


@pytest.fixture
def process():
    one = SearchProcess()
    yield one
    one.close()


def find(process: SearchProcess, pattern: re.Pattern[str] = SLOW, text: str = "baa", limit: float = 60):
    return process.search(pattern, text, whole=False, limit=limit)


def pid_of(process: SearchProcess) -> int:
    return process._process.pid


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_one_process_serves_all_searches(process):
    assert find(process) == (1, 3)
    first = pid_of(process)
    assert find(process, text="b") is None
    assert pid_of(process) == first


def test_what_is_sent_is_of_builtin_types(process, monkeypatch):
    sent = []
    monkeypatch.setattr(process, "_ask", sent.append)
    find(process, re.compile("(A+)+B", re.IGNORECASE | re.DOTALL))
    task, arguments = sent[0]
    assert [type(part) for part in (task, *arguments)] == [str, str, int, str, bool, int]
    assert arguments[1] == re.IGNORECASE | re.DOTALL | re.UNICODE


@POSIX
def test_at_the_limit_it_ends_leaves_no_zombie_and_the_next_search_starts_another(process):
    find(process)
    first = pid_of(process)
    with pytest.raises(TimeoutError):
        find(process, text=TEXT, limit=0.05)
    assert not is_alive(first)
    assert find(process) == (1, 3)


@POSIX
def test_the_limit_holds_in_a_program_that_ignores_the_ends_of_its_children():
    out = output_of("""
import signal
from dokimos.errors import EvaluationError
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signal.alarm(60)
try:
    search(re.compile("(a+)+$"), "a" * 60 + "b")
except EvaluationError as error:
    print("was stopped after" in str(error))
""")
    assert out == "True\n"


def test_without_a_timer_of_the_system_a_watchdog_ends_it():
    program = "from dokimos._runtime import search_process as s; s._HAS_TIMER = False; s.main()"
    request = pickle.dumps(("search", (SLOW.pattern, SLOW.flags, TEXT, False, 0.05)))
    quick = pickle.dumps(("search", ("b", 32, TEXT, False, 60.0)))
    done = subprocess.run(
        [sys.executable, "-c", program], input=quick + request, capture_output=True, timeout=60
    )
    replies = io.BytesIO(done.stdout)
    assert (pickle.load(replies), pickle.load(replies)) == ("ready", (40, 41))
    assert done.returncode == 1


@POSIX
def test_a_process_that_somebody_killed_is_replaced(process):
    find(process)
    first = pid_of(process)
    os.kill(first, signal.SIGKILL)
    assert find(process) == (1, 3)
    assert pid_of(process) != first


def test_a_process_that_cannot_stay_is_an_error(process, monkeypatch):
    monkeypatch.setattr(module, "__file__", os.path.join(os.path.dirname(__file__), "not_there.py"))
    with pytest.raises(SearchProcessError, match=r"does not start: it exits with 2"):
        find(process)


def test_a_python_that_does_not_start_is_no_time_limit(process, monkeypatch, tmp_path):
    """Without a timer of the system, as on Windows, the watchdog ends a search with 1 as well."""
    program = tmp_path / "not_a_search.py"
    program.write_text("raise SystemExit(1)\n", encoding="utf-8")
    monkeypatch.setattr(module, "__file__", str(program))
    monkeypatch.setattr(module, "_OUT_OF_TIME", 1)

    with pytest.raises(SearchProcessError, match=r"does not start: it exits with 1"):
        find(process)


def test_a_frozen_program_does_not_start_itself(process, monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(SearchProcessError, match="no Python"):
        find(process)


def test_a_system_without_processes_is_an_error(process, monkeypatch):
    monkeypatch.setattr(sys, "executable", os.path.join(os.path.dirname(__file__), "no_python"))
    with pytest.raises(SearchProcessError):
        find(process)


def test_huge_texts_and_subclasses_of_str_are_searched(process):
    class Text(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "something else"

    assert find(process, re.compile("é+"), Text("x" * 5_000_000 + "é漢")) == (5_000_000, 5_000_001)


def test_many_threads_get_their_own_answers(process):
    def length(count: int) -> tuple[int, int] | None:
        return find(process, re.compile("a+"), "b" + "a" * count)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(length, range(1, 200)))
    assert found == [(1, 1 + count) for count in range(1, 200)]


def test_an_error_between_request_and_reply_ends_it(process, monkeypatch):
    find(process)
    first = pid_of(process)

    def interrupt(_pipe):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module.pickle, "load", interrupt)
        with pytest.raises(KeyboardInterrupt):
            find(process, text="aaa")
    assert find(process) == (1, 3)
    assert pid_of(process) != first


def test_requests_are_answered_until_there_are_no_more():
    request = pickle.dumps(("search", ("b+", re.UNICODE, "abb", True, 60.0)))
    other = pickle.dumps(("search", ("b+", re.UNICODE, "abb", False, 60.0)))
    replies = io.BytesIO()
    serve(io.BytesIO(request + other), replies)
    replies.seek(0)
    assert [pickle.load(replies) for _ in range(3)] == ["ready", None, (1, 3)]


def test_matches_are_replaced_and_counted(process):
    texts, counts = process.replace([("b+", "[b]"), ("a", "\\1")], ["abba", "c"], limit=60.0)
    assert (texts, counts) == (["\\1[b]\\1", "c"], [1, 2])


@POSIX
def test_a_fork_has_a_process_of_its_own():
    out = output_of("""
print(search(RISKY, TEXT), flush=True)
mine = search_process._process.pid
child = os.fork()
if child == 0:
    unused = search_process._process is None
    found = search(RISKY, TEXT[1:])
    same = search_process._process.pid == mine
    search_process.close()
    print(unused, found, same, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(search(RISKY, TEXT), search_process._process.pid == mine)
""")
    assert out.splitlines() == ["(0, 41)", "True (0, 40) False", "(0, 41) True"]


@POSIX
@pytest.mark.parametrize("end", ["", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_it_ends_with_its_owner(end):
    owner = subprocess.run(
        [
            sys.executable,
            "-c",
            HEAD + f"search(RISKY, TEXT)\nprint(search_process._process.pid, flush=True)\n{end}",
        ],
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    pid = int(owner.stdout)
    for _ in range(1000):
        if not is_alive(pid) or state_of(pid) == "Z":  # init may take its time
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"process {pid} is still there")


def state_of(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def test_importing_starts_nothing():
    assert output_of(
        "print(search_process._process, search(re.compile('a+'), TEXT), search_process._process)"
    ) == ("None (0, 40) None\n")


@POSIX
@pytest.mark.parametrize("where", ["main", "thread", "loop", "own timer"])
def test_one_such_output_does_not_hold_up_a_run(where):
    out = output_of(f"""
import asyncio
data = Dataset([Example.of(TEXT), Example.of("aaaa")])
experiment = Experiment(data, lambda text: text, [Regex(pattern="(a+)+$")], journal=False, progress=False)
def run():
    bad, good = experiment.run().item_results
    print(bad.eval_results[0].error is not None, bad.eval_results[0].score, good.success)
async def run_in_loop():
    run()
if {where!r} == "thread":
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
elif {where!r} == "loop":
    asyncio.run(run_in_loop())
else:
    if {where!r} == "own timer":
        signal.signal(signal.SIGVTALRM, lambda *_: print("mine"))
    run()
""")
    assert out == "True None True\n"


@POSIX
def test_signals_of_the_owner_are_left_alone_and_what_it_ignores_still_ends_the_search():
    out = output_of("""
signal.signal(signal.SIGVTALRM, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGVTALRM})
try:
    search(SLOW, TEXT)
except EvaluationError:
    print("limit", signal.getsignal(signal.SIGVTALRM) is signal.SIG_IGN)
""")
    assert out == "limit True\n"


@POSIX
def test_a_script_without_a_guard_runs_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(HEAD + "print('ran', search(RISKY, TEXT))\n")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("ran (0, 41)\n", "")


def test_a_running_event_loop_may_search(process):
    async def search() -> tuple[int, int] | None:
        return find(process)

    assert asyncio.run(search()) == (1, 3)
