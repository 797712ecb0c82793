from __future__ import annotations

import gzip
import io
import sys
from types import SimpleNamespace

import pytest

from dokimos import CallMetrics, Dataset, Example
from dokimos.errors import DatasetError, MissingExtraError


def read(rows, **options) -> list[Example]:
    return list(Dataset.from_rows(rows, **options))


def test_rows_are_mappings():
    rows = [{"input": "q", "output": "a", "topic": "t"}, {"input": "r", "expected_output": "b", "id": 2}]
    assert read(rows) == [Example.of("q", "a", topic="t"), Example.of("r", "b", id="2")]


def test_rows_may_come_from_a_generator():
    assert [e.input for e in read({"input": text} for text in "ab")] == ["a", "b"]


def test_rows_may_hold_whole_maps():
    row = {
        "inputs": {"a": 1}, "expectedOutputs": {"b": 2}, "actual_outputs": {"c": 3}, "metadata": {"d": 4},
        "e": 5, "metrics": {"tokensIn": 6},
    }  # fmt: skip
    assert read([row]) == [
        Example(
            {"a": 1}, {"b": 2}, actual_outputs={"c": 3}, metadata={"d": 4, "e": 5}, metrics=CallMetrics(6)
        )
    ]


def test_the_rows_given_stay_as_they_were():
    row = {"inputs": {"a": 1}, "topic": "t"}
    example = read([row])[0]
    example.inputs["a"] = 2
    assert row == {"inputs": {"a": 1}, "topic": "t"}


def test_columns_are_mapped():
    rows = [{"question": "q", "truth": "a", "answer": "x", "topic": "t"}]
    columns = {"question": "input", "truth": "expected_output", "answer": "actual_output"}
    example = read(rows, columns=columns)[0]
    assert example == Example(
        {"input": "q"}, {"output": "a"}, metadata={"topic": "t"}, actual_outputs={"output": "x"}
    )


def test_name_and_description_can_be_given():
    dataset = Dataset.from_rows([], name="n", description="d")
    assert (dataset.name, dataset.description) == ("n", "d")


def test_a_pandas_frame():
    import pandas

    frame = pandas.DataFrame(
        {
            "input": ["q", "r"],
            "output": ["a", None],
            "id": [1, None],
            "score": [0.5, float("nan")],
            "n": [1, 2],
        }
    )
    assert read(frame) == [Example.of("q", "a", id="1", score=0.5, n=1), Example.of("r", score=None, n=2)]


def test_an_arrow_table():
    import pyarrow as arrow

    table = arrow.table({"input": ["q", "r"], "tags": [["a"], []]})
    assert read(table) == [Example.of("q", tags=["a"]), Example.of("r", tags=[])]


def test_anything_with_to_dicts():
    class Frame:
        def to_dicts(self):
            return [{"input": "q"}]

    assert read(Frame()) == [Example.of("q")]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"train": []}, "choose one of its parts: 'train'"),
        ("text", "not a str"),
        (7, "not a int"),
        (["text"], "rows:1: Expected a mapping"),
        ([{"input": "a"}, {"question": "b"}], r"rows:2: .*columns=\{'question': 'input'\}"),
        ([{"input": "a", "metadata": "no json"}], "'metadata' must hold an object or its JSON"),
        ([{"input": "a", "metadata": {"x": 1}, "x": 2}], "of this row and of its 'metadata'"),
        ([{"input": "a", "expectedOutput": 1, "expected_output": 2}], "given twice"),
    ],
)
def test_what_is_no_table_is_refused(rows, message):
    with pytest.raises(DatasetError, match=message):
        read(rows)


def test_parquet_is_loaded_and_streamed(tmp_path):
    import pyarrow as arrow
    from pyarrow import parquet

    path = tmp_path / "d.parquet"
    parquet.write_table(arrow.table({"question": [f"q{i}" for i in range(3000)]}), path)
    columns = {"question": "input"}
    assert len(Dataset.from_parquet(path, columns=columns)) == 3000
    assert Dataset.load(path, columns) == Dataset(Dataset.stream(path, columns), "d")
    with pytest.raises(DatasetError, match=r"d.parquet:1: .*'question': 'input'"):
        Dataset.load(path)


def test_parquet_is_read_from_a_package_and_from_standard_input(tmp_path, monkeypatch):
    folder = tmp_path / "parquet_package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    dataset = Dataset([Example.of("a", "b", id="1")], "d")
    dataset.save(folder / "d.parquet")
    monkeypatch.syspath_prepend(tmp_path)
    assert Dataset.load("package:parquet_package/d.parquet") == dataset
    content = (folder / "d.parquet").read_bytes()
    for given in (content, gzip.compress(content)):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(given)))
        assert list(Dataset.load("-")) == list(dataset)


def test_a_parquet_file_that_was_zipped_is_read(tmp_path):
    dataset = Dataset([Example.of("a", "b")], "d")
    dataset.save(tmp_path / "d.parquet")
    (tmp_path / "d.parquet.gz").write_bytes(gzip.compress((tmp_path / "d.parquet").read_bytes()))
    assert Dataset.load(tmp_path / "d.parquet.gz") == dataset


def test_a_broken_parquet_file_is_an_error(tmp_path):
    (tmp_path / "d.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DatasetError, match="Not a readable Parquet file"):
        Dataset.load(tmp_path / "d.parquet")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "d.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError, match=r"dokimos\[parquet\]"):
        Dataset.load(tmp_path / "d.parquet")
