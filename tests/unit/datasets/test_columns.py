from __future__ import annotations

import json

import pytest

from dokimos import Dataset, Example
from dokimos.errors import DatasetError


def read(row: dict[str, object], columns: dict[str, str]) -> Example:
    return Dataset.from_jsonl(text=json.dumps(row), columns=columns)[0]


def error_of(row: dict[str, object], columns: dict[str, str] | None = None) -> str:
    with pytest.raises(DatasetError) as caught:
        Dataset.from_jsonl(text=json.dumps(row), columns=columns)
    return str(caught.value)


def test_each_kind_of_target():
    row = {
        "question": "q",
        "ground_truth": "g",
        "answer": "a",
        "topic": "t",
        "x": 1,
        "key": 7,
        "use": {"tokensIn": 2},
    }
    columns = {
        "question": "input", "ground_truth": "expected_output", "answer": "actualOutput",
        "topic": "metadata.topic", "x": "inputs.x", "key": "id", "use": "metrics",
    }  # fmt: skip
    example = read(row, columns)
    assert example.inputs == {"input": "q", "x": 1}
    assert example.expected_outputs == {"output": "g"}
    assert example.actual_outputs == {"output": "a"}
    assert example.metadata == {"topic": "t"}
    assert example.id == "7"
    assert example.metrics is not None
    assert example.metrics.tokens_in == 2


def test_a_whole_map_can_be_mapped():
    assert read({"args": {"a": 1}, "input": "ignored"}, {"args": "inputs"}).inputs == {"a": 1}


def test_a_mapped_key_joins_what_the_row_has_itself():
    row = {"input": "q", "context": "c", "metadata": {"a": 1}, "b": 2}
    assert read(row, {"context": "inputs.context", "b": "metadata.b"}) == Example(
        {"input": "q", "context": "c"}, metadata={"a": 1, "b": 2}
    )


def test_our_own_names_can_be_given_another_meaning():
    assert read({"id": "q", "input": "x"}, {"id": "input", "input": "metadata.x"}) == Example.of("q", x="x")


def test_a_column_that_some_rows_lack_is_absent_there():
    rows = '{"question": "q", "topic": "t"}\n{"question": "r"}'
    dataset = Dataset.from_jsonl(text=rows, columns={"question": "input", "topic": "metadata.topic"})
    assert [e.metadata for e in dataset] == [{"topic": "t"}, {}]


def test_an_unknown_target_lists_the_targets():
    message = error_of({"q": 1}, {"q": "imput"})
    assert "maps 'q' to 'imput', which is not a target" in message
    assert "expected_outputs.KEY" in message


@pytest.mark.parametrize("target", ["id.x", "metadata.", ".x", "", "input.x", "metrics.tokensIn"])
def test_a_target_that_makes_no_sense_is_refused(target):
    assert "not a target" in error_of({"q": 1}, {"q": target})


def test_two_columns_for_one_target_are_refused():
    assert "both 'a' and 'b'" in error_of({"a": 1, "b": 2}, {"a": "input", "b": "inputs.input"})


def test_a_target_that_the_row_has_already_is_refused():
    assert "'inputs.input' is in the row already" in error_of({"input": "x", "q": "y"}, {"q": "input"})
    assert "'id' is in the row already" in error_of({"input": "x", "id": 1, "q": 2}, {"q": "id"})


def test_a_key_cannot_be_put_into_what_is_no_map():
    assert "'metadata' must be an object" in error_of(
        {"input": "x", "metadata": 3, "q": 2}, {"q": "metadata.q"}
    )


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ({"question": 1}, {"question": "input"}),
        ({"Query": 1, "Reference": 2}, {"Query": "input", "Reference": "expected_output"}),
        ({"prompt": 1, "completion": 2}, {"prompt": "input", "completion": "expected_output"}),
        ({"question": 1, "answer": 2}, {"question": "input", "answer": "expected_output"}),
        (
            {"question": 1, "answer": 2, "groundTruth": 3},
            {"question": "input", "groundTruth": "expected_output", "answer": "actual_output"},
        ),
        (
            {"prompt": 1, "target": 2, "response": 3},
            {"prompt": "input", "target": "expected_output", "response": "actual_output"},
        ),
        ({"user_input": 1, "expectedOutput": 2}, {"user_input": "input"}),
    ],
)
def test_common_names_are_suggested_and_the_suggestion_works(row, columns):
    message = error_of(row)
    assert f"Pass columns={columns!r} (--columns " in message
    assert read(row, columns).inputs == {"input": 1}


def test_without_a_guess_the_keys_are_listed():
    message = error_of({"alpha": 1, "beta": 2})
    assert "It has: 'alpha', 'beta'. Say which one is the input with columns={'NAME': 'input'}." in message
