"""Tables: all columns at any width, and columns that line up whatever the script."""

from __future__ import annotations

import io
import sys

import pytest

from dokimos._core.example import Example
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos.reporting._console import WIDTH, make_console, print_result, read_columns_variable
from dokimos.reporting._tables import Column, Table, cell_width, cut_middle, table_lines
from dokimos.reporting._terminal import safe_console

LONG = "Faithfulness of the answer to the retrieved chunks (gpt-5-mini)"
WIDE = "回答は検索された文書に忠実か 🎉 (gpt-5-mini)"
WIDTHS = (24, 40, 60, 80, 100, 200)

FIGURES = Table(
    [Column("metric", left=True, most=34), Column("before"), Column("now"), Column("drawn", spare=True)],
    [["short", "0.10", "0.20", "####"], [LONG, "0.30", "0.40", "#"], [WIDE, "0.50", "0.60", "##"]],
)


def lines(table: Table, width: int) -> list[str]:
    return [line.plain for line in table_lines(table, width)]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_figure_is_there_and_no_line_is_too_long(width: int) -> None:
    shown = lines(FIGURES, width)
    for figure in ("0.10", "0.20", "0.30", "0.40", "0.50", "0.60", "before", "now"):
        assert any(figure in line for line in shown)
    assert max(map(cell_width, shown)) <= width


def test_columns_line_up_beside_names_of_any_script() -> None:
    shown = lines(FIGURES, 80)
    ends = {
        cell_width(line[: line.index(figure) + 4])
        for line, figure in zip(shown[1:], ("0.20", "0.40", "0.60"), strict=True)
    }
    assert len(ends) == 1


def test_names_keep_their_beginning_and_their_end() -> None:
    assert cut_middle(LONG, 24) == "Faithfulness of…5-mini)"
    assert cut_middle("a\n b", 24) == "a b"
    assert [cut_middle("abcdef", width) for width in (0, 1, 2, 3)] == ["", "…", "a…", "ab…"]
    for width in range(2, 40):
        assert cell_width(cut_middle(WIDE, width)) <= width


def test_what_only_draws_goes_first_and_names_get_their_own_line_next() -> None:
    assert "drawn" in lines(FIGURES, 60)[0]
    assert "drawn" not in " ".join(lines(FIGURES, 28))
    beside, below = lines(FIGURES, 28), lines(FIGURES, 20)
    assert len(beside) == 4
    assert len(below) == 8


def test_where_no_row_fits_each_cell_is_told_with_its_title() -> None:
    many = Table(
        [Column("metric", left=True), *(Column(f"title {n}") for n in range(8))], [["m", *"abcdefgh"]]
    )
    shown = " ".join(lines(many, 30))
    for number, cell in enumerate("abcdefgh"):
        assert f"title {number} {cell}" in shown.replace("     ", " ").replace("    ", " ")


def test_columns_without_any_text_and_tables_without_rows_are_left_out() -> None:
    table = Table([Column("metric", left=True), Column("cost"), Column("now")], [["m", "", "1"]])
    assert lines(table, 80)[0].split() == ["metric", "now"]
    assert lines(Table(table.columns, []), 80) == []


def test_control_characters_are_measured_as_they_are_shown() -> None:
    shown = lines(
        Table([Column("metric", left=True, most=20), Column("now")], [["a\x1b[2J", "1"], ["b", "2"]]), 80
    )
    assert "\\u001b" in shown[1]
    assert shown[1].index("1", 12) == shown[2].index("2")


class Pipe(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment] # a text stream without one has None there


@pytest.mark.parametrize(
    ("columns", "width"),
    [("60", 60), ("200", 200), ("0", None), ("7", None), ("wide", None), ("", None), ("٦٠", None)],
)
def test_a_pipe_is_as_wide_as_columns_says(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int | None
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "stdout", Pipe())
    assert read_columns_variable() == width
    assert make_console().width == (width or WIDTH)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_errors_of_each_evaluator_are_counted_at_any_width(width: int) -> None:
    results = [
        EvalResult(LONG, 1.0, threshold=0.5, success=True),
        EvalResult(WIDE, 0.0, threshold=0.5, success=False),
        EvalResult("Tone", error="JudgeError: no reply"),
    ]
    items = [ItemResult(n, Example.of("q", id=f"項目 {n}"), eval_results=tuple(results)) for n in range(1200)]
    out = Pipe()
    result = ExperimentResult(runs=(RunResult(item_results=tuple(items)),))
    print_result(result, safe_console(file=out, width=width, color_system=None))
    shown = out.getvalue().splitlines()
    assert any("1200 !" in line for line in shown)
    assert any("1200/1200" in line for line in shown)
    assert max(map(cell_width, shown)) <= width
