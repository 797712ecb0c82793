"""What a declared agent is made of: addresses, keys, what is missing, what tells agents apart."""

import tomllib
from pathlib import Path
from typing import get_args

import pytest

from dokimos._runtime.static_imports import forbid_imports
from dokimos.errors import ConfigurationError, MissingExtraError
from dokimos.suites._agent import requirements
from dokimos.suites._agent.agent_plan import response_schema
from dokimos.suites._agent.models import Endpoint
from dokimos.suites._metric_schema import ModelBlock

ROOT = Path(__file__).parents[4]
CASES = "test_cases: [{input: a}]\n"
AGENT = """\
model: {provider: openai, name: scripted, base_url: "http://nowhere.invalid/v1"}
instructions: {inline: Help.}
"""


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "AZURE_OPENAI_API_KEY",
        "OLLAMA_HOST",
    ):
        monkeypatch.delenv(name, raising=False)


def endpoint(**block):
    return Endpoint.of(ModelBlock.model_validate({"name": "m", **block}))


@pytest.mark.parametrize(
    ("block", "url"),
    [
        ({"provider": "openai"}, "https://api.openai.com/v1"),
        ({"provider": "openai", "endpoint": "http://h:1/v1/"}, "http://h:1/v1"),
        ({"provider": "anthropic"}, "https://api.anthropic.com"),
        ({"provider": "anthropic", "base_url": "http://h/v1"}, "http://h"),
        ({"provider": "ollama"}, "http://127.0.0.1:11434/v1"),
        ({"provider": "ollama", "endpoint": "http://h:1/v1"}, "http://h:1/v1"),
        (
            {"provider": "azure_openai", "endpoint": "https://x.openai.azure.com"},
            "https://x.openai.azure.com",
        ),
    ],
)
def test_the_address_is_the_one_of_the_provider_unless_given(block, url):
    assert endpoint(**block).url == url


def test_a_key_of_the_environment_goes_only_to_the_provider(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")

    assert endpoint(provider="openai").key == "sk-environment"
    assert endpoint(provider="openai", base_url="http://h/v1").key is None
    assert endpoint(provider="openai", base_url="http://h/v1", api_key="sk-own").key == "sk-own"


def test_a_key_is_never_part_of_what_is_shown():
    found = endpoint(provider="openai", api_key="sk-own", temperature=0.5)

    assert "sk-own" not in repr(found)
    assert found.identity == "agent openai:m at https://api.openai.com/v1, temperature=0.5"


def test_only_what_the_file_says_is_sent():
    assert dict(endpoint(provider="openai").settings) == {}
    assert dict(endpoint(provider="openai", top_p=0.5, max_tokens=9).settings) == {
        "max_tokens": 9,
        "top_p": 0.5,
    }


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_missing_key_is_named_with_what_needs_it(declare, provider):
    suite = declare(CASES, f"model: {{provider: {provider}, name: m}}\ninstructions: {{inline: Help.}}\n")

    with pytest.raises(
        ConfigurationError, match=f"agent's model {provider} m needs a key: set {provider.upper()}"
    ):
        suite.check_keys()


def without(monkeypatch, *modules):
    monkeypatch.setattr(requirements, "find_spec", lambda module: None if module in modules else object())


@pytest.mark.parametrize(
    ("provider", "extra", "client"),
    [
        ("openai", "agents-openai", "openai"),
        ("ollama", "agents-openai", "openai"),
        ("anthropic", "agents-anthropic", "anthropic"),
    ],
)
def test_a_missing_client_is_told_with_its_place_and_its_extra(declare, monkeypatch, provider, extra, client):
    without(monkeypatch, client)

    with pytest.raises(MissingExtraError) as error:
        declare(CASES, f"model:\n  provider: {provider}\n  name: m\ninstructions: {{inline: Help.}}\n")

    assert str(error.value).endswith(
        f"agent.yaml:3:3: model.provider needs {client}, which is not installed. "
        f'Install with: pip install "dokimos[{extra}]"'
    )


def test_everything_that_is_not_installed_is_told_at_once(declare, monkeypatch):
    without(monkeypatch, "pydantic_ai", "anthropic", "fastmcp")
    tools = """
tools:
  - {name: files, type: mcp, command: serve}
  - {name: p, type: prompt, template: "{{a}}", parameters: {a: string}, model: {provider: anthropic, name: m}}
"""

    with pytest.raises(MissingExtraError) as error:
        declare(tools + CASES)

    message = str(error.value)
    assert "model.provider needs pydantic_ai" in message
    assert "tools[0].type needs fastmcp" in message
    assert "tools[1].model.provider needs anthropic" in message
    assert message.endswith('pip install "dokimos[agents-openai,agents-mcp,agents-anthropic]"')


def test_a_suite_that_is_only_looked_at_is_valid_with_a_warning(declare, monkeypatch):
    without(monkeypatch, "openai")

    with forbid_imports():
        suite = declare(CASES)

    assert any("model.provider needs openai, which is not installed" in text for text in suite.warnings)


def test_other_faults_of_the_suite_come_before_packages(declare, monkeypatch):
    without(monkeypatch, "openai")

    with pytest.raises(ConfigurationError, match="there is no key 'instrutions'"):
        declare(CASES, "model: {provider: openai, name: m}\ninstrutions: {inline: Help.}\n")


def test_each_extra_of_an_agent_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]

    named = {extra for _, extra in requirements.OF_PROVIDERS.values()} | {requirements.OF_MCP[1]}
    assert named < set(extras)
    assert set(get_args(ModelBlock.model_fields["provider"].annotation)) == set(requirements.OF_PROVIDERS)


def test_missing_instructions_are_told_with_their_place(declare):
    head = "model: {provider: openai, name: m}\ninstructions:\n  file: none.md\n"

    with pytest.raises(ConfigurationError, match=r"agent\.yaml:4:3: instructions\.file: there is no file"):
        declare(CASES, head)


def test_everything_that_is_wrong_is_told_at_once(declare):
    text = "response_format: none.json\ntools: [{name: a, type: function, function: 'none:f'}]\n" + CASES

    with pytest.raises(ConfigurationError) as error:
        declare(text)

    assert "2 problems" in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        ("inline: Help.", "inline: Help me."),
        ("name: scripted", "name: other"),
        ("max_turns: 5", "max_turns: 6"),
        ("template: hi", "template: ho"),
    ],
)
def test_another_model_prompt_limit_or_tool_is_another_agent(declare, change):
    text = (
        "execution: {max_turns: 5}\ntools: [{name: p, type: prompt, template: hi, parameters: {a: string}}]\n"
    )
    head = (
        'model: {provider: openai, name: scripted, base_url: "http://h/v1"}\ninstructions: {inline: Help.}\n'
    )
    one = declare(text + CASES, head)

    other = declare((text + CASES).replace(*change), head.replace(*change))

    assert one.identity == declare(text + CASES, head).identity
    assert one.identity != other.identity


def test_settings_without_effect_are_warned_of(declare):
    head = (
        "model: {provider: anthropic, name: m, auth_provider: oauth_token}\ninstructions: {inline: Help.}\n"
    )

    assert any(
        "auth_provider oauth_token has no effect" in warning for warning in declare(CASES, head).warnings
    )


SUITE = """
model: {provider: openai, name: m, base_url: "http://nowhere.invalid/v1"}
instructions: {inline: Help.}
test_cases: [{input: a}]
"""


@pytest.mark.parametrize(
    ("signature", "told"),
    [
        ("a: 'Nowhere'", "name 'Nowhere' is not defined"),
        ("a: Opaque", "the argument 'a' of 'tools.py:tool' cannot be described to the model: its type"),
        ("n: int, f: Callable[[int], int] = len", "the argument 'f'"),
    ],
)
def test_a_function_that_no_model_can_be_told_of_is_refused_at_load(folder, signature, told):
    head = "from typing import Callable\nclass Opaque: pass\n"
    folder.write("tools.py", f"{head}def tool({signature}): return 1\n")
    tools = "tools:\n  - {name: tool, type: function, file: tools.py, function: tool}\n"

    with pytest.raises(ConfigurationError) as caught:
        folder.suite(SUITE + tools)

    assert told in str(caught.value)
    assert "agent.yaml:6:50: tools[0].function: " in str(caught.value)
    assert "or give their schema as parameters" in str(caught.value)


@pytest.mark.parametrize("name", ["Tool", "made", "cut"])
def test_what_is_no_function_is_refused_at_load(folder, name):
    folder.write(
        "tools.py",
        """
        from functools import partial

        class Tool:
            def __call__(self, a: int) -> int:
                return a

        made = Tool()
        cut = partial(made, 1)
    """,
    )

    with pytest.raises(ConfigurationError, match=f"'tools.py:{name}' is a .*; name a function"):
        folder.suite(f"{SUITE}tools: [{{name: tool, type: function, file: tools.py, function: {name}}}]\n")


@pytest.mark.parametrize("parameters", ["", ", parameters: {a: string}"])
def test_a_function_is_accepted_that_says_enough_or_has_parameters(folder, parameters):
    signature = "a: 'Nowhere'" if parameters else "a, b: list[dict[str, int]] = (), *rest: int, **more"
    folder.write("tools.py", f"def tool({signature}): return 1\n")

    tool = f"name: tool, type: function, file: tools.py, function: tool{parameters}"
    suite = folder.suite(f"{SUITE}tools: [{{{tool}}}]\n")

    assert [planned.function("x") for planned in suite.application.plan.functions] == [1]


def test_a_function_may_take_the_context_of_the_framework(folder):
    head = "from pydantic_ai import RunContext\n"
    folder.write("tools.py", f"{head}def tool(ctx: RunContext[object], a: int): return 1\n")

    suite = folder.suite(f"{SUITE}tools: [{{name: tool, type: function, file: tools.py, function: tool}}]\n")

    assert [planned.function(None, 1) for planned in suite.application.plan.functions] == [1]


def test_references_in_a_response_format_are_put_in_their_place(folder):
    suite = folder.suite(
        SUITE
        + """
response_format:
  properties:
    price: {$ref: "#/$defs/price", description: now}
    old: {type: array, items: {$ref: "#/definitions/a~1b"}}
    $ref: {type: string}
  $defs: {price: {type: number}}
  definitions: {a/b: {$ref: "#/$defs/price"}}
"""
    )

    assert suite.application.plan.response_schema == {
        "type": "object",
        "properties": {
            "price": {"type": "number", "description": "now"},
            "old": {"type": "array", "items": {"type": "number"}},
            "$ref": {"type": "string"},
        },
    }


def test_a_response_format_may_be_nested_deep(tmp_path):
    schema = {"type": "object"}
    for _ in range(30):
        schema = {"type": "object", "properties": {"inner": schema}}

    assert response_schema(schema, tmp_path) == schema


@pytest.mark.parametrize(
    ("format", "told"),
    [
        ('{properties: {child: {$ref: "#"}}}', "the response format contains itself (#)"),
        (
            '{properties: {a: {$ref: "#/$defs/a"}}, $defs: {a: {items: {$ref: "#/$defs/b"}}, '
            'b: {items: {$ref: "#/$defs/a"}}}}',
            "the response format contains itself (#/$defs/a)",
        ),
    ],
)
def test_a_response_format_without_an_end_is_refused_at_load(folder, format, told):
    with pytest.raises(ConfigurationError) as caught:
        folder.suite(f"{SUITE}response_format: {format}\n")

    assert f"agent.yaml:5:1: response_format: {told}" in str(caught.value)


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("command: no-such-program-anywhere", "there is no no-such-program-anywhere on the PATH"),
        ("command: ./no-such-server.sh", "no-such-server.sh"),
        ("command: python, env_file: no.env", "no.env"),
    ],
)
def test_a_server_that_cannot_be_started_is_refused_at_load(folder, server, told):
    with pytest.raises(ConfigurationError) as caught:
        folder.suite(f"{SUITE}tools: [{{name: figures, type: mcp, {server}}}]\n")

    assert told in str(caught.value)
    key = server.split(", ")[-1].split(":")[0]
    assert f": tools[0].{key}: " in str(caught.value)


def test_a_program_of_the_suite_is_found_in_its_folder(folder):
    folder.write("serve.sh", "")

    suite = folder.suite(f"{SUITE}tools: [{{name: figures, type: mcp, command: ./serve.sh}}]\n")

    assert [server.command for server in suite.application.plan.servers] == ["./serve.sh"]


def test_the_name_of_the_search_for_tools_is_kept_free(folder):
    folder.write("tools.py", "def tool(): return 1\n")
    tool = "type: function, file: tools.py, function: tool"

    folder.suite(f"{SUITE}tools: [{{name: search_tools, {tool}}}]\n")
    with pytest.raises(ConfigurationError, match="choose another name"):
        folder.suite(
            f"{SUITE}tools: [{{name: search_tools, {tool}}}, {{name: other, {tool}, defer_loading: true}}]\n"
        )


def test_an_address_that_is_none_is_told_with_its_place(folder):
    with pytest.raises(ConfigurationError, match=r"agent\.yaml:2:1: model: .*base_url must start with http"):
        folder.suite(SUITE.replace("http://nowhere.invalid/v1", "localhost:9"))


TOOLS = """
tools:
  - {name: lookup, type: function, file: tools.py, function: lookup}
  - {name: ask, type: prompt, template: "{{q}}", parameters: {q: {type: string}}}
"""


@pytest.fixture
def with_tools(folder):
    folder.write("tools.py", "def lookup(city: str) -> str:\n    return city\n")

    def suite(expected, tools=TOOLS):
        return folder.suite(f"{AGENT}{tools}test_cases:\n  - input: a\n    {expected}\n")

    return suite


@pytest.mark.parametrize(
    ("expected", "place"),
    [
        ("expected_tools: [lookpu]", r":10:22: test_cases\[0\].expected_tools\[0\]"),
        ("expected_tools: {tools: [lookup, {name: lookpu}], exact: true}", r"expected_tools.tools\[1\]"),
        ("expected_tools: [{name: look, match: exact}]", "'look'"),
    ],
)
def test_a_tool_that_is_expected_and_not_declared_is_an_error_with_the_nearest_one(
    with_tools, expected, place
):
    with pytest.raises(ConfigurationError, match=place) as caught:
        with_tools(expected)

    assert "Did you mean 'lookup'? Tools: lookup, ask." in str(caught.value)


@pytest.mark.parametrize("expected", ["[lookup]", "[look, ask]", "[{name: ask, match: exact}]", "[]"])
def test_declared_tools_and_parts_of_their_names_may_be_expected(with_tools, expected):
    assert with_tools(f"expected_tools: {expected}").warnings == ()


def test_tools_of_a_server_are_known_only_when_it_runs(with_tools):
    server = TOOLS + "  - {name: files, type: mcp, command: python}\n"

    assert with_tools("expected_tools: [lookpu]", server).cases[0].turns


def test_a_search_has_the_name_that_the_model_sees(with_tools, folder):
    folder.write("docs/a.md", "text")
    search = "tools: [{name: faq, type: hierarchical_document, source: docs, search_mode: keyword}]\n"

    assert with_tools("expected_tools: [faq_search, faq]", search).cases
    with pytest.raises(ConfigurationError, match="Did you mean 'faq_search'"):
        with_tools("expected_tools: [faq_serach]", search)


def test_a_forbidden_tool_that_looks_misspelt_is_a_warning(with_tools):
    (warning,) = with_tools("forbidden_tools: [lookpu, delete]").warnings

    assert "forbidden_tools[0]" not in warning
    assert "no tool of this suite is called 'lookpu'. Did you mean 'lookup'?" in warning


def test_a_tool_at_fault_makes_no_other_fault(with_tools):
    with pytest.raises(ConfigurationError) as caught:
        with_tools("expected_tools: [lookup]", TOOLS.replace("type: function,", "type: function, fiel: x,"))

    assert "no tool of this suite" not in str(caught.value)


def test_all_front_matter_is_kept_and_what_has_no_name_of_its_own_is_extra(folder):
    folder.write(
        "prompt.md",
        "---\nversion: 1.10\nauthor: me\ntags: [a]\nteam: desk\nreviewed: 2024-01-31\nextra: {k: 1}\n---\n"
        "Be kind.\n",
    )

    suite = folder.suite(AGENT.replace("{inline: Help.}", "{file: prompt.md}") + CASES)

    assert suite.about["promptVersion"] == "1.10"
    assert suite.about["prompt"] == {
        "author": "me",
        "tags": ["a"],
        "extra": {"k": 1, "team": "desk", "reviewed": "2024-01-31"},
    }
