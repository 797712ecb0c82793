"""Judges behind HTTP as values: their names, identity and settings."""

import copy
import json
import pickle
import sys
from importlib.metadata import EntryPoint

import pytest

from dokimos import Example, judge, model_task
from dokimos._core.jsonable import jsonable
from dokimos._core.metrics import CallMetrics
from dokimos._http.refusal import ErrorReply, RequestRefused
from dokimos.errors import ConfigurationError, EvaluationError, MissingExtraError
from dokimos.judges import _factory as factory
from dokimos.judges._anthropic import AnthropicMessages
from dokimos.judges._capabilities import Attempt, Capabilities, Mode
from dokimos.judges._gemini import Gemini
from dokimos.judges._ollama import OllamaNative, ollama_url
from dokimos.judges._openai import AzureOpenAI, OpenAIChat, OpenAIResponses
from dokimos.judges._openai_compatible import Groq, Mistral, OpenRouter, Together
from dokimos.judges._prices import Prices, Rate, cost_of, from_genai_prices

KEY = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in (
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "ANTHROPIC_BASE_URL",
        "OLLAMA_HOST",
        "AZURE_OPENAI_ENDPOINT",
        "GOOGLE_GEMINI_BASE_URL",
        "MISTRAL_BASE_URL",
        "OPENROUTER_BASE_URL",
        "GROQ_BASE_URL",
        "TOGETHER_BASE_URL",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("name", "kind", "url"),
    [
        ("openai:gpt-5-mini", OpenAIResponses, "https://api.openai.com/v1"),
        ("openai-chat:gpt-5-mini", OpenAIChat, "https://api.openai.com/v1"),
        ("openai-responses:gpt-5-mini", OpenAIResponses, "https://api.openai.com/v1"),
        ("anthropic:claude-sonnet-5", AnthropicMessages, "https://api.anthropic.com"),
        ("ollama:qwen3:8b", OllamaNative, "http://127.0.0.1:11434"),
        ("gemini:gemini-2.5-flash", Gemini, "https://generativelanguage.googleapis.com"),
        ("mistral:mistral-small-latest", Mistral, "https://api.mistral.ai/v1"),
        ("openrouter:deepseek/deepseek-r1:free", OpenRouter, "https://openrouter.ai/api/v1"),
        ("groq:qwen/qwen3-32b", Groq, "https://api.groq.com/openai/v1"),
        ("together:Qwen/Qwen3-32B", Together, "https://api.together.xyz/v1"),
        ("http://box:8000/v1#org/model", OpenAIChat, "http://box:8000/v1"),
        ("https://box/v1/#m", OpenAIChat, "https://box/v1"),
    ],
)
def test_a_name_makes_a_judge(name, kind, url):
    made = judge(name)

    assert type(made) is kind
    assert made.url == url
    assert made.model in name


def test_another_base_url_speaks_chat_completions(monkeypatch):
    assert type(judge("openai:m", base_url="http://box/v1")) is OpenAIChat

    monkeypatch.setenv("OPENAI_BASE_URL", "http://box/v1")
    assert type(judge("openai:m")) is OpenAIChat


def test_azure_needs_its_endpoint(monkeypatch):
    with pytest.raises(ConfigurationError, match="azure dep needs its endpoint: set AZURE_OPENAI_ENDPOINT"):
        judge("azure:dep")

    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.example.com/")
    assert type(judge("azure:dep")) is AzureOpenAI


@pytest.fixture
def entry_points(monkeypatch):
    found = []
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found)
    factory._plugins.cache_clear()
    yield found
    factory._plugins.cache_clear()


def test_an_installed_package_brings_a_provider(entry_points):
    entry_points.append(EntryPoint("acme", "dokimos.judges._openai_compatible:Groq", factory.ENTRY_POINTS))

    assert type(judge("acme:fast", seed=3)) is Groq
    with pytest.raises(ConfigurationError, match=r"Unknown provider 'acne'; .* Did you mean 'acme'"):
        judge("acne:fast")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (
            "no_such_module:Judge",
            r"provider 'acme' \(no_such_module:Judge\) cannot be loaded: ModuleNotFound",
        ),
        ("json:dumps", "is not a subclass of dokimos.judges.HttpJudge"),
    ],
)
def test_a_package_whose_provider_is_broken_is_named(entry_points, place, message):
    entry_points.append(EntryPoint("acme", place, factory.ENTRY_POINTS))

    with pytest.raises(ConfigurationError, match=message):
        judge("acme:fast")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("opnai:m", "Unknown provider 'opnai'; the providers are openai, .* Did you mean 'openai'"),
        ("gpt-5-mini", "'gpt-5-mini' does not name a model"),
        ("http://box/v1", "does not name a model"),
        ("openai:", "does not name a model"),
    ],
)
def test_a_name_that_means_nothing_is_refused(name, message):
    with pytest.raises(ConfigurationError, match=message):
        judge(name)


def test_a_setting_with_a_typo_is_refused():
    with pytest.raises(ConfigurationError, match=r"no setting 'temprature'\. Did you mean 'temperature'"):
        judge("openai:m", temprature=1)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("openai:m", {"seed": 1}, "OpenAIResponses has no seed"),
        ("anthropic:m", {"top_logprobs": 5}, "AnthropicMessages has no top_logprobs"),
        ("mistral:m", {"top_logprobs": 5}, "Mistral has no top_logprobs"),
        ("openai:m", {"base_url": "box:80"}, "base_url must start with http"),
        ("openai:m", {"base_url": "http://box/v1?x=1"}, "base_url must end before any"),
        ("openai:m", {"base_url": "http://[box/v1"}, "host that cannot be read"),
        ("openai:m", {"base_url": "http://me:pw@box:port/v1"}, "it is 'http://box:port/v1'"),
        ("openai:m", {"base_url": "http:///v1"}, "names no host"),
        ("openai:m", {"timeout": 0}, "timeout must be above 0"),
        ("openai:m", {"max_concurrency": -1}, "max_concurrency must be above 0"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(name, settings, message):
    with pytest.raises(ConfigurationError, match=message):
        judge(name, **settings)


@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://evilopenai.com/v1", False),
        ("https://openai.com.evil.net/v1", False),
        ("https://evil.net/api.openai.com", False),
    ],
)
def test_only_the_provider_s_own_domain_gets_its_key(monkeypatch, url, trusted):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    assert (judge("openai:m", base_url=url)._key() is not None) is trusted


def test_the_identity_says_what_changes_replies_and_nothing_secret():
    login = judge("http://me:pw-secret@box/v1#m", headers={"X-A": "header-secret"}, seed=3)
    made = judge("http://box/v1#m", api_key=KEY, headers={"X-A": "header-secret"}, seed=3)

    assert made.identity == login.identity
    assert "secret" not in f"{login!r} {login}"
    assert made.identity == "OpenAIChat m at http://box/v1 (temperature=0.0, seed=3)"
    for shown in (
        repr(made),
        str(made),
        json.dumps(jsonable(made.headers)),
        json.dumps(jsonable(made.api_key)),
    ):
        assert "secret" not in shown.replace("[secret]", "")
        assert KEY not in shown


def test_patience_and_prices_do_not_change_the_identity():
    plain = judge("openai:m")

    assert judge("openai:m", timeout=5, attempts=1, prices=Prices({}), api_key=KEY).identity == plain.identity
    assert judge("openai:m", temperature=1.0).identity != plain.identity
    assert judge("ollama:m", num_ctx=8192).identity != judge("ollama:m").identity


def test_a_judge_is_a_value():
    made = judge("openai:m", api_key=KEY, headers={"X-A": "b"})

    assert made == judge("openai:m")
    assert hash(made) == hash(judge("openai:m"))
    assert copy.deepcopy(made) == made
    assert pickle.loads(pickle.dumps(made)).api_key.reveal() == KEY
    assert made.with_settings(temperature=1.0).api_key.reveal() == KEY


def test_probabilities_are_asked_for_where_the_protocol_has_them():
    assert judge("openai:m").with_logprobs(top=3).top_logprobs == 3
    anthropic = judge("anthropic:m")
    assert anthropic.with_logprobs() is anthropic


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("box", "http://box:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        (":9", "http://127.0.0.1:9"),
        ("https://box/", "https://box"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(host, url):
    assert ollama_url(host) == url


# What is learned from refusals

SCHEMA = {"type": "object"}


def learn(known, message, *, mode=Mode.SCHEMA, optional=(), param="", code="", status=400):
    refusal = RequestRefused("refused", status=status, error_reply=ErrorReply(message, param, code))
    return known.learn(refusal, Attempt(mode, optional, SCHEMA))


@pytest.mark.parametrize(
    "message",
    [
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        "This response_format type is unavailable now",
        "output_config: Extra inputs are not permitted",
        "Unsupported value: 'text.format' is not supported",
        "guided decoding is not enabled",
    ],
)
def test_a_refused_schema_leads_to_a_tool_call(message):
    known = Capabilities()

    assert learn(known, message) is not None
    assert known.mode(tuple(Mode), SCHEMA) is Mode.TOOL
    assert known.mode(tuple(Mode), None) is Mode.TEXT


def test_a_message_that_says_nothing_leads_one_step_down():
    known = Capabilities()
    learn(known, "Bad Request")

    assert known.mode((Mode.SCHEMA, Mode.JSON, Mode.TEXT), SCHEMA) is Mode.JSON


@pytest.mark.parametrize(
    "message",
    [
        "temperature must be between 0 and 2",
        "maximum context length is 8192 tokens",
        "The model `m` does not exist",
        "Your credit balance is too low",
    ],
)
def test_other_complaints_teach_nothing(message):
    known = Capabilities()

    assert learn(known, message, optional=("temperature",)) is None
    assert known.mode(tuple(Mode), SCHEMA) is Mode.SCHEMA
    assert known.refused == set()


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ("Unsupported value: 'temperature' does not support 0 with this model.", {"temperature"}),
        ("`temperature` and `top_p` cannot both be specified for this model.", {"top_p"}),
        ("top_p: Extra inputs are not permitted", {"top_p"}),
        ("`temperature` is deprecated for this model.", {"temperature"}),
        (
            "logprobs are not supported with reasoning models.",
            {"logprobs", "top_logprobs", "include", "responseLogprobs"},
        ),
        ("System role not supported", {"system"}),
    ],
)
def test_a_refused_parameter_is_remembered(message, refused):
    known = Capabilities()
    learn(known, message, optional=("top_p", "temperature", "logprobs", "top_logprobs", "system"))

    assert known.refused == refused


# Prices


def test_a_price_table_knows_dated_names_and_cached_tokens():
    prices = Prices({"gpt-5": Rate(10, 20), "gpt-5-mini": Rate(1, 2, cached_in=0.1)}, as_of="2026-11-01")

    assert prices("gpt-5-mini-2025-08-07", 1_000_000, 1_000_000) == 3
    assert prices("gpt-5", 1_000_000, 0) == 10
    assert prices.cost(
        CallMetrics(1_000_000, 0, model="gpt-5-mini", cached_tokens_in=500_000)
    ) == pytest.approx(0.55)


@pytest.mark.parametrize(("model", "tokens_in"), [("gpt-6", 1), ("gpt-50", 1), (None, 1), ("gpt-5", None)])
def test_what_a_table_does_not_know_is_unpriced(model, tokens_in):
    assert Prices({"gpt-5": Rate(10, 20)})(model, tokens_in, 1) is None


@pytest.mark.parametrize("answer", [ZeroDivisionError(), -1.0, float("nan"), "much", None])
def test_a_table_that_fails_or_gives_nonsense_leaves_the_call_unpriced(answer):
    def prices(model, tokens_in, tokens_out):
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert cost_of(prices, CallMetrics(1, 1, model="m")) is None


def test_the_price_library_is_asked_for_what_it_knows(monkeypatch):
    class Library:
        class Usage:
            def __init__(self, **tokens):
                self.tokens = tokens

        @staticmethod
        def calc_price(usage, model_ref):
            if model_ref != "known":
                raise LookupError(model_ref)
            return type("Price", (), {"total_price": usage.tokens["input_tokens"] / 1000})

    monkeypatch.setitem(sys.modules, "genai_prices", Library)
    prices = from_genai_prices()

    assert prices("known", 500, 10) == 0.5
    assert prices("unknown", 500, 10) is None
    assert prices("known", None, 10) is None


def test_the_price_library_itself_knows_models_their_dated_names_and_cached_tokens():
    prices = from_genai_prices()
    dear, cheap = prices("gpt-5", 1_000_000, 0), prices("gpt-5-mini", 1_000_000, 0)

    assert dear > cheap > 0
    assert prices("gpt-5-mini-2025-08-07", 1_000_000, 0) == cheap
    assert prices("no-such-model", 1_000_000, 0) is None
    cached = CallMetrics(1_000_000, 0, model="gpt-5-mini", cached_tokens_in=1_000_000)
    assert 0 < cost_of(prices, cached) < cheap


def test_a_missing_price_library_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)

    with pytest.raises(MissingExtraError, match=r"dokimos\[prices\]"):
        from_genai_prices()


# Model tasks


def test_two_models_are_two_tasks():
    from dokimos.experiment._task import task_name

    one, other = model_task("openai:a"), model_task("openai:b")

    assert task_name(one) != task_name(other)
    assert one.model.temperature is None


async def test_a_model_task_says_which_input_is_missing():
    with pytest.raises(EvaluationError, match="'question' in the inputs"):
        await model_task("openai:a", input_key="question")(Example.of("hi"))
