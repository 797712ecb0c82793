"""The lines on which the items of a data set stand in its file."""

import gzip

import pytest

from dokimos import Dataset, Example
from dokimos.datasets import _item_lines
from dokimos.datasets._item_lines import find_item_lines

JSONL = """
{"id": "a", "input": "one", "expectedOutput": "1"}

{"input": "two, \u00fc", "expectedOutput": "2"}
{"inputs": {"q": "three", "n": 3}}
{"inputs": {"q": "three", "n": 3}}
"""
JSON = """{
  "name": "faq",
  "examples": [
    {"id": "a", "input": "one"},
    {
      "input": "two, \u00fc"
    },
    {"inputs": {"q": "three", "n": 3}}
  ]
}
"""
CSV = 'id,input,expectedOutput\na,one,1\nb,"two\nlines",2\nc,three,3\n'


def find(path, *examples):
    return find_item_lines(path, examples)


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [("faq.jsonl", JSONL, [2, 4, 5, 5]), ("faq.json", JSON, [4, 5, 8]), ("faq.csv", CSV, [2, 3, 5])],
)
def test_each_item_is_found_where_it_begins(tmp_path, name, text, lines):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert find_item_lines(path, list(Dataset.load(path))) == lines


@pytest.mark.parametrize("name", ["faq.csv", "faq.jsonl"])
def test_each_item_of_many_usual_ones_is_found(tmp_path, name):
    path = tmp_path / name
    Dataset([Example.of(f"q{n}", f"a{n}") for n in range(300)]).save(path)
    first = 2 if name == "faq.csv" else 1  # behind the header
    assert find_item_lines(path, list(Dataset.load(path))) == list(range(first, first + 300))


def test_tabs_and_gzip(tmp_path):
    tsv = tmp_path / "faq.tsv"
    tsv.write_text("input\toutput\none\t1\n")
    packed = tmp_path / "faq.jsonl.gz"
    packed.write_bytes(gzip.compress(JSONL.encode()))
    assert find(tsv, Example.of("one", "other")) == [2]
    assert find(packed, Example.of("one", id="a")) == [2]


def test_what_is_not_there_has_no_line(tmp_path):
    path = tmp_path / "faq.jsonl"
    path.write_text(JSONL)
    assert find(path, Example.of("one"), Example.of("one", id="a"), Example.of("four")) == [None, 2, None]
    assert find(path) == []
    assert find(tmp_path / "missing.jsonl", Example.of("one")) == [None]
    assert find(tmp_path, Example.of("one")) == [None]


def test_a_file_that_was_damaged_meanwhile_tells_what_stands_before_the_damage(tmp_path):
    path = tmp_path / "faq.jsonl"
    path.write_text(JSONL + '{"input": \n{"input": "last"}\n')
    assert find(path, Example.of("one", id="a"), Example.of("last")) == [2, None]


def test_a_large_file_is_not_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(_item_lines, "_MAX_BYTES", 100)
    path = tmp_path / "faq.jsonl"
    path.write_text(JSONL)
    assert find(path, Example.of("one", id="a")) == [None]
