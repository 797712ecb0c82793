"""What results show of themselves when they are printed."""

from __future__ import annotations

import io
import sys
from html.parser import HTMLParser

import pytest

from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult, RunStatus
from dokimos.errors import RunFailedError
from dokimos.reporting._views import item_details

PASSED = EvalResult("Exact Match", 1.0, threshold=1.0, success=True)
FAILED = EvalResult("Exact Match", 0.0, threshold=1.0, success=False, reason="Expected <b>4</b>.\nGot 5.")


def item(index: int, *results: EvalResult, error: str | None = None) -> ItemResult:
    return ItemResult(index, Example.of("q", "4", id=f"item <{index}>"), eval_results=results, error=error)


def result(*items: ItemResult, status: RunStatus = RunStatus.COMPLETED) -> ExperimentResult:
    return ExperimentResult(name="sums <i>", runs=(RunResult(item_results=items),), status=status)


MIXED = result(item(0, PASSED), item(1, FAILED), item(2, error="ValueError: no \x1b[2J answer"))


def test_a_printed_result_is_its_verdict_and_the_table_of_its_evaluators() -> None:
    text = str(MIXED)
    assert "sums <i>" in text
    assert "Exact Match   0.50" in text
    assert "33.3 % passed (1/3)" in text
    assert "1 item errored" in text
    assert "item <1>" not in text, "items are what print() shows"
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_result_of_many_items_prints_in_a_few_lines() -> None:
    many = result(*(item(i, PASSED) for i in range(5000)))
    assert len(str(many).splitlines()) < 10
    assert len(repr(many)) < 120


def test_signs_are_those_that_standard_output_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="cp1252"))
    assert str(MIXED).isascii()


def test_the_repr_is_one_line() -> None:
    assert repr(MIXED) == "<ExperimentResult 'sums <i>': 33.3 % passed (1/3), 1 errored>"
    assert repr(MIXED.item_results[1]) == "<ItemResult 'item <1>': failed>"
    assert repr(result()) == "<ExperimentResult 'sums <i>': no items>"
    cut_off = result(item(0, PASSED), status=RunStatus.INTERRUPTED)
    assert repr(cut_off) == "<ExperimentResult 'sums <i>': 100.0 % passed (1/1), interrupted>"
    assert "✓" not in str(cut_off)


def test_an_item_says_what_each_evaluator_says() -> None:
    informed = EvalResult("Length", 0.5)
    down = EvalResult("Tone", error="JudgeError: no answer", error_kind="contested")
    assert str(item(1, FAILED, informed, down)).splitlines() == [
        "item <1>: errored",
        "  x Exact Match 0.00 (threshold 1): Expected <b>4</b>. Got 5.",
        "  - Length 0.50",
        "  ! Tone: possible attack: JudgeError: no answer",
    ]
    assert str(MIXED.item_results[2]).splitlines()[1] == "  ! task: ValueError: no \\u001b[2J answer"


def test_print_shows_the_items_to_look_at(capsys: pytest.CaptureFixture[str]) -> None:
    MIXED.print()
    shown = capsys.readouterr().out
    assert "Not passed" in shown
    assert "item <1>" in shown


def test_print_shows_all_of_them_where_asked(capsys: pytest.CaptureFixture[str]) -> None:
    many = result(*(item(i, FAILED) for i in range(9)))
    many.print()
    assert "... and 4 more" in capsys.readouterr().out
    many.print(verbose=True)
    assert "item <8>" in capsys.readouterr().out


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += f" {data}"


def test_a_notebook_gets_tables_in_which_foreign_text_is_text() -> None:
    parser = Tags()
    parser.feed(MIXED._repr_html_())
    assert parser.tags == {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    for text in ("sums <i>", "Exact Match", "50.0 % (1/2)", "item <2>", "Expected <b>4</b>. Got 5."):
        assert text in parser.text
    assert "\x1b" not in parser.text


def test_an_empty_result_shows_itself_too() -> None:
    assert "<table>" not in result()._repr_html_()
    assert "not judged" in str(result())


def test_raise_for_status_lets_failed_items_through_and_broken_runs_not() -> None:
    MIXED.raise_for_status()
    broken = result(item(0, error="ValueError: no"), status=RunStatus.BROKEN)
    with pytest.raises(RunFailedError, match=r"^Run 'sums <i>': broken after 1 item\.$") as raised:
        broken.raise_for_status()
    assert raised.value.result is broken


def test_an_item_is_shown_whole() -> None:
    example = Example.of("One line\nand another", {"n": 4}, id="sum", topic="maths")
    metrics = CallMetrics(latency_ms=812.0, cost_usd=0.0012, model="tiny")
    outputs = {"output": "5\x1b[2J", "toolCalls": []}
    told = item_details(
        ItemResult(0, example, actual_outputs=outputs, eval_results=(FAILED,), metrics=metrics), run=1
    )
    assert told.splitlines() == [
        "sum | failed | run 2 | tiny | 812 ms | $0.0012",
        "",
        "  input             One line",
        "                    and another",
        "  expected          {",
        '                      "n": 4',
        "                    }",
        "  output            5\\u001b[2J",
        "  output.toolCalls  []",
        "  metadata.topic    maths",
        "",
        "  x Exact Match 0.00 (threshold 1): Expected <b>4</b>.",
        "    Got 5.",
    ]


def test_an_item_that_gave_nothing_is_shown_too() -> None:
    assert item_details(ItemResult(3, Example(), error="ValueError: no")).splitlines() == [
        "item-3 | errored",
        "",
        "  error  ValueError: no",
    ]


def test_an_item_prints_itself_whole_and_is_a_table_in_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    odd = item(1, FAILED)
    odd.print()
    assert "Expected <b>4</b>." in capsys.readouterr().out
    parser = Tags()
    parser.feed(odd._repr_html_())
    assert parser.tags == {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert "x Exact Match 0.00 (threshold 1): Expected <b>4</b>." in parser.text


def test_a_notebook_gets_the_text_of_a_result_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)

    assert "passed" in str(MIXED)
