"""Data sets as parameters of tests: ids and sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import Dataset, Example
from dokimos.errors import ConfigurationError, DatasetError
from dokimos.testing import dataset_source
from dokimos.testing._cases import CaseSource, cases, slug


def ids_of(*examples: Example, **options) -> list[str]:
    return [case.id for case in cases(Dataset(examples), **options)]


def test_an_id_is_the_examples_own_or_a_slug_of_its_input():
    examples = [Example.of("x", id="refund"), Example.of("How do I reset it?"), Example.of("???")]
    assert ids_of(*examples) == ["refund", "how-do-i-reset-it", "row-3"]


def test_equal_inputs_get_ids_that_differ():
    assert ids_of(Example.of("a"), Example.of("a"), Example.of("a")) == ["a", "a-2", "a-3"]


def test_repeats_are_numbered():
    assert ids_of(Example.of("a"), Example.of("a"), runs=2) == ["a-run1", "a-2-run1", "a-run2", "a-2-run2"]


def test_repeats_come_one_after_the_other():
    found = list(cases(Dataset([Example.of("a"), Example.of("b")]), runs=2))
    assert [(case.position, case.index, case.run_index) for case in found] == [
        (0, 0, 0), (1, 1, 0), (0, 2, 1), (1, 3, 1)
    ]  # fmt: skip


def test_a_template_gives_the_ids():
    assert ids_of(Example.of("How do I\nreset?"), ids="{index}: {input}") == ["1: How do I reset?"]


@pytest.mark.parametrize("template", ["{nothing}", "{", "{index.x}", "{0}"])
def test_a_template_that_cannot_be_filled_in_says_so(template):
    with pytest.raises(ConfigurationError, match="ids template"):
        ids_of(Example.of("a"), ids=template)


@given(st.text())
def test_a_slug_is_short_and_plain(text):
    made = slug(text)
    assert len(made) <= 40
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "a.json", "jsonl": "{}"}, "one of dataset=, json= and jsonl="),
        ({"dataset": "a.json", "runs": 0}, "runs must be .*0"),
        ({"dataset": "a.json", "runs": True}, "runs must be .*True"),
    ],
)
def test_a_marker_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(ConfigurationError, match=message):
        CaseSource.of(dataset_source(**options).mark)


def test_an_unknown_option_of_the_marker_is_named():
    with pytest.raises(ConfigurationError, match="has no datset="):
        CaseSource.of(pytest.mark.dokimos(datset="a.json").mark)


def test_a_path_is_looked_for_beside_the_module_then_in_the_root(tmp_path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "near.jsonl").write_text('{"input": "near"}\n')
    (tmp_path / "far.jsonl").write_text('{"input": "far"}\n')
    module = tmp_path / "tests" / "test_x.py"
    for name in ("near", "far"):
        data = CaseSource(dataset=f"{name}.jsonl").load(module, tmp_path)
        assert data[0].input == name


def test_inline_texts_in_memory_rows_and_data_sets_are_taken(tmp_path):
    rows = [Example.of("a")]
    for source in (
        CaseSource(json='{"examples": [{"input": "a"}]}'),
        CaseSource(jsonl='{"input": "a"}'),
        CaseSource(dataset=rows),
        CaseSource(dataset=Dataset(rows)),
    ):
        assert source.load(tmp_path / "test_x.py", tmp_path)[0].input == "a"


def test_an_empty_data_set_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="is empty"):
        CaseSource(dataset=[]).load(tmp_path / "test_x.py", tmp_path)
