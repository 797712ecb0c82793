"""Watching: a run again when what it is made of changes, in processes of their own."""

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

APP = """
from pathlib import Path

def answer(question):
    return Path("prompt.txt").read_text().strip() + question.upper()
"""
EVALS = """
from dokimos import Dataset, Experiment
from dokimos.evaluators import ExactMatch
from app import answer

experiment = Experiment(Dataset.load("rows.csv"), answer, [ExactMatch()], name="upper")
"""
LISTING = """
import subprocess
from pathlib import Path

def answer(question):
    try:
        subprocess.run(["./start.sh"])
    except PermissionError:
        pass
    return "".join(path.read_text() for path in sorted(Path("prompts").glob("*.txt"))) + question.upper()
"""
SUITE = """
name: desk
agent: app:answer
evaluations: {metrics: [{type: standard, metric: equality}]}
test_cases_file: cases.csv
"""
SECONDS = 60


class Watched:
    """A command that watches, and what it prints."""

    def __init__(self, *arguments):
        command = [sys.executable, "-u", "-m", "dokimos", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def until(self, text):
        """Return what is printed up to a line with this text."""
        printed = ""
        while line := self.lines.get(timeout=SECONDS):
            printed += line
            if text in line:
                return printed
        raise AssertionError(f"it ended without {text!r}: {printed}")

    def interrupt(self, number=signal.SIGINT):
        """Press Ctrl-C: the terminal tells all processes of the command."""
        os.killpg(self.process.pid, number)
        return self.process.wait(SECONDS)


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DOKIMOS_RUN_DIR", raising=False)
    Path("app.py").write_text(APP)
    Path("evals.py").write_text(EVALS)
    Path("prompt.txt").write_text("\n")
    Path("rows.csv").write_text("id,input,expected_output\none,a,A\ntwo,b,no\n")
    started = []

    def begin(*arguments):
        started.append(Watched(*arguments))
        return started[-1]

    yield begin
    for watched in started:
        if watched.process.poll() is None:
            os.killpg(watched.process.pid, signal.SIGKILL)
            watched.process.wait()
        watched.reader.join(SECONDS)
        watched.process.stdout.close()


def replace(name, text):
    """Write a file as editors do: a new one is put in its place."""
    Path(name + ".tmp").write_text(text)
    os.replace(name + ".tmp", name)


def follow(watched, expected, *changes):
    """Look for a text after the first run and after each change of a file, and end the watch."""
    assert expected in watched.until("Watching")
    for name, text, after in changes:
        replace(name, text)
        assert after in watched.until("Watching")
    assert watched.interrupt() == 130


def test_a_change_of_any_file_runs_again_and_says_what_it_changed(start):
    watched = start("run", "evals.py", "--watch")
    first = watched.until("Watching 4 files")
    assert "50.0 % passed (1/2)" in first
    replace("app.py", APP.replace("question.upper()", "{'a': 'A', 'b': 'no'}[question]"))
    second = watched.until("Watching")
    assert "Changed: 'app.py'" in second
    assert "100.0 % passed (2/2)" in second
    assert "1 fixed" in second
    assert "Exact Match 0.00 -> 1.00" in second
    Path("prompt.txt").write_text("Well: \n")
    third = watched.until("Watching")
    assert "Changed: 'prompt.txt'" in third
    assert "2 newly failing" in third
    Path("rows.csv").write_text("id,input,expected_output\none,a,Well:A\ntwo,b,Well:no\n")
    assert "2 fixed" in watched.until("Watching")
    assert watched.interrupt() == 130


def test_outputs_are_reused_until_the_application_changes(start):
    rows = "id,input,expected_output\none,a,A\ntwo,b,B\n"
    watched = start("run", "evals.py", "--watch")
    follow(watched, "50.0 % passed (1/2)", ("rows.csv", rows, "1 of 2 outputs reused from"))


def test_a_fault_is_shown_and_the_next_change_waited_for(start):
    Path("evals.py").write_text("def broken(:\n")
    renamed = ("evals.py", EVALS.replace("from app", "from application"), "application")
    found = ("application.py", APP, "50.0 % passed (1/2)")
    follow(start("run", "evals.py", "--watch"), "SyntaxError", renamed, found)


def test_files_that_come_to_a_folder_that_was_listed_run_again(start):
    Path("prompts").mkdir()
    Path("prompts/a.txt").write_text("")
    Path("start.sh").write_text("exit 0\n")
    replace("app.py", LISTING)
    watched = start("run", "evals.py", "--watch")
    assert "50.0 % passed (1/2)" in watched.until("Watching")
    Path("prompts/b.txt").write_text("Well: ")
    second = watched.until("Watching")
    assert "Changed: 'prompts'" in second
    assert "0.0 % passed (0/2)" in second
    Path("start.sh").chmod(0o755)
    third = watched.until("Watching")
    assert "Changed: 'start.sh'" in third
    assert watched.interrupt() == 130


def test_data_that_are_not_there_at_first_are_waited_for(start):
    rows = Path("rows.csv").read_text()
    Path("rows.csv").unlink()
    watched = start("run", "evals.py", "--watch")
    follow(watched, "No such file", ("rows.csv", rows, "50.0 % passed (1/2)"))


def test_cases_that_are_not_there_at_first_are_waited_for(start):
    Path("agent.yaml").write_text(SUITE)
    watched = start("test", "--watch")
    assert "there is no file" in watched.until("Watching")
    Path("cases.csv").write_text("name,input,ground_truth\none,a,A\ntwo,b,no\n")
    second = watched.until("Watching")
    assert "Changed: 'cases.csv'" in second
    assert "1 passed, 1 failed" in second
    assert watched.interrupt() == 130


def test_suites_are_watched_with_their_cases(start):
    Path("agent.yaml").write_text(SUITE)
    Path("cases.csv").write_text("name,input,ground_truth\none,a,A\ntwo,b,no\n")
    watched = start("test", "--watch")
    assert "1 passed, 1 failed" in watched.until("Watching")
    Path("cases.csv").write_text("name,input,ground_truth\none,a,A\ntwo,b,B\n")
    second = watched.until("Watching")
    assert "2 passed, 0 failed" in second
    assert "Changed: 'cases.csv'" in second
    assert watched.interrupt(signal.SIGTERM) == 143


def test_only_what_failed_is_watched(start):
    subprocess.run([sys.executable, "-m", "dokimos", "run", "evals.py", "-q"], check=True)
    follow(
        start("run", "--failed", "--watch"),
        "1 of 2 items failed in",
        ("app.py", APP.replace("question.upper()", "'no'"), "1 fixed, 0 still failing"),
        ("app.py", APP, "None of 2 items failed in"),
    )


def test_ctrl_c_in_the_middle_of_a_run_keeps_what_is_finished(start):
    slow = (
        "import time\n\ndef answer(question):\n    if question == 'b':\n        print('SLOW', flush=True)\n"
    )
    Path("app.py").write_text(slow + "        time.sleep(60)\n    return 'A'\n")
    watched = start("run", "evals.py", "--watch")
    watched.until("SLOW")
    assert watched.interrupt() == 130
    rest = watched.until("Interrupted after 1 item")
    assert "dokimos resume" in rest
