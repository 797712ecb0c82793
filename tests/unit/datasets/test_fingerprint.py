from __future__ import annotations

import json
import types

import pytest

from dokimos import CallMetrics, Dataset, Example
from dokimos._core.wire import from_json
from dokimos.datasets._fingerprint import BATCH, Fingerprint, IdCounter, canonical_json

RICH = Example(
    {"b": [1, {"z": None, "a": True}], "a": "ü"}, {"output": 1.5}, metadata={"k": "v", "j": 2},
    id="7", actual_outputs={"output": "x"}, metrics=CallMetrics(3),
)  # fmt: skip


def digest(*examples: Example) -> str:
    return Dataset(examples).fingerprint


def test_canonical_json_is_sorted_compact_ascii():
    assert canonical_json(RICH) == (
        '{"actualOutputs":{"output":"x"},"expectedOutputs":{"output":1.5},"id":"7",'
        '"inputs":{"a":"\\u00fc","b":[1,{"a":true,"z":null}]},"metadata":{"j":2,"k":"v"},"metrics":{"tokensIn":3}}'
    )


@pytest.mark.parametrize("example", [Example(), RICH, Example.of("q"), Example(actual_outputs={})])
def test_canonical_json_can_be_read_back(example):
    assert from_json(Example, canonical_json(example)) == example


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("-inf"), {1: 2, "a": 3}, {1, 2}, b"x", "\ud800", types.MappingProxyType({"a": 1})],
)
def test_canonical_json_takes_any_value(value):
    text = canonical_json(Example({"input": value, "other": 1}))
    assert text == canonical_json(Example({"other": 1, "input": value}))
    assert json.loads(text)["inputs"].keys() == {"input", "other"}
    assert text.isascii()


def test_canonical_json_of_what_contains_itself_ends():
    endless: list[object] = []
    endless.append(endless)
    assert "..." in canonical_json(Example.of(endless))
    assert digest(Example.of(endless))


def test_the_digests_stay_the_same_in_every_version():
    assert digest() == EMPTY
    assert digest(Example.of("q", "a", id="1", topic="t", n=1, w=0.5, on=True, none=None)) == SIMPLE
    assert digest(RICH) == RICH_DIGEST
    assert digest(*(Example.of(f"q{i}", "ü" * i) for i in range(3 * BATCH + 1))) == MANY


EMPTY = "7549e90df972ecb871849fbff62c685d"
SIMPLE = "e97fba9b881ab050aca732017e2f5015"
RICH_DIGEST = "e431278bbb627ded199faeb257abdd43"
MANY = "d0fb338519a0baa8e3b002a80495d5e9"


def test_equal_content_is_equal_whatever_the_format():
    csv = Dataset.from_csv(text="topic,input,output,id\nt,q,a,1\n")
    jsonl = Dataset.from_jsonl(
        text='{"id": 1, "expectedOutput": "a", "metadata": {"topic": "t"}, "input": "q"}'
    )
    document = Dataset.from_json(
        text='{"name": "x", "examples": [{"inputs": {"input": "q"}, "id": "1", "expected_output": "a", '
        '"metadata": {"topic": "t"}}]}'
    )
    assert (
        csv.fingerprint
        == jsonl.fingerprint
        == document.fingerprint
        == digest(Example.of("q", "a", id="1", topic="t"))
    )


@pytest.mark.parametrize("section", ["inputs", "expected_outputs", "metadata", "actual_outputs"])
@pytest.mark.parametrize("value", ["text", [1, {"z": 1, "a": 2}]])
def test_the_order_of_keys_does_not_count(section, value):
    one = Example(**{section: {"a": value, "b": {"x": 1, "y": 2}}})
    other = Example(**{section: {"b": {"y": 2, "x": 1}, "a": value}})
    assert one == other
    assert digest(one) == digest(other)


DIFFERENT = [
    Example.of("q", "a"),
    Example.of("a", "q"),
    Example.of("q", "a", id="1"),
    Example.of("q", "a", id=""),
    Example.of("q", "a", x=1),
    Example.of("q", "a", x="1"),
    Example.of("q", "a", x=True),
    Example.of("q", "a", x=1.0),
    Example.of("q", "a", x=None),
    Example.of("q", "a", x=[1]),
    Example.of("q", "a", x=1, y=2),
    Example.of("q", "a", x=2, y=1),
    Example.of("q"),
    Example.of("qa", ""),
    Example({"question": "q"}, {"output": "a"}),
    Example({"input": "q"}, {"output": "a"}, actual_outputs={"output": "a"}),
    Example({"input": "q"}, {"output": "a"}, actual_outputs={}),
    Example({"input": "q"}, {"output": "a"}, metrics=CallMetrics(1)),
    Example({"input": "q"}, {"output": ["a"]}),
    Example({"input": "q", "output": "a"}),
]


def test_different_content_is_different():
    assert len({digest(example) for example in DIFFERENT}) == len(DIFFERENT)
    assert len({canonical_json(e) for e in DIFFERENT}) == len(DIFFERENT)


def test_the_order_of_examples_counts():
    one, other = Example.of("a"), Example.of("b")
    assert digest(one, other) != digest(other, one)


def test_neither_the_name_nor_the_description_counts():
    assert Dataset([RICH], "a", "b").fingerprint == Dataset([RICH]).fingerprint


def test_adding_one_by_one_gives_the_same_and_can_go_on_after_a_digest():
    examples = [Example.of(f"q{i}", "a", x=i) if i % 3 else RICH for i in range(2 * BATCH + 5)]
    fingerprint = Fingerprint()
    for example in examples:
        fingerprint.add(example)
        fingerprint.digest()
    whole = Fingerprint()
    whole.add_all(examples)
    assert fingerprint.digest() == whole.digest()


def test_a_change_after_adding_does_not_count():
    fingerprint, untouched = Fingerprint(), Fingerprint()
    inputs = {"input": "q", "more": {"a": 1}}
    example = Example(inputs, metadata={"x": 1})
    for each in (fingerprint, untouched):
        each.add(example)
    before = fingerprint.digest()
    example.inputs["more"]["a"] = 2
    example.metadata["x"] = 3
    assert fingerprint.digest() == before


def test_ids_are_counted_exactly():
    counter = IdCounter()
    counter.add_all([Example.of("q", id=str(i % 700)) for i in range(1000)])
    assert counter.duplicates() == 300
