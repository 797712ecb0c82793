"""SIGTERM and SIGHUP end a command as Ctrl-C does, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Wait = Callable[..., None]

PROMPT = 60
"""Seconds within which a process has ended for sure that does not wait for what hangs for ten minutes."""
FIRST = 4
"""So many calls of the application return at once; the others hang until a file is there."""

EVALS = """
import asyncio
from pathlib import Path
from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import ExactMatch
from dokimos.experiment import _task_calls

async def wait_for_ever(work, *limit):
    await asyncio.wait((work,))

_task_calls.wait_with_limit = wait_for_ever  # quick calls have no limit; the watch of the loop has its own

async def answer(example):
    return await agent(example.input)

async def agent(text):
    place = int(text)
    if place >= 4 and not Path("free").exists():
        Path("hanging").touch()
        await asyncio.sleep(600)
    return text

async def judge(prompt):
    Path("hanging").touch()
    await asyncio.sleep(600)

def slow(output):
    Path("hanging").touch()
    __import__("time").sleep(600)

data = Dataset([Example.of(str(i), str(i)) for i in range(6)], "six")
plan = Experiment(data, answer, [ExactMatch()])

async def blocks(example):
    if int(example.input) == 4:
        while True:  # neither an error nor a cancellation ends it
            try:
                __import__("time").sleep(600)
            except Exception:
                pass
    return example.input

blocked = Experiment(data, blocks, [ExactMatch()])
"""
SUITE = """
name: six
agent: evals:agent
evaluations: {metrics: [{type: standard, metric: equality, threshold: 1.0}]}
test_cases:
""" + "".join(f"  - {{name: c{i}, input: '{i}', ground_truth: '{i}'}}\n" for i in range(6))

HANGUP = getattr(signal, "SIGHUP", signal.SIGTERM)
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, HANGUP: 128 + HANGUP}
COMMANDS = {
    "run": ["run", "evals.py:plan", "-o", "out.json"],
    "test": ["test", "agent.yaml", "-o", "out.json"],
    "noise": ["noise", "evals.py:plan"],
    "attack": ["judge", "attack", "evals.py:judge"],
    "rescore": ["rescore", "latest", "-e", "function:function=evals:slow"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "evals.py").write_text(EVALS)
    (tmp_path / "agent.yaml").write_text(SUITE)
    return tmp_path


# Not by `preexec_fn`: its code would run in a fork of this process, which has threads that may hold locks.
RESET_SIGNALS = f"""
import os, signal, sys
for number in {[int(number) for number in STATUS]}:
    signal.signal(number, signal.SIG_IGN if str(number) == sys.argv[1] else signal.SIG_DFL)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


def command_line(*arguments: str, ignored: int | None = None) -> list[str]:
    """Begin with signals as a terminal does, however the tests themselves were started (as under nohup)."""
    command = ["-c", "from dokimos._cli.main import main; main()", *arguments]
    return [sys.executable, "-I", "-S", "-c", RESET_SIGNALS, str(ignored and int(ignored)), *command]


def start(folder: Path, *arguments: str, ignored: int | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command_line(*arguments, ignored=ignored),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=PROMPT)
    return process.returncode, out, errors


@pytest.mark.parametrize("number", STATUS, ids=lambda number: signal.Signals(number).name)
@pytest.mark.parametrize("command", ["run", "test"])
def test_a_run_is_whole_reported_and_goes_on_later(
    folder: Path, command: str, number: int, wait_until: Wait
) -> None:
    process = start(folder, *COMMANDS[command])
    wait_until((folder / "hanging").exists)
    process.send_signal(number)
    status, _, errors = end(process)
    assert status == STATUS[number]
    assert json.loads((folder / "out.json").read_text())["status"] == "interrupted"
    told = errors.strip().splitlines()[-1]
    assert told.startswith(f"Interrupted after {FIRST} items. To continue: dokimos resume ")
    assert not [word for word in ("never awaited", "Traceback", "destroyed", "ignored in") if word in errors]

    (folder / "free").touch()
    status, _, errors = end(start(folder, "resume", told.rpartition(" ")[2]))
    assert status == 0, errors


@pytest.mark.parametrize("command", ["noise", "attack", "rescore"])
def test_other_long_commands_end_in_the_same_way(folder: Path, command: str, wait_until: Wait) -> None:
    if command == "rescore":
        (folder / "free").touch()
        assert end(start(folder, "run", "evals.py:plan"))[0] == 0
    process = start(folder, *COMMANDS[command])
    wait_until((folder / "hanging").exists)
    process.send_signal(signal.SIGTERM)
    status, _, errors = end(process)
    assert status == 143
    assert "Interrupted" in errors
    assert not [word for word in ("never awaited", "Traceback", "destroyed", "ignored in") if word in errors]


def test_what_was_ignored_at_the_start_stays_ignored(folder: Path, wait_until: Wait) -> None:
    process = start(folder, *COMMANDS["run"], ignored=HANGUP)
    wait_until((folder / "hanging").exists)
    process.send_signal(HANGUP)
    process.send_signal(HANGUP)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert end(process)[0] == 143


def test_several_signals_are_one(folder: Path, wait_until: Wait) -> None:
    process = start(folder, *COMMANDS["run"])
    wait_until((folder / "hanging").exists)
    for number in (HANGUP, signal.SIGTERM, HANGUP, signal.SIGINT):
        process.send_signal(number)
    status, _, errors = end(process)
    assert status in STATUS.values()
    assert "Traceback" not in errors
    assert json.loads((folder / "out.json").read_text())["status"] == "interrupted"


def test_reports_are_written_where_the_terminal_is_gone(folder: Path, wait_until: Wait) -> None:
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    process = subprocess.Popen(
        command_line(*COMMANDS["run"]),
        cwd=folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    wait_until((folder / "hanging").exists)
    os.close(master)
    process.send_signal(HANGUP)
    assert process.wait(PROMPT) == 128 + HANGUP
    assert json.loads((folder / "out.json").read_text())["status"] == "interrupted"


HOST = """
import signal, threading
from evals import plan
before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
seen = []
def task(example):
    seen.append(signal.getsignal(signal.SIGTERM))
    return example.input

plan = __import__("dataclasses").replace(plan, task=task)
plan.run(progress=False)
assert set(seen) == {signal.SIG_DFL}, seen
assert {number: signal.getsignal(number) for number in before} == before
"""


def test_a_host_keeps_its_own_signals(folder: Path) -> None:
    (folder / "host.py").write_text(HOST)
    done = subprocess.run(
        [sys.executable, "host.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_ends_whose_event_loop_never_comes_back(folder: Path) -> None:
    status, _, errors = end(start(folder, "run", "evals.py:blocked", "--timeout", "1"))
    assert status == 3
    assert f"blocks ({folder / 'evals.py'}, line " in errors
    assert "blocked the event loop for more than 3 s. To continue: dokimos resume " in errors
    [run] = (folder / ".dokimos" / "runs").iterdir()
    kinds = [json.loads(line)["t"] for line in (run / "journal.jsonl").read_text().splitlines()]
    assert kinds == ["item", "eval"] * FIRST + ["done"]


def test_a_judge_that_hangs_does_not_keep_an_attack(folder: Path) -> None:
    command = ("judge", "attack", "evals.py:judge", "-n", "2", "--evaluator-timeout", "0.5")
    status, _, errors = end(start(folder, *command))
    assert status == 2
    assert "TimeoutError: no result within 0.5 s" in errors
