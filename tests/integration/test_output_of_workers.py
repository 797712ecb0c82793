"""What is printed in worker processes, scripts that start runs, and limits of the machine."""

import errno
import os
import subprocess
import sys
from multiprocessing.context import SpawnContext
from pathlib import Path

import pytest

from dokimos import Experiment
from dokimos.errors import ConfigurationError
from dokimos.evaluators import ExactMatch
from dokimos.experiment import _process_handle

APP = """
import os, sys, time

from dokimos import Example, Experiment
from dokimos.evaluators import ExactMatch

def answer(question):
    print("asked", question)
    print("about", question, file=sys.stderr)
    sys.stdout.flush()
    with open("asked", "a") as file:
        file.write(f"{question}\\n")
    return question.upper()

def answer_on_one_line(question):
    print("asked", question, end=";")
    return question.upper()

def answer_slowly(question):
    time.sleep(0.1)
    print("asked", question)
    return question.upper()

def answer_from_a_copy(question):
    copy = os.fork()
    if not copy:
        for _ in range(100):
            print("copy of", question, flush=True)
        os._exit(0)
    os.waitpid(copy, 0)
    return question.upper()

def answer_by_a_run(question):
    plan = Experiment([Example.of(question, question.upper())], answer, [ExactMatch()])
    return plan.run(quiet=True, journal=False).item_results[0].actual_outputs["output"]

def answer_by_a_run_with_workers(question):
    return Experiment([Example.of(question)], answer, [ExactMatch()], processes=2).run()

def fail(question):
    raise ValueError(f"no answer to {question}")

QUESTIONS = [Example.of(f"q{number}", f"Q{number}") for number in range(8)]
experiment = Experiment(QUESTIONS, answer_slowly, [ExactMatch()], name="printed")
"""


@pytest.fixture
def app(tmp_path, monkeypatch):
    """The module of an application, in a folder of its own."""
    (tmp_path / "printing_app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "printing_app", raising=False)
    import printing_app

    return printing_app


def run(app, task, **settings):
    plan = Experiment(app.QUESTIONS, task, [ExactMatch()], quiet=True, journal=False, parallelism=4)
    return plan.run(**settings)


def test_what_workers_print_is_printed_by_the_process_of_the_run(app, capsys):
    result = run(app, app.answer, processes=2)
    out, err = capsys.readouterr()
    assert result.pass_rate == 1.0
    # By characters: two items at once in a worker may share a line, as they may in one process.
    assert sorted(out) == sorted("".join(f"asked q{number}\n" for number in range(8)))
    assert sorted(err) == sorted("".join(f"about q{number}\n" for number in range(8)))


def test_a_line_that_no_worker_ends_is_printed_before_the_run_returns(app, capsys):
    run(app, app.answer_on_one_line, processes=2)
    assert sorted(capsys.readouterr().out) == sorted("".join(f"asked q{number};" for number in range(8)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_copy_of_a_worker_prints_by_itself(app, capfd):
    result = run(app, app.answer_from_a_copy, processes=2)
    assert result.pass_rate == 1.0
    assert capfd.readouterr().out.count("copy of") == 800


@pytest.mark.skipif(sys.platform == "win32", reason="Windows lacks pseudo-terminals")
def test_what_workers_print_on_a_terminal_stands_above_the_progress(app):
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "90"} | {"PYTHONIOENCODING": "utf-8"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "dokimos", "run", "printing_app.py", "--processes", "2", "-j", "2"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while part := _read(ours):
        shown += part
    os.close(ours)
    assert process.wait(60) == 0
    lines = shown.decode().replace("\r\n", "\n").split("\n")
    printed = [line for line in lines if "asked" in line]
    assert len(printed) == 8
    for line in printed:
        before, _, after = line.rpartition("asked")
        assert before.endswith("\x1b[2K") or before.split("\x1b[?25l")[-1] == "", "the bar was erased"
        assert after.strip() in [f"q{number}" for number in range(8)]


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when nobody has the other end any more
        return b""


def test_what_is_said_of_errors_does_not_depend_on_which_item_ended_first(app):
    alone, shared = run(app, app.fail), run(app, app.fail, processes=2)
    assert shared.warnings == alone.warnings
    assert "no answer to q0" in shared.warnings[0]


def test_a_script_without_a_main_guard_asks_nothing_twice_and_is_told_once(app):
    Path("script.py").write_text(
        "from printing_app import *\n"
        "plan = Experiment(QUESTIONS, answer, [ExactMatch()], quiet=True, journal=False)\n"
        "plan.run()\nplan.run(processes=2)\n"
    )
    process = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, timeout=60)
    assert process.returncode == 1
    assert len(Path("asked").read_text().split()) == 8, "the run before it was repeated by workers"
    assert process.stderr.count("Traceback") == 1
    assert "if __name__ == '__main__':" in process.stderr.splitlines()[-1]


def test_a_task_may_run_an_experiment_that_has_no_workers_of_its_own(app):
    assert run(app, app.answer_by_a_run, processes=2).pass_rate == 1.0
    result = run(app, app.answer_by_a_run_with_workers, processes=2)
    errors = {item.error.partition(" (")[0] for item in result.item_results}
    assert len(errors) == 1
    assert "cannot have workers, too. Run it with processes=1." in errors.pop()


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is killed by a signal")
def test_a_worker_that_is_killed_before_it_is_ready_is_not_blamed_on_the_script(app, monkeypatch):
    Path("killed_app.py").write_text(
        "import os, signal\nfrom printing_app import *\n"
        "if os.getpid() != int(os.environ['PARENT']):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "def task(question):\n    return question\n"
    )
    monkeypatch.setenv("PARENT", str(os.getpid()))
    monkeypatch.delitem(sys.modules, "killed_app", raising=False)
    import killed_app

    with pytest.raises(
        ConfigurationError, match=r"before it was ready: killed by SIGKILL\. Where memory runs out"
    ):
        run(app, killed_app.task, processes=2)


def test_what_this_machine_does_not_allow_is_told_before_the_run(app, monkeypatch):
    pipes = []
    make = SpawnContext.Pipe

    def make_two(context, duplex=True):
        if len(pipes) == 2:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        pipes.append(make(context, duplex))
        return pipes[-1]

    monkeypatch.setattr(SpawnContext, "Pipe", make_two)
    with pytest.raises(ConfigurationError, match=r"Worker process \d cannot be started: OSError: .*fewer"):
        run(app, app.answer, processes=4)
    assert not Path("asked").exists()


def test_more_processes_than_items_are_not_started(app, monkeypatch):
    numbers = []

    class CountedHandle(_process_handle.ProcessHandle):
        def __init__(self, number):
            numbers.append(number)
            super().__init__(number)

    monkeypatch.setattr(_process_handle, "ProcessHandle", CountedHandle)
    plan = Experiment(app.QUESTIONS[:2], app.answer, [ExactMatch()], quiet=True, journal=False, processes=50)
    result = plan.run()
    assert sorted(numbers) == [1, 2]
    assert Experiment.rescore(result, [ExactMatch()], processes=50).pass_rate == 1.0
    assert sorted(numbers) == [1, 1, 2, 2]
