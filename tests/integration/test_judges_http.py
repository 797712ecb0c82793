"""Judges against a server that speaks every protocol and misbehaves on demand."""

import asyncio
import gc
import json
import socket
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, replace
from typing import Literal

import aiohttp
import pytest

from dokimos import Budget, Dataset, Example, Experiment, evaluate, judge, model_task, to_json
from dokimos._core.results import Score
from dokimos._http import backoff, client, session
from dokimos.errors import ConfigurationError, JudgeReplyError, JudgeUnavailableError
from dokimos.evaluators import ExactMatch
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.exporters._base import export
from dokimos.judges._ask import ask
from dokimos.judges._capabilities import forget_capabilities
from dokimos.judges._prices import Prices, Rate

KEY = "sk-test-0123456789abcdef"
PROTOCOLS = ["openai-chat", "openai-responses", "anthropic", "ollama", "azure", "gemini", "mistral"]
VARIABLES = (
    "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OLLAMA_HOST",
    "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_API_VERSION", "DOKIMOS_OFFLINE",
    "HTTP_PROXY", "http_proxy", "GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL",
    "MISTRAL_API_KEY", "MISTRAL_BASE_URL", "GROQ_BASE_URL", "GROQ_API_KEY",
)  # fmt: skip


@dataclass
class Verdict:
    verdict: Literal["yes", "no"]
    reason: str


@dataclass(frozen=True, kw_only=True)
class Right(JudgedEvaluator):
    async def judge_case(self, case, *, sample):
        verdict = await ask(self.lm, f"Right? {case.input}", Verdict, sample=sample)
        return Score(float(verdict.verdict == "yes"), verdict.reason)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(backoff, "FIRST_BACKOFF", 0.01)
    forget_capabilities()


def judge_at(server, protocol="openai-chat", **settings):
    base = f"{server.url}/v1" if protocol.startswith(("openai", "mistral")) else server.url
    return judge(f"{protocol}:tiny", base_url=base, api_key=KEY, **settings)


def asked(lm, prompt="Is it?"):
    return asyncio.run(ask(lm, prompt, Verdict))


def completed(lm, prompt="Is it?"):
    return asyncio.run(lm.complete(prompt))


# Protocols


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_gives_a_structured_answer_in_one_request(server, protocol):
    assert asked(judge_at(server, protocol)) == Verdict("yes", "It says so.")
    assert len(server.received) == 1


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_counts_its_tokens(server, protocol):
    metrics = completed(judge_at(server, protocol)).metrics

    assert (metrics.tokens_in, metrics.tokens_out, metrics.model) == (20, 8, "tiny")
    assert metrics.latency_ms > 0
    assert metrics.cost_usd is None


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "azure", "gemini"])
def test_cached_and_reasoning_tokens_are_told_apart(server, protocol):
    metrics = completed(judge_at(server, protocol)).metrics

    assert (metrics.cached_tokens_in, metrics.reasoning_tokens_out) == (4, 3)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_carries_its_settings(server, protocol):
    completed(judge_at(server, protocol, temperature=0.5, max_tokens=77, top_p=0.9, system="Be fair."))

    body = server.received[0].body
    sent = {**body, **body.get("options", {}), **body.get("generationConfig", {})}
    assert (sent["temperature"], sent.get("top_p", sent.get("topP"))) == (0.5, 0.9)
    names = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict", "maxOutputTokens")
    assert [sent[name] for name in names if name in sent] == [77]
    assert system_message(sent) == "Be fair."


def system_message(sent):
    if "systemInstruction" in sent:
        return sent["systemInstruction"]["parts"][0]["text"]
    return sent.get("system") or sent.get("instructions") or sent["messages"][0]["content"]


def test_azure_names_deployment_and_version(server):
    completed(judge_at(server, "azure", api_version="2025-01-01"))

    assert server.received[0].path == "/openai/deployments/tiny/chat/completions"
    assert server.received[0].query == {"api-version": "2025-01-01"}
    assert server.received[0].headers["api-key"] == KEY


def test_anthropic_says_the_version_of_its_protocol(server):
    completed(judge_at(server, "anthropic"))

    assert server.received[0].headers["anthropic-version"] == "2023-06-01"
    assert server.received[0].headers["x-api-key"] == KEY


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "azure", "ollama", "gemini"])
def test_token_probabilities_come_with_the_reply_when_asked_for(server, protocol):
    lm = judge_at(server, protocol)

    assert completed(lm).logprobs is None
    first = completed(lm.with_logprobs(top=5)).logprobs[0]
    assert (first.token, first.logprob, first.top) == ('{"verdict":', -0.1, {'{"verdict":': -0.1})


def test_gemini_names_its_model_and_key_and_leaves_its_thoughts_out(server):
    reply = completed(judge_at(server, "gemini"))

    assert server.received[0].path == "/v1beta/models/tiny:generateContent"
    assert server.received[0].headers["x-goog-api-key"] == KEY
    assert reply.text == '{"verdict": "yes", "reason": "It says so."}'


@pytest.mark.parametrize("variable", ["GEMINI_API_KEY", "GOOGLE_API_KEY"])
def test_gemini_takes_either_of_its_keys(server, monkeypatch, variable):
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    monkeypatch.setenv(variable, KEY)

    completed(judge("gemini:tiny"))

    assert server.received[0].headers["x-goog-api-key"] == KEY


def test_a_prompt_that_gemini_blocks_says_so(scripted, server):
    server.then(scripted.raw('{"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}'))

    with pytest.raises(JudgeReplyError, match="stopped by the provider's content filter"):
        completed(judge_at(server, "gemini"))


@pytest.mark.parametrize(
    "body", ['{"candidates": []}', '{"candidates": [{"finishReason": "STOP"}]}', "{}", "[]"]
)
def test_a_gemini_reply_without_an_answer_is_an_error(scripted, server, body):
    server.then(scripted.raw(body), times=5)

    with pytest.raises(JudgeReplyError, match="holds no answer"):
        completed(judge_at(server, "gemini"))


def test_gemini_probabilities_that_are_refused_are_left_out_together(scripted, server):
    server.then(scripted.status(400, "Logprobs is not enabled for models/tiny"))

    with pytest.warns(UserWarning, match="does not take logprobs"):
        assert completed(judge_at(server, "gemini").with_logprobs()).logprobs is None

    assert server.received[-1].body["generationConfig"] == {"temperature": 0.0}


def test_mistral_spells_the_seed_its_own_way(server):
    completed(judge_at(server, "mistral", seed=7, max_tokens=9))

    assert server.received[0].path == "/v1/chat/completions"
    assert (server.received[0].body["random_seed"], server.received[0].body["max_tokens"]) == (7, 9)
    assert "seed" not in server.received[0].body


def test_a_hosted_model_is_asked_with_the_key_of_its_provider(server, monkeypatch):
    monkeypatch.setenv("GROQ_BASE_URL", f"{server.url}/openai/v1")
    monkeypatch.setenv("GROQ_API_KEY", KEY)

    reply = asked(judge("groq:qwen/qwen3-32b"))

    assert reply.verdict == "yes"
    assert server.received[0].path == "/openai/v1/chat/completions"
    assert server.received[0].headers["Authorization"] == f"Bearer {KEY}"
    assert server.received[0].body["model"] == "qwen/qwen3-32b"


def test_a_url_with_a_model_is_a_judge_without_a_key(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    asked(judge(f"{server.url}/v1#tiny"))

    assert server.received[0].path == "/v1/chat/completions"
    assert "Authorization" not in server.received[0].headers


def test_the_base_url_of_the_environment_gets_the_key_and_chat_completions(server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1/")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    asked(judge("openai:tiny"))

    assert server.received[0].path == "/v1/chat/completions"
    assert server.received[0].headers["Authorization"] == f"Bearer {KEY}"


def test_the_usual_environment_names_the_other_servers(server, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", server.url.removeprefix("http://"))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)

    for name in ("ollama:tiny", "anthropic:tiny", "azure:tiny"):
        asked(judge(name))

    assert len(server.received) == 3


# The shape of replies


@pytest.mark.parametrize(
    ("refuses", "used"),
    [
        ((), "json_schema"),
        (("json_schema",), "tools"),
        (("json_schema", "tools"), "json_object"),
        (("json_schema", "tools", "json_object"), None),
    ],
)
@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "gemini", "mistral"])
def test_a_refused_shape_gives_way_to_the_next_one(scripted, server, protocol, refuses, used):
    server.refuses = set(refuses)
    lm = judge_at(server, protocol)

    assert asked(lm) == Verdict("yes", "It says so.")

    assert next(scripted.used_shapes(server.received[-1].body), None) == used
    assert len(server.received) == len(refuses) + 1
    asked(lm)
    asked(lm)
    assert len(server.received) == len(refuses) + 3


def test_anthropic_gives_way_to_tools_and_then_to_text(scripted, server):
    server.refuses = {"json_schema"}
    assert asked(judge_at(server, "anthropic")).verdict == "yes"
    server.refuses |= {"tools"}
    assert asked(judge_at(server, "anthropic")).verdict == "yes"

    assert list(scripted.used_shapes(server.received[-1].body)) == []


@pytest.mark.parametrize(
    ("status", "message"),
    [(500, "failed to parse grammar"), (501, "structured outputs are not implemented")],
)
def test_a_server_that_fails_on_a_shape_is_asked_for_another(scripted, server, status, message):
    server.then(scripted.status(status, message))
    lm = judge_at(server)

    assert asked(lm).verdict == "yes"
    asked(lm)

    used = [next(scripted.used_shapes(each.body)) for each in server.received]
    assert used == ["json_schema", "tools", "tools"]


def test_bounds_that_one_schema_may_not_have_are_left_out_of_it_alone(scripted, server):
    server.then(
        scripted.status(400, "Invalid schema for response_format 'answer': 'minimum' is not permitted.")
    )
    lm = judge_at(server)
    schema = {"type": "object", "properties": {"minimum": {"type": "integer", "minimum": 1}}}

    asyncio.run(lm.complete("Rate it.", schema=schema))
    asked(lm)

    sent = server.received[1].body["response_format"]["json_schema"]["schema"]
    assert sent == {"type": "object", "properties": {"minimum": {"type": "integer"}}}
    assert next(scripted.used_shapes(server.received[2].body)) == "json_schema"
    assert len(server.received) == 3


def test_only_the_first_of_many_calls_finds_out(server):
    server.refuses = {"json_schema", "temperature"}
    server.latency = 0.01
    lm = judge_at(server)

    async def many():
        return await asyncio.gather(*(ask(lm, f"Is {i}?", Verdict) for i in range(50)))

    with pytest.warns(UserWarning, match="openai tiny does not take temperature"):
        assert len(asyncio.run(many())) == 50
    assert len(server.received) == 52


def test_a_probe_that_fails_does_not_hold_the_others_up(scripted, server):
    server.then(scripted.status(404, "The model `tiny` does not exist"), times=20)
    lm = judge_at(server)

    async def many():
        return await asyncio.gather(
            *(ask(lm, f"Is {i}?", Verdict) for i in range(20)), return_exceptions=True
        )

    outcomes = asyncio.run(many())
    assert {str(each) for each in outcomes} == {"openai tiny: 404 Not Found: The model `tiny` does not exist"}
    assert len(server.received) == 20


@pytest.mark.parametrize(
    ("protocol", "name"),
    [("openai-chat", "temperature"), ("openai-chat", "top_p"), ("openai-chat", "seed"), ("azure", "seed"),
     ("anthropic", "top_p"), ("openai-responses", "temperature"), ("mistral", "temperature")],
)  # fmt: skip
def test_a_refused_parameter_is_left_out_and_said_once(server, protocol, name):
    server.refuses = {name}
    lm = judge_at(server, protocol, **{name: 1})

    with pytest.warns(UserWarning, match=f"tiny does not take {name}; it is left out from now on"):
        completed(lm)
    completed(lm)

    assert [name in each.body for each in server.received] == [True, False, False]


def test_the_newer_name_of_max_tokens_is_found_without_a_warning(server):
    server.refuses = {"max_tokens"}

    completed(judge_at(server, max_tokens=9))

    assert server.received[-1].body["max_completion_tokens"] == 9


def test_a_refused_system_message_goes_into_the_prompt(server):
    server.refuses = {"system"}

    with pytest.warns(UserWarning, match="does not take system; it goes into the prompt"):
        completed(judge_at(server, system="Be fair."), "Is it?")

    assert server.received[-1].body["messages"] == [{"role": "user", "content": "Be fair.\n\nIs it?"}]


def test_refused_probabilities_leave_a_judge_without_them(server):
    server.refuses = {"logprobs", "top_logprobs"}

    with pytest.warns(UserWarning, match="does not take logprobs"):
        assert completed(judge_at(server).with_logprobs()).logprobs is None


def test_a_value_out_of_range_is_an_error_and_no_missing_feature(scripted, server):
    server.then(scripted.status(400, "max_tokens is too large: 999999. This model has at most 4096."))

    with pytest.raises(JudgeUnavailableError, match="400 Bad Request: max_tokens is too large"):
        completed(judge_at(server, max_tokens=999_999))


def test_a_prompt_that_is_too_long_changes_nothing_for_later_calls(scripted, server):
    server.then(scripted.status(400, "This model's maximum context length is 4096 tokens."))
    lm = judge_at(server)

    with pytest.raises(JudgeUnavailableError, match="maximum context length"):
        asked(lm)
    asked(lm)

    assert next(scripted.used_shapes(server.received[-1].body)) == "json_schema"


# Replies that cannot be used


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_truncated_reply_says_so(server, protocol):
    server.finish = "length"

    with pytest.raises(JudgeReplyError, match="was cut off at max_tokens=8; allow more tokens"):
        completed(judge_at(server, protocol, max_tokens=8))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reply_of_no_use_costs_what_any_other_does(server, protocol):
    server.finish = "length"
    lm = judge_at(server, protocol, prices=Prices({"tiny": Rate(100, 1000)}))
    data = Dataset([Example.of("one"), Example.of("two")])

    result = evaluate(data, lambda example: "x", [Right(judge=lm)])

    assert result.error_count == 2
    spent = result.summary.judging.metrics
    assert (spent.tokens_in, spent.tokens_out) == (40, 16)
    assert spent.cost_usd == pytest.approx(2 * (20 * 100 + 8 * 1000) / 1e6)


def test_replies_of_no_use_use_up_a_budget(server):
    server.finish = "filter"
    data = Dataset([Example.of(str(number)) for number in range(10)])

    result = evaluate(
        data, lambda example: "x", [Right(judge=judge_at(server))], budget=Budget(max_tokens=100)
    )

    assert result.status == "budget_spent"
    assert len(server.received) == 3


def test_a_reply_without_an_answer_costs_what_it_says(scripted, server):
    usage = '{"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 5}}'
    server.then(scripted.raw(usage))

    with pytest.raises(JudgeReplyError, match="holds no answer") as caught:
        completed(judge_at(server))
    assert (caught.value.metrics.tokens_in, caught.value.metrics.tokens_out) == (50, 5)


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "anthropic"])
def test_a_refusal_says_so(server, protocol):
    server.finish = "refusal"

    with pytest.raises(JudgeReplyError, match="tiny: the model refused to answer"):
        completed(judge_at(server, protocol))


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses"])
def test_a_filtered_reply_says_so(server, protocol):
    server.finish = "filter"

    with pytest.raises(JudgeReplyError, match="stopped by the provider's content filter"):
        completed(judge_at(server, protocol))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "text", ['{"hello": 1}', "[]", "null", '{"choices": [], "output": 3, "content": {}}']
)
def test_a_reply_of_another_shape_is_shown(scripted, server, protocol, text):
    server.then(scripted.raw(text))

    with pytest.raises(JudgeReplyError, match="the server's reply holds no answer"):
        completed(judge_at(server, protocol))


def test_an_answer_of_the_wrong_schema_is_repaired_once(server):
    answers = iter(['{"verdict": "maybe"}', '{"verdict": "no", "reason": "It is not."}'])
    server.answer = lambda prompt: next(answers)

    assert asked(judge_at(server)) == Verdict("no", "It is not.")
    assert "could not be used" in server.prompts[1]


# Failures


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_a_passing_failure_is_tried_again(scripted, server, status):
    server.then(scripted.status(status), times=2)

    assert asked(judge_at(server)).verdict == "yes"
    assert len(server.received) == 3


@pytest.mark.parametrize("mishap", ["cut", "malformed"])
def test_a_broken_answer_is_tried_again(scripted, server, mishap):
    server.then(scripted.cut() if mishap == "cut" else scripted.raw('{"choices": [{'), times=2)

    assert asked(judge_at(server)).verdict == "yes"
    assert len(server.received) == 3


@pytest.mark.parametrize(
    ("status", "phrase"), [(401, "Unauthorized"), (403, "Forbidden"), (404, "Not Found")]
)
def test_what_will_not_pass_is_not_tried_again(scripted, server, status, phrase):
    server.then(scripted.status(status, "No such thing"))

    with pytest.raises(JudgeUnavailableError, match=f"^openai tiny: {status} {phrase}: No such thing$"):
        completed(judge_at(server))
    assert len(server.received) == 1


def test_it_gives_up_after_five_attempts(scripted, server):
    server.then(scripted.status(500, "Out of order"), times=9)

    with pytest.raises(
        JudgeUnavailableError, match=r"500 Internal Server Error: Out of order \(tried 5 times\)"
    ):
        completed(judge_at(server))
    assert len(server.received) == 5


def test_attempts_can_be_set(scripted, server):
    server.then(scripted.status(500))

    with pytest.raises(JudgeUnavailableError):
        completed(judge_at(server, attempts=1))
    assert len(server.received) == 1


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_waited_for(scripted, server, as_date):
    seconds = 2 if as_date else 0.4  # a date has whole seconds only
    server.then(scripted.too_many(seconds, as_date=as_date))
    start = time.perf_counter()

    completed(judge_at(server))

    assert time.perf_counter() - start >= (0.9 if as_date else 0.4)


def test_a_wait_beyond_patience_is_an_error_at_once(scripted, server):
    server.then(scripted.too_many(86_400))

    with pytest.raises(JudgeUnavailableError, match=r"429 Too Many Requests: .* \(it asks to wait \d+ s"):
        completed(judge_at(server))


def test_a_spent_quota_is_not_waited_for(scripted, server):
    server.then(scripted.status(429, "You exceeded your current quota", error_code="insufficient_quota"))

    with pytest.raises(JudgeUnavailableError, match="429 Too Many Requests: You exceeded your current quota"):
        completed(judge_at(server))
    assert len(server.received) == 1


def test_a_limit_that_is_used_up_is_waited_for_before_it_refuses(server):
    server.answer_headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "300ms"}
    lm = judge_at(server)

    async def twice():
        await lm.complete("one")
        await lm.complete("two")

    asyncio.run(twice())
    assert server.received[1].at - server.received[0].at >= 0.29


def test_a_slow_answer_times_out(scripted, server, monkeypatch):
    # Else a slow machine may have no connection yet when the time is over, which is another error.
    monkeypatch.setattr(session.Session, "_add_limits", allow_time_to_connect(session.Session._add_limits))
    server.then(scripted.slow(60), times=5)

    with pytest.raises(JudgeUnavailableError, match=r"no answer within 0.05 s \(tried 2 times\)"):
        completed(judge_at(server, timeout=0.05, attempts=2))


def allow_time_to_connect(add_limits):
    def add(self, seconds):
        _, deadlines = add_limits(self, seconds)
        self._limits[seconds] = aiohttp.ClientTimeout(total=None), deadlines
        return self._limits[seconds]

    return add


def test_a_server_that_is_not_there_says_so():
    with pytest.raises(
        JudgeUnavailableError, match=r"openai m: cannot connect to 127.0.0.1:9 \(.*\) \(tried 2 times\)"
    ):
        completed(judge("http://127.0.0.1:9/v1#m", attempts=2))


def test_an_error_with_status_200_is_an_error(scripted, server):
    server.then(scripted.raw('{"error": {"code": 503, "message": "upstream is busy"}}'))
    assert completed(judge_at(server)).text

    server.then(scripted.raw('{"error": {"code": "model_not_found", "message": "no such model"}}'))
    with pytest.raises(JudgeUnavailableError, match="400 Bad Request: no such model"):
        completed(judge_at(server))


# Load


def test_a_rate_limit_slows_down_and_fails_nothing(scripted):
    with scripted.ScriptedServer(rate_limit=scripted.RateLimit(100, bucket=True), latency=0.005) as server:
        lm = judge_at(server)

        async def many():
            return await asyncio.gather(*(lm.complete(str(i)) for i in range(300)))

        assert len(asyncio.run(many())) == 300
        assert server.refused < 200  # of 300 at once, each tried until it gets through


def test_concurrency_grows_to_its_ceiling_and_not_above(server):
    server.latency = 0.02
    lm = judge_at(server, max_concurrency=24)

    async def many():
        async with asyncio.timeout(60):
            # On a slow machine the first of a round are answered before the last are sent: another round is.
            while server.busiest < 24:
                await asyncio.gather(*(lm.complete(str(i)) for i in range(200)))
                server.latency *= 2

    asyncio.run(many())
    assert server.busiest == 24
    assert server.connections <= 24


def test_requests_per_minute_are_held_to(server):
    lm = judge_at(server, requests_per_minute=600)

    async def many():
        await asyncio.gather(*(lm.complete(str(i)) for i in range(15)))

    start = time.perf_counter()
    asyncio.run(many())
    assert time.perf_counter() - start >= 0.45  # ten at once, then ten a second


def test_one_endpoint_has_one_set_of_connections(server):
    judges = [judge_at(server), judge_at(server, temperature=1.0), judge_at(server, max_tokens=5)]

    async def in_turn():
        for lm in judges * 3:
            await lm.complete("hello")

    asyncio.run(in_turn())
    assert server.connections == 1


def test_a_cancelled_call_gives_its_place_back(scripted, server):
    server.then(scripted.slow(60))
    lm = judge_at(server, max_concurrency=1)

    async def cancelled():
        tasks = [asyncio.create_task(lm.complete(str(i))) for i in range(3)]
        while not server.received:
            await asyncio.sleep(0.002)  # between two looks
        tasks[0].cancel()
        tasks[1].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    outcomes = asyncio.run(asyncio.wait_for(cancelled(), 60))
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[2].text


# Connections


@pytest.mark.parametrize("runner", [asyncio.run, None])
def test_connections_are_closed_with_their_loop(server, runner):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if runner is None:
            Right(judge=judge_at(server)).evaluate(Example.of("1", "1").to_test_case({"output": "1"}))
        else:
            runner(judge_at(server).complete("hello"))
        gc.collect()
    assert client._endpoints == {}


def test_connections_of_a_loop_that_goes_on_can_be_closed(server):
    async def calls():
        lm = judge_at(server)
        await lm.complete("one")
        await client.close_sessions()
        await lm.complete("two")
        await lm.aclose()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(calls())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    gc.collect()
    assert len(server.received) == 2


def test_proxies_of_the_environment_are_used(scripted, server, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.setenv("no_proxy", "")

    completed(judge("http://model.invalid/v1#tiny"))

    assert server.received[0].headers["Host"] == "model.invalid"


# Secrets and switches


def test_a_key_appears_in_no_error_and_no_repr(scripted):
    with scripted.ScriptedServer(key="another-key") as server:
        lm = judge_at(server, headers={"X-Gateway": "gateway-secret-1"})

        with pytest.raises(JudgeUnavailableError, match="401 Unauthorized: Incorrect API key") as failure:
            completed(lm)

    assert KEY not in f"{failure.value!r} {failure.value} {lm!r} {lm} {lm.identity} {Right(judge=lm).info()}"
    assert "gateway-secret-1" not in f"{lm!r} {Right(judge=lm).info()}"
    assert server.received[0].headers["X-Gateway"] == "gateway-secret-1"


def echoes_what_it_is_sent(server):
    server.answer = json.dumps({"verdict": "yes", "reason": f"Your key is {KEY}."})


def cuts_off_what_it_is_sent(server):
    server.answer, server.finish = f"Your key is {KEY}", "length"


def answers_with_what_it_is_sent(server):
    server.then(sys.modules["scripted"].raw(json.dumps({"headers": {"Authorization": f"Bearer {KEY}"}})))


@pytest.mark.parametrize(
    "misbehave", [echoes_what_it_is_sent, cuts_off_what_it_is_sent, answers_with_what_it_is_sent]
)
@pytest.mark.parametrize("by", ["api_key", "header"])
def test_a_key_that_the_server_sends_back_is_written_nowhere(server, tmp_path, monkeypatch, misbehave, by):
    monkeypatch.chdir(tmp_path)
    misbehave(server)
    given = {"api_key": KEY} if by == "api_key" else {"headers": {"Authorization": f"Bearer {KEY}"}}
    lm = judge("openai-chat:tiny", base_url=f"{server.url}/v1", **given)
    plan = Experiment(
        Dataset([Example.of("Is it?")]), lambda example: "yes", [Right(judge=lm)], progress=False
    )
    result = plan.run(cassette="cassette.jsonl", cassette_mode="record", cache="cache.sqlite")
    for name in ("report.html", "report.json", "report.md", "report.csv", "report.xml"):
        export(result, name)

    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 8
    assert [path for path in written if KEY.encode() in path.read_bytes()] == []
    assert KEY not in to_json(result) + str(result)
    assert "[secret]" in to_json(result)


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY} "])
def test_white_space_around_a_key_is_no_part_of_it(scripted, monkeypatch, key):
    with scripted.ScriptedServer(key=KEY) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", key)

        assert completed(judge("openai:tiny")).text
        assert completed(judge("http://box/v1#tiny", base_url=f"{server.url}/v1", api_key=key)).text


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"headers": {"X-Team": "one\ntwo"}}, "Forbidden control character"),
        ({"headers": {"Authorization": f"Bearer {KEY}"}}, "holds a user and password"),
    ],
)
def test_what_cannot_be_sent_says_so_and_is_not_tried_again(server, settings, problem):
    url = server.url.replace("//", "//user:pw-7531@") + "/v1"
    with pytest.raises(
        JudgeUnavailableError, match=f"openai tiny: the request cannot be sent .*{problem}"
    ) as e:
        completed(judge("openai-chat:tiny", base_url=url, **settings))

    assert "7531" not in "".join(traceback.format_exception(e.value))
    assert server.received == []


def test_a_missing_key_is_named_at_the_first_call():
    lm = judge("openai:gpt-5-mini")

    with pytest.raises(ConfigurationError, match="openai gpt-5-mini needs a key: set OPENAI_API_KEY"):
        completed(lm)


def test_offline_calls_only_this_machine(server, monkeypatch):
    monkeypatch.setenv("DOKIMOS_OFFLINE", "1")

    assert completed(judge_at(server)).text
    with pytest.raises(JudgeUnavailableError, match="was not called because DOKIMOS_OFFLINE is set"):
        completed(judge("openai:gpt-5-mini", api_key=KEY))


# In experiments


def test_a_replay_needs_neither_server_nor_key(scripted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with scripted.ScriptedServer() as server:
        plan = Experiment(
            Dataset([Example.of(str(number)) for number in range(5)]),
            lambda example: "yes",
            [
                Right(
                    judge=judge(
                        "openai-chat:tiny", base_url=f"{server.url}/v1", api_key=KEY, max_concurrency=2
                    )
                )
            ],
            progress=False,
        )
        recorded = plan.run(cassette="c.jsonl", cassette_mode="record")
        first = (tmp_path / "c.jsonl").read_bytes()
        plan.run(cassette="c.jsonl", cassette_mode="record")
        assert (tmp_path / "c.jsonl").read_bytes() == first

    def refuse(*arguments, **keywords):
        raise AssertionError("a socket was opened")

    keyless = judge("openai-chat:tiny", base_url=f"{server.url}/v1")
    # The loop's own pair of sockets is not a connection.
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(asyncio.BaseEventLoop, "create_connection", refuse)
    monkeypatch.setattr("dokimos._http.client.post_json", refuse)
    replayed = replace(plan, evaluators=[Right(judge=keyless)]).run(
        cassette="c.jsonl", cassette_mode="replay"
    )

    assert recorded.average_score("Right") == replayed.average_score("Right") == 1.0
    assert replayed.error_count == 0


def test_an_experiment_is_judged_over_http(server):
    data = Dataset([Example.of(str(i), str(i)) for i in range(30)])
    prices = Prices({"tiny": Rate(1.0, 2.0, cached_in=0.5)})

    result = evaluate(
        data, lambda example: example.input, [Right(judge=judge_at(server, prices=prices), threshold=1)]
    )

    assert result.pass_rate == 1.0
    assert len(server.received) == 30


def test_a_judge_that_is_down_is_an_error_and_no_score(scripted, server):
    server.then(scripted.status(401, "No"), times=2)
    data = Dataset([Example.of("a", "a")])

    result = evaluate(data, lambda example: example.input, [Right(judge=judge_at(server)), ExactMatch()])

    right, exact = result.runs[0].item_results[0].eval_results
    assert right.score is None
    assert right.error == "EndpointDownError: openai tiny: 401 Unauthorized: No"
    assert exact.score == 1.0


def test_a_model_is_a_task(server):
    server.answer = lambda prompt: f"You said {prompt}"
    task = model_task(
        f"{server.url}/v1#tiny", system="Be brief.", output_key="text", prices=Prices({"tiny": Rate(1, 2)})
    )

    result = evaluate(Dataset([Example.of("hi", "hi")]), task, [ExactMatch()])

    item = result.runs[0].item_results[0]
    assert item.actual_outputs == {"text": "You said hi"}
    assert (item.metrics.tokens_in, item.metrics.tokens_out) == (20, 8)
    assert item.metrics.cost_usd == pytest.approx(36e-6)
    assert item.metrics.latency_ms > 0
    assert "temperature" not in server.received[0].body
    assert server.received[0].body["messages"][0] == {"role": "system", "content": "Be brief."}


def test_an_answer_that_is_cut_off_is_an_output_of_the_task(server):
    server.answer = "The answer is"
    server.finish = "length"

    outcome = asyncio.run(model_task(judge_at(server), max_tokens=3)(Example.of("hi")))

    assert outcome.outputs == {"output": "The answer is"}
