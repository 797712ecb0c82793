import json

import pytest

from dokimos import (
    AgentTrace,
    CallMetrics,
    EvalResult,
    EvalTestCase,
    Example,
    ExperimentResult,
    ItemResult,
    RunResult,
    ToolCall,
    ToolDefinition,
)
from dokimos._core.wire import from_json, to_json, to_tree
from dokimos.errors import TypeConversionError


def test_names_of_our_fields_are_in_camel_case():
    case = EvalTestCase.of("q", "a", "e")

    assert json.loads(to_json(case)) == {
        "inputs": {"input": "q"},
        "actualOutputs": {"output": "a"},
        "expectedOutputs": {"output": "e"},
    }


def test_fields_that_hold_their_default_are_left_out():
    assert to_tree(Example()) == {}
    assert to_tree(ToolCall("a")) == {"name": "a"}
    assert to_tree(EvalResult("A", 0.0)) == {"name": "A", "score": 0.0}


def test_a_value_equal_to_its_default_but_of_another_type_is_written():
    assert to_tree(EvalResult("A", fail_on_error=1)) == {"name": "A", "failOnError": 1}


@pytest.mark.parametrize("name", ["expectedOutputs", "expected_outputs"])
def test_both_spellings_of_our_fields_are_read(name):
    assert from_json(Example, {name: {"output": 1}}) == Example({}, {"output": 1})


def test_keys_inside_payloads_stay_as_they_are():
    payload = {"snake_case": 1, "camelCase": 2, "snakeCase": {"expected_outputs": 3, "expectedOutputs": 4}}
    example = Example(payload, payload, metadata=payload)

    assert from_json(Example, to_json(example)) == example


@pytest.mark.parametrize(
    ("target", "tree", "where"),
    [
        (Example, {"expectedOutputs": {}, "expected_outputs": {}}, "expectedOutputs"),
        (
            ItemResult,
            {"index": 0, "example": {"actualOutputs": {}, "actual_outputs": {}}},
            "example.actualOutputs",
        ),
        (
            RunResult,
            {"itemResults": [{"index": 0, "example": {}}, {"metrics": {"costUsd": 1, "cost_usd": 1}}]},
            "itemResults[1].metrics.costUsd",
        ),
        (AgentTrace, {"toolCalls": [], "tool_calls": []}, "toolCalls"),
    ],
)
def test_both_spellings_of_one_field_are_an_error_that_says_where(target, tree, where):
    with pytest.raises(TypeConversionError, match="is given twice") as failure:
        from_json(target, tree)

    assert f": {where} is given twice" in str(failure.value)


def test_unknown_fields_are_ignored():
    assert from_json(Example, {"inputs": {"input": 1}, "fromTheFuture": 2}) == Example({"input": 1})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"inputs": {}} trailing', "not JSON: Extra data"),
        ('{"inputs": {"input": NaN}}', "NaN is not a number in JSON"),
        ('{"inputs": {"input": -Infinity}}', "-Infinity is not a number in JSON"),
        ('{"inputs": ' + "[" * 100_000, "not JSON"),
        ('{"inputs": {"input": ' + "9" * 5000 + "}}", "not JSON"),
        (b'{"inputs": {"input": "\xff"}}', "not JSON"),
        ("[1]", "must be a map"),
        ("null", "must be a map"),
        ('{"inputs": "text"}', "inputs: "),
        ('{"id": 7}', "id: must be a text"),
        ('{"metrics": {"tokensIn": "many"}}', "metrics.tokensIn: "),
        ('{"metrics": {"costUsd": -1}}', "cost_usd must be a finite number of at least 0"),
    ],
)
def test_what_cannot_be_read_is_a_conversion_error_that_says_why(text, reason):
    with pytest.raises(TypeConversionError) as failure:
        from_json(Example, text)

    assert str(failure.value).startswith("Cannot read Example: ")
    assert reason in str(failure.value)


def test_a_fault_deep_inside_is_located():
    with pytest.raises(TypeConversionError, match=r"itemResults\.1\.evalResults\.0\.name: is missing"):
        from_json(
            RunResult,
            {"itemResults": [{"index": 0, "example": {}}, {"index": 1, "example": {}, "evalResults": [{}]}]},
        )


def test_bytes_are_read_as_utf8():
    assert from_json(Example, '{"inputs": {"input": "ä"}}'.encode()).input == "ä"


def test_payload_values_that_json_does_not_know_are_written_in_their_json_form():
    example = Example({"input": float("nan")}, metadata={"tools": [ToolDefinition("t", "d")]})

    tree = json.loads(to_json(example))

    assert tree == {"inputs": {"input": "NaN"}, "metadata": {"tools": [{"name": "t", "description": "d"}]}}


def test_text_is_written_as_it_is_but_for_lone_surrogates_which_are_escapes():
    assert to_json({"ä": "😀\ud800"}) == '{"ä":"😀\\ud800"}'
    assert to_json({"a": 1}, indent=2) == '{\n  "a": 1\n}'


def test_a_whole_result_reads_back():
    items = [
        ItemResult(
            0,
            Example.of("q", "a", id="1", topic=["x"]),
            actual_outputs={"output": None, "toolCalls": [{"name": "t"}]},
            eval_results=(EvalResult.of("A", 1 / 3), EvalResult("B", error="x", fail_on_error=False)),
            metrics=CallMetrics(1, 2, cost_usd=1e-7, latency_ms=0.1),
        ),
        ItemResult(1, Example(), error="TimeoutError: 30s"),
    ]
    result = ExperimentResult(name="n", runs=[RunResult(index=i, item_results=items) for i in range(2)])

    assert from_json(ExperimentResult, to_json(result)) == result
    assert from_json(ExperimentResult, to_tree(result)).average_score("A") == 1 / 3


def test_a_tool_call_without_a_name_is_not_read():
    with pytest.raises(TypeConversionError, match="needs a name"):
        from_json(ToolCall, {"name": " "})
