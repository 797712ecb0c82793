from __future__ import annotations

import csv
import io

import pytest

from dokimos._core.error_detail import ErrorDetail, Frame
from dokimos._core.example import Example
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos.exporters._base import render


def rows_of(result):
    return list(csv.reader(io.StringIO(render(result, "csv"), newline="")))


def one_item(output, **fields):
    item = ItemResult(0, Example.of("q", "a"), actual_outputs={"output": output}, **fields)
    return ExperimentResult(runs=(RunResult(item_results=(item,)),))


def test_one_run_has_exactly_the_documented_columns(make_result):
    text = render(make_result(), "csv")
    assert text.split("\r\n")[0] == (
        "input,expected_output,actual_output,success,exact_match_score,exact_match_pass,"
        "faithfulness_score,faithfulness_pass,latency_score,latency_pass,token_f1_score,token_f1_pass,"
        "word_error_rate_score,word_error_rate_pass,error"
    )


def test_the_column_of_errors_is_there_where_an_item_errored_and_says_where_it_came_from():
    frame = Frame("app.py", 41, "answer")
    failed = one_item(None, error="KeyError: 'x'", error_detail=ErrorDetail("KeyError", "'x'", (frame,)))

    assert rows_of(failed) == [
        ["input", "expected_output", "actual_output", "success", "error"],
        ["q", "a", "", "false", "KeyError: 'x' (app.py:41 in answer)"],
    ]
    assert "error" not in rows_of(one_item("a"))[0]


def test_several_runs_lead_with_their_number(make_result):
    rows = rows_of(make_result(items=2, runs=3))
    assert rows[0][:2] == ["run", "input"]
    assert [row[0] for row in rows[1:]] == ["1", "1", "2", "2", "3", "3"]


def test_what_was_not_decided_is_empty(make_result):
    header, *rows = rows_of(make_result())
    crashed = dict(zip(header, rows[7], strict=True))
    assert (crashed["success"], crashed["exact_match_score"], crashed["exact_match_pass"]) == (
        "false",
        "",
        "",
    )
    warned = dict(zip(header, rows[3], strict=True))
    assert (warned["success"], warned["faithfulness_score"], warned["faithfulness_pass"]) == ("true", "", "")


@pytest.mark.parametrize(
    "text", ['say "hi", twice', "two\nlines", "two\r\nlines", "old\rmac", " spaces ", ""]
)
def test_any_text_is_read_back(text):
    assert rows_of(one_item(text))[1][2] == text


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-cmd|x", "@SUM(A1)", "\t=1", "\r=1", "-", "+1 2", "-1\n"])
def test_formulas_are_disarmed(text):
    assert rows_of(one_item(text))[1][2] == f"'{text}"


@pytest.mark.parametrize("text", ["-1", "+1.5", "-.5e-3", "3", "1=1"])
def test_numbers_stay_numbers(text):
    assert rows_of(one_item(text))[1][2] == text


def test_equal_column_names_are_told_apart():
    results = (EvalResult.of("My Check", 1.0), EvalResult.of("my check", 0.25))
    header, row = rows_of(one_item("x", eval_results=results))
    assert header[4:] == ["my_check_score", "my_check_pass", "my_check_2_score", "my_check_2_pass"]
    assert row[4:] == ["1.0", "true", "0.25", "false"]


def test_a_name_cannot_be_a_formula():
    assert rows_of(one_item("x", eval_results=(EvalResult.of("=cmd", 1.0),)))[0][4] == "'=cmd_score"
