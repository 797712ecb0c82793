"""The console that results are printed on."""

from __future__ import annotations

import io
import sys

import pytest

from dokimos._core.example import Example
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult, RunStatus
from dokimos.reporting._console import make_console, print_result


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment] # a text stream without one has None there

    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, columns: int = 80) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    failed = EvalResult("Exact Match", 0.0, threshold=1.0, success=False, reason="Not [red]equal[/red]. " * 9)
    item = ItemResult(0, Example.of("q", "e", id="a-rather-long-id"), eval_results=(failed,))
    result = ExperimentResult(name="[bold]odd[/bold]", runs=(RunResult(item_results=(item,)),))
    print_result(result, make_console(), verbose=True)
    return terminal.getvalue()


def test_an_evaluator_without_scores_has_no_picture_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    results = (EvalResult("Judge", error="503"), EvalResult.of("Match", 1.0))
    item = ItemResult(0, Example.of("q", "e"), eval_results=results)
    print_result(ExperimentResult(runs=(RunResult(item_results=(item,)),)), make_console())
    rows = {line.split()[0]: line for line in terminal.getvalue().splitlines() if line.split()}
    assert "█" in rows["Match"]
    assert not set(rows["Judge"]) & set("▁▂▃▄▅▆▇█")


def test_a_terminal_gets_styles_and_no_color_takes_every_control_character_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    assert "\x1b[" in printed(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in printed(monkeypatch)


@pytest.mark.parametrize("columns", [30, 40, 80, 300])
def test_markup_in_foreign_text_is_text_and_lines_fit(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = printed(monkeypatch, columns)
    assert "[bold]odd[/bold]" in text.replace("\n", "")
    assert max(map(len, text.splitlines())) <= columns


def errored_everywhere(text: str) -> ExperimentResult:
    items = tuple(ItemResult(n, Example.of("q", "e", id=str(n)), error=text) for n in range(2))
    warning = f"Every item errored. The most common error (2 times): {text}"
    return ExperimentResult(
        name="demo",
        runs=(RunResult(item_results=items),),
        status=RunStatus.BROKEN,
        warnings=(warning, "Other."),
    )


def test_a_long_reason_is_wrapped_so_that_its_end_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    error = "TypeError: the task returned None; return the output. Does answer (app.py:4) lack a return?"

    print_result(errored_everywhere(error), make_console())

    text = terminal.getvalue()
    assert error in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 60


def test_one_cause_is_told_once_and_other_warnings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())

    print_result(errored_everywhere("ValueError: the only cause"), make_console())

    assert terminal.getvalue().count("the only cause") == 1
    assert "! Other." in terminal.getvalue()


def test_a_result_as_text_is_as_wide_as_columns_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    result = EvalResult("An evaluator with a name that is rather long", 1.0, threshold=1.0, success=True)
    item = ItemResult(0, Example.of("q", "e"), eval_results=(result,))

    text = str(ExperimentResult(name="demo", runs=(RunResult(item_results=(item,)),)))

    assert max(map(len, text.splitlines())) <= 40
