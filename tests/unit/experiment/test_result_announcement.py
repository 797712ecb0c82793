"""What is said at the end of a run that was started from Python."""

from __future__ import annotations

import asyncio
import logging
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from dokimos import Dataset, Example, Experiment, ExperimentResult, evaluate, evaluate_async
from dokimos.evaluators import ExactMatch
from dokimos.experiment import _result_announcement as result_announcement

EXAMPLES = Dataset([Example.of("a", "a", id="one"), Example.of("b", "c", id="two")])


def fail(example: Example) -> str:
    raise ValueError("the model does not answer")


def echo(example: Example) -> Any:
    return example.inputs["input"]


@pytest.fixture(autouse=True)
def _no_handlers() -> Iterator[None]:
    """As in a script that does not care about logging."""
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    yield
    root.handlers = handlers


def test_a_run_in_which_all_errored_says_so_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(EXAMPLES, fail, [ExactMatch()], name="support", journal=False)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(
        "Run 'support': broken after 2 items. Every item errored. The most common error (2 times): "
        "ValueError: the model does not answer ("
    )
    assert err.endswith(" in fail)\n")
    assert "test_result_announcement.py:" in err


def test_a_run_that_found_something_out_says_nothing_to_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(EXAMPLES, echo, [ExactMatch()], journal=False)
    assert capsys.readouterr() == ("", "")


def test_who_listens_to_the_logger_is_told_too(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign] # the usual way
    logging.getLogger("dokimos").addHandler(handler)
    try:
        evaluate(EXAMPLES, fail, [ExactMatch()], journal=False)
    finally:
        logging.getLogger("dokimos").removeHandler(handler)
    assert [line[:14] for line in heard] == ["Run 'unnamed':"]
    assert capsys.readouterr().err.startswith(heard[0])


@pytest.mark.parametrize("where", ["settings", "run"])
def test_quiet_keeps_everything_back(
    where: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    given = {"quiet": True, "journal": False}
    plan = Experiment(EXAMPLES, fail, [ExactMatch()], **(given if where == "settings" else {}))
    plan.run(**({} if where == "settings" else given))
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_the_result(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    evaluate(EXAMPLES, echo, [ExactMatch()], name="support", journal=False)
    shown = capsys.readouterr().out
    assert "support" in shown
    assert "50.0 %" in shown
    assert "two" in shown


def test_a_notebook_displays_the_result(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    displayed: list[ExperimentResult] = []
    shell = types.SimpleNamespace(kernel=object())
    ipython = types.SimpleNamespace(
        get_ipython=lambda: shell, display=types.SimpleNamespace(display=displayed.append)
    )
    monkeypatch.setitem(sys.modules, "IPython", ipython)  # type: ignore[arg-type] # as much as is used
    result = evaluate(EXAMPLES, echo, [ExactMatch()], journal=False)
    assert displayed == [result]
    assert capsys.readouterr().out == ""


def test_no_warning_becomes_an_exception(recwarn: pytest.WarningsRecorder) -> None:
    evaluate(EXAMPLES, fail, [ExactMatch()], journal=False)
    assert not recwarn.list


async def test_a_run_on_a_running_loop_tells_its_end_alike(capsys: pytest.CaptureFixture[str]) -> None:
    await Experiment(EXAMPLES, fail, [ExactMatch()]).run_async(journal=False)
    assert capsys.readouterr().err.startswith("Run 'unnamed': broken after 2 items.")


class Sink:
    """What some hosts have for an output: it can be written to, and no more."""

    def write(self, text: str) -> None:
        raise OSError("nobody is there")

    def flush(self) -> None: ...


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_result_is_not_lost_where_it_cannot_be_shown(monkeypatch: pytest.MonkeyPatch, stream: str) -> None:
    monkeypatch.setattr(sys, stream, Sink())
    result = evaluate(EXAMPLES, fail, [ExactMatch()], journal=False, progress=False)
    assert result.error_count == 2


def test_a_stand_in_for_ipython_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    assert evaluate(EXAMPLES, echo, [ExactMatch()], journal=False).pass_count == 1


def test_a_loop_that_waits_is_told_of_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_announcement._Announced, "loop_waits", False)

    async def cell() -> None:
        evaluate(EXAMPLES, echo, [ExactMatch()], journal=False, quiet=True)
        assert capsys.readouterr().err == ""
        evaluate(EXAMPLES, echo, [ExactMatch()], journal=False)
        assert capsys.readouterr().err.startswith(
            "An event loop is running here, and is blocked until this run has ended."
        )
        evaluate(EXAMPLES, echo, [ExactMatch()], journal=False)
        await evaluate_async(EXAMPLES, echo, [ExactMatch()], journal=False)
        assert capsys.readouterr().err == ""

    asyncio.run(cell())


def test_outside_a_loop_nothing_waits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_announcement._Announced, "loop_waits", False)
    evaluate(EXAMPLES, echo, [ExactMatch()], journal=False)
    assert capsys.readouterr().err == ""
