"""Paths of axes: how they are read, what they lead to, and what is changed there."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.errors import ConfigurationError
from dokimos.suites._value_paths import get_value, parse_path, replace_values, resolve_path

SUITE = {
    "model": {"name": "m", "temperature": 0.3},
    "tools": [{"name": "docs", "top_k": 4}, {"name": "sums"}, {"name": "twin"}, {"name": "twin"}],
}


def test_a_path_goes_through_maps_and_lists():
    assert parse_path("tools[name=docs].top_k") == ("tools", ("name", "docs"), "top_k")
    assert parse_path("tools[1].name") == ("tools", 1, "name")


@pytest.mark.parametrize(
    "path", ["", ".", ".model", "model.", "model..name", "tools[", "tools[name]", "[0]", "a[b=c"]
)
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ValueError, match="a path is written like"):
        parse_path(path)


def test_an_entry_of_a_list_is_chosen_by_what_it_is_called():
    assert resolve_path(SUITE, "tools[name=docs].top_k") == ("tools", 0, "top_k")


def test_the_last_key_may_be_missing():
    assert resolve_path(SUITE, "model.top_p") == ("model", "top_p")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("modle.temperature", "there is no 'modle'. Did you mean 'model'?"),
        ("tools[name=dosc].top_k", "no entry has name=dosc. Did you mean 'docs'?"),
        ("tools[name=twin].top_k", "2 entries have name=twin"),
        ("tools[9].top_k", "the list has 4 entries"),
        ("model[0]", "selects from a list, and there is none"),
        ("model.name.x", "what is before 'x' is not a map"),
    ],
)
def test_a_path_that_leads_nowhere_says_where_it_ends(path, why):
    with pytest.raises(ConfigurationError) as refused:
        resolve_path(SUITE, path)

    assert why in str(refused.value)


TREES = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=2), below, max_size=3),
    max_leaves=10,
)


def all_steps(tree, before=()):
    yield before
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for step, below in pairs:
        yield from all_steps(below, (*before, step))


@given(TREES, st.data())
def test_a_changed_value_is_there_and_all_else_is_as_before(tree, data):
    before = copy.deepcopy(tree)
    steps = data.draw(st.sampled_from(list(all_steps(tree))))

    changed = replace_values(tree, {steps: "new"})

    assert get_value(changed, steps) == "new"
    assert tree == before
    assert replace_values(changed, {steps: get_value(before, steps)}) == before


def test_two_values_are_changed_at_once_and_a_missing_one_is_added():
    changed = replace_values(
        SUITE, {("model", "temperature"): 0, ("model", "top_p"): 1, ("tools", 1, "x"): 2}
    )

    assert changed["model"] == {"name": "m", "temperature": 0, "top_p": 1}
    assert changed["tools"][1] == {"name": "sums", "x": 2}
    assert SUITE["tools"][1] == {"name": "sums"}


def test_nothing_stands_where_there_is_nothing():
    assert get_value(SUITE, ("model", "nothing", "below")) is None
    assert get_value(SUITE, ("tools", 7)) is None
