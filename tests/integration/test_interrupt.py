"""Ctrl-C and hanging threads, in processes of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Wait = Callable[..., None]

PROMPT = 60
"""Seconds within which a process has ended for sure that does not wait for what hangs for five minutes."""

HEAD = """
import asyncio, json, os, sys, threading, time
from pathlib import Path
from dokimos import Dataset, Example, Experiment
from dokimos.errors import RunInterrupted
from dokimos.evaluators._text import ExactMatch

def data(count):
    return Dataset([Example.of(str(i), str(i)) for i in range(count)])

def is_last(example):
    if int(example.input) < 4 or Path("free").exists():
        return False
    Path(f"hanging-{example.input}").touch()
    return True

def sync_hang(example):
    if is_last(example):
        time.sleep(300)  # the call that hangs
    return example.input

async def async_hang(example):
    if is_last(example):
        await asyncio.sleep(300)
    return example.input

async def stubborn(example):
    if is_last(example):
        while True:
            try:
                await asyncio.sleep(300)
            except asyncio.CancelledError:
                pass
    return example.input
"""

INTERRUPTED = (
    HEAD
    + """
plan = Experiment(data(6), globals()[sys.argv[1]], [ExactMatch()], parallelism=2, progress=False)

def run():
    try:
        plan.run(**({"resume": "latest"} if Path("free").exists() else {}))
    except RunInterrupted as stop:
        print(json.dumps([stop.result.status, stop.result.total_count, stop.result.pass_count, str(stop)]))
        sys.exit(130)
    print(json.dumps(["completed"]))

async def in_a_notebook():
    run()

if sys.argv[2] == "loop":
    asyncio.run(in_a_notebook())
else:
    run()
"""
)


def start(folder: Path, program: str, *arguments: str) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(program)
    return subprocess.Popen(
        [sys.executable, "program.py", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def both_hang(folder: Path) -> bool:
    """Whether both workers hang, so that the four items before are done."""
    return (folder / "hanging-4").exists() and (folder / "hanging-5").exists()


@pytest.mark.parametrize("kind", ["sync_hang", "async_hang", "stubborn"])
def test_an_interrupted_run_ends_promptly_and_goes_on_later(
    tmp_path: Path, kind: str, wait_until: Wait
) -> None:
    process = start(tmp_path, INTERRUPTED, kind, "plain")
    wait_until(lambda: both_hang(tmp_path))
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=PROMPT)
    assert errors == ""
    assert process.returncode == 130
    status, total, passed, message = json.loads(out)
    assert (status, total, passed) == ("interrupted", 4, 4)
    assert message.startswith("Interrupted after 4 items. To continue: experiment.run(resume=")

    (tmp_path / "free").touch()
    again = start(tmp_path, INTERRUPTED, kind, "plain")
    out, errors = again.communicate(timeout=PROMPT)
    assert (json.loads(out), errors) == (["completed"], "")


BLOCKING_LOOP = (
    HEAD
    + """
import signal

async def blocks(example):
    if is_last(example):
        signal.raise_signal(signal.SIGINT)
        time.sleep(300)  # blocks the event loop
    return example.input

try:
    Experiment(data(6), blocks, [ExactMatch()], progress=False).run()
except RunInterrupted as stop:
    print(stop.result.total_count)
    sys.exit(130)
"""
)


def test_ctrl_c_ends_a_task_that_blocks_the_loop(tmp_path: Path) -> None:
    process = start(tmp_path, BLOCKING_LOOP)
    out, _ = process.communicate(timeout=PROMPT)
    assert (process.returncode, out) == (130, "4\n")


@pytest.mark.parametrize("kind", ["sync_hang", "async_hang"])
def test_an_interrupt_inside_a_running_loop_ends_in_time_too(
    tmp_path: Path, kind: str, wait_until: Wait
) -> None:
    process = start(tmp_path, INTERRUPTED, kind, "loop")
    wait_until(lambda: both_hang(tmp_path))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PROMPT)
    assert process.returncode != 0
    [folder] = (tmp_path / ".dokimos" / "runs").iterdir()
    last = json.loads((folder / "journal.jsonl").read_text().splitlines()[-1])
    assert (last["t"], last["status"]) == ("done", "interrupted")


HANGING = (
    HEAD
    + """
result = Experiment(
    Dataset([Example.of(str(i)) for i in range(4, 8)]), sync_hang, [ExactMatch()], parallelism=2,
    timeout=0.2, progress=False,
).run()
print(result.pass_count, result.error_count, threading.active_count() > 4)
"""
)


def test_a_process_ends_while_abandoned_threads_still_hang(tmp_path: Path) -> None:
    process = start(tmp_path, HANGING)
    out, errors = process.communicate(timeout=PROMPT)
    assert out == "0 4 True\n"
    assert errors.startswith("Run 'unnamed': broken after 4 items.")
    assert errors.count("\n") == 1
    assert process.returncode == 0


TWICE = (
    HEAD
    + """
import signal

def press():
    signal.raise_signal(signal.SIGINT)

async def is_cancelled(example):
    press()
    try:
        await asyncio.sleep(300)
    finally:
        press()

async def never_ends(example):
    press()
    while True:
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            press()

class Reporter:
    def __init__(self, pressed):
        self.pressed = pressed

    def start_run(self, name, metadata):
        from dokimos.reporting._protocol import RunHandle
        return RunHandle("1")

    def report_item(self, handle, item): pass
    def flush(self): pass
    def complete_run(self, handle, status): self.during("complete_run")
    def close(self): self.during("close")

    def during(self, method):
        if method in self.pressed:
            press()
            if "hang" in self.pressed:
                time.sleep(300)  # the reporter that hangs

def plan(*pressed, task=is_cancelled):
    return Experiment(
        data(2), task, [ExactMatch()], reporters=[Reporter(pressed)], progress=False,
        auto_close_reporters=True,
    )

def in_the_task(): return plan()
def in_a_task_that_never_ends(): return plan(task=never_ends)
def while_it_ends(): return plan("complete_run", "close")
def while_reporters_hang(): return plan("complete_run", "close", "hang")

async def leaves_a_thread(example):
    threading.Thread(target=hang).start()
    press()
    await asyncio.sleep(300)

def hang():
    while threading.main_thread().is_alive():
        time.sleep(0.01)  # between two looks
    for _ in range(600):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.1)  # between two presses

def while_its_threads_hang(): return plan(task=leaves_a_thread)

def while_it_is_printed():
    import dokimos._cli.presentation
    dokimos._cli.presentation.print_result = lambda *_, **__: press()
    return plan()

if __name__ == "__main__":
    globals()[sys.argv[1]]().run()
"""
)


MOMENTS = ["in_the_task", "in_a_task_that_never_ends", "while_it_ends", "while_reporters_hang"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_script_says_how_to_go_on_however_often_ctrl_c_is_pressed(tmp_path: Path, moment: str) -> None:
    process = start(tmp_path, TWICE, moment)
    _, errors = process.communicate(timeout=PROMPT)
    assert process.returncode != 0
    [folder] = (tmp_path / ".dokimos" / "runs").iterdir()
    resume = f"resume='{folder.name}'"
    how = f"experiment.run({resume}), or evaluate(..., {resume})"
    last = f"RunInterrupted: Interrupted after 0 items. To continue: {how}"
    assert errors.splitlines()[-1] == f"dokimos.errors.{last}"
    assert "Exception ignored" not in errors
    done = json.loads((folder / "journal.jsonl").read_text().splitlines()[-1])
    assert (done["t"], done["status"]) == ("done", "interrupted")


ASYNCHRONOUS = (
    HEAD
    + """
import signal

async def is_cancelled(example):
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(300)

asyncio.run(Experiment(data(2), is_cancelled, [ExactMatch()], progress=False).run_async())
"""
)


def test_a_cancelled_run_on_a_loop_of_ones_own_says_how_to_go_on(tmp_path: Path) -> None:
    process = start(tmp_path, ASYNCHRONOUS)
    _, errors = process.communicate(timeout=PROMPT)
    [folder] = (tmp_path / ".dokimos" / "runs").iterdir()
    resume = f"resume='{folder.name}'"
    how = f"experiment.run({resume}), or evaluate(..., {resume})"
    wanted = f"Interrupted after 0 items. To continue: {how}"
    assert wanted in errors.splitlines()


@pytest.mark.parametrize("moment", [*MOMENTS, "while_it_is_printed", "while_its_threads_hang"])
def test_the_command_says_how_to_go_on_however_often_ctrl_c_is_pressed(tmp_path: Path, moment: str) -> None:
    (tmp_path / "program.py").write_text(TWICE)
    done = subprocess.run(
        [sys.executable, "-m", "dokimos", "run", f"program.py:{moment}", "-q"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PROMPT,
        check=False,
    )
    [folder] = (tmp_path / ".dokimos" / "runs").iterdir()
    wanted = f"Interrupted after 0 items. To continue: dokimos resume {folder.name}"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, wanted)
