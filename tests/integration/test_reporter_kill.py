"""Processes that are killed while they report: the run on the server ends whole, each item is there once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dokimos.experiment import load_run

PROGRAM = """
import json, os, signal, sys
from pathlib import Path
from dokimos import BaseReporter, Example, Experiment, RunHandle
from dokimos.evaluators import ExactMatch

KILL_AT, RESUME = sys.argv[1], sys.argv[2]
calls = 0

def reach(step):
    global calls
    calls += step == "item"
    if KILL_AT in (step, f"{step} {calls}"):
        os.kill(os.getpid(), signal.SIGKILL)

class Server(BaseReporter):
    def __init__(self):
        self.folder = Path("server")
        self.folder.mkdir(exist_ok=True)

    def begin(self, start):
        key = f"run-{start.repeat_index}"
        if key not in start.state:
            reach("before the run is created")
            # Created once for a key, as servers do.
            run = self.folder / f"{start.run_id}-{start.repeat_index}"
            run.mkdir(exist_ok=True)
            reach("before the id is kept")
            start.state.keep(key, run.name)
            reach("after the id is kept")
        id = start.state[key]
        return RunHandle(id, server_run_id=id)

    def report_item(self, handle, item):
        reach("item")
        place = self.folder / handle.run_id / f"{item.index}-{item.repeat_index}"
        with open("log", "a") as file:
            file.write(f"{item.index} {item.repeat_index} {item.was_reported}\\n")
        place.write_text(str(item.actual_output))

    def end(self, handle, end):
        reach("before the end")
        (self.folder / handle.run_id / "end").write_text(json.dumps([end.outcome, end.summary.total]))
        reach("after the end")

def answer(question):
    with open("calls", "a") as file:
        file.write(question + "\\n")
    return question

examples = [Example.of(letter, letter) for letter in "abcd"]
plan = Experiment(examples, answer, [ExactMatch()], runs=2, reporters=[Server()], quiet=True)
plan.run(resume=None if RESUME == "-" else RESUME)
"""

STEPS = [
    "before the run is created",
    "before the id is kept",
    "after the id is kept",
    "item 1",
    "item 3",
    "item 6",
    "before the end",
    "after the end",
]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
@pytest.mark.parametrize("step", STEPS)
def test_the_run_on_the_server_ends_whole(tmp_path: Path, step: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    def start(kill_at: str, resume: str) -> int:
        command = [sys.executable, program.name, kill_at, resume]
        return subprocess.run(command, cwd=tmp_path, check=False, timeout=120).returncode

    assert start(step, "-") == -signal.SIGKILL
    [folder] = (tmp_path / ".dokimos" / "runs").iterdir()
    killed = load_run(folder)
    assert start("never", folder.name) == 0

    result = load_run(folder)
    runs = sorted((tmp_path / "server").iterdir())
    assert result.server_run_ids == tuple(run.name for run in runs)
    assert set(killed.server_run_ids) <= set(result.server_run_ids)
    for repeat, run in enumerate(runs):
        items = {path.name: path.read_text() for path in run.iterdir()}
        assert json.loads(items.pop("end")) == ["finished", 4]
        assert items == {f"{index}-{repeat}": letter for index, letter in enumerate("abcd")}
    assert len((tmp_path / "calls").read_text().split()) == 8, "no call of the task is made twice"
    reported = (tmp_path / "log").read_text().splitlines()
    fresh = [line for line in reported if line.endswith("False")]
    assert len(fresh) == len(set(fresh)), "what is not flagged has not been reported before"
