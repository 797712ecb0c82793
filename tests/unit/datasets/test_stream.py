from __future__ import annotations

import json
import os
import threading
import tracemalloc
from types import SimpleNamespace

import pytest

from dokimos import Dataset, Example
from dokimos.datasets._dataset import DatasetStream
from dokimos.errors import DatasetError


def write_rows(path, count: int) -> None:
    with path.open("w") as file:
        if path.suffix == ".csv":
            file.write("input,expectedOutput,topic\n")
            file.writelines(f'question {i},"{"answer " * 20}",x\n' for i in range(count))
        elif path.suffix == ".jsonl":
            file.writelines(json.dumps({"id": i, "input": "answer " * 20}) + "\n" for i in range(count))
        else:
            rows = ",".join(json.dumps({"id": i, "input": "answer " * 20}) for i in range(count))
            file.write(f'{{"name": "big", "examples": [{rows}]}}')


@pytest.mark.parametrize("name", ["d.jsonl", "d.csv", "d.json"])
def test_a_stream_gives_what_a_dataset_holds(tmp_path, name):
    write_rows(tmp_path / name, 200)
    stream = Dataset.stream(tmp_path / name)
    dataset = Dataset.load(tmp_path / name)
    assert stream.fingerprint is None
    assert tuple(stream) == dataset.examples
    assert stream.fingerprint == dataset.fingerprint
    assert tuple(stream) == dataset.examples
    assert stream.name == dataset.name


@pytest.mark.parametrize("name", ["d.jsonl", "d.csv", "d.json"])
def test_memory_does_not_grow_with_the_file(tmp_path, name):
    path = tmp_path / name
    write_rows(path, 20_000)
    stream = Dataset.stream(path)
    tracemalloc.start()
    assert sum(1 for _ in stream) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_500_000 < path.stat().st_size


def test_an_unfinished_iteration_has_no_fingerprint():
    stream = DatasetStream(lambda: [Example.of("a"), Example.of("b")])
    next(iter(stream))
    assert stream.fingerprint is None


def test_iterations_do_not_disturb_each_other(tmp_path):
    write_rows(tmp_path / "d.jsonl", 300)
    stream = Dataset.stream(tmp_path / "d.jsonl")
    pairs = list(zip(stream, stream, strict=True))
    assert len(pairs) == 300
    assert all(a == b for a, b in pairs)


def test_duplicate_ids_are_counted():
    ids = ["a", "b", "a", None, None, "c", "a"]
    stream = DatasetStream(lambda: [Example.of("q", id=id) for id in ids])
    assert stream.duplicate_ids == 0
    for _ in range(2):
        list(stream)
        assert stream.duplicate_ids == 2


def test_what_stands_before_a_bad_row_is_given_out():
    text = '{"input": "a"}\n{"input": "b"}\noops\n'

    def read():
        yield from Dataset.from_jsonl(text='{"input": "a"}\n{"input": "b"}\n')
        Dataset.from_jsonl(text=text)

    seen = []
    with pytest.raises(DatasetError, match="line 3"):
        seen.extend(DatasetStream(read))
    assert [e.input for e in seen] == ["a", "b"]


def test_a_missing_file_is_reported_at_once(tmp_path):
    with pytest.raises(DatasetError, match="No such file"):
        Dataset.stream(tmp_path / "d.jsonl")


def test_the_name_of_a_json_document_is_known_before_its_examples_are_read(tmp_path):
    write_rows(tmp_path / "d.json", 2)
    assert Dataset.stream(tmp_path / "d.json").name == "big"


def test_the_repr_is_short():
    assert repr(DatasetStream(list, "n")) == "DatasetStream('n')"


@pytest.fixture
def pipe(monkeypatch):
    """Standard input as a pipe that stays open, and the function that writes into it."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as reading, os.fdopen(write_end, "wb", buffering=0) as writing:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=reading))
        yield writing


@pytest.mark.parametrize("rows", [b'{"input": "a"}\n|{"input": "b"}\n', b"input\na\n|b\n"])
def test_a_row_of_a_pipe_is_handed_out_before_the_next_has_come(pipe, rows):
    first, second = rows.split(b"|")
    pipe.write(first)
    stream = Dataset.stream("-")
    examples = iter(stream)
    assert next(examples) == Example.of("a")
    pipe.write(second)
    assert next(examples) == Example.of("b")
    pipe.close()
    assert list(examples) == []
    assert list(stream) == [Example.of("a"), Example.of("b")]
    assert stream.fingerprint == Dataset([Example.of("a"), Example.of("b")]).fingerprint


def test_a_named_pipe_is_read_as_what_is_in_it(tmp_path):
    for name, content in (("rows", '{"input": "a"}\n{"input": "b"}\n'), ("rows.csv", "input\na\nb\n")):
        os.mkfifo(tmp_path / name)
        writer = threading.Thread(target=(tmp_path / name).write_text, args=(content,))
        writer.start()
        stream = Dataset.stream(tmp_path / name)
        assert list(stream) == list(stream) == [Example.of("a"), Example.of("b")]
        writer.join()


def test_each_example_is_handed_out_at_once():
    made = []

    def read():
        for i in range(200):
            made.append(i)
            yield Example.of(i)

    for position, _ in enumerate(DatasetStream(read), 1):
        assert len(made) == position


def test_without_a_standard_input_there_is_an_error(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(DatasetError, match="There is no standard input to read from"):
        Dataset.stream("-")
