"""A long text stands once in the JSON report, and `load_result` gives the whole result back."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import EvalResult, Example, ExperimentResult, load_result, render
from dokimos._core.jsonable import compact_json, jsonable
from dokimos._core.results import ItemResult, RunResult
from dokimos.errors import ConfigurationError
from dokimos.exporters._shared_texts import SHARED_FROM_LENGTH, TextSharing, may_hold

EARLIER = Path(__file__).parents[2] / "data" / "reports" / "earlier_version.json"
MARK = "0123456789abcdef"
LARGE = MARK + "x" * 2**20

LONG_TEXTS = [
    "a" * SHARED_FROM_LENGTH,
    "\u202e\u200b\x1b[2J" * SHARED_FROM_LENGTH,
    '"\\\n\ud800' * SHARED_FROM_LENGTH,
    json.dumps(["b" * SHARED_FROM_LENGTH]),
    '{"c": "' + "c" * SHARED_FROM_LENGTH + '"}',
    json.dumps([1.0, True, None]).ljust(SHARED_FROM_LENGTH),
    "[" * SHARED_FROM_LENGTH,
]
scalars = st.sampled_from(
    [*LONG_TEXTS, LONG_TEXTS[0][1:], "", None, True, 1, 1.0, -0.0, 1e-7, 2**70]
) | st.text(max_size=3)
keys = st.sampled_from(["output", "inputs", "actualOutputs", "$text", "$json", "$plain", "~/", LONG_TEXTS[0]])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=2),
    max_leaves=6,
)
maps = st.dictionaries(keys, values, max_size=3)
examples = st.builds(
    Example, maps, maps, metadata=maps, id=st.none() | scalars.filter(lambda value: type(value) is str),
    actual_outputs=st.none() | maps,
)  # fmt: skip
reasons = st.sampled_from(["", "short", LONG_TEXTS[0], LONG_TEXTS[3]])
scores = st.lists(
    st.builds(EvalResult, st.just("Judge"), st.sampled_from([0.0, 1.0]), reason=reasons, metadata=maps)
    | st.builds(EvalResult, st.just("Judge"), error=reasons.filter(bool)),
    max_size=1,
).map(tuple)


@st.composite
def results(draw):
    drawn = draw(st.lists(examples, min_size=1, max_size=3))
    runs = tuple(
        RunResult(
            index=run,
            item_results=tuple(
                ItemResult(
                    place,
                    example,
                    actual_outputs=draw(maps),
                    eval_results=draw(scores),
                    error=draw(st.none() | reasons.filter(bool)),
                )
                for place, example in enumerate(drawn)
            ),
        )
        for run in range(draw(st.integers(1, 3)))
    )
    return ExperimentResult(runs=runs, description=draw(reasons), metadata=draw(maps))


@given(values, st.sampled_from(LONG_TEXTS))
def test_nothing_is_shared_of_a_text_that_may_not_change(value, known):
    sharing = TextSharing()
    sharing.learn({"input": known}, ("items", 0))

    if not sharing.may_change(compact_json(value)):
        assert not may_hold(value) or sharing.tree(value, ("result",), 2) == value
        assert (sharing.count, sharing.has_wrapped) == (0, False)


@pytest.mark.parametrize("beside", ["short", LONG_TEXTS[0]], ids=["nothing shared", "shared"])
@pytest.mark.parametrize("levels", [85, 91, 95, 120])
def test_what_is_nested_too_deep_is_cut_where_it_stands_in_the_document(levels, beside):
    nested = "leaf"
    for _ in range(levels):
        nested = [nested]
    result = result_of({"output": beside}, example=Example.of("q", nested=nested))

    written = json.loads(render(result, "json"))["result"]
    expected = jsonable({"result": result})["result"]

    assert written["runs"][0]["itemResults"][0]["example"] == expected["runs"][0]["itemResults"][0]["example"]


def result_of(*outputs, example=None):
    """One item, with an output for each run."""
    runs = (
        RunResult(index=run, item_results=(ItemResult(0, example or Example.of("q"), actual_outputs=output),))
        for run, output in enumerate(outputs)
    )
    return ExperimentResult(runs=tuple(runs))


@given(results())
def test_every_result_is_read_back_to_the_letter(result):
    text = render(result, "json")
    again = load_result(text)

    assert again == result
    assert repr(asdict(again)) == repr(asdict(result)), "1, 1.0 and True are equal and not the same"
    assert render(again, "json") == text


@pytest.mark.parametrize(
    "output",
    [
        {"output": LARGE},
        {"answer": LARGE},
        {"output": {"answer": LARGE, "sources": [1, 2.0]}},
        {"output": [LARGE]},
        {"answer": LARGE, "score": 0.5},
        {"output": "short", "context": [LARGE]},
        {"output": {LARGE: 1}},
    ],
    ids=["text", "only value", "object", "list", "whole map", "beside the output", "key"],
)
@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("recorded", [True, False])
def test_a_large_output_stands_once(output, runs, recorded):
    example = Example({"input": "q"}, {"output": "a"}, actual_outputs=output if recorded else None)
    result = result_of(*[output] * runs, example=example)

    text = render(result, "json")

    assert text.count(MARK) == 1
    assert len(text) < len(LARGE) + 10_000
    assert load_result(text) == result


def test_large_inputs_and_expected_outputs_stand_once():
    example = Example.of({"text": LARGE}, [f"{MARK}{LARGE}"])
    result = result_of({"output": "a"}, {"output": "b"}, example=example)

    text = render(result, "json")

    assert text.count("x" * 2**20) == 2
    assert load_result(text) == result


def test_items_hold_what_clients_read():
    document = json.loads(
        render(result_of({"output": LARGE}, {"output": "b" * SHARED_FROM_LENGTH}, {"output": LARGE}), "json")
    )

    (item,) = document["items"]
    assert item["actualOutput"] == LARGE
    assert [run.get("actualOutput", item["actualOutput"]) for run in item["runs"]] == [
        LARGE,
        "b" * SHARED_FROM_LENGTH,
        LARGE,
    ]
    assert ["actualOutput" in run for run in item["runs"]] == [False, True, False]
    assert document["version"] == 1


def test_a_report_without_long_texts_has_no_references():
    result = result_of(
        {"output": "a" * (SHARED_FROM_LENGTH - 1), "$text": ["items"]}, {"output": {"$json": ["items"]}}
    )

    document = json.loads(render(result, "json"))

    assert "resultVersion" not in document
    assert document["result"]["runs"][1]["itemResults"][0]["actualOutputs"] == {
        "output": {"$json": ["items"]}
    }
    assert document["items"][0]["runs"][0]["actualOutput"] == "a" * (SHARED_FROM_LENGTH - 1)
    assert load_result(json.dumps(document)) == result


def test_a_report_of_an_earlier_version_is_read():
    result = load_result(EARLIER)

    outputs = [item.actual_outputs for item in result.item_results]
    assert outputs == [{"output": "y" * 250, "note": {"$text": ["items", 0, "input"]}}] * 2
    assert (
        json.loads(EARLIER.read_text())["result"]["runs"][0]["itemResults"][0]["actualOutputs"] == outputs[0]
    )


@pytest.mark.parametrize(
    "reference",
    [
        {"$text": ["items", 7]},
        {"$text": ["items", 0]},
        {"$text": ["items", 0, "actualOutput", "x"]},
        {"$text": None},
        {"$text": "items"},
        {"$json": ["items", 0, "input"]},
        {"$plain": 3},
    ],
)
def test_a_reference_to_nothing_is_a_damaged_report(reference):
    document = json.loads(render(result_of({"output": LARGE}), "json"))
    document["result"]["runs"][0]["itemResults"][0]["actualOutputs"]["output"] = reference

    with pytest.raises(ConfigurationError, match="'result' member is damaged"):
        load_result(json.dumps(document))


def test_a_later_form_of_the_result_is_refused():
    document = json.loads(render(result_of({"output": LARGE}), "json"))

    with pytest.raises(ConfigurationError, match=r"resultVersion 3; this dokimos reads 2\. Update dokimos"):
        load_result(json.dumps(document | {"resultVersion": 3}))
