from __future__ import annotations

import pytest

from dokimos.datasets._json_columns import Column


def test_objects_with_the_same_names_have_columns():
    column = Column([{"b": n, "a": str(n)} for n in range(8)])
    assert column.objects is not None
    assert [(name, inner.values) for name, inner in column.objects.items()] == [
        ("b", tuple(range(8))),
        ("a", tuple("01234567")),
    ]
    assert column.objects["a"].kinds == {str}
    assert column.count_members() == 16
    assert column.objects is column.objects


@pytest.mark.parametrize(
    "other",
    [{"a": 1}, {"a": 1, "b": 2, "c": 3}, {"b": 1, "a": 2}, {"a": 1, "c": 2}, {}, [], None],
    ids=["fewer", "more", "in another order", "others", "none", "an array", "null"],
)
@pytest.mark.parametrize("at", [0, 4, 8])
def test_a_value_that_is_not_as_the_others_leaves_them_without_columns(other, at):
    values = [{"a": 1, "b": [2, 3]} for _ in range(8)]
    values.insert(at, other)
    column = Column(values)
    assert column.objects is None
    assert column.count_members() == 16 + (len(other) if type(other) is dict else 0)


def test_names_that_go_on_in_the_next_object_are_not_taken_for_the_same():
    assert Column([{"a": 1}, {"b": 1}] * 8).objects is None
    assert Column([{"a": 1, "b": 1}, {"a": 1}, {"b": 1, "a": 1}, {"b": 1}] * 8).objects is None


def test_a_few_objects_are_not_worth_columns():
    assert Column([{"a": 1}] * 7).objects is None


def test_objects_without_members_have_no_columns():
    assert Column([{}] * 8).objects == {}


@pytest.mark.parametrize("count", [1, 8])
def test_what_is_inside_is_found_whether_it_is_alike_or_not(count):
    alike = Column([{"a": 1, "b": [2]}] * count)
    mixed = Column([{"a": 1}, [2, 3], "text"] * count)
    assert sorted(map(repr, (value for inner in alike.inside() for value in inner.values))) == sorted(
        ["1", "[2]"] * count
    )
    assert sorted(value for inner in mixed.inside() for value in inner.values) == sorted([1, 2, 3] * count)
    assert list(mixed.select(str)) == ["text"] * count
    assert mixed.select(int) == ()
