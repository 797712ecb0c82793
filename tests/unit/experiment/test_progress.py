"""Progress: nothing where it is not wanted, and nothing that breaks a log."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from dokimos.core.example import Example
from dokimos.core.metrics import CallMetrics
from dokimos.core.results import ExperimentResult
from dokimos.core.task_result import TaskResult
from dokimos.datasets.dataset import Dataset, DatasetStream
from dokimos.evaluators.text import ExactMatch
from dokimos.experiment import progress
from dokimos.experiment.experiment import Experiment

Numbers = Callable[..., Dataset]


class Terminal(io.TextIOWrapper):
    """Standard error as a terminal."""

    def __init__(self, *, tty: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty

    def shown(self) -> str:
        buffer: Any = self.buffer
        return buffer.getvalue().decode(self.encoding)


def run(data: Any, **settings: Any) -> ExperimentResult:
    def task(example: Example) -> TaskResult:
        time.sleep(0.03)  # longer than the interval between two lines
        if example.inputs["input"] == "1":
            raise ValueError("no")
        return TaskResult({"output": "x"}, CallMetrics(1, 1, cost_usd=0.25))

    return Experiment(data, task, [ExactMatch()], journal=False, **settings).run()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write plain lines often, in a terminal that says nothing else about itself."""
    plain = progress.PlainProgress
    monkeypatch.setattr(progress, "PlainProgress", lambda runs: plain(runs, every=0.01))
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("tty", [True, False])
def test_nothing_is_shown_where_progress_is_switched_off(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tty: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(tty=tty))
    run(numbers(3), progress=False)
    assert terminal.shown() == ""
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("wanted", [None, True])
def test_plain_lines_without_control_characters_go_to_a_log(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wanted: bool | None
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(tty=False))
    run(numbers(4), progress=wanted, runs=2)
    lines = terminal.shown().splitlines()
    assert any(line.startswith("run 1/2 · 3/4 · ") for line in lines)
    assert "0 % pass" in lines[-1]
    assert "1 error" in lines[-1]
    assert "$0." in lines[-1]
    assert any("left" in line for line in lines)
    assert all(char.isprintable() for line in lines for char in line)
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("eager")
def test_a_repeat_that_is_through_has_no_time_left(numbers: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(tty=False))
    run(numbers(3), parallelism=1)
    last = terminal.shown().splitlines()[-1]
    assert last.startswith("3/3 · ")
    assert "left" not in last


@pytest.mark.usefixtures("eager")
def test_a_stream_of_unknown_length_has_a_count_and_no_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(tty=False))
    run(DatasetStream(lambda: [Example.of(str(i)) for i in range(3)]))
    assert terminal.shown().splitlines()[-2].startswith("3 · ")
    assert "left" not in terminal.shown()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_log_of_another_encoding_is_no_reason_to_fail(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    plain = progress.PlainProgress
    monkeypatch.setattr(progress, "PlainProgress", lambda runs: plain(runs, every=0.0))
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(tty=False, encoding=encoding))
    run(numbers(3))
    assert "3/3" in terminal.shown()


@pytest.mark.usefixtures("eager")
def test_a_terminal_shows_one_line_that_stays_in_place(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(tty=True))
    run(numbers(20))
    assert "/20" in terminal.shown()
    assert "\x1b[" in terminal.shown()


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("variable", "value"), [("TERM", "dumb"), ("NO_COLOR", "1")])
def test_a_terminal_that_wants_no_control_characters_gets_plain_lines(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(tty=True))
    run(numbers(3))
    assert "3/3" in terminal.shown()
    assert "\x1b" not in terminal.shown()


def test_a_process_without_standard_error_runs_all_the_same(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert run(numbers(2)).total_count == 2
