"""What a declared agent is made of: addresses, keys, what is missing, what tells agents apart."""

import pytest

from dokimos.errors import ConfigurationError, MissingExtraError
from dokimos.suites.declared import building
from dokimos.suites.declared.models import Endpoint
from dokimos.suites.metric_schema import ModelBlock

CASES = "test_cases: [{input: a}]\n"


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


def test_a_missing_package_says_what_to_install(declare, monkeypatch):
    monkeypatch.setattr(building, "find_spec", lambda module: None)

    with pytest.raises(MissingExtraError, match=r"pip install 'dokimos\[agents\]'"):
        declare(CASES)


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
