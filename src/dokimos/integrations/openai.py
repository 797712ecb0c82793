"""The OpenAI SDK (`openai`): Chat Completions and Responses, a bare model or one with tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, Unpack

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
    Api,
    Outcome,
    Provider,
    Requested,
    bridge_of,
    listed,
    usage_of_all,
)
from dokimos.integrations.tool_loop import ToolLoop as BaseLoop
from dokimos.judges.protocol import JsonSchemaDict
from dokimos.judges.provider_schemas import ANSWER
from dokimos.messages.conversations import trace_of_messages
from dokimos.runtime.calling import called
from dokimos.runtime.concurrency import run_sync

AgentLike: TypeAlias = Any
"""A `ToolLoop`, a client (together with `model`), or a function that returns a response or a list of them."""


@dataclass(frozen=True, kw_only=True)
class ToolLoop(BaseLoop):
    """A client and a model, with tools that are Python functions."""

    api: Literal["chat", "responses"] = "chat"


def to_agent_trace(result: Any) -> AgentTrace:
    """Return what was done: from a `ChatCompletion`, a `Response`, or a list of these and of messages.

    A list is what your own loop collects, in order: responses or their messages and items, and the results of
    tools as they were sent back. Results are found by the id of their call. Raises `ValueError` for what is
    no message or item.
    """
    return trace_of_messages((plain(item) for item in _items(result)), keep_ids=True)


def to_tool_definitions(tools: Iterable[Any] | BaseLoop) -> tuple[ToolDefinition, ...]:
    """Return tools, as they are given to the API or as functions, as definitions."""
    return tools.definitions if isinstance(tools, BaseLoop) else tool_definitions(tools)


def to_call_metrics(
    result: Any, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return the tokens of all responses in a result, and their cost; None where nothing was measured."""
    return priced(usage_of_all(_OPENAI, result), model, price_table)


def run_and_trace(agent: AgentLike, inputs: Any, *, model: str | None = None) -> AgentTrace:
    """Run a loop, a model or a function on text or a list of messages."""
    return run_sync(run_and_trace_async(agent, inputs, model=model))


async def run_and_trace_async(agent: AgentLike, inputs: Any, *, model: str | None = None) -> AgentTrace:
    """Do what `run_and_trace` does, on the event loop that is running."""
    return (await bridge_of(_OPENAI, agent, model).run(inputs)).trace


def as_task(agent: AgentLike, **options: Unpack[TaskOptions]) -> AgentTask:
    """Return a task that runs a loop, a client's `model`, or a function of the input."""
    return AgentTask(bridge_of(_OPENAI, agent, options.get("model")), **options)


def as_application(agent: AgentLike, **options: Unpack[ResultOptions]) -> AgentApplication:
    """Return a loop, a client's `model`, or a function of the messages as an application."""
    return AgentApplication(AgentTask(bridge_of(_OPENAI, agent, options.get("model")), **options))


def as_judge(
    agent: AgentLike, *, model: str | None = None, price_table: PriceTable | None = None
) -> AgentJudge:
    """Return a client's `model`, a loop or a function of the prompt as a judge.

    A client is asked for JSON of the judge's schema, and for plain text where the model refuses that.
    """
    return AgentJudge(bridge_of(_OPENAI, agent, model), model, price_table)


def _items(result: Any) -> Iterator[Any]:
    """Yield the messages and items in a result, in order."""
    for each in listed(result):
        choices, output = get(each, "choices"), get(each, "output")
        if choices:
            yield get(choices[0], "message")
        elif isinstance(output, list) and get(each, "type") is None:
            yield from output
        else:
            yield each


def _usage_of(response: Any) -> CallMetrics | None:
    usage = get(response, "usage")
    if usage is None:
        return None
    tokens_in = get(usage, "prompt_tokens_details", "input_tokens_details")
    tokens_out = get(usage, "completion_tokens_details", "output_tokens_details")
    return usage_of(
        get(usage, "prompt_tokens", "input_tokens"),
        get(usage, "completion_tokens", "output_tokens"),
        cached=get(tokens_in, "cached_tokens"),
        reasoning=get(tokens_out, "reasoning_tokens"),
        model=get(response, "model"),
    )


class _Chat:
    async def ask(self, loop: BaseLoop, messages: Sequence[Any]) -> Any:
        tools = {"tools": [tool.to_openai() for tool in loop.definitions]} if loop.tools else {}
        sent = [*_system(loop), *messages]
        return await called(
            loop.client.chat.completions.create, model=loop.model, messages=sent, **tools, **loop.settings
        )

    def requested(self, response: Any) -> list[Requested]:
        calls = get(response.choices[0].message, "tool_calls", default=())
        functions = [(call.id, get(call, "function", "custom")) for call in calls]
        return [Requested(i, get(f, "name"), get(f, "arguments", "input")) for i, f in functions]

    def said(self, response: Any) -> list[Any]:
        return [response.choices[0].message.model_dump(exclude_none=True)]

    def answered(self, outcomes: Sequence[Outcome]) -> list[Any]:
        return [{"role": "tool", "tool_call_id": each.request.id, "content": each.text} for each in outcomes]

    def told(self, outcomes: Sequence[Outcome]) -> list[Any]:
        return _marked(self.answered(outcomes), outcomes)

    def held_to(self, schema: JsonSchemaDict) -> dict[str, Any]:
        named = {"name": ANSWER, "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": named}}


class _Responses:
    async def ask(self, loop: BaseLoop, messages: Sequence[Any]) -> Any:
        tools = {"tools": [tool.to_openai("responses") for tool in loop.definitions]} if loop.tools else {}
        sent = [*_system(loop), *messages]
        return await called(
            loop.client.responses.create, model=loop.model, input=sent, **tools, **loop.settings
        )

    def requested(self, response: Any) -> list[Requested]:
        calls = [item for item in response.output if item.type == "function_call"]
        return [Requested(call.call_id, call.name, call.arguments) for call in calls]

    def said(self, response: Any) -> list[Any]:
        return [item.model_dump(exclude_none=True) for item in response.output]

    def answered(self, outcomes: Sequence[Outcome]) -> list[Any]:
        return [
            {"type": "function_call_output", "call_id": each.request.id, "output": each.text}
            for each in outcomes
        ]

    def told(self, outcomes: Sequence[Outcome]) -> list[Any]:
        return _marked(self.answered(outcomes), outcomes)

    def held_to(self, schema: JsonSchemaDict) -> dict[str, Any]:
        return {"text": {"format": {"type": "json_schema", "name": ANSWER, "schema": schema, "strict": True}}}


def _system(loop: BaseLoop) -> list[dict[str, Any]]:
    return [{"role": "system", "content": loop.system}] if loop.system else []


def _marked(messages: Sequence[Any], outcomes: Sequence[Outcome]) -> list[Any]:
    """Mark what failed, which the API has no field for."""
    pairs = zip(messages, outcomes, strict=True)
    return [{**message, "status": "error"} if outcome.failed else message for message, outcome in pairs]


_APIS: Final[dict[str, Api]] = {"chat": _Chat(), "responses": _Responses()}


def _api(loop: BaseLoop) -> Literal["chat", "responses"]:
    return loop.api if isinstance(loop, ToolLoop) else "chat"


_OPENAI: Final = Provider(
    framework="openai",
    is_client=lambda agent: hasattr(agent, "chat"),
    loop=ToolLoop,
    api=lambda loop: _APIS[_api(loop)],
    form=lambda loop: "openai-responses" if loop is not None and _api(loop) == "responses" else "openai",
    to_agent_trace=to_agent_trace,
    usage=_usage_of,
)
