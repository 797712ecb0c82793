"""A bare model with tools as an agent: ask it, run what it calls, ask it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from dokimos.core.agent import ToolCall, ToolDefinition
from dokimos.core.text import error_text
from dokimos.errors import IntegrationError
from dokimos.integrations.base import called, identity
from dokimos.integrations.reading import result_text


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


class Steps(NamedTuple):
    """What happened in a loop: responses and results of tools, in order."""

    told: list[Any]
    outcomes: list[Outcome]


async def looped(loop: ToolLoop, api: Api, messages: Sequence[Any]) -> Steps:
    """Ask a model until it calls no more tools. Without tools it is asked once.

    Raises:
        IntegrationError: when it does not come to an end.
    """
    told: list[Any] = []
    sent: list[Any] = []
    outcomes: list[Outcome] = []
    for _ in range(loop.max_rounds):
        response = await api.ask(loop, [*messages, *sent])
        told.append(response)
        requests = api.requested(response)
        if not requests or not loop.functions:
            return Steps(told, outcomes)
        came = await asyncio.gather(*(_run(loop, request) for request in requests))
        outcomes += came
        told += api.answered(came)
        sent += [*api.said(response), *api.answered(came)]
    raise IntegrationError(f"The model {loop.model!r} still called tools after {loop.max_rounds} rounds.")


async def _run(loop: ToolLoop, request: Requested) -> Outcome:
    """Run the function that a model calls; what goes wrong is told to the model, as to any agent."""
    function = loop.functions.get(request.name)
    call = ToolCall.from_map({"name": request.name or "(unnamed)", "arguments": request.arguments})
    if function is None:
        return Outcome(request, f"There is no tool {request.name!r}.", True)
    if call.invalid_arguments is not None:
        return Outcome(request, "The arguments are no JSON object.", True)
    try:
        result = await called(function, **call.arguments)
    except Exception as error:
        return Outcome(request, error_text(error), True)
    return Outcome(request, result_text(result), False)
