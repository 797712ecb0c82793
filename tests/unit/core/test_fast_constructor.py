from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import KW_ONLY, FrozenInstanceError, dataclass, field, fields, replace

import pytest

from dokimos._core.fast_constructor import fast_factory
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
