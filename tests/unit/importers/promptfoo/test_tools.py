"""Tools of a provider, and assertions about their calls."""

import json

import pytest

from dokimos._cli.main import run_command
from dokimos.importers import tool_placeholder
from dokimos.importers._promptfoo.assertions import metrics_of
from dokimos.importers._promptfoo.conversion import convert
from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.converted_case import Case
from dokimos.importers._promptfoo.programs import Programs
from dokimos.suites import load_suite

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OPENAI = {"name": "get_weather", "description": "Costs ${COST}.", "parameters": SCHEMA}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def case(tmp_path):
    return Case({}, Notes(), Programs("programs"), tmp_path)


def converted(place, tools, *, provider="openai:m", key="tools", asserts=()):
    config = {
        "prompts": ["{{q}}"],
        "providers": [{"id": provider, "config": {key: tools}}],
        "tests": [{"vars": {"q": "Rain in Rome?"}, "assert": list(asserts)}],
    }
    (place / "promptfooconfig.yaml").write_text(json.dumps(config))
    result = convert(place / "promptfooconfig.yaml")
    (suite,) = result.suites.values()
    return result, suite


@pytest.mark.parametrize(
    ("tool", "provider", "key"),
    [
        ({"type": "function", "function": OPENAI}, "openai:m", "tools"),
        ({"type": "function", **OPENAI}, "openai:responses:m", "tools"),
        (OPENAI, "openai:m", "functions"),
        (
            {"name": "get_weather", "description": "Costs ${COST}.", "input_schema": SCHEMA},
            "anthropic:m",
            "tools",
        ),
    ],
)
def test_a_tool_is_declared_with_its_schema_and_a_placeholder(place, tool, provider, key):
    result, suite = converted(place, [tool], provider=provider, key=key)
    assert suite["tools"] == [
        {
            "name": "get_weather",
            "type": "function",
            "description": "Costs $${COST}.",
            "parameters": SCHEMA,
            "file": result.module_name,
            "function": "get_weather",
        }
    ]
    assert "get_weather = tool_placeholder('get_weather')" in result.module
    assert result.notes.lost == {}
    assert any("placeholders" in note for note in result.notes.changed)


def test_an_imported_suite_with_tools_loads(place):
    converted(place, [{"type": "function", "function": OPENAI}, {"name": "no_arguments"}])
    assert run_command(["import", "promptfoo", "promptfooconfig.yaml"]) == 0
    assert load_suite("agent.yaml").agent == "openai:m"


def test_tools_are_read_from_a_file_and_what_is_none_is_listed(place):
    tools = [
        {"type": "web_search"},
        OPENAI,
        OPENAI,
        {"name": "with-hyphen", "parameters": SCHEMA},
        {"name": 5},
        3,
    ]
    (place / "tools.json").write_text(json.dumps(tools))
    result, suite = converted(place, "file://tools.json")
    assert [tool["name"] for tool in suite["tools"]] == ["get_weather"]
    assert len(result.notes.lost) == 1


def test_a_name_that_a_module_cannot_have_gets_another_one(place):
    names = ["class", "tool_1", "json_assertion"]
    result, suite = converted(place, [{"name": name, "parameters": SCHEMA} for name in names])
    functions = [tool["function"] for tool in suite["tools"]]
    assert len(set(functions)) == 3
    assert not set(functions) & {"class", "json_assertion"}
    compile(result.module, "module", "exec")


def test_a_placeholder_takes_any_arguments():
    assert tool_placeholder("get_weather")(city="Rome") == "There is no function for get_weather yet."


def expect_tool(name, **more):
    return {"name": name, "match": "exact", **more}


@pytest.mark.parametrize(
    ("kind", "value", "tools", "flags"),
    [
        ("trajectory:tool-used", "search", ["search"], {}),
        ("trajectory:tool-used", ["search", "sum"], ["search", "sum"], {}),
        (
            "trajectory:tool-used",
            {"name": "search", "min": 2, "max": 3},
            [expect_tool("search", count=2, max_count=3)],
            {},
        ),
        ("trajectory:tool-sequence", ["a", "b"], [expect_tool("a"), expect_tool("b")], {"ordered": True}),
        (
            "trajectory:tool-sequence",
            {"steps": ["a", "b"], "mode": "exact"},
            [expect_tool("a"), expect_tool("b")],
            {"exact": True, "ordered": True},
        ),
        (
            "trajectory:tool-args-match",
            {"name": "a", "args": {"x": 1}},
            [expect_tool("a", args={"x": 1})],
            {},
        ),
        ("tool-call-f1", ["a", "b", "a"], [expect_tool("a"), expect_tool("b")], {"exact": True}),
        ("tool-call-f1", "a, b", [expect_tool("a"), expect_tool("b")], {"exact": True}),
    ],
)
def test_an_assertion_about_calls_becomes_expected_tools(case, kind, value, tools, flags):
    assert metrics_of([{"type": kind, "value": value}], case) == []
    assert (case.tools, case.tools_are) == (tools, flags)
    assert case.notes.lost == {}


@pytest.mark.parametrize(
    "assertion",
    [
        {"type": "trajectory:tool-used", "value": {"pattern": "se*"}},
        {"type": "trajectory:tool-used", "value": {"name": "a", "max": 0}},
        {"type": "trajectory:tool-used", "value": {"name": "a", "min": 0, "max": 3}},
        {"type": "not-trajectory:tool-used", "value": "a"},
        {"type": "trajectory:tool-sequence", "value": {"steps": ["a", 3]}},
        {"type": "trajectory:tool-sequence", "value": {"steps": ["a", "a"], "mode": "exact"}},
        {"type": "trajectory:tool-args-match", "value": {"name": "a", "args": {"x": 1}, "mode": "exact"}},
        {"type": "trajectory:tool-args-match", "value": {"name": "a", "args": {"x": {"y": 1}}}},
        {"type": "trajectory:tool-args-match", "value": {"args": {"x": 1}}},
        {"type": "tool-call-f1", "value": ["a"], "threshold": 0.8},
        {"type": "tool-call-f1"},
        {"type": "trajectory:step-count", "value": {"max": 3}},
        {"type": "not-is-valid-openai-tools-call"},
    ],
)
def test_what_expected_tools_cannot_say_is_listed(case, assertion):
    assert metrics_of([assertion], case) == []
    assert case.tools == []
    assert len(case.notes.lost) == 1


def test_expectations_that_one_list_cannot_say_together_are_listed(case):
    first = {"type": "trajectory:tool-used", "value": ["a"]}
    second = {"type": "trajectory:tool-sequence", "value": ["b", "c"]}
    metrics_of([first, second], case)
    assert (case.tools, case.tools_are) == (["a"], {})
    assert len(case.notes.lost) == 1


@pytest.mark.parametrize(
    "kind", ["is-valid-openai-tools-call", "is-valid-openai-function-call", "is-valid-function-call"]
)
def test_the_validity_of_calls_is_a_metric(case, kind):
    (metric,) = metrics_of([{"type": kind}], case)
    assert (metric["name"], metric["threshold"]) == ("tool_call_validity", 1.0)
    assert any("without a call" in note for note in case.notes.changed)


def test_exact_expectations_stand_in_the_suite(place):
    asserts = [{"type": "tool-call-f1", "value": ["get_weather"]}, {"type": "is-valid-openai-tools-call"}]
    _, suite = converted(place, [OPENAI], asserts=asserts)
    [case] = suite["test_cases"]
    assert case["expected_tools"] == {"tools": [expect_tool("get_weather")], "exact": True}
    assert run_command(["import", "promptfoo", "promptfooconfig.yaml"]) == 0
    load_suite("agent.yaml")
