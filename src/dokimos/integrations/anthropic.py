"""The Anthropic SDK (`anthropic`): Messages, a bare model or one with tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, Unpack

from dokimos.core.agent import AgentTrace, ToolDefinition
from dokimos.core.metrics import CallMetrics, PriceTable
from dokimos.integrations.base import (
    AgentApplication,
    AgentJudge,
    AgentTask,
    ResultOptions,
    TaskOptions,
)
from dokimos.integrations.reading import get, plain, priced, tool_definitions, usage_of
from dokimos.integrations.tool_loop import (
    Outcome,
    Provider,
    Requested,
    ToolLoop,
    bridge_of,
    listed,
    usage_of_all,
)
from dokimos.judges.protocol import JsonSchemaDict
from dokimos.messages.conversations import trace_of_messages
from dokimos.runtime.calling import called
from dokimos.runtime.concurrency import run_sync

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

AgentLike: TypeAlias = Any
"""A `ToolLoop`, a client (together with `model`), or a function that returns a response or a list of them."""

MAX_TOKENS: Final = 4096
"""What an answer may take, unless the settings of a loop say otherwise: the API insists on a limit."""


def to_agent_trace(result: Any) -> AgentTrace:
    """Return what was done: from a `Message`, or a list of these and of the messages sent back.

    Results are found by the id of their call. Raises `ValueError` for what is no message.
    """
    return trace_of_messages((_of_somebody(plain(message)) for message in listed(result)), keep_ids=True)


def to_tool_definitions(tools: Iterable[Any] | ToolLoop) -> tuple[ToolDefinition, ...]:
    """Return tools, as they are given to the API or as functions, as definitions."""
    return tools.definitions if isinstance(tools, ToolLoop) else tool_definitions(tools)


def to_call_metrics(
    result: Any, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return the tokens of all responses in a result, and their cost; None where nothing was measured."""
    return priced(usage_of_all(_ANTHROPIC, result), model, price_table)


def run_and_trace(agent: AgentLike, inputs: Any, *, model: str | None = None) -> AgentTrace:
    """Run a loop, a model or a function on text or a list of messages."""
    return run_sync(run_and_trace_async(agent, inputs, model=model))


async def run_and_trace_async(agent: AgentLike, inputs: Any, *, model: str | None = None) -> AgentTrace:
    """Do what `run_and_trace` does, on the event loop that is running."""
    return (await bridge_of(_ANTHROPIC, agent, model).run(inputs)).trace


def as_task(agent: AgentLike, **options: Unpack[TaskOptions]) -> AgentTask:
    """Return a task that runs a loop, a client's `model`, or a function of the input."""
    return AgentTask(bridge_of(_ANTHROPIC, agent, options.get("model")), **options)


def as_application(agent: AgentLike, **options: Unpack[ResultOptions]) -> AgentApplication:
    """Return a loop, a client's `model`, or a function of the messages as an application."""
    return AgentApplication(AgentTask(bridge_of(_ANTHROPIC, agent, options.get("model")), **options))


def as_judge(
    agent: AgentLike, *, model: str | None = None, price_table: PriceTable | None = None
) -> AgentJudge:
    """Return a client's `model`, a loop or a function of the prompt as a judge.

    A client is asked for JSON of the judge's schema, and for plain text where the model refuses that.
    """
    return AgentJudge(bridge_of(_ANTHROPIC, agent, model), model, price_table)


def _usage_of(response: Any) -> CallMetrics | None:
    """Return the usage of a response; what was read from the cache or written to it was read too."""
    usage = get(response, "usage")
    if usage is None:
        return None
    cached = get(usage, "cache_read_input_tokens", default=0)
    parts = (
        get(usage, "input_tokens", default=0),
        cached,
        get(usage, "cache_creation_input_tokens", default=0),
    )
    return usage_of(sum(parts), get(usage, "output_tokens"), cached=cached, model=get(response, "model"))


class _Messages:
    async def ask(self, loop: ToolLoop, messages: Sequence[Any]) -> Any:
        more: dict[str, Any] = {"max_tokens": MAX_TOKENS}
        if loop.tools:
            more["tools"] = [tool.to_anthropic() for tool in loop.definitions]
        if loop.system:
            more["system"] = loop.system
        create = loop.client.messages.create
        return await called(create, model=loop.model, messages=list(messages), **{**more, **loop.settings})

    def requested(self, response: Any) -> list[Requested]:
        blocks = [block for block in response.content if block.type == "tool_use"]
        return [Requested(block.id, block.name, block.input) for block in blocks]

    def said(self, response: Any) -> list[Any]:
        return [{"role": "assistant", "content": [_sent(block) for block in response.content]}]

    def answered(self, outcomes: Sequence[Outcome]) -> list[Any]:
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

    def told(self, outcomes: Sequence[Outcome]) -> list[Any]:
        return self.answered(outcomes)

    def held_to(self, schema: JsonSchemaDict) -> dict[str, Any]:
        return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def _of_somebody(message: Any) -> Any:
    """Return a message with its role; what only has content is the assistant's."""
    return {"role": "assistant", **message} if isinstance(message, Mapping) else message


def _sent(block: Any) -> Mapping[str, Any]:
    tree: dict[str, Any] = block.model_dump(exclude_none=True)
    return tree


_MESSAGES: Final = _Messages()

_ANTHROPIC: Final = Provider(
    framework="anthropic",
    is_client=lambda agent: hasattr(agent, "messages"),
    loop=ToolLoop,
    api=lambda loop: _MESSAGES,
    form=lambda loop: "anthropic",
    to_agent_trace=to_agent_trace,
    usage=_usage_of,
)
