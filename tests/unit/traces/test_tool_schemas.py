"""What tools that ran say about themselves."""

import json

import pytest

from dokimos.evaluators import ToolCallValidity
from dokimos.traces import load_spans, to_test_case
from dokimos.traces._tool_schemas import find_schema

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
INPUTS = {
    "city": {"type": "string", "description": "Where."},
    "day": {"type": "any", "description": "When.", "nullable": True},
}


@pytest.fixture
def tool(span):
    def make(name="look", **attributes):
        return span(
            name,
            openinference__span__kind="TOOL",
            tool__name=name,
            input__value='{"city": 7}',
            **attributes,
        )

    return make


def tools_of(*spans):
    return to_test_case(spans).metadata.get("tools")


@pytest.mark.parametrize(
    "recorded",
    [
        {"tool__parameters": json.dumps(SCHEMA), "tool__description": "Look."},
        {"tool__json_schema": json.dumps(SCHEMA), "tool__description": "Look."},
        {"tool__json_schema": json.dumps({**SCHEMA, "description": "Look."})},
        {
            "tool__description": "Look.",
            "tool__json_schema": json.dumps(
                {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
            ),
        },
        {
            "tool__description": "Look.",
            "tool__parameters": json.dumps({"name": "look", "input_schema": SCHEMA}),
        },
        {"gen_ai__tool__json_schema": json.dumps(SCHEMA), "gen_ai__tool__description": "Look."},
    ],
)
def test_a_tool_has_its_own_schema(tool, recorded):
    (described,) = tools_of(tool(**recorded))

    assert (described.name, described.description) == ("look", "Look.")
    assert described.required == ("city",)
    assert ToolCallValidity().evaluate(to_test_case([tool(**recorded)])).score == 0.0


def test_the_inputs_of_a_tool_of_smolagents_are_its_schema(tool):
    (described,) = tools_of(tool(tool__parameters=json.dumps(INPUTS)))

    assert described.input_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where."},
            "day": {"description": "When."},
        },
        "required": ["city"],
    }


@pytest.mark.parametrize(
    "arguments",
    [{"city": "Paris"}, {}, {"filter": {"type": "recent"}}, "text", [1], {"properties": ["a"]}, None],
)
def test_arguments_are_not_a_schema(tool, span, arguments):
    one = span(openinference__span__kind="TOOL", tool__name="look", tool__parameters=json.dumps(arguments))

    assert find_schema(arguments) is None
    assert tools_of(one) is None
    if isinstance(arguments, dict) and arguments:
        assert to_test_case([one]).tool_calls[0].arguments == arguments


def test_what_the_model_was_given_is_the_whole_of_the_tools(tool, span):
    given = json.dumps([{"type": "function", "name": "look"}, {"type": "function", "name": "rest"}])
    chat = span(gen_ai__operation__name="chat", gen_ai__tool__definitions=given)
    ran = [tool(tool__parameters=json.dumps(SCHEMA)), tool("invented", tool__parameters=json.dumps(SCHEMA))]

    look, rest = tools_of(chat, *ran)

    assert (look.required, rest.input_schema) == (("city",), {})


def test_a_tool_without_a_description_is_there_beside_one_that_has_one(tool):
    described, silent = tools_of(tool(tool__parameters=json.dumps(SCHEMA)), tool("rest"))

    assert (described.required, silent.name, silent.input_schema) == (("city",), "rest", {})
    assert tools_of(tool("rest")) is None


def test_schemas_that_a_real_instrumentation_writes_are_read(recordings):
    spans = load_spans(recordings / "openinference-crash.json.gz")
    tools_only = [span for span in spans if span.attributes.get("openinference.span.kind") == "TOOL"]

    (described,) = tools_of(*tools_only)

    assert (described.name, described.description) == ("get_weather", "Call get_weather.")
    assert described.required == ("city",)
    assert ToolCallValidity().evaluate(to_test_case(tools_only)).score == 1.0
