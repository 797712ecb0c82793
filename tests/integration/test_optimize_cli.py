"""`dokimos test optimize` from outside: its output, files and exit codes, and its death at any moment."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from dokimos.experiment._run_lock import RunLock

LONG = 90.0
"""Seconds that a process may take on a busy machine until it does something."""
APP = """
import os, time
CALLS = os.open("calls", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def answer(question, k=1, mood="odd"):
    os.write(CALLS, f"called {question} {k}\\n".encode())
    time.sleep(0.003)  # a call takes a while
    if mood == "broken":
        raise ConnectionError("the model is down")
    number = int(question.split()[-1])
    os.write(CALLS, f"returned {question} {k}\\n".encode())
    return str(number) if number % 10 < k else "?"
"""

SUITE = """\
name: sums
agent:
  callable: app:answer
  params: {k: 2, mood: odd}
evaluations:
  metrics: [{type: standard, metric: numeric}]
  optimizer:
    loss: {numeric: 1}
    axes:
      numeric: [{path: agent.params.k, type: int, range: [1, 10]}]
    max_cycles: 2
test_cases_file: cases.jsonl
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "agent.yaml").write_text(SUITE)
    lines = (json.dumps({"input": f"number {n}", "ground_truth": n}) for n in range(30))
    (tmp_path / "cases.jsonl").write_text("\n".join(lines))
    return tmp_path


def start(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "dokimos", "test", "optimize", *arguments],
        cwd=folder, env={**os.environ, "NO_COLOR": "1", "HOME": str(folder)}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def optimize(folder, *arguments):
    process = start(folder, *arguments)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def noted(folder, what):
    lines = (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []
    return Counter(line.removeprefix(what + " ") for line in lines if line.startswith(what))


def search_folder(folder):
    (found,) = (folder / "results" / "optimizer").iterdir()
    return found


def test_a_search_tells_its_course_and_leaves_its_files(folder):
    status, out, err = optimize(folder, "-v")

    assert (status, err) == (0, "")
    assert "Optimizing sums: 1 axis, 15 training and 15 held-out cases, in " in out
    assert "Improved: results/optimizer/" in out
    assert {"best.yaml", "trials.jsonl", "report.md", "study.log"} <= {
        p.name for p in search_folder(folder).iterdir()
    }
    listed = subprocess.run(
        [sys.executable, "-m", "dokimos", "list"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert "sums (trial 0, train)" in listed.stdout


def test_the_example_finds_better_parameters(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "suite_optimize" / "agent.yaml"

    status, _, err = optimize(tmp_path, str(example))

    assert (status, err) == (0, "")
    (best,) = tmp_path.rglob("best.yaml")
    before, after = example.read_text().splitlines(), best.read_text().splitlines()
    changed = [old.split(":")[0].strip() for old, new in zip(before, after, strict=True) if old != new]
    assert set(changed) <= {"stem", "common_words", "weight"}
    assert changed != []


def test_progress_as_json_is_one_event_a_line_and_nothing_else(folder):
    status, out, _ = optimize(folder, "--progress", "json", "--numeric-max-trials", "2", "--max-cycles", "1")

    events = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert (events[0]["event"], events[-1]["event"]) == ("run_started", "run_completed")
    assert sum(event["event"] == "trial" for event in events) == 2


def test_quiet_tells_what_came_of_it_alone(folder):
    status, out, _ = optimize(folder, "-q", "--seed", "3", "-o", "elsewhere")

    assert status == 0
    assert out.startswith("Improved: elsewhere")
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "status", "told"),
    [
        (("loss: {numeric", "loss: {numerc"), 2, "Did you mean 'numeric'?"),
        (("params.k", "params.q"), 2, "agent.yaml:"),
        (("optimizer:", "optimiser:"), 2, "Did you mean 'optimizer'?"),
        (("mood: odd", "mood: broken"), 3, "the model is down"),
    ],
)
def test_what_goes_wrong_ends_with_the_status_that_says_when(folder, change, status, told):
    path = folder / "agent.yaml"
    path.write_text(path.read_text().replace(*change))

    ended, _, err = optimize(folder)

    assert (ended, told in err) == (status, True), err
    assert "Traceback" not in err


def test_a_suite_without_cases_or_without_an_optimizer_is_refused(folder):
    (folder / "cases.jsonl").write_text("")
    no_cases = optimize(folder)
    path = folder / "agent.yaml"
    path.write_text(path.read_text().partition("  optimizer:")[0])
    no_block = optimize(folder)

    assert (no_cases[0], "no test cases" in no_cases[2]) == (2, True)
    assert (no_block[0], "no evaluations.optimizer" in no_block[2]) == (2, True)


def test_ctrl_c_says_how_to_go_on(folder, wait_until):
    process = start(folder)
    wait_until(lambda: sum(noted(folder, "returned").values()) > 20, LONG)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LONG)

    assert process.returncode == 130
    assert "--resume latest" in err
    assert optimize(folder, "--resume", "latest")[0] == 0


def test_ctrl_c_before_there_is_a_search_names_none(folder):
    (folder / "app.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")

    status, _, err = optimize(folder)

    assert (status, err.strip()) == (130, "Interrupted.")


def test_two_processes_never_work_on_one_search(folder):
    optimize(folder, "--max-cycles", "1", "--numeric-max-trials", "1")
    lock = RunLock(search_folder(folder))

    status, _, err = optimize(folder, "--resume", "latest")
    lock.release()

    assert (status, "another process" in err) == (2, True)


def run_and_kill(folder, draw, wait_until, *arguments):
    """Start a search and kill it at a random moment; says whether it was still going on."""
    before = sum(noted(folder, "returned").values())
    more = draw.randint(1, 60)
    process = start(folder, *arguments)
    wait_until(
        lambda: sum(noted(folder, "returned").values()) >= before + more or process.poll() is not None, LONG
    )
    time.sleep(draw.random() * 0.02)  # the random moment of its death
    process.kill()
    return process.communicate(timeout=60) and process.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_search_that_is_killed_again_and_again_repeats_nothing_that_returned(folder, wait_until):
    path = folder / "agent.yaml"
    path.write_text(path.read_text().replace("max_cycles: 2", "parallel_trials: 2"))
    path.write_text(path.read_text() + "execution: {parallel_test_cases: 2}\n")
    draw = random.Random(1)

    kills = run_and_kill(folder, draw, wait_until)
    for _ in range(3):
        kills += run_and_kill(folder, draw, wait_until, "--resume", "latest")
    status, out, err = optimize(folder, "--resume", "latest")

    assert status == 0, err
    assert "Improved" in out
    # A call that had returned, and was not written down yet when its process died, is made once more.
    assert sum(count - 1 for count in noted(folder, "returned").values()) <= kills * 4
    rows = [json.loads(line) for line in (search_folder(folder) / "trials.jsonl").read_text().splitlines()]
    assert [row["trial_id"] for row in rows] == list(range(1, len(rows) + 1))
    points = [row["params"]["agent.params.k"] for row in rows]
    assert len({2, *points}) == len(points) + 1
