"""A bare model with tools as an agent: ask it, run what it calls, ask it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from dokimos.core.agent import AgentTrace, ToolCall, ToolDefinition
from dokimos.core.conversation import ConversationTrajectory, MessageFormat, Role
from dokimos.core.jsonable import text_form
from dokimos.core.metrics import CallMetrics
from dokimos.core.text import error_text
from dokimos.errors import IntegrationError
from dokimos.integrations.base import AgentRun, Bridge, identity, keep_so_far
from dokimos.integrations.reading import result_text, summed
from dokimos.judges.protocol import JsonSchemaDict
from dokimos.judges.provider_schemas import without_bounds
from dokimos.runtime.calling import called


class Requested(NamedTuple):
    """A call that a model asks for."""

    id: str
    name: str
    arguments: Any


class Outcome(NamedTuple):
    """What came of a call."""

    request: Requested
    text: str
    failed: bool


class Api(Protocol):
    """How a provider's client is asked, and how calls and their results are told."""

    async def ask(self, loop: ToolLoop, messages: Sequence[Any]) -> Any:
        """Return the response to messages."""
        ...

    def requested(self, response: Any) -> list[Requested]:
        """Return the calls that a response asks for."""
        ...

    def said(self, response: Any) -> list[Any]:
        """Return a response as messages to send back."""
        ...

    def answered(self, outcomes: Sequence[Outcome]) -> list[Any]:
        """Return what came of calls as messages to send."""
        ...

    def told(self, outcomes: Sequence[Outcome]) -> list[Any]:
        """Return the same messages for the record, with what failed marked."""
        ...

    def held_to(self, schema: JsonSchemaDict) -> dict[str, Any]:
        """Return what a request needs for an answer in JSON of a schema."""
        ...


@dataclass(frozen=True, kw_only=True)
class ToolLoop:
    """A client and a model with tools that are Python functions."""

    client: Any
    """The provider's client, sync or async."""
    model: str
    tools: tuple[Callable[..., Any], ...] = ()
    """Functions, sync or async; described to the model by their signatures and docstrings."""
    system: str = ""
    max_rounds: int = 10
    """How often the model is asked at most for one input."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What else goes into each request, such as the temperature."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(self.tools))

    @cached_property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        return tuple(ToolDefinition.from_function(function) for function in self.tools)

    @cached_property
    def functions(self) -> dict[str, Callable[..., Any]]:
        return {tool.name: function for tool, function in zip(self.definitions, self.tools, strict=True)}

    def identity(self, framework: str) -> str:
        return identity(framework, self.model, ",".join(self.functions), self.system)


@dataclass(frozen=True, kw_only=True)
class Provider:
    """What tells the SDKs of providers apart."""

    framework: str
    is_client: Callable[[Any], bool]
    loop: Callable[..., ToolLoop]
    """Makes a loop of a `client` and a `model`."""
    api: Callable[[ToolLoop], Api]
    form: Callable[[ToolLoop | None], MessageFormat]
    """In which form it, or a function of the user's, takes a conversation."""
    to_agent_trace: Callable[[Any], AgentTrace]
    usage: Callable[[Any], CallMetrics | None]
    """Of one response."""


def bridge_of(provider: Provider, agent: Any, model: str | None) -> Bridge:
    """Return how to run a loop, a client's model, or a function of the input or the conversation.

    Raises:
        IntegrationError: for anything else, and for a client without a model.
    """
    if provider.is_client(agent):
        if not model:
            raise IntegrationError("Which model is the client to be asked for? Give model=...")
        agent = provider.loop(client=agent, model=model)
    if isinstance(agent, ToolLoop):
        return _bridge_of_loop(provider, agent)
    if not callable(agent):
        raise IntegrationError(f"A ToolLoop, a client or a function is needed, not {agent!r:.80}.")

    async def run(inputs: Any) -> AgentRun:
        return _read(provider, await called(agent, inputs))

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        return _read(provider, await called(agent, conversation.to_messages(provider.form(None))))

    return Bridge(identity=identity(provider.framework, agent), run=run, converse=converse)


def usage_of_all(provider: Provider, result: Any) -> CallMetrics | None:
    """Return the usage of all responses in a result together."""
    return summed(provider.usage(each) for each in listed(result) if not isinstance(each, str))


def listed(result: Any) -> list[Any]:
    """Return a result as a list of responses and messages."""
    return list(result) if isinstance(result, list | tuple) else [result]


def _bridge_of_loop(provider: Provider, loop: ToolLoop) -> Bridge:
    api = provider.api(loop)

    async def ask(asked: ToolLoop, messages: Sequence[Any]) -> AgentRun:
        told: list[Any] = []

        def so_far() -> tuple[AgentTrace, CallMetrics | None]:
            done = _read(provider, told)
            return done.trace, done.usage

        keep_so_far(so_far)
        try:
            over = await _loop(asked, api, messages, told)
            came = _read(provider, told)
        except Exception as error:
            return replace(AgentRun.of_failure(error, *so_far()), tools=loop.definitions)
        if not over:
            limit = f"TurnLimit: The model {loop.model!r} still called tools after {loop.max_rounds} rounds."
            came = replace(came, trace=replace(came.trace, final_response=None, error=limit))
        return replace(came, tools=loop.definitions)

    async def run(inputs: Any) -> AgentRun:
        return await ask(loop, inputs if isinstance(inputs, list) else [_user(inputs)])

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        system = "\n\n".join(text for text in (loop.system, conversation.system_prompt) if text)
        spoken = [message for message in conversation.messages if message.role is not Role.SYSTEM]
        messages = replace(conversation, messages=tuple(spoken)).to_messages(provider.form(loop))
        return await ask(replace(loop, system=system), messages)

    async def judge(prompt: str, schema: JsonSchemaDict | None) -> AgentRun:
        if schema is not None and not loop.tools:
            held = replace(loop, settings={**loop.settings, **api.held_to(without_bounds(schema))})
            answered = await ask(held, [_user(prompt)])
            if getattr(answered.cause, "status_code", None) not in (400, 422):
                return answered
        return await ask(loop, [_user(prompt)])

    return Bridge(identity=loop.identity(provider.framework), run=run, converse=converse, judge=judge)


def _user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text_form(text) or ""}


def _read(provider: Provider, result: Any) -> AgentRun:
    trace = AgentTrace((), result) if isinstance(result, str) else provider.to_agent_trace(result)
    return AgentRun(
        trace=trace,
        usage=usage_of_all(provider, result),
        hint="as results of tools that the function returns in a list",
    )


async def _loop(loop: ToolLoop, api: Api, messages: Sequence[Any], told: list[Any]) -> bool:
    """Ask a model until it calls no more tools, and say whether it came to an end.

    Responses and results of tools are added to `told`, in order. Without tools it is asked once.
    """
    sent: list[Any] = []
    for _ in range(loop.max_rounds):
        response = await api.ask(loop, [*messages, *sent])
        told.append(response)
        requests = api.requested(response)
        if not requests or not loop.functions:
            return True
        came = await asyncio.gather(*(_run(loop, request) for request in requests))
        told += api.told(came)
        sent += [*api.said(response), *api.answered(came)]
    return False


async def _run(loop: ToolLoop, request: Requested) -> Outcome:
    """Run the function that a model calls; what goes wrong is told to the model, as to any agent."""
    function = loop.functions.get(request.name)
    if function is None:
        return Outcome(request, f"There is no tool {request.name!r}.", True)
    call = ToolCall.from_map({"name": request.name, "arguments": request.arguments})
    if call.invalid_arguments is not None:
        return Outcome(request, "The arguments are no JSON object.", True)
    try:
        result = await called(function, **call.arguments)
    except Exception as error:
        return Outcome(request, error_text(error), True)
    return Outcome(request, result_text(result), False)
