"""Scalars as YAML 1.2 reads them."""

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dokimos._core import yaml_scalars
from dokimos._core.yaml_scalars import (
    dumper_class,
    load_yaml,
    read_boolean,
    read_scalar,
    read_scalar_1_1,
)

READINGS = [
    ("1e-6", 1e-6), ("1E5", 1e5), ("1e21", 1e21), ("1.5e+3", 1500.0), (".5", 0.5), ("5.", 5.0),
    ("-.5e1", -5.0), ("012", 12), ("018", 18), ("-007", -7), ("+12", 12), ("0o14", 12), ("0x1F", 31),
    ("0", 0),
    ("18:30", "18:30"), ("190:20:30.15", "190:20:30.15"), ("1_000", "1_000"), ("0b11", "0b11"),
    ("+0x1F", "+0x1F"), ("0o8", "0o8"), ("1e", "1e"), (".", "."), ("e5", "e5"), ("١٢", "١٢"),
    ("no", "no"), ("yes", "yes"), ("on", "on"), ("Off", "Off"), ("y", "y"), ("tRue", "tRue"),
    ("true", True), ("True", True), ("FALSE", False), ("null", None), ("~", None), ("", None),
    ("nULL", "nULL"), (".inf", math.inf), ("-.INF", -math.inf),
    ("inf", "inf"), ("nan", "nan"), ("2024-01-31", "2024-01-31"),
    ("=", "="), ("<", "<"),
]  # fmt: skip


@pytest.fixture(params=["C", "Python"])
def loaders(request, monkeypatch):
    """Both loaders of PyYAML, one after the other."""
    if request.param == "Python":
        monkeypatch.delattr(yaml, "CSafeLoader")
    yaml_scalars._loader_class.cache_clear()
    yield
    monkeypatch.undo()
    yaml_scalars._loader_class.cache_clear()


@pytest.mark.parametrize(("text", "value"), READINGS)
def test_a_scalar_is_what_the_core_schema_says(loaders, text, value):
    for found in (read_scalar(text), load_yaml(f"a: {text}")["a"]):
        assert (type(found), found) == (type(value), value)


def test_not_a_number_is_a_float():
    assert math.isnan(read_scalar(".NaN"))


@pytest.mark.parametrize(
    ("text", "before"),
    [("no", False), ("On", True), ("012", 10), ("18:30", 1110), ("1_000", 1000), ("0b11", 3), ("018", "018")],
)
def test_what_yaml_1_1_read_otherwise_is_known(text, before):
    assert read_scalar_1_1(text, read_scalar(text)) == before


@pytest.mark.parametrize(
    "text", ["1e-6", "1E5", "12", "-3.5", "007", "true", "null", "text", "0x1F", "08.5", "y"]
)
def test_what_only_yaml_1_2_reads_as_a_number_is_no_old_reading(text):
    value = read_scalar(text)

    assert read_scalar_1_1(text, value) == value


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("[What is it?, Where?]", ["What is it?", "Where?"]),
        ("{a: What is it?, b?: c}", {"a": "What is it?", "b?": "c"}),
        ("[? a, b]", [{"a": None}, "b"]),
        ("? a\n: b", {"a": "b"}),
        ("a: &x {b: no, c: 1}\nd: {<<: *x, c: 2}", {"a": {"b": "no", "c": 1}, "d": {"b": "no", "c": 2}}),
        ("- <<\n- =", ["<<", "="]),
        ("- !!str 5\n- !!float 1\n- !!int '3'\n- 'no'", ["5", 1.0, 3, "no"]),
        ("no: 1\n012: 2", {"no": 1, 12: 2}),
        ("", None),
    ],
)
def test_both_loaders_read_the_same(loaders, text, tree):
    assert load_yaml(text) == tree


@pytest.mark.parametrize("text", ["!!bool no", "!!int 1.5", "!!float x", "9" * 5000])
def test_a_scalar_that_is_not_what_its_tag_says_is_refused(loaders, text):
    with pytest.raises(yaml.YAMLError):
        load_yaml(text)


@pytest.mark.parametrize(
    "text", ["[" * 50_000 + "]" * 50_000, "- " * 50_000 + "a", '{"a":' * 5000 + "1" + "}" * 5000]
)
def test_what_is_nested_without_measure_is_refused_and_ends_nothing(text):
    with pytest.raises(yaml.YAMLError, match="nested too deeply"):
        load_yaml(text)


def test_brackets_inside_a_text_are_not_levels():
    assert load_yaml(f"a: |\n  {'[' * 5000}") == {"a": "[" * 5000}


def test_some_keys_keep_what_is_written():
    assert load_yaml("version: 1.10\nother: 1.10", texts=("version",)) == {"version": "1.10", "other": 1.1}


def test_words_are_booleans_where_a_boolean_is_wanted():
    assert [read_boolean(value) for value in ("no", "On", "TRUE", "maybe", 3)] == [
        False,
        True,
        True,
        "maybe",
        3,
    ]


SCALARS = st.one_of(
    st.sampled_from([text for text, _ in READINGS]),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])),
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none(),
)


@given(st.dictionaries(st.sampled_from(["a", "no", "012", "1e5", "x y"]), st.lists(SCALARS)))
def test_what_is_written_is_read_as_the_same_by_old_and_new_readers(tree):
    text = yaml.dump(tree, Dumper=dumper_class(), allow_unicode=True)

    assert load_yaml(text) == tree == yaml.safe_load(text)
