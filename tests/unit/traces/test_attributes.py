import re

from hypothesis import given
from hypothesis import strategies as st

from dokimos._core.json_object import parse_if_container, parse_if_json
from dokimos.traces._attributes import UnflattenCache, find_flat_keys, first_value, parse_literal, unflatten

PATTERN = re.compile(r"(?:a|b\.c)\.")
NAMES = st.sampled_from(["0", "1", "2", "10", "x"])
FLAT = st.dictionaries(
    st.builds(
        lambda head, steps: ".".join([head, *steps]),
        st.sampled_from(["a", "b.c", "other"]),
        st.lists(NAMES, min_size=1, max_size=3),
    ),
    st.integers(0, 3),
    max_size=8,
)


def rebuild(attributes, pattern, cache=None):
    return unflatten(attributes, find_flat_keys(attributes, pattern), cache)


def test_numbers_in_keys_become_places_in_lists():
    flat = {"a.1.x": "second", "a.0.x": "first", "a.10.x": "last", "b.c.d": 1, "other.0": 2}

    assert rebuild(flat, PATTERN) == {
        "a.": [{"x": "first"}, {"x": "second"}, {"x": "last"}],
        "b.c.": {"d": 1},
    }


def test_what_is_below_a_value_wins_over_the_value():
    assert rebuild({"a.0": "text", "a.0.x": 1}, PATTERN) == {"a.": [{"x": 1}]}
    assert rebuild({"a.0.x": 1, "a.0": "text"}, PATTERN) == {"a.": [{"x": 1}]}


@given(st.lists(FLAT, max_size=4), st.lists(FLAT, max_size=4))
def test_what_is_remembered_changes_nothing(different, growing):
    memory, grown = UnflattenCache(), {}
    for flat in different:
        assert rebuild(flat, PATTERN, memory) == rebuild(flat, PATTERN)
    for flat in growing:
        grown = {**grown, **flat}
        assert rebuild(grown, PATTERN, memory) == rebuild(grown, PATTERN)


def test_values_are_read_as_far_as_asked_for():
    assert parse_if_container('{"a": 1}') == {"a": 1}
    assert parse_if_container('"text"') == '"text"'
    assert parse_if_container("{broken") == "{broken"
    assert parse_if_json('"text"') == "text"
    assert parse_if_json("text") == "text"
    assert parse_literal("{'a': True}") == {"a": True}
    assert parse_literal("{'a': open('x')}") == "{'a': open('x')}"
    assert parse_literal("{'" + "a" * 200_000) == "{'" + "a" * 200_000


def test_the_first_value_is_one_that_is_there():
    assert first_value({"a": "", "b": None, "c": [], "d": 0}, ("x", "a", "b", "c", "d")) == 0
    assert first_value({"a": False}, ("a",)) is False
    assert first_value({}, ("a",)) is None
