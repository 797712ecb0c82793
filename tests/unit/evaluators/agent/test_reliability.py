import json

import pytest

from dokimos import EvalTestCase, ToolDefinition
from dokimos.errors import ConfigurationError
from dokimos.evaluators import ToolDescriptionReliability, ToolNameReliability
from dokimos.evaluators.registry import build

NAME_CHECKS = ("snakecase_format", "conciseness", "intent_over_implementation", "clarity", "name_order")
RULES = (
    "input_arguments_clarity", "input_arguments_types", "max_num_input_arguments",
    "max_optional_input_arguments",
)  # fmt: skip
ASKED = (
    "general_structure", "has_examples", "has_usage_notes", "intent_over_implementation", "clarity",
    "redundancy", "input_arguments_enum", "input_arguments_format", "return_statement_quality",
)  # fmt: skip


def case(*tools):
    return EvalTestCase({}, {}, metadata={"tools": list(tools)})


def checks_of(evaluator, tool):
    (found,) = evaluator.evaluate(case(tool)).metadata["perToolResults"]
    assert found["toolName"] == tool.name
    return found["checks"]


class Judge:
    """Says yes to everything but some checks, and notes what it was asked about."""

    def __init__(self, *faults, omit=()):
        self.faults, self.omit, self.prompts = faults, omit, []

    async def complete(self, prompt, *, schema=None):
        from dokimos import JudgeReply

        self.prompts.append(prompt)
        names = [name for name in schema["properties"] if name != "reason" and name not in self.omit]
        return JudgeReply(json.dumps({"reason": "Because.", **{n: int(n not in self.faults) for n in names}}))


class TestNames:
    @pytest.mark.parametrize(
        ("name", "passes"),
        [
            ("get_weather", True), ("a", True), ("get2_x1", True), ("getWeather", False),
            ("Get_weather", False), ("get__weather", False), ("get_weather_", False), ("_get", False),
            ("get-weather", False), ("2get", False), ("get weather", False), ("get_weather\n", False),
        ],
    )  # fmt: skip
    def test_snake_case(self, name, passes):
        assert checks_of(ToolNameReliability(), ToolDefinition(name))["snakecase_format"] is passes

    @pytest.mark.parametrize(
        ("name", "passes"),
        [("a_b_c_d_e_f_g", True), ("a_b_c_d_e_f_g_h", False), ("a_b_c_d_e_f_g__", True)],
    )
    def test_at_most_seven_segments(self, name, passes):
        assert checks_of(ToolNameReliability(), ToolDefinition(name))["conciseness"] is passes

    @pytest.mark.parametrize(
        ("name", "passes"),
        [
            ("summarise_text", True), ("summarise_with_llm", False), ("get_via_api_weather", False),
            ("read_from_s3", False), ("count_using_bq", False), ("send_using_sdk", False),
            ("write_with_gpt4", False), ("Summarise_WITH_LLM", False),
        ],
    )  # fmt: skip
    def test_intent_over_implementation(self, name, passes):
        assert checks_of(ToolNameReliability(), ToolDefinition(name))["intent_over_implementation"] is passes

    def test_without_a_judge_three_checks_run(self):
        checks = checks_of(ToolNameReliability(), ToolDefinition("get_weather"))
        assert checks == {
            **dict.fromkeys(NAME_CHECKS[:3], True),
            "clarity": "skipped",
            "name_order": "skipped",
        }

    def test_the_score_is_the_mean_of_the_shares(self):
        result = ToolNameReliability().evaluate(
            case(ToolDefinition("get_weather"), ToolDefinition("getWeather"))
        )
        assert result.score == pytest.approx((1 + 2 / 3) / 2)
        assert (result.threshold, result.success) == (0.8, True)
        assert result.reason == "Checks failed for 1 of 2 tools: 'getWeather (snakecase_format)'."

    @pytest.mark.parametrize("fault", NAME_CHECKS[2:])
    def test_a_judge_adds_its_checks(self, fault):
        evaluator = ToolNameReliability(judge=Judge(fault))
        result = evaluator.evaluate(case(ToolDefinition("get_weather")))
        assert result.score == pytest.approx(4 / 5)
        assert result.metadata["perToolResults"][0]["checks"] == {n: n != fault for n in NAME_CHECKS}

    def test_the_list_of_words_stands_whatever_the_judge_says(self):
        checks = checks_of(ToolNameReliability(judge=Judge()), ToolDefinition("read_from_s3"))
        assert checks["intent_over_implementation"] is False

    def test_there_is_one_call_for_each_tool(self):
        judge = Judge()
        ToolNameReliability(judge=judge).evaluate(case(ToolDefinition("a", "First."), ToolDefinition("b")))
        assert len(judge.prompts) == 2
        assert "First." in judge.prompts[0]

    def test_an_incomplete_reply_is_an_error(self):
        result = ToolNameReliability(judge=Judge(omit=("clarity",))).evaluate(case(ToolDefinition("a")))
        assert result.score is None
        assert "JudgeReplyError" in result.error

    def test_without_tools_there_is_nothing_wrong(self):
        assert ToolNameReliability(judge=Judge()).evaluate(case()).score == 1
        assert ToolNameReliability().evaluate(case()).reason == "There are no tools to check."


def tool(description="Books.", required=(), **parameters):
    schema = {"type": "object", "properties": parameters, "required": list(required)}
    return ToolDefinition("book", description, input_schema=schema)


GOOD = {"type": "string", "description": "Where"}


class TestDescriptions:
    @pytest.mark.parametrize(
        ("definition", "failed"),
        [
            (tool(), ()),
            (ToolDefinition("book", "Books."), ()),
            (tool(city=GOOD), ()),
            (tool(city={"type": "string"}), RULES[:1]),
            (tool(city={**GOOD, "description": " "}), RULES[:1]),
            (tool(city={"description": "Where"}), RULES[1:2]),
            (tool(city={"description": "Where", "anyOf": [{"type": "string"}]}), ()),
            (tool(city={"description": "Where", "enum": ["a"]}), ()),
            (tool(city=True), RULES[:2]),
            (tool(required="abcde", **dict.fromkeys("abcde", GOOD)), ()),
            (tool(required="abcdef", **dict.fromkeys("abcdef", GOOD)), RULES[2:3]),
            (tool(**dict.fromkeys("abc", GOOD)), ()),
            (tool(**dict.fromkeys("abcd", GOOD)), RULES[3:]),
            (tool(required=("a", "x"), **dict.fromkeys("abcd", GOOD)), ()),
            (tool(a={}, b={}, c={}, d={}, e={}, f={}), RULES),
        ],
    )
    def test_each_rule(self, definition, failed):
        checks = checks_of(ToolDescriptionReliability(), definition)
        assert {name: checks[name] for name in RULES} == {name: name not in failed for name in RULES}
        assert {checks[name] for name in ASKED} == {"skipped"}

    @pytest.mark.parametrize("description", ["", "  "])
    def test_an_empty_description_is_not_clear_judge_or_not(self, description):
        checks = checks_of(ToolDescriptionReliability(), tool(description))
        assert (checks["clarity"], checks["general_structure"]) == (False, "skipped")
        assert ToolDescriptionReliability().evaluate(case(tool(description))).score == pytest.approx(4 / 5)
        assert checks_of(ToolDescriptionReliability(judge=Judge()), tool(description))["clarity"] is False

    def test_the_limits_can_be_set(self):
        definition = tool(required="a", a=GOOD, b=GOOD)
        checks = checks_of(ToolDescriptionReliability(max_input_args=1, max_optional_args=0), definition)
        assert [checks[name] for name in RULES[2:]] == [False, False]

    @pytest.mark.parametrize("fault", ASKED)
    def test_a_judge_adds_its_checks(self, fault):
        result = ToolDescriptionReliability(judge=Judge(fault)).evaluate(case(tool(city=GOOD)))
        assert result.score == pytest.approx(12 / 13)
        assert result.metadata["perToolResults"][0]["checks"] == {n: n != fault for n in (*RULES, *ASKED)}

    def test_the_judge_reads_the_whole_definition(self):
        judge = Judge()
        ToolDescriptionReliability(judge=judge).evaluate(case(tool("Books a room.", city=GOOD)))
        assert all(text in judge.prompts[0] for text in ("Books a room.", '"description":"Where"', *ASKED))

    @pytest.mark.parametrize(
        "options", [{"max_input_args": -1}, {"max_optional_args": 1.5}, {"tools_key": ""}]
    )
    def test_wrong_options_are_refused(self, options):
        with pytest.raises(ConfigurationError):
            ToolDescriptionReliability(**options)


def test_only_rules_are_deterministic():
    assert ToolNameReliability().deterministic
    assert not ToolNameReliability(judge=Judge()).deterministic
    assert build("tool_description_reliability", {"max_input_args": 3}).deterministic


def test_a_mean_that_is_the_threshold_passes():
    untyped = ToolDefinition("a", input_schema={"properties": {"id": {"description": "The id."}}})
    tools = (untyped, ToolDefinition("b"), ToolDefinition("c", "Lists what there is."))

    result = ToolDescriptionReliability().evaluate(case(*tools))

    assert (result.score, result.threshold, result.success) == (0.8, 0.8, True)
