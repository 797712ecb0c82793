"""Trees that are sorted column by column are those that are sorted one by one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos._core.jsonable import MAX_DEPTH, jsonable
from dokimos.datasets._fingerprint import _sort_tree
from dokimos.datasets._json_columns import Column
from dokimos.datasets._sorted_trees import sort_trees

TEXT = st.text(max_size=3)
SCALARS = [
    TEXT,
    st.integers(),
    st.integers() | st.just(1 << 13_001) | st.none(),
    st.booleans(),
    st.floats(),
    st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
    st.just(None),
    TEXT | st.sampled_from(["\ud800", "\ud83d\ude00", "ü"]),
    TEXT | st.lists(st.integers(), max_size=2),
]


def arrays(elements: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(elements, max_size=4)


@st.composite
def objects(draw: st.DrawFn, names: list[str], members: list[st.SearchStrategy[Any]]) -> dict[str, Any]:
    """Objects with the names in this order."""
    return {name: draw(member) for name, member in zip(names, members, strict=True)}


@st.composite
def shapes(draw: st.DrawFn, levels: int = 3) -> st.SearchStrategy[Any]:
    """A strategy of values that are alike."""
    kind = draw(st.sampled_from(["scalar", "array", "object", "object"] if levels else ["scalar"]))
    if kind == "scalar":
        return draw(st.sampled_from(SCALARS))
    if kind == "array":
        return arrays(draw(shapes(levels - 1)))
    names = draw(st.lists(st.sampled_from(["b", "a", "c", "é", "\ud83d\ude00", ""]), max_size=3, unique=True))
    return objects(names, [draw(shapes(levels - 1)) for _ in names])


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_columns_are_sorted_as_their_values_are(data: st.DataObject):
    values = data.draw(st.lists(data.draw(shapes()), min_size=8, max_size=12))
    before = copy.deepcopy(values)
    ordered = sort_trees(Column(values))
    if ordered is not None:
        # repr(), since the order of keys and the type of numbers count.
        assert [repr(each) for each in ordered] == [repr(_sort_tree(jsonable(each))) for each in values]
        assert repr(values) == repr(before)


def test_objects_in_arrays_are_sorted_by_column():
    messages = [{"role": "user", "content": "ü"}, {"role": "assistant", "content": "a"}]
    ordered = sort_trees(Column([messages, messages[:1]] * 8))
    assert ordered is not None
    assert [repr(each) for each in ordered[:2]] == [
        "[{'content': 'ü', 'role': 'user'}, {'content': 'a', 'role': 'assistant'}]",
        "[{'content': 'ü', 'role': 'user'}]",
    ]


def test_what_is_sorted_does_not_share_what_can_change():
    trees = [{"k": {"b": [1], "a": {"x": 2}}} for _ in range(8)]
    ordered = sort_trees(Column(trees))
    for tree in trees:
        tree["k"]["b"].append(2)  # type: ignore[attr-defined] # it is a list
        tree["k"]["a"]["x"] = 3  # type: ignore[call-overload, index] # a dict of dicts
    assert ordered == [{"k": {"a": {"x": 2}, "b": [1]}}] * 8


def test_names_whose_halves_of_a_character_would_be_joined_are_left():
    assert sort_trees(Column([{"\ud83d\ude00": 1}] * 8)) is None


@pytest.mark.parametrize(("depth", "is_sorted"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_what_is_nested_so_deeply_that_it_would_be_cut_is_left(depth: int, is_sorted: bool):
    tree: Any = 1
    for _ in range(depth):
        tree = {"k": tree}
    assert (sort_trees(Column([tree] * 8)) is not None) == is_sorted
    assert ("..." in repr(jsonable(tree))) != is_sorted
