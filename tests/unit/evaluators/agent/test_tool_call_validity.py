import json
from dataclasses import dataclass

import pytest

from dokimos import EvalTestCase, ToolCall, ToolDefinition
from dokimos.errors import ConfigurationError
from dokimos.evaluators import ToolCallValidity
from dokimos.evaluators.registry import build, schema

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"enum": ["c", "f"]},
        "note": {"type": ["string", "null"]},
        "place": {"type": "object", "properties": {"zip": {"pattern": "^[0-9]{5}$"}}, "required": ["zip"]},
    },
    "required": ["city"],
}
WEATHER = ToolDefinition("weather", input_schema=SCHEMA)


def evaluate(*calls, tools=(WEATHER,), **options):
    return ToolCallValidity(**options).evaluate(
        EvalTestCase({}, {"toolCalls": list(calls)}, metadata={"tools": list(tools)})
    )


def score(arguments, schema=SCHEMA, **options):
    tools = [ToolDefinition("weather", input_schema=schema)]
    return evaluate(ToolCall("weather", arguments), tools=tools, **options).score


@pytest.mark.parametrize(
    "arguments",
    [
        {"city": "Bern"},
        {"city": "Bern", "days": 3.0, "unit": "c", "note": None, "place": {"zip": "30111"}},
        {"city": "Bern", "unknown": 1},
    ],
)
def test_valid_arguments(arguments):
    assert score(arguments) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, '"city" is a required property'),
        ({"city": 5}, "$.city"),
        ({"city": "B"}, "$.city"),
        ({"city": "Bern", "days": 3.5}, "$.days"),
        ({"city": "Bern", "days": True}, "$.days"),
        ({"city": "Bern", "days": "3"}, "$.days"),
        ({"city": "Bern", "days": 0}, "$.days"),
        ({"city": "Bern", "unit": "k"}, "$.unit"),
        ({"city": "Bern", "note": 5}, "$.note"),
        ({"city": "Bern", "place": {}}, "$.place"),
        ({"city": "Bern", "place": {"zip": "3011"}}, "$.place.zip"),
        ({"city": None}, "$.city"),
    ],
)
def test_invalid_arguments_are_named_with_their_path(arguments, message):
    result = evaluate(ToolCall("weather", arguments))
    (found,) = result.metadata["validationResults"]
    assert (result.score, found["toolName"], found["valid"]) == (0, "weather", False)
    assert message in found["errors"][0]
    assert message in result.reason


def test_an_unknown_tool_is_the_only_error_of_its_call():
    result = evaluate(ToolCall("wether", {"x": 1}))
    assert result.metadata["validationResults"][0]["errors"] == ["there is no tool 'wether', only 'weather'"]


def test_the_score_is_the_share_of_valid_calls():
    result = evaluate(ToolCall("weather", {"city": "Bern"}), ToolCall("weather"), ToolCall("other"))
    assert result.score == pytest.approx(1 / 3)
    assert result.reason.startswith("2 of 3 tool calls not valid: weather: $: ")


def test_without_calls_there_is_nothing_wrong():
    result = evaluate()
    assert (result.score, result.metadata) == (1, {"validationResults": []})


@pytest.mark.parametrize("text", ["{city: Bern}", "[]", '"Bern"'])
def test_arguments_that_are_no_json_object_are_invalid(text):
    result = evaluate({"name": "weather", "arguments": text})
    assert result.score == 0
    assert "the arguments are not a JSON object" in result.reason


def test_arguments_of_other_kinds_are_taken_as_json():
    assert score({"city": "Bern", "place": {"zip": "30111"}, "days": 3, "tags": ("a", "b")}) == 1
    assert score({"x": (1, 2)}, {"properties": {"x": {"type": "array", "items": {"type": "integer"}}}}) == 1
    assert score({"x": (1, "2")}, {"properties": {"x": {"type": "array", "items": {"type": "integer"}}}}) == 0


class TestStrict:
    def test_what_is_not_declared_is_unexpected(self):
        assert score({"city": "Bern", "unknown": 1}, strict=True) == 0
        assert score({"city": "Bern"}, strict=True) == 1

    def test_also_where_nothing_is_declared(self):
        assert score({"a": 1}, {}) == 1
        assert score({"a": 1}, {}, strict=True) == 0
        assert score({}, {}, strict=True) == 1
        assert score({"a": 1}, {"type": "object", "additionalProperties": True}, strict=True) == 0

    @pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": "object", "properties": {}}])
    def test_what_is_unexpected_is_named(self, schema):
        tool = ToolDefinition("stop", input_schema={**schema, "additionalProperties": False})
        for strict, given in ((False, tool), (True, ToolDefinition("stop", input_schema=schema))):
            case = EvalTestCase(
                {}, {"toolCalls": [ToolCall("stop", {"now": 1})]}, metadata={"tools": [given]}
            )
            result = ToolCallValidity(strict=strict).evaluate(case)
            assert "'now' was unexpected" in result.reason

    def test_a_schema_that_forbids_more_needs_no_strictness(self):
        assert score({"city": "Bern", "x": 1}, {**SCHEMA, "additionalProperties": False}) == 0

    def test_parameters_of_a_declared_kind_are_declared(self):
        schema = {**SCHEMA, "additionalProperties": {"type": "integer"}}
        assert score({"city": "Bern", "x": 1}, schema, strict=True) == 1
        assert score({"city": "Bern", "x": "1"}, schema, strict=True) == 0
        schema = {**SCHEMA, "patternProperties": {"^x_": {}}}
        assert (
            score({"city": "Bern", "x_1": 1}, schema, strict=True),
            score({"city": "Bern", "y": 1}, schema, strict=True),
        ) == (1, 0)

    def test_parameters_declared_in_parts_are_declared(self):
        schema = {
            "allOf": [SCHEMA, {"properties": {"more": {"type": "integer"}}}],
            "additionalProperties": True,
        }
        assert score({"city": "Bern", "more": 1}, schema, strict=True) == 1
        assert score({"city": "Bern", "most": 1}, schema, strict=True) == 0


class TestTools:
    @pytest.mark.parametrize(
        "tool",
        [
            WEATHER.to_openai(),
            WEATHER.to_anthropic(),
            WEATHER.to_mcp(),
            {"name": "weather", "input_schema": SCHEMA},
        ],
    )
    def test_tools_are_read_from_every_dialect(self, tool):
        assert evaluate(ToolCall("weather", {"city": "Bern"}), tools=[tool]).score == 1
        assert evaluate(ToolCall("weather"), tools=[tool]).score == 0

    def test_a_schema_that_is_no_schema_is_an_error_not_a_score(self):
        result = evaluate(
            ToolCall("weather"), tools=[ToolDefinition("weather", input_schema={"type": "dict"})]
        )
        assert result.score is None
        assert "The schema of tool 'weather' is not valid" in result.error

    def test_an_unused_tool_may_have_any_schema(self):
        broken = ToolDefinition("broken", input_schema={"type": "dict"})
        assert evaluate(ToolCall("weather", {"city": "Bern"}), tools=[broken, WEATHER]).score == 1

    @pytest.mark.parametrize(
        ("metadata", "message"),
        [
            ({}, "'tools' in the metadata"),
            ({"tools": "weather"}, "'tools' must be a list of tools"),
            ({"tools": [WEATHER, {"description": "?"}]}, "tools[1]: A tool definition needs a name"),
        ],
    )
    def test_tools_that_are_missing_or_unreadable_are_an_error(self, metadata, message):
        result = ToolCallValidity().evaluate(EvalTestCase({}, {"toolCalls": []}, metadata=metadata))
        assert result.score is None
        assert message in result.error

    def test_tools_of_one_name_and_another_schema_are_told_apart(self):
        for required in (["a"], ["b"]) * 3:
            tool = ToolDefinition("t", input_schema={"required": required})
            assert evaluate(ToolCall("t", {"a": 1}), tools=[tool]).score == float(required == ["a"])

    def test_other_keys_can_be_named(self):
        evaluator = ToolCallValidity(tool_calls_key="made", tools_key="had")
        outputs = EvalTestCase({}, {"made": [ToolCall("weather")]}, metadata={"had": [WEATHER]})
        assert evaluator.evaluate(outputs).score == 0


def weather(city: str, days: int = 1) -> str:
    """The weather."""
    return ""


@dataclass
class Weather:
    city: str
    days: int = 1


class TestToolsOfTheEvaluator:
    CALLS = (ToolCall("weather", {"city": "Bern"}), ToolCall("weather", {"city": "Bern", "days": "two"}))

    def result(self, tools, metadata=None, outputs=None, **options):
        case = EvalTestCase({}, {"toolCalls": list(self.CALLS), **(outputs or {})}, metadata=metadata or {})
        return ToolCallValidity(tools=tools, **options).evaluate(case)

    @pytest.mark.parametrize(
        "tool",
        [
            WEATHER,
            WEATHER.to_openai(),
            WEATHER.to_openai("responses"),
            WEATHER.to_anthropic(),
            WEATHER.to_mcp(),
            weather,
            "tests.unit.evaluators.agent.test_tool_call_validity:weather",
        ],
    )
    def test_they_are_read_in_every_form(self, tool):
        assert self.result([tool]).score == 0.5
        assert self.result(each for each in (tool,)).score == 0.5

    def test_a_model_is_a_tool_of_its_name(self):
        case = EvalTestCase({}, {"toolCalls": [ToolCall("Weather", {"days": 1})]})
        assert '"city" is a required property' in ToolCallValidity(tools=[Weather]).evaluate(case).reason

    def test_they_win_over_those_of_the_case_which_win_over_those_of_the_outputs(self):
        other = ToolDefinition("other")
        assert self.result([WEATHER], metadata={"tools": [other]}, outputs={"tools": [other]}).score == 0.5
        assert self.result(None, metadata={"tools": [WEATHER]}, outputs={"tools": [other]}).score == 0.5
        assert self.result(None, outputs={"tools": [WEATHER.to_mcp()]}).score == 0.5
        assert self.result([], metadata={"tools": [WEATHER]}).score == 0

    def test_tools_of_another_key_are_found_in_the_outputs_too(self):
        assert self.result(None, outputs={"had": [WEATHER]}, tools_key="had").score == 0.5

    def test_without_any_it_says_where_to_put_them(self):
        result = self.result(None)
        assert result.score is None
        assert "'tools' in the metadata, nor in the outputs" in result.error
        assert "tools=[...]" in result.error

    @pytest.mark.parametrize(
        ("tools", "message"),
        [
            ("weather", "tools must be a list of tools, not 'weather'"),
            ({"name": "weather"}, "tools must be a list of tools"),
            (weather, "tools must be a list of tools"),
            (5, "tools must be a list of tools, not 5"),
            ([WEATHER, {"description": "?"}], "tools[1]: A tool definition needs a name"),
            ([WEATHER, 5], "tools[1]: A tool must be a ToolDefinition"),
            (["nowhere"], "the tool 'nowhere' must be of the form 'module:attribute'"),
            (["nowhere:weather"], "the tool 'nowhere:weather' cannot be imported"),
            ([WEATHER, weather], "two tools have the same name, 'weather'"),
        ],
    )
    def test_what_is_no_list_of_tools_is_refused_when_the_evaluator_is_made(self, tools, message):
        with pytest.raises(ConfigurationError) as caught:
            ToolCallValidity(tools=tools)
        assert str(caught.value).startswith("ToolCallValidity: ")
        assert message in str(caught.value)

    def test_a_tool_that_is_named_twice_is_one(self):
        assert self.result([WEATHER, WEATHER]).score == 0.5

    def test_they_are_part_of_what_is_measured(self):
        bare, other = ToolCallValidity().info(), ToolCallValidity(tools=[weather]).info()
        assert bare.fingerprint != other.fingerprint != ToolCallValidity(tools=[WEATHER]).info().fingerprint
        assert ToolCallValidity(tools=[weather]).info() == other
        assert other.parameters["tools"][0]["name"] == "weather"

    def test_they_can_be_given_as_data(self):
        built = build("tool_call_validity", {"tools": [json.loads(json.dumps(WEATHER.to_openai()))]})
        assert built == ToolCallValidity(tools=[WEATHER])
        assert schema("tool_call_validity")["properties"]["tools"]["default"] is None


def test_an_agent_without_tools_has_none_to_call():
    result = evaluate(ToolCall("weather", {}), tools=())
    assert result.score == 0
    assert "there is no tool 'weather', nor any other" in result.reason
