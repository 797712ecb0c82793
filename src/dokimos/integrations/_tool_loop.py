"""A bare model with tools as an agent: ask it, call the tools that it requests, ask it again."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol

from dokimos._core.agent import AgentTrace, ToolCall
from dokimos._core.conversation import ConversationTrajectory, MessageFormat, Role
from dokimos._core.jsonable import text_form
from dokimos._core.metrics import CallMetrics
from dokimos._core.text import error_text
from dokimos._core.tool_definition import ToolDefinition
from dokimos._runtime.user_calls import call_user_function
from dokimos.errors import IntegrationError
from dokimos.integrations._agent_runs import AgentRun, AgentRunner, report_partial_run
from dokimos.integrations._framework import Framework, RunOptions, SchemaJudge
from dokimos.integrations._framework_objects import FrameworkObject
from dokimos.integrations._token_usage import sum_usage
from dokimos.integrations._tool_lists import define_tools
from dokimos.integrations._trace_builder import render_result
from dokimos.judges._protocol import JsonSchemaDict
from dokimos.judges._provider_schemas import without_bounds


class CallRequest(NamedTuple):
    """A tool call that a model requests."""

    id: str
    name: str
    arguments: Any


class CallOutcome(NamedTuple):
    """The result of a requested tool call, or its error."""

    request: CallRequest
    text: str
    failed: bool


class ModelApi(Protocol):
    """One API of a provider: how its client is called, and the form of its messages."""

    async def send(self, loop: ToolLoop, messages: Sequence[Any]) -> Any:
        """Return the response to messages."""
        ...

    def parse_requests(self, response: object) -> list[CallRequest]:
        """Return the tool calls that a response requests."""
        ...

    def to_messages(self, response: object) -> list[Any]:
        """Return a response as messages to send back."""
        ...

    def render_outcomes(self, outcomes: Sequence[CallOutcome]) -> list[Any]:
        """Return the results of calls as messages to send."""
        ...

    def record_outcomes(self, outcomes: Sequence[CallOutcome]) -> list[Any]:
        """Return the same messages for the trace, with failed calls marked."""
        ...

    def schema_settings(self, schema: JsonSchemaDict) -> dict[str, Any]:
        """Return the settings of a request whose answer must be JSON of a schema."""
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
    """How many requests one input may take at most."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What else goes into each request, such as the temperature."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", tuple(self.tools))

    @cached_property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """The tools as definitions."""
        return tuple(ToolDefinition.from_function(function) for function in self.tools)

    @cached_property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """The tools by name."""
        return {tool.name: function for tool, function in zip(self.definitions, self.tools, strict=True)}


class ModelSDK(Framework):
    """The SDK of a model provider: its agents are tool loops, a client's model, or functions of the user.

    Options of a run are settings of each request, such as the temperature, or arguments of the function.
    """

    client_attribute: ClassVar[str]
    """What only a client of the provider has."""
    loop_type: ClassVar[type[ToolLoop]] = ToolLoop

    @abstractmethod
    def select_api(self, loop: ToolLoop) -> ModelApi:
        """Return the API that a loop uses."""

    @abstractmethod
    def message_format(self, loop: ToolLoop | None) -> MessageFormat:
        """Return the form in which a loop, or a function of the user, takes a conversation."""

    @abstractmethod
    def parse_response_usage(self, response: object) -> CallMetrics | None:
        """Return the token counts of one response."""

    def to_tool_definitions(self, agent: object) -> tuple[ToolDefinition, ...]:
        """Return the definitions of the tools of a loop, or of a list: in the API's form, or functions."""
        if isinstance(agent, ToolLoop):
            return agent.definitions
        return define_tools(agent if isinstance(agent, Iterable) else [agent])

    def parse_usage(self, result: object) -> CallMetrics | None:
        responses = (each for each in list_responses(result) if not isinstance(each, str))
        return sum_usage(self.parse_response_usage(each) for each in responses)

    def parse_run(self, result: object) -> AgentRun:
        return AgentRun(
            trace=AgentTrace((), result) if isinstance(result, str) else self.to_agent_trace(result),
            usage=self.parse_usage(result),
            hint="as results of tools that the function returns in a list",
        )

    async def run_agent(self, agent: FrameworkObject, inputs: object, options: RunOptions) -> AgentRun:
        if not isinstance(agent, ToolLoop):
            return self.parse_run(await call_user_function(agent, inputs, **options))
        messages = inputs if isinstance(inputs, list) else [_user_message(inputs)]
        return await self._run_loop(_with_settings(agent, options), messages)

    async def converse(
        self, agent: FrameworkObject, conversation: ConversationTrajectory, options: RunOptions
    ) -> AgentRun:
        if not isinstance(agent, ToolLoop):
            messages = conversation.to_messages(self.message_format(None))
            return self.parse_run(await call_user_function(agent, messages, **options))
        # As one text: not every API takes system messages among the others.
        system = "\n\n".join(text for text in (agent.system, conversation.system_prompt) if text)
        turns = tuple(message for message in conversation.messages if message.role is not Role.SYSTEM)
        messages = replace(conversation, messages=turns).to_messages(self.message_format(agent))
        return await self._run_loop(_with_settings(replace(agent, system=system), options), messages)

    def schema_judge(self, agent: object, options: RunOptions) -> SchemaJudge | None:
        if not isinstance(agent, ToolLoop):
            return None
        loop = _with_settings(agent, options)

        async def judge(prompt: str, schema: JsonSchemaDict | None) -> AgentRun:
            return await self._judge(loop, prompt, schema)

        return judge

    def describe_agent(self, agent: FrameworkObject) -> Iterable[object]:
        return agent.model, ",".join(agent.functions), agent.system

    def is_agent(self, agent: object) -> bool:
        return isinstance(agent, ToolLoop)

    def start_agent(self, agent: object, state: object) -> object:
        return agent  # a loop remembers nothing, and a function is the agent and makes none

    def runner(
        self, agent: object, run_options: RunOptions | None = None, *, model: str | None = None
    ) -> AgentRunner:
        """Return what runs a loop, a client's model, or a function of the input or the conversation.

        Raises:
            IntegrationError: for anything else, and for a client without a model.
        """
        options = dict(run_options or {})
        model = options.pop("model", model)
        if hasattr(agent, self.client_attribute):
            if not model:
                raise IntegrationError("A client needs the name of a model. Pass model=...")
            agent = self.loop_type(client=agent, model=model)
        if not isinstance(agent, ToolLoop) and not callable(agent):
            raise IntegrationError(f"A ToolLoop, a client or a function is required, not {agent!r:.80}.")
        return super().runner(agent, options)

    async def _judge(self, loop: ToolLoop, prompt: str, schema: JsonSchemaDict | None) -> AgentRun:
        """Ask for JSON of a schema, and for plain text if the model refuses that."""
        messages = [_user_message(prompt)]
        if schema is not None and not loop.tools:
            settings = self.select_api(loop).schema_settings(without_bounds(schema))
            run = await self._run_loop(_with_settings(loop, settings), messages)
            # Models that cannot enforce a schema refuse the request with one of these status codes.
            if getattr(run.cause, "status_code", None) not in (400, 422):
                return run
        return await self._run_loop(loop, messages)

    async def _run_loop(self, loop: ToolLoop, messages: Sequence[Any]) -> AgentRun:
        history: list[Any] = []

        def read_progress() -> tuple[AgentTrace, CallMetrics | None]:
            partial_run = self.parse_run(history)
            return partial_run.trace, partial_run.usage

        report_partial_run(read_progress)
        try:
            has_answered = await _exchange(loop, self.select_api(loop), messages, history)
            run = self.parse_run(history)
        except Exception as error:
            return replace(AgentRun.of_failure(error, *read_progress()), tools=loop.definitions)
        if not has_answered:
            limit = f"TurnLimit: The model {loop.model!r} still called tools after {loop.max_rounds} rounds."
            run = replace(run, trace=replace(run.trace, final_response=None, error=limit))
        return replace(run, tools=loop.definitions)


def list_responses(result: object) -> list[Any]:
    """Return a result as a list of responses and messages."""
    return list(result) if isinstance(result, list | tuple) else [result]


def _with_settings(loop: ToolLoop, settings: Mapping[str, Any]) -> ToolLoop:
    return replace(loop, settings={**loop.settings, **settings}) if settings else loop


def _user_message(text: object) -> dict[str, Any]:
    return {"role": "user", "content": text_form(text) or ""}


async def _exchange(loop: ToolLoop, api: ModelApi, messages: Sequence[Any], history: list[Any]) -> bool:
    """Ask a model until it requests no more tools, and return whether it came to an answer.

    Responses and results of tools are added to `history`, in order. Without tools the model is asked once.
    """
    sent: list[Any] = []
    for _ in range(loop.max_rounds):
        response = await api.send(loop, [*messages, *sent])
        history.append(response)
        requests = api.parse_requests(response)
        if not requests or not loop.functions:
            return True
        # Calls of one response are independent of each other: providers call them parallel tool calls.
        outcomes = await asyncio.gather(*(_call_function(loop, request) for request in requests))
        history += api.record_outcomes(outcomes)
        sent += [*api.to_messages(response), *api.render_outcomes(outcomes)]
    return False


async def _call_function(loop: ToolLoop, request: CallRequest) -> CallOutcome:
    """Call the function that a model requests; the model gets an error as the result, as any agent would."""
    function = loop.functions.get(request.name)
    if function is None:
        return CallOutcome(request, f"There is no tool {request.name!r}.", True)
    call = ToolCall.from_map({"name": request.name, "arguments": request.arguments})
    if call.invalid_arguments is not None:
        return CallOutcome(request, "The arguments are not a JSON object.", True)
    try:
        result = await call_user_function(function, **call.arguments)
    except Exception as error:
        return CallOutcome(request, error_text(error), True)
    return CallOutcome(request, render_result(result), False)
