"""Progress: nothing where it is not wanted, and nothing that breaks a log."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import ExperimentResult, ItemResult
from dokimos._core.summary import Tally
from dokimos._core.task_result import TaskResult
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.errors import RunInterrupted
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment import _progress as progress
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._pace import Pace
from dokimos.experiment._progress import ProgressLine

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
    monkeypatch.setattr(progress, "PlainProgress", lambda *plan: plain(*plan, every=0.01))
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
    monkeypatch.setattr(progress, "PlainProgress", lambda *plan: plain(*plan, every=0.0))
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


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Course:
    """A run whose items start and end when a test says so."""

    def __init__(self, items: int, parallelism: int = 1, runs: int = 1) -> None:
        self.clock, self.tally = Clock(), Tally()
        self.items = items
        self.pace = Pace(parallelism, clock=self.clock)
        self.line = ProgressLine(runs, self.pace)
        self.line.start_repeat(0, items, self.tally)

    def start(self, *indexes: int) -> None:
        for index in indexes:
            self.pace.start_item(index)

    def end(self, *indexes: int, ran: bool = True) -> None:
        for index in indexes:
            self.tally.add(ItemResult(index, Example.of("x")))
            self.pace.end_item(index, ran=ran)

    def left(self, at: float) -> float | None:
        self.clock.now = at
        return self.pace.seconds_left(self.items - self.tally.total)


def test_the_time_left_counts_down_between_two_items_and_stays_where_one_is_overdue() -> None:
    course = Course(10)
    course.start(0)
    assert course.left(10.0) is None
    course.end(0)
    course.start(1)
    assert [course.left(at) for at in (10.0, 14.0, 20.0, 60.0)] == [90.0, 86.0, 80.0, 80.0]
    course.end(1)
    course.start(2)
    assert course.left(60.0) == 8 * 30.0


def test_the_first_of_many_items_in_parallel_says_how_long_all_take() -> None:
    course = Course(100, parallelism=10)
    course.start(*range(10))
    course.clock.now = 10.0
    course.end(0)
    course.start(10)
    assert course.left(10.0) == 90.0
    course.end(*range(1, 10))
    course.start(*range(11, 20))
    assert [course.left(at) for at in (10.0, 15.0, 20.0)] == [90.0, 85.0, 80.0]
    course.end(10)
    assert course.left(20.0) == 80.0


def test_fewer_items_than_workers_take_as_long_as_one() -> None:
    course = Course(4, parallelism=8)
    course.start(0, 1, 2, 3)
    course.clock.now = 5.0
    course.end(0, 1)
    assert course.left(5.0) == 0.0
    assert "left" not in course.line.text(bar=False)


def test_recorded_items_show_no_pace() -> None:
    course = Course(100)
    for index in range(90):
        course.start(index)
        course.clock.now += 0.001
        course.end(index, ran=False)
    assert course.left(1.0) is None
    assert course.line.text(bar=False) == "90/100"
    course.start(90)
    course.clock.now = 21.0
    course.end(90)
    assert course.left(21.0) == 9 * 20.0
    assert course.line.text(bar=False) == "91/100 · 2.9/min · 3.00 min left"


def test_a_later_repeat_knows_how_long_items_take() -> None:
    course = Course(1, runs=2)
    course.start(0)
    course.clock.now = 4.0
    course.end(0)
    course.line.start_repeat(1, 1, Tally())
    assert course.pace.rate is None
    assert course.pace.seconds_left(1) == 4.0


class Watched(progress.Silent):
    """Notes what the runner says of each item."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.ran: dict[int, bool] = {}
        self.passed_over_before: list[int] = []

    def start_item(self, index: int) -> None:
        self.started.append(index)

    def end_item(self, index: int, *, ran: bool) -> None:
        self.ran[index] = ran

    def pass_over_items(self) -> None:
        self.passed_over_before.append(len(self.started))


def test_a_resumed_run_counts_only_what_it_runs_itself(
    numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def task(text: str) -> str:
        calls.append(text)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return text

    experiment = Experiment(numbers(5), task, [ExactMatch()], name="resumed", parallelism=1)
    with pytest.raises(RunInterrupted) as stopped:
        experiment.run(quiet=True)
    watched = Watched()
    monkeypatch.setattr("dokimos.experiment._run_state.make_progress", lambda *_: watched)

    experiment.run(resume=stopped.value.result.run_id)

    assert watched.started == [2, 3, 4]
    assert watched.ran == {2: True, 3: True, 4: True}
    assert set(watched.passed_over_before) == {0}
