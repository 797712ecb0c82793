import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from dokimos import CallMetrics, Example
from dokimos.datasets._rows import RowReader, _read_names
from dokimos.errors import DatasetError

FULL = {
    "id": "a",
    "input": "q",
    "expectedOutput": "e",
    "metadata": {"topic": "t"},
    "actualOutput": "o",
    "metrics": {"tokensIn": 3},
    "actualError": "E: no",
}


def read(row, **columns):
    return RowReader("rows", columns or None).read(row, 7)


def test_an_example_of_a_row_is_like_one_of_the_constructor():
    example = read(FULL)
    built = Example(
        {"input": "q"},
        {"output": "e"},
        metadata={"topic": "t"},
        id="a",
        actual_outputs={"output": "o"},
        metrics=CallMetrics(3),
        actual_error="E: no",
    )
    assert type(example) is Example
    assert (example, repr(example)) == (built, repr(built))
    assert [getattr(example, f.name) for f in fields(Example)] == [
        getattr(built, f.name) for f in fields(Example)
    ]
    assert pickle.loads(pickle.dumps(example)) == built == replace(example)
    with pytest.raises(FrozenInstanceError):
        example.id = "b"
    with pytest.raises(TypeError, match="unhashable"):
        hash(example)


@pytest.mark.parametrize("names", [("id", "input", "expected_output"), ("expected_output", "id", "input")])
def test_rows_with_the_same_names_are_renamed_by_their_own_values(names):
    for value in ("a", "b"):
        row = {name: f"{name} {value}" for name in names}
        before = dict(row)
        expected = Example(
            {"input": f"input {value}"}, {"output": f"expected_output {value}"}, id=f"id {value}"
        )
        assert read(row) == expected
        assert row == before


@pytest.mark.parametrize("more", [{}, {"topic": "t"}, {f"other {n}": n for n in range(12)}])
def test_a_name_in_both_spellings_is_refused_each_time(more):
    for _ in range(2):
        with pytest.raises(DatasetError, match="rows:7: 'expectedOutput' is given twice"):
            read({"input": "q", "expected_output": 1, "expectedOutput": 1, **more})


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ({"expected_output": None}, {"output": None}),
        ({"expected_outputs": None}, {}),
        ({"expected_outputs": {}}, {}),
        ({"expected_outputs": None, "expected_output": 1}, {"output": 1}),
    ],
)
def test_null_expected_outputs_in_snake_case(outputs, expected):
    assert read({"input": "q", **outputs}).expected_outputs == expected


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ({"actualOutput": None}, None),
        ({"actualOutputs": None}, None),
        ({"actualOutputs": None, "actualOutput": None}, None),
        ({"actualOutputs": None, "actualOutput": 0}, {"output": 0}),
        ({"actualOutputs": {}}, {}),
        ({"actualOutputs": {}, "actualOutput": "a"}, {"output": "a"}),
        ({"actualOutputs": {"x": 1}, "actualOutput": "a"}, {"x": 1}),
        ({"actual_output": "a"}, {"output": "a"}),
        ({"actualError": "E: no"}, None),
    ],
)
def test_recorded_outputs(outputs, expected):
    assert read({"input": "q", **outputs}).actual_outputs == expected


def test_columns_rename_also_rows_that_have_only_read_names():
    example = read({"input": "a", "id": "b", "expected_output": "c"}, id="input", input="id")
    assert example == Example({"input": "b"}, {"output": "c"}, id="a")


@pytest.mark.parametrize("name", ["metadata", "meta"], ids=["names of ours", "another name"])
def test_metrics_of_the_users_own_become_metadata(name):
    example = read({"input": "q", "actual_output": "a", "metrics": {"rouge": 1}, name: {}})
    assert example.metadata["metrics"] == {"rouge": 1}
    assert (example.metrics, example.actual_outputs) == (None, {"output": "a"})


def test_errors_in_renamed_rows_name_the_line():
    with pytest.raises(DatasetError, match="rows:7: 'expectedOutputs' must be an object"):
        read({"input": "q", "expected_outputs": 3})


def test_rows_with_many_names_are_not_kept():
    _read_names.cache_clear()
    read({"input": "q", **{f"other {n}": n for n in range(12)}})
    assert _read_names.cache_info().currsize == 0
