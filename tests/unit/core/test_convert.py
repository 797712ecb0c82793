import enum
import typing
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, Optional, Protocol, Required, TypedDict, Union

import pydantic
import pytest
import typing_extensions

from dokimos._core.convert import convert
from dokimos.errors import TypeConversionError


@dataclass(frozen=True)
class Movie:
    title: str
    year: int = 0


@dataclass(frozen=True)
class Film:
    title: str
    year: int


@dataclass(frozen=True)
class Shelf:
    movies: list[Movie] = field(default_factory=list)


class Director(pydantic.BaseModel):
    name: str
    movies: list[Movie] = []


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Row(TypedDict):
    id: int
    note: NotRequired[str]


class Partial(TypedDict, total=False):
    id: Required[int]
    rows: list[Row]


class Wider(Partial):
    extra: Row | None


class OtherRow(typing_extensions.TypedDict):
    id: int


class Named(Protocol):
    name: str


def to(target, value):
    return convert(value, target, what="actual output", key="output")


@pytest.mark.parametrize(
    ("target", "value", "expected"),
    [
        (Movie, {"title": "Alien", "year": "1979"}, Movie("Alien", 1979)),
        (Movie, {"title": "Alien"}, Movie("Alien")),
        (Shelf, {"movies": [{"title": "Alien"}]}, Shelf([Movie("Alien")])),
        (
            Director,
            {"name": "Scott", "movies": [{"title": "Alien"}]},
            Director(name="Scott", movies=[Movie("Alien")]),
        ),
        (Movie, Film("Alien", 1979), Movie("Alien", 1979)),
        (list[Movie], [Film("Alien", 1979)], [Movie("Alien", 1979)]),
        (dict[str, Movie], {"a": {"title": "Alien"}}, {"a": Movie("Alien")}),
        (dict[str, list[Movie]], {"a": [{"title": "Alien"}]}, {"a": [Movie("Alien")]}),
        (Optional[Movie], {"title": "Alien"}, Movie("Alien")),  # noqa: UP045 - the older spelling is still common
        (Union[int, list[Movie]], [{"title": "Alien"}], [Movie("Alien")]),  # noqa: UP007 - the older spelling is still common
        (Movie | None, {"title": "Alien"}, Movie("Alien")),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 1, 2], {1, 2}),
        (Colour, "red", Colour.RED),
        (list[Colour], ["red"], [Colour.RED]),
        (Level, 3, Level.HIGH),
        (Literal["a", "b"], "b", "b"),
        (Row, {"id": "1"}, {"id": 1}),
        (Row, {"id": 1, "note": "x"}, {"id": 1, "note": "x"}),
        (Partial, {"id": 1, "rows": [{"id": "2"}]}, {"id": 1, "rows": [{"id": 2}]}),
        (Wider, {"id": 1, "extra": None}, {"id": 1, "extra": None}),
        (Wider, {"id": 1, "extra": {"id": "4"}}, {"id": 1, "extra": {"id": 4}}),
        (list[Row] | None, [{"id": "1"}], [{"id": 1}]),
        (Optional[list[Row]], [{"id": "1"}], [{"id": 1}]),  # noqa: UP045 - the older spelling is still common
        (dict[str, dict[str, Row]], {"a": {"b": {"id": "1"}}}, {"a": {"b": {"id": 1}}}),
        (OtherRow, {"id": "1"}, {"id": 1}),
        (str, 3, "3"),
        (str, 0.5, "0.5"),
        (float, 3, 3.0),
        (int, 3.0, 3),
        (int, 10**30, 10**30),
        (bool, True, True),
        (Any, [1], [1]),
        (object, 1, 1),
    ],
)
def test_a_value_becomes_the_type_asked_for(target, value, expected):
    assert to(target, value) == expected


@pytest.mark.parametrize(
    ("target", "value", "reason"),
    [
        (Movie, {"year": 1}, "title: is missing"),
        (Movie, '{"title": "Alien"}', "must be a map"),
        (Movie, "Alien", "got 'Alien'"),
        (Movie, 3, "got 3"),
        (list[Movie], {"title": "Alien"}, "must be a list"),
        (list[Movie], [{"title": "Alien"}, {"title": 7}], "1.title"),
        (list[str], "abc", "must be a list"),
        (dict[str, int], [1], "must be a map"),
        (Row, {"note": "x"}, "id: is missing"),
        (Partial, {"rows": []}, "id: is missing"),
        (OtherRow, {}, "id: is missing"),
        (Colour, "blue", "'red'"),
        (int, "four", "must be a whole number"),
        (int, 1.5, "must be a whole number"),
        (int, float("nan"), "finite"),
        (int, True, "a bool is not a number"),
        (float, False, "a bool is not a number"),
        (str, True, "must be a text"),
        (str, {"a": 1}, "must be a text"),
        (bool, "perhaps", "must be true or false"),
        (Literal["a"], "b", "'a'"),
        (Director, {"name": ["x"]}, "name"),
        (Named, 3, "Named"),
    ],
)
def test_an_impossible_conversion_names_target_key_and_cause(target, value, reason):
    with pytest.raises(TypeConversionError) as failure:
        to(target, value)

    message = str(failure.value)
    name = target.__name__ if isinstance(target, type) and not typing.get_origin(target) else str(target)
    assert message.startswith(f"Cannot convert actual output 'output' to {name}: ")
    assert reason in message
    assert failure.value.target is target
    assert failure.value.key == "output"
    assert failure.value.__cause__ is not None


@pytest.mark.parametrize("target", [Movie, list[Movie], Row, int, Colour, Movie | None, Any])
def test_absent_stays_absent(target):
    assert to(target, None) is None


@pytest.mark.parametrize(
    ("target", "value"),
    [
        (Movie, Movie("Alien")),
        (Director, Director(name="Scott")),
        (Colour, Colour.RED),
        (dict, {"a": object()}),
        (list, [object()]),
        (str, "text"),
        (object, object()),
        (list[Movie], [Movie("Alien")]),
        (dict[str, Movie], {"a": Movie("Alien")}),
        (list[str], ["a"]),
    ],
)
def test_what_already_is_of_the_type_is_returned_itself(target, value):
    assert to(target, value) is value


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(TypeConversionError) as failure:
        to(Movie, "x" * 10_000)

    assert len(str(failure.value)) < 300


def test_many_faults_do_not_fill_the_screen():
    with pytest.raises(TypeConversionError) as failure:
        to(list[int], ["x"] * 1000)

    assert str(failure.value).count("must be a whole number") == 5


def test_a_dataclass_with_a_constraint_of_its_own_says_so():
    @dataclass
    class Positive:
        n: int

        def __post_init__(self):
            if self.n <= 0:
                raise ValueError("n must be positive")

    with pytest.raises(TypeConversionError, match="n must be positive"):
        to(Positive, {"n": 0})
