"""A model whose replies go through the call stores of the run: cassettes, and what was paid for before.

Imported only where an agent runs, since it loads Pydantic AI.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ConfigDict, TypeAdapter
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from dokimos._core.metrics import CallMetrics
from dokimos._core.text import error_text
from dokimos._core.tool_definition import ToolDefinition
from dokimos._http.backoff import retry_after
from dokimos._http.breaker import FailureKind, current_breakers
from dokimos._http.credentials import Secret, redact, redact_url
from dokimos._http.offline import refuse_when_offline
from dokimos._http.retries import ATTEMPTS, Retries
from dokimos.errors import AgentError, DokimosError, JudgeReplyError
from dokimos.integrations._token_usage import make_usage
from dokimos.integrations.pydantic_ai import describe_tool
from dokimos.judges._judge_calls import complete, reject
from dokimos.judges._protocol import JsonSchemaDict, JudgeReply
from dokimos.suites._agent.canonical_request import canonical_request
from dokimos.suites._agent.endpoint_failures import classify_failure, describe_connection_error, find_status
from dokimos.suites._agent.models import Endpoint

_REPLIES: Final = TypeAdapter(
    list[ModelResponse], config=ConfigDict(defer_build=True, ser_json_bytes="base64", val_json_bytes="base64")
)
"""Replies alone, without requests: half of what there is to build for all messages."""
_STORED_FIELDS: Final = (
    "canonical_system",
    "finish_reason",
    "kind",
    "model_name",
    "parts",
    "provider_name",
    "usage",
)
"""Fields of a reply that are stored; the others change from one recording to the next."""


@dataclass(slots=True)
class Meter:
    """Adds up what the model calls for one reply of the agent cost."""

    total: CallMetrics | None = None
    calls: list[tuple[_Call, str, int]] = field(default_factory=list)
    """Calls with their canonical requests and samples."""
    offered: dict[str, ToolDefinition] = field(default_factory=dict)
    """The tools that the model could call, by name; those of servers are known in no other place."""

    def add(self, metrics: CallMetrics) -> None:
        self.total = metrics if self.total is None else self.total + metrics

    async def reject(self, why: str) -> None:
        """Note that what came of these calls was of no use: a run that repeats its errors asks again."""
        for call, prompt, sample in self.calls:
            await reject(call, prompt, JudgeReplyError(why), sample=sample)


class RecordedModel(WrapperModel):
    """A model for one case: what the call stores know is not asked again, and every call is counted."""

    def __init__(self, wrapped: Model, endpoint: Endpoint, meter: Meter, *, sample: int = 0) -> None:
        super().__init__(wrapped)
        self.endpoint = endpoint
        self.meter = meter
        self.sample = sample

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        call = _Call(self.wrapped, self.endpoint, messages, model_settings, model_request_parameters)
        prompt = canonical_request(messages, model_settings, model_request_parameters)
        for tool in model_request_parameters.function_tools:
            self.meter.offered.setdefault(tool.name, describe_tool(tool))
        reply = await complete(call, prompt, sample=self.sample)
        self.meter.calls.append((call, prompt, self.sample))
        # Even a new reply is read back from its stored form, so a run and its replay see the same.
        response = _read(reply.text)
        self.meter.add(metrics_of(response))
        return response


@dataclass(frozen=True, slots=True)
class _Call:
    """One request in the form of a judge, so that it takes the one way to a model."""

    model: Model
    endpoint: Endpoint
    messages: list[ModelMessage]
    settings: ModelSettings | None
    parameters: ModelRequestParameters

    @property
    def identity(self) -> str:
        return self.endpoint.identity

    async def complete(self, prompt: str, *, schema: JsonSchemaDict | None = None) -> JudgeReply:
        if self.endpoint.missing_key is not None:
            raise AgentError(f"{self.endpoint.name} needs a key: set {self.endpoint.missing_key}.")
        refuse_when_offline(self.endpoint.url, self.endpoint.name, AgentError)
        response = await self._response()
        return JudgeReply(_serialize_response(response), metrics_of(response))

    async def _response(self) -> ModelResponse:
        """Ask the model, again where its endpoint does not answer, as a judge's is."""
        endpoint = self.endpoint
        label = f"{endpoint.name} at {redact_url(endpoint.url)}"
        breaker = current_breakers().of((endpoint.url, endpoint.name, endpoint.key), label)
        retries = Retries(breaker, attempts=ATTEMPTS, error=AgentError)
        while True:
            await breaker.admit()
            retries.begin()
            try:
                response = await self.model.request(self.messages, self.settings, self.parameters)
            except DokimosError:
                raise
            except Exception as error:  # whatever a provider's client raises
                await breaker.sleep(self._pause(error, retries))
            else:
                breaker.record_success()
                return response

    def _pause(self, error: Exception, retries: Retries) -> float:
        """Return the seconds until the next attempt. Raises what is wrong where there is none."""
        kind = classify_failure(error)
        text = _describe_error(error, self.endpoint.key)
        if kind is FailureKind.UNREACHABLE:
            text = redact(describe_connection_error(error))
        if kind is FailureKind.DENIED:
            raise retries.access_denied(text) from None
        if kind is None:
            # The endpoint did answer, so it is up: 400 is a fault of the request.
            if find_status(error) is not None:
                retries.breaker.record_contact()
            raise AgentError(f"{retries.breaker.label}: {text}") from None
        headers = getattr(error, "headers", None) or {}
        return retries.next_delay(kind, text, retry_after({name.lower(): headers[name] for name in headers}))


def metrics_of(response: ModelResponse) -> CallMetrics:
    """Return the tokens of a reply, and its cost where the price of the model is known."""
    usage = response.usage
    if usage.unmeasured_requests or not usage.has_values():
        return CallMetrics(model=response.model_name)
    return make_usage(
        usage.input_tokens,
        usage.output_tokens,
        cached=usage.cache_read_tokens,
        reasoning=usage.output_reasoning_tokens,
        cost_usd=_cost(response),
        model=response.model_name,
    )


def _cost(response: ModelResponse) -> float | None:
    try:
        return float(response.cost().total_price)
    # genai-prices raises these for models whose price it does not know.
    except (AssertionError, LookupError, ValueError):
        return None


def _serialize_response(response: ModelResponse) -> str:
    (tree,) = _REPLIES.dump_python([response], mode="json")
    fields = {key: tree[key] for key in _STORED_FIELDS if tree.get(key) is not None}
    fields["parts"] = [_drop_none(part) for part in fields["parts"]]
    fields["usage"] = {key: count for key, count in fields["usage"].items() if count}
    return json.dumps(fields, ensure_ascii=False)


def _drop_none(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a part says; the rest of it is None anyway."""
    return {key: value for key, value in part.items() if value is not None}


def _read(text: str) -> ModelResponse:
    (response,) = _REPLIES.validate_json(f"[{text}]")
    return response


def _describe_error(error: Exception, key: str | None) -> str:
    """Return what went wrong, without the key: some servers repeat it."""
    return redact(error_text(error), [Secret(key)] if key else ())
