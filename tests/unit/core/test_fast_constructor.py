from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import KW_ONLY, FrozenInstanceError, dataclass, field, fields, replace
from typing import get_type_hints

import pytest

from dokimos._core.fast_constructor import (
    fast_copier,
    fast_factory,
    fast_init,
    open_class,
    positional_factory,
)
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult, ItemResult, Score
from dokimos._core.task_result import TaskResult
from dokimos._core.test_case import EvalTestCase


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    _: KW_ONLY
    labels: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x must not be negative")


def test_defaults_and_keywords_are_those_of_the_dataclass():
    assert (Point(1).x, Point(1).y, Point(1, 3, labels=["a"]).labels) == (1, 3 - 1, ["a"])


def test_a_default_is_made_anew_for_each_object():
    assert Point(1).labels is not Point(1).labels


@pytest.mark.parametrize("arguments", [(), (1, 2, ["a"])])
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(TypeError, match=r"Point\.__init__"):
        Point(*arguments)


def test_a_complete_object_is_frozen_and_of_its_own_class():
    point = Point(1)
    assert type(point) is Point
    with pytest.raises(FrozenInstanceError):
        point.x = 2  # type: ignore[misc] # that this is refused is the point


@pytest.mark.parametrize("kind", [EvalResult, EvalTestCase, Point])
def test_an_open_object_can_be_filled_and_then_become_a_frozen_one(kind):
    filled = open_class(kind)()
    assert type(filled).__setattr__ is object.__setattr__
    for member in fields(kind):
        setattr(filled, member.name, member.name)
    filled.__class__ = kind
    assert [getattr(filled, member.name) for member in fields(kind)] == [each.name for each in fields(kind)]
    with pytest.raises(FrozenInstanceError):
        delattr(filled, fields(kind)[0].name)


def test_what_the_class_checks_is_still_checked():
    with pytest.raises(ValueError, match="must not be negative"):
        Point(-1)


def test_objects_are_copied_replaced_pickled_and_compared_as_before():
    point = Point(1, labels=["a"])
    copies = [copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point)), replace(point)]
    assert copies == [point] * 4
    assert replace(point, y=5) == Point(1, 5, labels=["a"])
    assert repr(point) == "Point(x=1, y=2, labels=['a'])"


@pytest.mark.parametrize("kind", [CallMetrics, EvalResult, EvalTestCase, ItemResult, Score, TaskResult])
def test_the_types_made_for_every_item_take_all_their_fields(kind):
    values = {
        f.name: {"score": 0.5, "value": 0.5, "score_range": (0.0, 1.5)}.get(f.name, index)
        for index, f in enumerate(fields(kind))
    }
    made = kind(**values)
    assert {name: getattr(made, name) for name in values} == values


def test_a_maker_makes_what_the_constructor_makes():
    make = fast_factory(Point)
    assert make(1, 3, labels=["a"]) == Point(1, 3, labels=["a"])
    assert make(1) == Point(1)
    assert type(make(1)) is Point
    assert make(1).labels is not make(1).labels


def test_a_maker_checks_and_freezes_as_the_constructor_does():
    make = fast_factory(Point)
    with pytest.raises(ValueError, match="must not be negative"):
        make(-1)
    with pytest.raises(FrozenInstanceError):
        make(1).x = 2
    with pytest.raises(TypeError, match=r"make\(\) missing"):
        make()


@pytest.mark.parametrize("kind", [CallMetrics, EvalResult, EvalTestCase, ItemResult, Score, TaskResult])
def test_signatures_of_public_types_show_no_sentinel_of_ours(kind):
    assert "_MISSING_TYPE" not in str(inspect.signature(kind))


@dataclass(frozen=True, slots=True)
class Plain:
    x: int
    y: int = 2
    _: KW_ONLY
    labels: list[str] = field(default_factory=list)


@fast_init
@dataclass(frozen=True, slots=True)
class Fast:
    x: int
    y: int = 2
    _: KW_ONLY
    labels: list[str] = field(default_factory=list)


class Labelled(Fast):
    """A subclass that has a dictionary."""


def test_annotations_of_a_fast_constructor_are_resolved_in_the_module_of_its_class():
    hints = get_type_hints(Score)
    assert get_type_hints(Score.__init__) == {f.name: hints[f.name] for f in fields(Score)} | {
        "return": type(None)
    }
    assert inspect.signature(Score, eval_str=True).parameters["value"].annotation is float


def test_a_fast_constructor_looks_like_that_of_the_dataclass():
    assert inspect.signature(Fast) == inspect.signature(Plain)
    assert Fast.__init__.__annotations__ == Plain.__init__.__annotations__
    assert Fast.__init__.__qualname__ == "Fast.__init__"


@pytest.mark.parametrize("kind", [Fast, Labelled])
def test_a_fast_constructor_fills_and_freezes_objects_of_the_class_and_its_subclasses(kind):
    made = kind(1, labels=["a"])
    assert (type(made), made.x, made.y, made.labels) == (kind, 1, 2, ["a"])
    assert kind(1).labels is not kind(1).labels
    assert replace(made, y=5) == kind(1, 5, labels=["a"])
    assert pickle.loads(pickle.dumps(made)) == copy.copy(made) == made
    with pytest.raises(FrozenInstanceError):
        made.x = 2


@pytest.mark.parametrize(
    ("arguments", "keywords"), [((), {}), ((1, 2, ["a"]), {}), ((1,), {"x": 2}), ((1,), {"z": 2})]
)
def test_a_fast_constructor_refuses_what_that_of_the_dataclass_refuses(arguments, keywords):
    with pytest.raises(TypeError) as expected:
        Plain(*arguments, **keywords)
    with pytest.raises(TypeError) as refused:
        Fast(*arguments, **keywords)
    assert str(refused.value) == str(expected.value).replace("Plain", "Fast")


def test_a_positional_maker_takes_the_fields_that_it_names_in_their_order():
    make = positional_factory(Point, "labels", "x")
    assert make(["a"], 1) == Point(1, labels=["a"])
    assert positional_factory(Point, "x")(1) == Point(1)
    assert positional_factory(Point, "x")(1).labels is not positional_factory(Point, "x")(1).labels
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        make(["a"])


def test_a_positional_maker_checks_unless_its_caller_has():
    with pytest.raises(ValueError, match="must not be negative"):
        positional_factory(Point, "x")(-1)
    assert positional_factory(Point, "x", is_checked=False)(-1).x == -1


def test_a_copier_copies_the_maps_that_it_is_told_of_and_shares_the_rest():
    result = EvalResult("a", 0.5, threshold=0.5, success=True, reason="b", metadata={"c": [1]}, label="d")
    copied = fast_copier(EvalResult, "metadata")(result)
    assert copied == result
    assert type(copied) is EvalResult
    assert copied.metadata is not result.metadata
    assert copied.metadata["c"] is result.metadata["c"]
    with pytest.raises(FrozenInstanceError):
        copied.name = "e"  # type: ignore[misc] # that this is refused is the point
