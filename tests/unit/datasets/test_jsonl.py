from __future__ import annotations

import gzip
import sys
from dataclasses import fields

import pytest

from dokimos import Dataset, Example
from dokimos.datasets import _jsonl_format
from dokimos.errors import DatasetError

TWO = '{"input": "a", "expectedOutput": "b"}\n{"input": "c"}\n'


def error_of(text: str) -> DatasetError:
    with pytest.raises(DatasetError) as caught:
        Dataset.from_jsonl(text=text)
    return caught.value


def test_one_example_per_line():
    assert list(Dataset.from_jsonl(text=TWO, name="n")) == [Example.of("a", "b"), Example.of("c")]
    assert Dataset.from_jsonl(text=TWO, name="n").name == "n"


@pytest.mark.parametrize(
    "text", ["\ufeff" + TWO, TWO.replace("\n", "\r\n"), TWO.rstrip(), "\n  \n" + TWO + "\n\t\n", "  " + TWO]
)
def test_marks_blank_lines_and_line_ends_do_not_matter(text):
    assert Dataset.from_jsonl(text=text) == Dataset.from_jsonl(text=TWO)


def test_the_name_is_the_stem_of_the_file(tmp_path):
    path = tmp_path / "big.v2.jsonl.gz"
    path.write_bytes(gzip.compress(TWO.encode()))
    assert Dataset.from_jsonl(path).name == "big.v2"
    assert len(Dataset.from_jsonl(path)) == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"input": 1, "input": 2}', "'input' is given twice"),
        ('{"inputs": {"a": {"b": 1, "b": 1}}}', "'b' is given twice"),
        ('{"input": NaN}', "NaN"),
        ('{"input": -1e400}', "too large"),
        ('{"input": 1' + "0" * 5000 + "}", "digits"),
        ('{"input": 1} {"input": 2}', "Text after the JSON object"),
        ('{"input": 1},', "Text after"),
        ('{"input": ', "a value is expected here"),
        ('{"input": "a', "has no closing quote"),
        ("[" * 100_000, "nested too deeply"),
        ("[1]", "found an array"),
        ("7", "found 7"),
        ("oops", "a value is expected here"),
        ('{"question": "q"}', "columns={'question': 'input'}"),
    ],
)
def test_a_bad_line_is_named_by_its_physical_number(line, message):
    error = error_of('{"input": "fine"}\n\n' + line + "\n")
    assert error.line == 3
    assert message in str(error)


def test_a_text_without_examples_is_refused():
    assert "no examples" in str(error_of("\n\n"))
    assert "no examples" in str(error_of(""))


def test_invalid_utf8_is_named_with_line_and_byte(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_bytes(b'{"input": "a"}\n{"input": "\xff"}\n')
    with pytest.raises(DatasetError, match=r"d.jsonl:2: Not valid UTF-8: byte 0xff at position 12"):
        Dataset.from_jsonl(path)


def test_a_lone_surrogate_in_a_text_is_an_error_and_not_a_crash():
    assert "UTF-8" in str(error_of('{"input": "\ud800"}'))


def test_an_escaped_lone_surrogate_is_read():
    dataset = Dataset.from_jsonl(text='{"input": "\\ud800"}')
    assert dataset[0].inputs == {"input": "\ud800"}
    assert len(dataset.fingerprint) == 32


def test_damaged_gzip_is_named(tmp_path):
    path = tmp_path / "d.jsonl.gz"
    path.write_bytes(gzip.compress(TWO.encode() * 100)[:-20])
    with pytest.raises(DatasetError, match=r"d.jsonl.gz: Damaged gzip data"):
        Dataset.from_jsonl(path)


def test_a_row_is_the_example_that_its_constructor_makes(tmp_path):
    """Rows set the slots themselves: a field of `Example` that they forget would raise here."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a", "input": "q", "expectedOutput": "e", "metadata": {"k": 1}}\n')

    (example,) = Dataset.load(path)

    made = Example({"input": "q"}, {"output": "e"}, metadata={"k": 1}, id="a")
    assert {field.name: getattr(example, field.name) for field in fields(Example)} == {
        field.name: getattr(made, field.name) for field in fields(Example)
    }


def test_a_small_file_is_read_without_pydantic(tmp_path, monkeypatch):
    """Its parser takes longer to load than such a file takes to read."""
    path = tmp_path / "rows.jsonl"
    path.write_text(TWO)
    monkeypatch.delitem(sys.modules, "pydantic_core")
    monkeypatch.setattr(_jsonl_format, "load_block_parser", lambda: pytest.fail("the parser was loaded"))
    assert len(Dataset.load(path)) == 2


def test_a_large_file_is_read_with_the_fast_parser(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    path.write_text(TWO * 4_000)
    strict = _jsonl_format.scan
    lines = []
    monkeypatch.setattr(_jsonl_format, "_MUCH", 100_000)
    monkeypatch.setattr(_jsonl_format, "scan", lambda text, at: lines.append(text) or strict(text, at))
    monkeypatch.delitem(sys.modules, "pydantic_core")
    assert len(Dataset.load(path)) == 8_000
    assert 0 < len(lines) < 6_000


def test_what_stands_before_damaged_gzip_is_given_out(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b"".join(b'{"input": "%d"}\n' % n for n in range(50_000)))[:-20])
    examples = []
    with pytest.raises(DatasetError, match=r"rows.jsonl.gz: Damaged gzip data"):
        examples.extend(Dataset.stream(path))
    assert len(examples) > 40_000
