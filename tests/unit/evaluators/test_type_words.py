"""Types of parameters in words."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Literal

import pytest

from dokimos.evaluators import registry
from dokimos.evaluators._type_words import describe_type, parameter_types


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (str, "text"),
        (bool, "yes or no"),
        (int, "whole number"),
        (float | None, "number, or nothing"),
        (Sequence[str] | None, "list of texts, or nothing"),
        (tuple[float, float], "2 numbers"),
        (tuple[int, ...], "list of whole numbers"),
        (str | list[str], "text or list of texts"),
        (Mapping[str, float], "map of numbers by text"),
        (Mapping[str, Any], "map"),
        (list[Mapping[str, Any]], "list of maps"),
        (Literal["a", "b", "c"], "a, b or c"),
        (Literal["a"], "a"),
        (Annotated[str | None, "x"], "text, or nothing"),
        (Callable[[str], bool], "function"),
        (Colour, "red or blue"),
        (Any, "any value"),
    ],
)
def test_a_type_is_said_as_a_person_writes_it(hint, words):
    assert describe_type(hint) == words


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_no_parameter_is_described_in_code(name):
    types = parameter_types(registry.find(name))
    for parameter in registry.describe(name).parameters:
        words = types[parameter.name]
        assert not set("[]|'") & set(words), words
