from __future__ import annotations

import gzip
import json

import pytest

from dokimos import CallMetrics, Dataset, Example
from dokimos.datasets._writers import write_jsonl
from dokimos.errors import DatasetError

RICH = Dataset(
    [
        Example.of("a", "b", id="1", topic="x"),
        Example(
            {"q": [1, None, {"ü": "\u2028"}]}, {"a": 1.5}, metadata={"n": {"m": []}},
            actual_outputs={"output": "c", "d": 1}, metrics=CallMetrics(1, 2, cost_usd=0.5),
        ),
        Example({}, {"output": None}, actual_outputs={}),
    ],
    "rich",
    "All there is",
)  # fmt: skip
FLAT = Dataset(
    [Example.of("a", "b", id="1", topic="x"), Example.of(" c\n", '"d", e', id="2", topic="")], "flat"
)


@pytest.mark.parametrize("name", ["rich.json", "rich.jsonl", "rich.json.gz", "rich.jsonl.gz", "rich.parquet"])
def test_everything_survives_json_jsonl_and_parquet(tmp_path, name):
    RICH.save(tmp_path / name)
    loaded = Dataset.load(tmp_path / name)
    assert loaded.examples == RICH.examples
    assert loaded.fingerprint == RICH.fingerprint


def test_json_keeps_name_and_description(tmp_path):
    RICH.to_json(tmp_path / "other.json")
    assert Dataset.load(tmp_path / "other.json") == RICH


@pytest.mark.parametrize("name", ["flat.csv", "flat.tsv", "flat.csv.gz"])
def test_texts_survive_csv(tmp_path, name):
    FLAT.save(tmp_path / name)
    assert Dataset.load(tmp_path / name) == FLAT


def test_csv_has_readable_columns(tmp_path):
    example = Example(
        {"input": "q"}, {"output": "a"}, metadata={"n": 3}, id="1", actual_outputs={"output": "b"}
    )
    Dataset([example]).to_csv(tmp_path / "d.csv", delimiter=";")
    assert (tmp_path / "d.csv").read_text() == "id;input;expectedOutput;actual_output;n\n1;q;a;b;3\n"


def test_csv_keeps_metrics_and_writes_other_values_as_text(tmp_path):
    example = Example({"input": [1, "ü"]}, metadata={"on": True, "none": None}, metrics=CallMetrics(3))
    Dataset([example]).to_csv(tmp_path / "d.csv")
    loaded = Dataset.from_csv(tmp_path / "d.csv")[0]
    assert loaded == Example(
        {"input": '[1,"ü"]'}, metadata={"on": "true", "none": ""}, metrics=CallMetrics(3)
    )


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (Example({"input": 1, "context": 2}), "'context' in its inputs"),
        (Example({"input": 1}, {"answer": 2}), "'answer' in its expected outputs"),
        (Example({"input": 1}, actual_outputs={"toolCalls": []}), "'toolCalls' in its actual outputs"),
        (Example.of("q", Input=1), "metadata key 'Input'"),
        (Example({"input": 1}, metadata={" a": 1}), "metadata key ' a'"),
    ],
)
def test_what_csv_cannot_hold_is_refused(tmp_path, example, message):
    with pytest.raises(DatasetError, match=f"Example 1 .*{message}.*use .jsonl"):
        Dataset([Example.of("fine"), example]).to_csv(tmp_path / "d.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_single_column_keeps_its_empty_texts(tmp_path):
    dataset = Dataset([Example.of(""), Example.of("a")], "d")
    dataset.to_csv(tmp_path / "d.csv")
    assert Dataset.load(tmp_path / "d.csv") == dataset


@pytest.mark.parametrize("write", [Dataset.save, Dataset.to_parquet])
def test_parquet_is_not_zipped_again(tmp_path, write):
    with pytest.raises(
        DatasetError, match=r"d\.parquet\.gz: A Parquet file is compressed already; leave out \.gz"
    ):
        write(RICH, tmp_path / "d.parquet.gz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["d.json", "d.csv", "d.parquet"])
def test_an_empty_dataset_survives(tmp_path, name):
    Dataset([], "d").save(tmp_path / name)
    assert Dataset.load(tmp_path / name) == Dataset([], "d")


def test_files_are_readable_by_people(tmp_path):
    Dataset([Example.of("ü", "b", id="1")], "d").save(tmp_path / "d.jsonl")
    assert (tmp_path / "d.jsonl").read_text("utf-8") == '{"id": "1", "input": "ü", "expectedOutput": "b"}\n'


def test_json_is_one_example_per_line(tmp_path):
    RICH.to_json(tmp_path / "d.json")
    text = (tmp_path / "d.json").read_text("utf-8")
    assert json.loads(text)["examples"][0]["input"] == "a"
    assert len(text.splitlines()) >= 8


def test_values_of_any_type_are_written_as_json(tmp_path):
    Dataset([Example.of(float("nan"), {1, 2}, when=None)]).save(tmp_path / "d.jsonl")
    assert Dataset.load(tmp_path / "d.jsonl")[0] == Example.of("NaN", [1, 2], when=None)


def test_equal_content_gives_equal_bytes(tmp_path):
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        RICH.save(tmp_path / name)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()).count(b"\n") == 3


def test_missing_folders_are_made(tmp_path):
    FLAT.save(tmp_path / "a" / "b" / "d.jsonl")
    assert Dataset.load(tmp_path / "a" / "b" / "d.jsonl").examples == FLAT.examples


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text("old")

    def examples():
        yield Example.of("fine")
        raise RuntimeError("the source went away")

    with pytest.raises(RuntimeError):
        write_jsonl(examples(), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_target_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DatasetError, match="Cannot be written"):
        FLAT.save(tmp_path / "file" / "d.jsonl")


def test_an_unknown_extension_is_refused(tmp_path):
    with pytest.raises(DatasetError, match=r"use \.json"):
        FLAT.save(tmp_path / "d.txt")


HALF = Example(
    {"input": "a\ud800b"},
    {"output": "\udfff"},
    metadata={"k\ud83d": ["\udc00", {"é": "\ud800"}]},
    id="\udc00",
)


@pytest.mark.parametrize("name", ["d.json", "d.jsonl", "d.jsonl.gz"])
def test_lone_surrogates_survive_a_round_trip_as_escapes(tmp_path, name):
    path = tmp_path / name
    dataset = Dataset([HALF], name="half \ud800")

    dataset.save(path)

    assert list(Dataset.load(path)) == [HALF]
    assert Dataset.load(path).fingerprint == dataset.fingerprint
    if name.endswith("json"):
        assert Dataset.load(path).name == "half \ud800"
        assert b"a\\ud800b" in path.read_bytes()


def test_lone_surrogates_survive_in_parquet_too(tmp_path):
    pytest.importorskip("pyarrow")
    example = Example({"input": "a\ud800b"}, {"output": "\udfff"}, metadata={"k\ud83d": "\udc00"}, id="x")

    Dataset([example]).to_parquet(tmp_path / "d.parquet")

    assert list(Dataset.load(tmp_path / "d.parquet")) == [example]


def test_a_table_of_texts_says_that_it_cannot_hold_half_a_character(tmp_path):
    with pytest.raises(DatasetError, match=r"has half a character .*; use \.jsonl instead"):
        Dataset([Example.of("a\ud800b")]).to_csv(tmp_path / "d.csv")
    with pytest.raises(DatasetError, match="half a character"):
        Dataset([Example({"input": "a"}, metadata={"\ud800": "b"})]).to_csv(tmp_path / "d.csv")
