"""The OpenAI SDK (`openai`): Chat Completions and Responses, a bare model or one with tools.

An agent is a `ToolLoop`, a client (together with `model`), or a function that returns a response or a list of
responses and messages. An input is text or a list of messages; `run_options` are settings of each request,
such as the temperature, or arguments of the function. A judge's client is asked for JSON of the judge's
schema, and for plain text where the model refuses that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import MessageFormat
from dokimos._core.metrics import CallMetrics
from dokimos._messages.conversations import parse_trace
from dokimos._runtime.user_calls import call_user_function
from dokimos.integrations._framework_objects import FrameworkObject, get, to_plain
from dokimos.integrations._token_usage import make_usage
from dokimos.integrations._tool_loop import CallOutcome, CallRequest, ModelApi, ModelSDK, list_responses
from dokimos.integrations._tool_loop import ToolLoop as BaseLoop
from dokimos.judges._protocol import JsonSchemaDict
from dokimos.judges._provider_schemas import ANSWER

__all__ = [
    "ToolLoop",
    "as_application",
    "as_judge",
    "as_task",
    "run_and_trace",
    "run_and_trace_async",
    "to_agent_trace",
    "to_call_metrics",
    "to_tool_definitions",
]


@dataclass(frozen=True, kw_only=True)
class ToolLoop(BaseLoop):
    """A client and a model, with tools that are Python functions."""

    api: Literal["chat", "responses"] = "chat"


class OpenAI(ModelSDK):
    """The OpenAI SDK."""

    name = "openai"
    client_attribute = "chat"
    loop_type: ClassVar[type[BaseLoop]] = ToolLoop

    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what a run did: from a `ChatCompletion`, a `Response`, or a list of these and of messages.

        A list is what your own loop collects, in order: responses or their messages and items, and the
        results of tools as they were sent back. Results are matched to calls by id. Raises `ValueError` for
        anything that is not a message or an item.
        """
        return parse_trace((to_plain(item) for item in _iterate_items(result)), keep_ids=True)

    def parse_response_usage(self, response: object) -> CallMetrics | None:
        usage = get(response, "usage")
        if usage is None:
            return None
        tokens_in = get(usage, "prompt_tokens_details", "input_tokens_details")
        tokens_out = get(usage, "completion_tokens_details", "output_tokens_details")
        return make_usage(
            get(usage, "prompt_tokens", "input_tokens"),
            get(usage, "completion_tokens", "output_tokens"),
            cached=get(tokens_in, "cached_tokens"),
            reasoning=get(tokens_out, "reasoning_tokens"),
            model=get(response, "model"),
        )

    def select_api(self, loop: BaseLoop) -> ModelApi:
        return _RESPONSES if _uses_responses(loop) else _CHAT

    def message_format(self, loop: BaseLoop | None) -> MessageFormat:
        return "openai-responses" if _uses_responses(loop) else "openai"


_FRAMEWORK: Final = OpenAI()
to_agent_trace: Final = _FRAMEWORK.to_agent_trace
to_tool_definitions: Final = _FRAMEWORK.to_tool_definitions
to_call_metrics: Final = _FRAMEWORK.to_call_metrics
run_and_trace: Final = _FRAMEWORK.run_and_trace
run_and_trace_async: Final = _FRAMEWORK.run_and_trace_async
as_task: Final = _FRAMEWORK.as_task
as_application: Final = _FRAMEWORK.as_application
as_judge: Final = _FRAMEWORK.as_judge


def _iterate_items(result: object) -> Iterator[Any]:
    """Yield the messages and items in a result, in order."""
    for each in list_responses(result):
        choices, output = get(each, "choices"), get(each, "output")
        if choices:
            yield get(choices[0], "message")
        # The result of a tool has an `output`, too, and a type; a response has no type.
        elif isinstance(output, list) and get(each, "type") is None:
            yield from output
        else:
            yield each


class _ChatApi:
    async def send(self, loop: BaseLoop, messages: Sequence[Any]) -> Any:
        tools = {"tools": [tool.to_openai() for tool in loop.definitions]} if loop.tools else {}
        sent = [*_system(loop), *messages]
        return await call_user_function(
            loop.client.chat.completions.create, model=loop.model, messages=sent, **tools, **loop.settings
        )

    def parse_requests(self, response: FrameworkObject) -> list[CallRequest]:
        calls = get(response.choices[0].message, "tool_calls", default=())
        functions = [(call.id, get(call, "function", "custom")) for call in calls]
        return [
            CallRequest(call_id, get(function, "name"), get(function, "arguments", "input"))
            for call_id, function in functions
        ]

    def to_messages(self, response: FrameworkObject) -> list[Any]:
        # Without what is None: the API does not take all fields back that it gives.
        return [response.choices[0].message.model_dump(exclude_none=True)]

    def render_outcomes(self, outcomes: Sequence[CallOutcome]) -> list[Any]:
        return [{"role": "tool", "tool_call_id": each.request.id, "content": each.text} for each in outcomes]

    def record_outcomes(self, outcomes: Sequence[CallOutcome]) -> list[Any]:
        return _mark_failures(self.render_outcomes(outcomes), outcomes)

    def schema_settings(self, schema: JsonSchemaDict) -> dict[str, Any]:
        json_schema = {"name": ANSWER, "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


class _ResponsesApi:
    async def send(self, loop: BaseLoop, messages: Sequence[Any]) -> Any:
        tools = {"tools": [tool.to_openai("responses") for tool in loop.definitions]} if loop.tools else {}
        sent = [*_system(loop), *messages]
        return await call_user_function(
            loop.client.responses.create, model=loop.model, input=sent, **tools, **loop.settings
        )

    def parse_requests(self, response: FrameworkObject) -> list[CallRequest]:
        calls = [item for item in response.output if item.type == "function_call"]
        return [CallRequest(call.call_id, call.name, call.arguments) for call in calls]

    def to_messages(self, response: FrameworkObject) -> list[Any]:
        return [item.model_dump(exclude_none=True) for item in response.output]

    def render_outcomes(self, outcomes: Sequence[CallOutcome]) -> list[Any]:
        return [
            {"type": "function_call_output", "call_id": each.request.id, "output": each.text}
            for each in outcomes
        ]

    def record_outcomes(self, outcomes: Sequence[CallOutcome]) -> list[Any]:
        return _mark_failures(self.render_outcomes(outcomes), outcomes)

    def schema_settings(self, schema: JsonSchemaDict) -> dict[str, Any]:
        return {"text": {"format": {"type": "json_schema", "name": ANSWER, "schema": schema, "strict": True}}}


def _system(loop: BaseLoop) -> list[dict[str, Any]]:
    return [{"role": "system", "content": loop.system}] if loop.system else []


def _mark_failures(messages: Sequence[Any], outcomes: Sequence[CallOutcome]) -> list[Any]:
    """Mark the results of failed calls, for which the API has no field."""
    pairs = zip(messages, outcomes, strict=True)
    return [{**message, "status": "error"} if outcome.failed else message for message, outcome in pairs]


_CHAT: Final[ModelApi] = _ChatApi()
_RESPONSES: Final[ModelApi] = _ResponsesApi()


def _uses_responses(loop: BaseLoop | None) -> bool:
    return isinstance(loop, ToolLoop) and loop.api == "responses"
