"""Processes that are killed: what had returned is never paid for again."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dokimos._core.jsonable import jsonable
from dokimos._core.results import ExperimentResult
from dokimos.errors import RunLockedError
from dokimos.experiment._run_loading import load_run
from dokimos.experiment._run_lock import RunLock

ITEMS = 40
PARALLELISM = 4
KILLS = 24

PROGRAM = """
import asyncio, os, sys, time
from pathlib import Path
from dokimos import Dataset, Example, Experiment, TaskResult, CallMetrics
from dokimos.evaluators._function import evaluator

ITEMS, PARALLELISM, KIND, RESUME = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
CALLS = os.open("calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def note(what, example):
    os.write(CALLS, f"{what} {example.id}\\n".encode())

def answer(example):
    number = int(example.id)
    note("returned", example)
    if number % 7 == 3:
        raise ConnectionError("busy")
    return TaskResult({"output": "x" * number}, CallMetrics(number, 1, cost_usd=0.001 * number))

def sync_task(example):
    note("called", example)
    time.sleep(0.004)  # a call takes a while
    return answer(example)

async def async_task(example):
    note("called", example)
    await asyncio.sleep(0.004)
    return answer(example)

@evaluator
def short(output: str) -> bool:
    return len(output) < 20

@evaluator
async def graded(output: str) -> float:
    await asyncio.sleep(0.002)
    return len(output) / 100

data = Dataset([Example.of(str(i), id=str(i)) for i in range(ITEMS)])
task = sync_task if KIND == "sync" else async_task
plan = Experiment(data, task, [short, graded], runs=2, parallelism=PARALLELISM, progress=False)
Path("ready").touch()
if RESUME != "-":
    plan.run(resume=RESUME)
else:
    plan.run()
Path("finished").touch()
"""


class Folder:
    """A working folder in which the program is started, killed and started again."""

    def __init__(self, path: Path, kind: str, wait_until: Callable[..., None]) -> None:
        path.mkdir(exist_ok=True)
        (path / "program.py").write_text(PROGRAM)
        self.path = path
        self.kind = kind
        self.wait_until = wait_until

    def start(self, resume: str = "-") -> subprocess.Popen[bytes]:
        (self.path / "ready").unlink(missing_ok=True)
        command = [sys.executable, "program.py", str(ITEMS), str(PARALLELISM), self.kind, resume]
        return subprocess.Popen(command, cwd=self.path, stderr=subprocess.PIPE)

    def run_to_the_end(self, resume: str = "-") -> None:
        process = self.start(resume)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors.decode()

    def run_and_kill(self, after: float, resume: str = "-") -> None:
        process = self.start(resume)
        self.wait_until(lambda: (self.path / "ready").exists() or process.poll() is not None)
        time.sleep(after)  # the random moment of its death
        process.kill()
        process.communicate(timeout=60)

    @property
    def run_folder(self) -> Path | None:
        folders = list((self.path / ".dokimos" / "runs").glob("*/run.json"))
        return folders[0].parent if folders else None

    def noted(self, what: str) -> Counter[str]:
        lines = (self.path / "calls").read_text().splitlines() if (self.path / "calls").exists() else []
        return Counter(line.split()[1] for line in lines if line.startswith(what))


def comparable(result: ExperimentResult) -> Any:
    tree = jsonable(result)
    del tree["provenance"]
    for run in tree["runs"]:
        for part in (run["summary"], *run["itemResults"]):
            part.pop("latencyBins", None)
            part.pop("latencyP95Ms", None)
            part.get("metrics", {}).pop("latencyMs", None)
            if not part.get("metrics"):
                part.pop("metrics", None)
    return tree


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_killed_run_repeats_only_what_was_in_flight_and_ends_in_the_same_result(
    tmp_path: Path, kind: str, wait_until: Callable[..., None]
) -> None:
    """One run is killed again and again at random moments of its life, until it has come to its end."""
    whole = Folder(tmp_path / "whole", kind, wait_until)
    whole.run_to_the_end()
    assert whole.run_folder is not None
    expected = comparable(load_run(whole.run_folder))

    draw = random.Random(kind)
    kills = number = 0
    while kills < KILLS // 2:
        number += 1
        killed = Folder(tmp_path / f"killed-{number}", kind, wait_until)
        resume, rounds = "-", 0
        while not (killed.path / "finished").exists() and rounds < 4:
            killed.run_and_kill(draw.uniform(0.0, 0.12), resume)
            rounds += 1
            resume = "latest" if killed.run_folder is not None else "-"
            if killed.run_folder is not None:
                load_run(killed.run_folder)
        kills += rounds
        if not (killed.path / "finished").exists():
            killed.run_to_the_end(resume)
        assert killed.run_folder is not None
        assert comparable(load_run(killed.run_folder)) == expected
        again = killed.noted("called").total() - 2 * ITEMS
        assert 0 <= again <= rounds * PARALLELISM
        paid_twice = sum(count - 2 for count in killed.noted("returned").values())
        assert paid_twice <= rounds * PARALLELISM


LOCKED = """
import sys
from pathlib import Path
from dokimos.experiment._run_lock import RunLock
lock = RunLock(Path(sys.argv[1]))
print("locked", flush=True)
input()
"""


def test_a_second_process_is_refused_and_the_lock_of_a_dead_one_is_free(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", LOCKED, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"locked\n"
    try:
        with pytest.raises(RunLockedError, match=f"process {process.pid}"):
            RunLock(tmp_path)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    RunLock(tmp_path).release()
