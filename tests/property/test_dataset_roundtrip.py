from __future__ import annotations

import json
import string
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos import CallMetrics, Dataset, Example
from dokimos.errors import DatasetError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)
MAP = st.dictionaries(TEXT, VALUE, max_size=3)
NON_NEGATIVE = st.none() | st.integers(0, 10**9)
METRICS = st.builds(CallMetrics, NON_NEGATIVE, NON_NEGATIVE, model=st.none() | TEXT).filter(
    lambda metrics: metrics != CallMetrics()
)
ID = st.text(string.ascii_letters + string.digits + " -_é", min_size=1, max_size=8)


@st.composite
def examples(draw: st.DrawFn, make: Callable[..., st.SearchStrategy[Example]]) -> list[Example]:
    ids = draw(st.lists(st.none() | ID, max_size=5).filter(_unique))
    return [draw(make(id)) for id in ids]


def _unique(ids: list[str | None]) -> bool:
    given_ids = [id for id in ids if id is not None]
    return len(given_ids) == len(set(given_ids))


def any_example(id: str | None) -> st.SearchStrategy[Example]:
    short = st.builds(lambda value: {"input": value}, VALUE)
    output = st.builds(lambda value: {"output": value}, VALUE)
    return st.builds(
        Example,
        MAP | short,
        MAP | output,
        metadata=MAP,
        id=st.just(id),
        actual_outputs=st.none() | MAP | output,
        metrics=st.none() | METRICS,
    )


FLAT = st.builds(lambda q, a, t, u: Example.of(q, a, topic=t, **{"other one": u}), TEXT, TEXT, TEXT, TEXT)


@settings(max_examples=60, deadline=None)
@given(rows=examples(any_example))
def test_any_example_survives_in_every_format(rows: list[Example]):
    """One test for all formats, because making up examples takes ten times as long as saving them."""
    dataset = Dataset(rows, "d", "")
    with tempfile.TemporaryDirectory() as folder:
        for extension in ("json", "parquet", "jsonl", "jsonl.gz") if rows else ("json", "parquet"):
            path = Path(folder) / f"d.{extension}"
            dataset.save(path)
            loaded, stream = Dataset.load(path), Dataset.stream(path)
            assert loaded == dataset, extension
            assert loaded.fingerprint == dataset.fingerprint, extension
            assert tuple(stream) == dataset.examples, extension
            assert stream.fingerprint == dataset.fingerprint, extension


@pytest.mark.parametrize("extension", ["csv", "tsv"])
@settings(max_examples=100, deadline=None)
@given(rows=st.lists(FLAT, max_size=5))
def test_texts_survive_csv(extension: str, rows: list[Example]):
    dataset = Dataset(rows, "d")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"d.{extension}"
        dataset.save(path)
        assert Dataset.load(path) == dataset


@settings(max_examples=200, deadline=None)
@given(rows=st.lists(st.lists(TEXT, min_size=2, max_size=2), max_size=5), quote_all=st.booleans())
def test_a_quoted_table_is_read_as_it_was_written(rows: list[list[str]], quote_all: bool):
    def cell(text: str) -> str:
        plain = text and text == text.strip() and not set(text) & set(',"\r\n')
        return text if plain and not quote_all else '"' + text.replace('"', '""') + '"'

    text = "input,output\n" + "".join(",".join(map(cell, row)) + "\r\n" for row in rows)
    assert list(Dataset.from_csv(text=text)) == [Example.of(*row) for row in rows]


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.sampled_from('{}[]",:\\ \n\r\tau0Ni1e-.\ud800é\ufeff'), max_size=40))
@pytest.mark.parametrize("read", [Dataset.from_json, Dataset.from_jsonl, Dataset.from_csv])
def test_hostile_text_gives_a_dataset_or_a_dataset_error(read: Callable[..., Dataset], text: str):
    try:
        dataset = read(text=text)
    except DatasetError:
        return
    assert dataset.fingerprint


@settings(max_examples=200, deadline=None)
@given(value=VALUE, cut=st.integers(0, 60), junk=st.text(max_size=3))
def test_a_damaged_document_is_an_error_or_what_the_standard_library_reads(
    value: object, cut: int, junk: str
):
    whole = json.dumps([{"input": value}])
    text = whole[:cut] + junk + whole[cut + 1 :]
    try:
        dataset = Dataset.from_json(text=text)
    except DatasetError:
        return
    rows = json.loads(text.removeprefix("\ufeff"))
    rows = rows["examples"] if isinstance(rows, dict) else rows
    assert [e.inputs for e in dataset] == [row.get("inputs") or {"input": row["input"]} for row in rows]
