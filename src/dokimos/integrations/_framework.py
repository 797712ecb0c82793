"""The base of all bridges: what a framework must say, and the public functions that follow from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar, TypeAlias, Unpack

from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.metrics import CallMetrics, PriceTable
from dokimos._core.tool_definition import ToolDefinition
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import IntegrationError
from dokimos.integrations._agent_runs import AgentRun, AgentRunner, build_identity
from dokimos.integrations._agent_task import (
    AgentApplication,
    AgentJudge,
    AgentTask,
    ResultOptions,
    TaskOptions,
)
from dokimos.integrations._token_usage import add_cost
from dokimos.integrations._turn_lock import TurnLock
from dokimos.judges._protocol import JsonSchemaDict

RunOptions: TypeAlias = Mapping[str, Any]
"""Options of a framework's own run method."""
SchemaJudge: TypeAlias = Callable[[str, JsonSchemaDict | None], Awaitable[AgentRun]]


class Framework(ABC):
    """An agent framework: how to parse its results, run its agents, converse with them and list their tools.

    A bridge is a subclass with the four abstract methods, and `parse_usage` where results count tokens. The
    module of a bridge publishes the methods of one instance as its functions (`as_task`, `as_judge`, ...); it
    writes a function of its own only where that takes more arguments or needs more explanation. Methods get
    the framework's own objects, of which no types can be imported here, and read them with `get`.
    """

    name: ClassVar[str]
    """The first part of the identities of its agents, such as "openai-agents"."""
    agent_methods: ClassVar[tuple[str, ...]] = ("run",)
    """What has one of these attributes is an agent; anything else must be a function that makes one."""

    @abstractmethod
    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what a run did: its tool calls with their results, and its final response."""

    @abstractmethod
    def to_tool_definitions(self, agent: object) -> tuple[ToolDefinition, ...]:
        """Return the tools of an agent."""

    @abstractmethod
    async def run_agent(self, agent: object, inputs: object, options: RunOptions) -> AgentRun:
        """Run an agent on the value of an input; `options` are those of the framework's own run method.

        Several inputs run at the same time. Use `finish_run` so that a run that fails keeps what it did.
        """

    @abstractmethod
    async def converse(
        self, agent: object, conversation: ConversationTrajectory, options: RunOptions
    ) -> AgentRun:
        """Let an agent reply to a conversation; the trace holds only what it did for this reply."""

    def parse_usage(self, result: object) -> CallMetrics | None:
        """Return the token counts of a result; None where it has none."""
        return None

    def parse_output(self, result: object) -> Any:
        """Return the answer of a run where it is more than text, such as a structured output."""
        return None

    def parse_run(self, result: object) -> AgentRun:
        """Return a result as an `AgentRun`."""
        return AgentRun(
            trace=self.to_agent_trace(result),
            output=self.parse_output(result),
            usage=self.parse_usage(result),
            hint="as the result of a tool",
        )

    def describe_agent(self, agent: object) -> Iterable[object]:
        """Return what identifies an agent: its name, its model, its instructions."""
        return (getattr(agent, "name", None) or type(agent).__qualname__,)

    def is_agent(self, agent: object) -> bool:
        """Say whether this is an agent, and not a function that makes one."""
        return find_method(agent, self.agent_methods) is not None

    def is_stateful(self, agent: object) -> bool:
        """Say whether an agent remembers: calls of one that is not made anew then wait for one another."""
        return False

    def save_state(self, agent: object) -> Any:
        """Return what `start_agent` needs to begin each input with the agent as it is now."""
        return None

    def start_agent(self, agent: object, state: object) -> Any:
        """Return the agent for the next input: the one that was passed, or one that a function makes."""
        return resolve_agent(agent, self.agent_methods)

    def schema_judge(self, agent: object, options: RunOptions) -> SchemaJudge | None:
        """Return a function that answers a prompt in JSON of a schema; None if it cannot be enforced."""
        return None

    def runner(
        self, agent: object, run_options: RunOptions | None = None, *, model: str | None = None
    ) -> AgentRunner:
        """Return the runner of an agent; `model` is for frameworks whose client needs one."""
        options = run_options or {}
        is_agent = self.is_agent(agent)
        # Now, not with the first input: the user may go on using the agent in between.
        state = self.save_state(agent) if is_agent else None
        must_wait = is_agent and self.is_stateful(agent)
        turn: AbstractAsyncContextManager[None] = TurnLock() if must_wait else nullcontext()

        # A judge is identified by what this closure holds: the agent has to be in it, not deep in an object.
        async def run(inputs: object) -> AgentRun:
            async with turn:
                return await self.run_agent(self.start_agent(agent, state), inputs, options)

        async def converse(conversation: ConversationTrajectory) -> AgentRun:
            async with turn:
                return await self.converse(self.start_agent(agent, state), conversation, options)

        parts = self.describe_agent(agent) if is_agent else (agent,)
        return AgentRunner(
            identity=build_identity(self.name, *parts),
            run=run,
            converse=converse,
            judge=self.schema_judge(agent, options),
        )

    def to_call_metrics(
        self, result: object, model: str | None = None, price_table: PriceTable | None = None
    ) -> CallMetrics | None:
        """Return the tokens of all model calls of a run, and their cost; None where nothing was measured.

        The cost is what the framework reports, else what `price_table` says for `model`, or for the model
        that the result names.
        """
        return add_cost(self.parse_usage(result), model, price_table)

    def run_and_trace(self, agent: object, inputs: object, **run_options: Any) -> AgentTrace:
        """Run an agent on an input and return what it did.

        `run_options` are those of the framework's own run method. An error that ends the run is in the trace.
        """
        return run_sync(self.run_and_trace_async(agent, inputs, **run_options))

    async def run_and_trace_async(self, agent: object, inputs: object, **run_options: Any) -> AgentTrace:
        """Do what `run_and_trace` does, without blocking the event loop that is running."""
        return (await self.runner(agent, run_options).run(inputs)).trace

    def as_task(
        self, agent: object, *, run_options: RunOptions | None = None, **options: Unpack[TaskOptions]
    ) -> AgentTask:
        """Return a task that runs an agent on an input.

        Each input stands alone: an agent that remembers begins anew with each.

        Args:
            agent: An agent, or a function without parameters that makes one for each input.
            run_options: Options of the framework's own run method.
            options: Under which keys inputs and outputs are, prices, and where retrieved context comes from.
        """
        runner = self.runner(agent, run_options, model=options.get("model"))
        return AgentTask(runner, **options)

    def as_application(
        self, agent: object, *, run_options: RunOptions | None = None, **options: Unpack[ResultOptions]
    ) -> AgentApplication:
        """Return an agent as the application of a simulated conversation.

        With each turn the agent is given the whole conversation so far.

        Args:
            agent: An agent, or a function without parameters that makes one for each turn.
            run_options: Options of the framework's own run method.
            options: Prices, and where retrieved context comes from.
        """
        runner = self.runner(agent, run_options, model=options.get("model"))
        return AgentApplication(AgentTask(runner, **options))

    def as_judge(
        self,
        agent: object,
        *,
        run_options: RunOptions | None = None,
        model: str | None = None,
        price_table: PriceTable | None = None,
    ) -> AgentJudge:
        """Return an agent or a model as a judge.

        Args:
            agent: An agent, or a function without parameters that makes one for each prompt.
            run_options: Options of the framework's own run method.
            model: The name for the price table, where the framework does not report the model.
            price_table: Gives the cost where the framework reports none.
        """
        return AgentJudge(self.runner(agent, run_options, model=model), model, price_table)


def find_method(thing: object, methods: Sequence[str]) -> str | None:
    """Return the first of these methods that an object has; a class has none, since it makes objects."""
    if isinstance(thing, type):
        return None
    return next((method for method in methods if hasattr(thing, method)), None)


def resolve_agent(agent_or_factory: object, methods: Sequence[str]) -> Any:
    """Return an object with one of these methods as it is; call anything else to make a fresh one.

    Raises:
        IntegrationError: if it has none of the methods, and makes nothing that has.
    """
    if find_method(agent_or_factory, methods) is not None:
        return agent_or_factory
    names = " or ".join(repr(method) for method in methods)
    if not callable(agent_or_factory):
        raise IntegrationError(
            f"An agent must have {names}, or be a function without parameters that makes one; "
            f"{agent_or_factory!r:.80} is neither."
        )
    agent = agent_or_factory()
    if find_method(agent, methods) is None:
        raise IntegrationError(f"{agent_or_factory!r:.80} made {agent!r:.80}, which has no {names}.")
    return agent
