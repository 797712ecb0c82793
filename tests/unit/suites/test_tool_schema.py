"""The blocks of tools: every kind, and what is refused."""

import pytest

from dokimos.errors import ConfigurationError
from dokimos.suites._tool_schema import build_parameters_schema

HEAD = """
model: {provider: openai, name: gpt-5-mini}
instructions: {inline: Help.}
test_cases: []
tools:
"""


def refusal_of(folder, tool):
    with pytest.raises(ConfigurationError) as error:
        folder.suite(f"{HEAD}  - {tool}\n")
    return str(error.value)


def test_every_kind_of_tool_loads(folder):
    folder.write("tools.py", "def add(a: int, b: int) -> int:\n    return a + b\n")
    folder.write("docs/a.md", "# A\n\ntext\n")
    folder.write("ask.md", "What is {{ thing }}?\n")

    suite = folder.suite(
        HEAD
        + """
  - {name: add, type: function, file: tools.py, function: add, description: Adds., defer_loading: true}
  - {name: sums, type: mcp, command: python, args: [a.py], env: {PORT: 80, DEBUG: true}, timeout: 5}
  - {name: web, type: mcp, url: "http://localhost:1/mcp", headers: {authorization: x}, is_retrieval: true}
  - {name: ask, type: prompt, file: ask.md, parameters: {thing: {type: string}}}
"""
    )

    plan = suite.application.plan
    assert [tool.name for tool in plan.functions] == ["add"]
    assert [server.name for server in plan.servers] == ["sums", "web"]
    assert plan.build_environment(plan.servers[0])["PORT"] == "80"
    assert plan.build_environment(plan.servers[0])["DEBUG"] == "true"
    assert plan.prompts[0].render({"thing": "love"}) == "What is love?\n"


@pytest.mark.parametrize(
    ("tool", "why"),
    [
        ("{name: a, type: functon, function: x}", "invalid tool type; valid types are function"),
        ("{name: a, type: function, file: t.py, functon: add}", "Did you mean 'function'?"),
        (
            "{name: a, type: function, function: add}",
            "a function is in a file:, or is named as module:attribute",
        ),
        ("{name: a, type: function, file: none.py, function: add}", "none.py:add' cannot be imported"),
        ("{name: 'a b', type: function, function: 'm:add'}", "tools[0].name"),
        ("{name: a, type: mcp}", "an MCP server has either a command: or a url:"),
        ("{name: a, type: mcp, command: x, url: 'http://h/mcp'}", "either a command: or a url:"),
        (
            "{name: a, type: mcp, url: 'http://h/mcp', transport: stdio}",
            "the transport stdio needs a command:",
        ),
        ("{name: a, type: mcp, url: 'http://h/mcp', transport: websocket}", "websocket is not supported"),
        ("{name: a, type: mcp, command: x, headers: {a: b}}", "headers are for a server with a url"),
        ("{name: a, type: mcp, command: x, request_timout: 3}", "Did you mean 'request_timeout'?"),
        ("{name: a, type: prompt, parameters: {x: {type: string}}}", "either a template or a file"),
        (
            "{name: a, type: prompt, template: '{{ q }}', parameters: {p: {type: string}}}",
            "no parameter is called 'q'",
        ),
        ("{name: a, type: prompt, template: hi, parameters: {p: {type: strin}}}", "not a JSON Schema"),
        ("{name: a, type: prompt, template: hi, parameters: {p: 3}}", "must be a schema"),
    ],
)
def test_a_wrong_tool_is_refused_with_its_place(folder, tool, why):
    message = refusal_of(folder, tool)

    assert why in message
    assert "tools[0]" in message


def test_two_tools_of_one_name_are_refused(folder):
    message = refusal_of(folder, "{name: a, type: mcp, command: x}\n  - {name: a, type: mcp, command: y}")

    assert "two tools are called 'a'" in message


def test_keys_of_a_server_without_effect_are_warned_of(folder):
    server = "{name: a, type: mcp, command: python, config: {a: 1}, load_prompts: true}"
    suite = folder.suite(f"{HEAD}  - {server}\n")

    assert any("load_prompts, config of the tool a has no effect" in warning for warning in suite.warnings)


def test_parameters_by_name_become_one_schema():
    schema = build_parameters_schema(
        {
            "city": {"type": "string"},
            "days": {"type": "integer", "required": False},
            "unit": {"type": "string", "default": "C"},
            "detail": "boolean",
        }
    )

    assert schema["required"] == ["city", "detail"]
    assert schema["properties"]["days"] == {"type": "integer"}
    assert schema["properties"]["detail"] == {"type": "boolean"}
    assert schema["additionalProperties"] is False


def test_a_whole_schema_stays_as_it_is():
    whole = {"type": "object", "properties": {"type": {"type": "string"}}, "required": ["type"]}

    assert build_parameters_schema(whole) == whole


def test_an_argument_called_type_is_no_whole_schema():
    assert build_parameters_schema({"type": {"type": "string"}})["properties"] == {"type": {"type": "string"}}
