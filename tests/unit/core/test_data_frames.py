"""Results and comparisons as data frames."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pandas
import pytest

from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos.comparison._comparison_builder import compare_runs
from dokimos.errors import MissingExtraError

PASSED = EvalResult("Match", 1.0, threshold=1.0, success=True)
FAILED = EvalResult("Match", 0.0, threshold=1.0, success=False)
BROKEN = EvalResult("Match", threshold=1.0, error="JudgeError: no reply")


def item(index: int, *results: EvalResult, example: Example | None = None, **known: Any) -> ItemResult:
    return ItemResult(index, example or Example.of("q", "a", id=f"i{index}"), eval_results=results, **known)


def result(*runs: list[ItemResult]) -> ExperimentResult:
    return ExperimentResult(
        runs=tuple(RunResult(index=n, item_results=tuple(run)) for n, run in enumerate(runs))
    )


def test_items_are_rows_and_columns_without_values_are_left_out() -> None:
    frame = result([item(0, PASSED, actual_outputs={"output": "a"}), item(1, FAILED)]).to_dataframe()
    assert list(frame.columns) == ["id", "input", "output", "expected", "Match", "passed"]
    assert frame["Match"].dtype == "float64"
    assert frame["passed"].dtype == "bool"
    assert list(frame["id"]) == ["i0", "i1"]


def test_what_is_missing_is_missing_and_numbers_stay_numbers() -> None:
    paid = CallMetrics(tokens_in=3, cost_usd=0.5, latency_ms=12)
    frame = result(
        [item(0, PASSED, metrics=paid), item(1, BROKEN), item(2, EvalResult("Length", 0.5))]
    ).to_dataframe()
    assert frame.dtypes[["Match", "Length", "latency_ms", "cost_usd"]].map(str).tolist() == ["float64"] * 4
    assert (str(frame["tokens_in"].dtype), str(frame["passed"].dtype)) == ("Int64", "boolean")
    assert frame["Match"].mean() == 1.0
    assert frame["passed"].isna().tolist() == [False, False, True]
    assert frame["error"].isna().tolist() == [True, False, True]
    assert frame["error"][1] == "Match: JudgeError: no reply"
    assert frame["tokens_in"].sum() == 3


def test_repeats_have_rows_of_their_own_with_their_number() -> None:
    frame = result([item(0, PASSED)], [item(0, FAILED)]).to_dataframe()
    assert list(frame["run"]) == [1, 2]
    assert frame.groupby("id")["Match"].mean().to_dict() == {"i0": 0.5}


def test_inputs_have_a_column_for_each_key_whatever_they_are_called() -> None:
    example = Example(
        {"id": "x", "passed": 3, "input": "q"}, {"output": 1, "error": 2}, metadata={"Match": "m"}
    )
    other = Example({"lang": "de"}, id="i1")
    frame = result([item(0, PASSED, example=example), item(1, PASSED, example=other)]).to_dataframe()
    assert list(frame.columns) == [
        "id", "input.id", "input.passed", "input", "input.lang", "expected", "expected.error",
        "metadata.Match", "Match", "passed",
    ]  # fmt: skip
    assert list(frame["id"]) == ["item-0", "i1"]
    assert frame["input.passed"].tolist()[0] == 3
    assert str(frame["input.passed"].dtype) == "Int64"


def test_an_evaluator_that_is_called_as_a_column_gets_a_number() -> None:
    results = [EvalResult(name, 0.25) for name in ("passed", "error", "input", "cost_usd", "passed (2)")]
    frame = result([item(0, PASSED, *results)]).to_dataframe()
    assert not frame.columns.duplicated().any()
    for name in ("passed (2)", "error (2)", "input (2)", "cost_usd (2)", "passed (2) (2)"):
        assert frame[name][0] == 0.25
    assert bool(frame["passed"][0]) is True


def test_conversations_lists_and_numbers_of_any_size_stay_what_they_are() -> None:
    turns = [{"role": "user", "content": "hi"}]
    one = item(0, PASSED, actual_outputs={"output": turns, "n": 2**70, "mixed": "text"})
    two = item(1, PASSED, actual_outputs={"output": "text", "n": 1, "mixed": 1})
    frame = result([one, two]).to_dataframe()
    assert frame["output"][0] == turns
    assert frame["output.n"][0] == 2**70
    assert frame["output.mixed"].tolist() == ["text", 1]


def test_a_result_without_items_is_an_empty_frame_or_says_why_there_are_none() -> None:
    assert result([]).to_dataframe().empty
    without = ExperimentResult(runs=(RunResult(summary=result([item(0, PASSED)]).runs[0].summary),))
    with pytest.raises(ValueError, match=r"to_dataframe\(\) needs the items"):
        without.to_dataframe()


def test_a_comparison_has_a_row_for_each_item_with_both_sides() -> None:
    before = result([item(0, PASSED), item(1, FAILED), item(2, PASSED)])
    now = result([item(0, FAILED), item(1, BROKEN), item(3, PASSED)])
    frame = compare_runs(before, now).to_dataframe().set_index("id")
    assert set(frame["change"]) <= {"regressed", "improved", "unchanged", "added", "removed"}
    assert frame.loc["i0", ["Match.before", "Match.now", "Match.change"]].tolist() == [1.0, 0.0, -1.0]
    assert frame["Match.change"].isna().sum() == 3
    assert frame.loc["i3", "change"] == "added"
    assert pandas.isna(frame.loc["i3", "passed.before"])
    assert frame.loc["i1", "error.now"] == "JudgeError: no reply"
    assert frame["Match.now"].dtype == "float64"
    assert "error.before" not in frame


def test_without_pandas_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r'pip install "dokimos\[pandas\]"'):
        result([item(0, PASSED)]).to_dataframe()
    assert result([item(0, PASSED)]).to_rows()[0]["Match"] == 1.0


def test_pandas_is_loaded_by_nothing_else() -> None:
    code = "import sys, dokimos; repr(dokimos.ExperimentResult()); print('pandas' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False\n"
    )


def test_half_a_character_in_a_text_or_a_column_is_kept():
    broken = item(0, PASSED, example=Example({"input": "half \ud83d", "key \udcff": 1}))
    frame = result([broken]).to_dataframe()
    assert frame["input"].tolist() == ["half \ud83d"]
    assert "input.key \udcff" in list(frame)


def test_a_whole_number_that_no_float_can_hold_is_kept_beside_floats():
    huge = item(0, PASSED, example=Example({"input": 10**400}))
    frame = result([huge, item(1, PASSED, example=Example({"input": 0.5}))]).to_dataframe()
    assert frame["input"].tolist() == [10**400, 0.5]
