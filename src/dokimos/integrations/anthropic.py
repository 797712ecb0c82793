"""The Anthropic SDK (`anthropic`): Messages, a bare model or one with tools.

An agent is a `ToolLoop`, a client (together with `model`), or a function that returns a response or a list of
responses and messages. An input is text or a list of messages; `run_options` are settings of each request,
such as the temperature, or arguments of the function. A judge's client is asked for JSON of the judge's
schema, and for plain text where the model refuses that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import MessageFormat
from dokimos._core.metrics import CallMetrics
from dokimos._messages.conversations import parse_trace
from dokimos._runtime.user_calls import call_user_function
from dokimos.integrations._framework_objects import FrameworkObject, get, to_plain
from dokimos.integrations._token_usage import make_usage
from dokimos.integrations._tool_loop import (
    CallOutcome,
    CallRequest,
    ModelApi,
    ModelSDK,
    ToolLoop,
    list_responses,
)
from dokimos.judges._protocol import JsonSchemaDict

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

MAX_TOKENS: Final = 4096
"""The limit of an answer, unless the settings of a loop have another: the API insists on a limit."""


class Anthropic(ModelSDK):
    """The Anthropic SDK."""

    name = "anthropic"
    client_attribute = "messages"

    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what a run did: from a `Message`, or a list of these and of the messages sent back.

        Results are matched to calls by id. Raises `ValueError` for anything that is not a message.
        """
        messages = (_with_role(to_plain(message)) for message in list_responses(result))
        return parse_trace(messages, keep_ids=True)

    def parse_response_usage(self, response: object) -> CallMetrics | None:
        """Return the usage of a response; tokens read from the cache or written to it were read too."""
        usage = get(response, "usage")
        if usage is None:
            return None
        cached = get(usage, "cache_read_input_tokens", default=0)
        parts = (
            get(usage, "input_tokens", default=0),
            cached,
            get(usage, "cache_creation_input_tokens", default=0),
        )
        return make_usage(
            sum(parts), get(usage, "output_tokens"), cached=cached, model=get(response, "model")
        )

    def select_api(self, loop: ToolLoop) -> ModelApi:
        return _MESSAGES

    def message_format(self, loop: ToolLoop | None) -> MessageFormat:
        return "anthropic"


_FRAMEWORK: Final = Anthropic()
to_agent_trace: Final = _FRAMEWORK.to_agent_trace
to_tool_definitions: Final = _FRAMEWORK.to_tool_definitions
to_call_metrics: Final = _FRAMEWORK.to_call_metrics
run_and_trace: Final = _FRAMEWORK.run_and_trace
run_and_trace_async: Final = _FRAMEWORK.run_and_trace_async
as_task: Final = _FRAMEWORK.as_task
as_application: Final = _FRAMEWORK.as_application
as_judge: Final = _FRAMEWORK.as_judge


class _MessagesApi:
    async def send(self, loop: ToolLoop, messages: Sequence[Any]) -> Any:
        more: dict[str, Any] = {"max_tokens": MAX_TOKENS}
        if loop.tools:
            more["tools"] = [tool.to_anthropic() for tool in loop.definitions]
        if loop.system:
            more["system"] = loop.system
        create = loop.client.messages.create
        return await call_user_function(
            create, model=loop.model, messages=list(messages), **{**more, **loop.settings}
        )

    def parse_requests(self, response: FrameworkObject) -> list[CallRequest]:
        blocks = [block for block in response.content if block.type == "tool_use"]
        return [CallRequest(block.id, block.name, block.input) for block in blocks]

    def to_messages(self, response: FrameworkObject) -> list[Any]:
        content = [block.model_dump(exclude_none=True) for block in response.content]
        return [{"role": "assistant", "content": content}]

    def render_outcomes(self, outcomes: Sequence[CallOutcome]) -> list[Any]:
        results = [
            {
                "type": "tool_result",
                "tool_use_id": each.request.id,
                "content": each.text,
                "is_error": each.failed,
            }
            for each in outcomes
        ]
        return [{"role": "user", "content": results}]

    def record_outcomes(self, outcomes: Sequence[CallOutcome]) -> list[Any]:
        return self.render_outcomes(outcomes)

    def schema_settings(self, schema: JsonSchemaDict) -> dict[str, Any]:
        return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def _with_role(message: object) -> Any:
    """Return a message with its role; one that only has content is the assistant's."""
    return {"role": "assistant", **message} if isinstance(message, Mapping) else message


_MESSAGES: Final[ModelApi] = _MessagesApi()
