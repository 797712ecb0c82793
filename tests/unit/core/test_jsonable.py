import dataclasses
import datetime
import enum
import json
import uuid
from collections import OrderedDict, UserDict, deque, namedtuple
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import CallMetrics, Example, Score, ToolCall, ToolDefinition
from dokimos._core.error_detail import ErrorDetail
from dokimos._core.jsonable import (
    MAX_DEPTH,
    camel_case,
    compact_json,
    jsonable,
    text_form,
    wire_fields,
    wire_json,
    wire_object,
)
from dokimos._core.results import EvalResult


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    HELLO = "hello"


class OldWord(str, enum.Enum):  # noqa: UP042 - the older spelling is still common
    HELLO = "hello"


@dataclass
class Movie:
    release_year: int
    tags: list[str] = field(default_factory=list)


class Director(pydantic.BaseModel):
    full_name: str
    born: datetime.date


Point = namedtuple("Point", "x y")


class Opaque:
    """Has the default repr, with an address in it."""


class Unprintable:
    def __str__(self):
        raise RuntimeError("no text for you")


class Jealous:
    """Raises for every attribute, as proxies without a target do."""

    def __getattr__(self, name):
        raise RuntimeError("no target")

    def __str__(self):
        return "jealous"


class Dumped:
    def to_dict(self):
        return {"a": {1, 2}}


def nested(kind, depth):
    value = kind()
    for _ in range(depth):
        value = kind([("a", value)]) if issubclass(kind, dict | UserDict) else kind([value])
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (2.5, 2.5),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        ("text", "text"),
        ((1, 2), [1, 2]),
        ([1, (2, {3})], [1, [2, [3]]]),
        (deque([1, 2]), [1, 2]),
        ({2, 10, 1}, [1, 10, 2]),  # in the order of their JSON text
        (frozenset({"b", "a"}), ["a", "b"]),
        (b"\x00\xff", "data:;base64,AP8="),
        (bytearray(b"a"), "data:;base64,YQ=="),
        (memoryview(b"a"), "data:;base64,YQ=="),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Word.HELLO, "hello"),
        (OldWord.HELLO, "hello"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), "2026-01-02T03:00:00+00:00"),
        (datetime.time(4, 5), "04:05:00"),
        (Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("a/b"), "a/b"),
        (Movie(1979, ["x"]), {"release_year": 1979, "tags": ["x"]}),
        (Director(full_name="R", born=datetime.date(1937, 11, 30)), {"full_name": "R", "born": "1937-11-30"}),
        (Point(1, 2), {"x": 1, "y": 2}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (UserDict({"a": 1}), {"a": 1}),
        (Dumped(), {"a": [1, 2]}),
        (ToolCall("search", {"q": 1}), {"name": "search", "arguments": {"q": 1}}),
        (ToolDefinition("t", input_schema={"my_key": 1}), {"name": "t", "inputSchema": {"my_key": 1}}),
        (CallMetrics(1, cost_usd=0.5), {"tokensIn": 1, "costUsd": 0.5}),
    ],
)
def test_a_value_becomes_a_json_tree(value, expected):
    tree = jsonable(value)

    assert tree == expected
    assert type(tree) is type(expected)
    assert json.loads(json.dumps(tree, allow_nan=False)) == expected


def test_numpy_values_become_plain_ones():
    import numpy

    assert jsonable({"a": numpy.array([[1, 2]]), "b": numpy.float64(0.5), "c": numpy.int64(3)}) == {
        "a": [[1, 2]],
        "b": 0.5,
        "c": 3,
    }
    assert jsonable(numpy.float32("nan")) == "NaN"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a", "a"),
        (1, "1"),
        (True, "true"),
        (None, "null"),
        (1.5, "1.5"),
        (Word.HELLO, "hello"),
        ((1, 2), "[1,2]"),
    ],
)
def test_keys_become_text(key, expected):
    (found,) = jsonable({key: 0})

    assert found == expected
    assert type(found) is str


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\ud800b", "a\ud800b"),
        ("\udfff", "\udfff"),
        ("\ud83d\ude00\ud800", "😀\ud800"),
        ("\ud83d\ude00", "😀"),
        ("😀", "😀"),
        ("é", "é"),
    ],
)
def test_lone_surrogates_stay_and_pairs_are_characters(text, expected):
    assert jsonable(text) == expected
    assert jsonable({text: 1}) == {expected: 1}


def test_json_text_has_escapes_for_lone_surrogates():
    text = compact_json(jsonable({"\ud800": ["é\udfff", "😀"]}))

    assert text == '{"\\ud800":["é\\udfff","😀"]}'
    assert json.loads(text.encode()) == {"\ud800": ["é\udfff", "😀"]}


def test_a_number_too_long_for_decimal_text_is_hexadecimal():
    number = 10**5000

    assert jsonable([number, -number]) == [hex(number), hex(-number)]
    assert jsonable(10**3000) == 10**3000
    assert int(json.loads(json.dumps(jsonable(number))), 16) == number


@pytest.mark.parametrize("kind", [list, dict, OrderedDict, frozenset, deque, UserDict])
def test_deep_nesting_is_cut_instead_of_overflowing(kind):
    text = json.dumps(jsonable(nested(kind, 5000)))

    assert text.count("...") == 1
    assert text.count("[") + text.count("{") == MAX_DEPTH


def test_a_value_that_contains_itself_is_cut():
    loop = {"a": 1}
    loop["self"] = loop

    assert jsonable(loop) == {"a": 1, "self": "..."}


def test_a_cycle_with_many_branches_does_not_explode():
    loop = {}
    for key in range(50):
        loop[str(key)] = [loop, loop]

    assert jsonable(loop)["7"] == ["...", "..."]


def test_objects_that_point_at_each_other_are_cut():
    parent, child = Movie(1), Movie(2)
    parent.tags, child.tags = [child], [parent]

    assert jsonable(parent) == {"release_year": 1, "tags": [{"release_year": 2, "tags": ["..."]}]}


def test_a_value_that_only_repeats_is_kept():
    shared = [1]

    assert jsonable([shared, shared]) == [[1], [1]]


def test_an_object_without_text_of_its_own_is_named_without_its_address():
    assert jsonable(Opaque()) == jsonable(Opaque())
    assert jsonable(Opaque()).endswith("Opaque object>")
    assert jsonable(Unprintable()).endswith("Unprintable object>")


def test_an_object_that_raises_for_every_attribute_still_has_its_text():
    assert jsonable(Jealous()) == "jealous"


class Passage:
    """A document of a user's own, with a `__repr__` and nothing else."""

    def __init__(self, text, **more):
        self.text = text
        self.__dict__.update(more)

    def __repr__(self):
        return f"<Passage of {len(self.text)} characters>"


class LoudPassage(Passage):
    def __str__(self):
        return "loud " + self.text


def test_a_document_is_its_text_and_metadata_and_not_its_repr():
    assert jsonable([Passage("Within 30 days.", metadata={"page": 3}, id=7)]) == [
        {"text": "Within 30 days.", "id": 7, "metadata": {"page": 3}}
    ]
    assert jsonable(Passage("", metadata={})) == {"text": ""}
    assert jsonable(Passage("a", page_content="b")) == {"text": "b"}


def test_a_document_with_a_text_of_its_own_is_that_unless_its_content_is_named_as_such():
    assert jsonable(LoudPassage("a")) == "loud a"
    assert jsonable(LoudPassage("a", page_content="b", metadata={"page": 3})) == {
        "text": "b",
        "metadata": {"page": 3},
    }


def test_a_document_whose_metadata_lead_back_to_it_is_cut():
    document = Passage("a", metadata={})
    document.metadata["parent"] = document
    assert jsonable(document) == {"text": "a", "metadata": {"parent": "..."}}


def test_a_class_is_not_mistaken_for_an_instance():
    assert "Director" in jsonable(Director)
    assert "Movie" in jsonable(Movie)


def test_the_value_given_is_not_changed():
    value = {"a": [1, {"b": (2,)}]}

    jsonable(value)["a"].append(3)

    assert value == {"a": [1, {"b": (2,)}]}


def test_payloads_of_our_own_types_keep_their_keys():
    example = Example({"my_key": 1, "myKey": 2}, metadata={"tools": [ToolDefinition("t")]})

    assert jsonable(example) == {
        "inputs": {"my_key": 1, "myKey": 2},
        "metadata": {"tools": [{"name": "t"}]},
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("a\nb", "a\nb"),
        ("", ""),
        (True, "true"),
        (1, "1"),
        (1.0, "1.0"),
        ([1, "ä"], '[1,"ä"]'),
        ({"a": None}, '{"a":null}'),
        (Word.HELLO, "hello"),
        (OldWord.HELLO, "hello"),
        (float("nan"), '"NaN"'),
    ],
)
def test_the_text_form(value, expected):
    text = text_form(value)

    assert text == expected
    assert type(text) is type(expected)


def test_a_string_is_verbatim_in_its_text_form_whatever_is_in_it():
    assert text_form("\ud800") == "\ud800"


@pytest.mark.parametrize(("name", "expected"), [("a", "a"), ("expected_outputs", "expectedOutputs")])
def test_camel_case(name, expected):
    assert camel_case(name) == expected


odd_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["\ud800", Word.HELLO, CallMetrics(1, 2, cost_usd=0.5, model="é")]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data(), kind=st.sampled_from([EvalResult, CallMetrics, ErrorDetail, Score, Example]))
def test_one_pass_writes_what_a_tree_and_an_encoder_do(data, kind):
    value = object.__new__(kind)
    for name, _, default in wire_fields(kind):
        chosen = odd_values if default is dataclasses.MISSING else odd_values | st.just(default)
        object.__setattr__(value, name, data.draw(chosen))

    assert wire_json(value) == compact_json(wire_object(value))


@pytest.mark.parametrize("count", [True, 0, 2**13_000 - 1, 2**13_000, 1 - 2**13_000, -(2**13_000)])
def test_whole_numbers_of_a_value_type_are_written_as_in_a_tree(count):
    value = object.__new__(CallMetrics)
    for name, _, default in wire_fields(CallMetrics):
        object.__setattr__(value, name, default)
    object.__setattr__(value, "tokens_in", count)

    assert wire_json(value) == compact_json(wire_object(value))
