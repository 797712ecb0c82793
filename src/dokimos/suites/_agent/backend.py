"""A declared agent that is running: one for each event loop, since its connections belong to one.

Imported only where an agent runs, since it loads Pydantic AI.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, Final, Self

from pydantic_ai import Agent, NativeOutput, RunContext, StructuredDict, ToolOutput
from pydantic_ai.capabilities import UseThreadExecutor
from pydantic_ai.exceptions import ModelRetry, UsageLimitExceeded
from pydantic_ai.models import Model
from pydantic_ai.usage import UsageLimits

from dokimos._core.keys import CONTEXTS, OUTPUT, TOOLS
from dokimos._core.metrics import CallMetrics
from dokimos._core.task_result import TaskResult
from dokimos._core.text import error_text, shorten
from dokimos._runtime.concurrency import DaemonThreads
from dokimos.errors import AgentError, BudgetExceededError, DokimosError, EndpointDownError
from dokimos.integrations.pydantic_ai import to_agent_trace
from dokimos.suites._agent.agent_plan import AgentPlan
from dokimos.suites._agent.inputs import Files
from dokimos.suites._agent.models import SDK_RETRIES
from dokimos.suites._agent.recording_model import Meter, RecordedModel
from dokimos.suites._agent.toolsets import Deps, Searched, ServerGone, build_toolsets
from dokimos.suites._targets import Request

OUTPUT_RETRIES: Final = 2
"""How often the model may mend a reply that is not of the form asked for."""
TOOL_RETRIES: Final = 3
"""How often the model may mend the arguments of a tool."""
CLOSING_SECONDS: Final = 10.0
"""How long servers get to end."""
_MAX_EXCERPT: Final = 500


class Backend:
    """The agent with its connections and servers; they stay open until the loop ends, or `close`."""

    def __init__(self, plan: AgentPlan, model: Model | None = None) -> None:
        self.plan = plan
        self.model: Model = plan.endpoint.model() if model is None else model
        self._logs = tempfile.TemporaryDirectory(prefix="dokimos-", ignore_cleanup_errors=True)
        self._threads = DaemonThreads("dokimos-tool")  # a tool that hangs holds nothing up
        self._searches = [Searched(planned) for planned in plan.searches]
        self.agent: Agent[Deps, Any] = Agent(
            self.model,
            name="suite",
            deps_type=Deps,
            instructions=plan.prompt.text,
            output_type=_output_type(plan, self.model),
            toolsets=build_toolsets(plan, self._searches, Path(self._logs.name)),
            model_settings=_settings(plan),
            retries={"tools": TOOL_RETRIES, "output": OUTPUT_RETRIES},
            capabilities=[UseThreadExecutor(self._threads)],
        )
        if plan.response_schema is not None:
            self.agent.output_validator(_check_of(plan.response_schema))
        self.is_usable = True
        """Whether it may begin another reply; a server that is gone does not come back."""
        self._replies = 0
        self._closing = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> Self:
        """Open connections, servers and documents. Raises `AgentError` where one cannot be reached."""
        # A future, not the task's result: the task goes on, and this waits only until everything is open.
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper = asyncio.create_task(self._keep(opened))
        try:
            await opened
            # After the servers: a missing one is known at once, while documents may take minutes to embed.
            for search in self._searches:
                await search.open()
        except asyncio.CancelledError:
            self._keeper.cancel()
            raise
        except Exception as error:
            self._closing.set()
            # Before the keeper runs again: it deletes the logs that the message quotes.
            raise self._unusable(error) from None
        return self

    def conversation(self, files: Files, renewed: Callable[[], Awaitable[Backend]]) -> Conversation:
        """Begin a case."""
        return Conversation(self, files, renewed)

    @contextlib.contextmanager
    def replying(self) -> Iterator[None]:
        """Stay open for a reply; the last one on something that is not usable closes it."""
        self._replies += 1
        try:
            yield
        except ServerGone:
            self.is_usable = False
            raise
        finally:
            self._replies -= 1
            if not self.is_usable and not self._replies:
                self._closing.set()

    async def close(self) -> None:
        """Let go of everything."""
        self._closing.set()
        if self._keeper is not None:
            await asyncio.wait((self._keeper,), timeout=CLOSING_SECONDS)

    async def _keep(self, opened: asyncio.Future[None]) -> None:
        """Hold everything open in a task of its own: what it has entered, only it may leave.

        Where nobody closes, the end of the loop cancels it.
        """
        try:
            async with self.agent:
                opened.set_result(None)
                await self._closing.wait()
        except Exception as error:  # whatever a server or its transport raises
            if not opened.done():
                opened.set_exception(self._unusable(error))
        finally:
            self.is_usable = False
            for search in self._searches:
                search.close()
            self._threads.shutdown()
            self._logs.cleanup()

    def _unusable(self, error: Exception) -> AgentError:
        """Return what is wrong with the tools; to be called while the servers' logs are there."""
        if isinstance(error, AgentError) and not isinstance(error, ServerGone):
            return error
        message = str(error) if isinstance(error, DokimosError) else error_text(error)
        return AgentError(f"its tools cannot be used: {message}{self.read_server_logs()}")

    def read_server_logs(self) -> str:
        """Return the end of what servers have written to their standard error."""
        excerpts = []
        for path in sorted(Path(self._logs.name).glob("*.log")):
            with contextlib.suppress(OSError):
                text = path.read_text(encoding="utf-8", errors="replace").strip()
                excerpts += (
                    [f"; {path.stem} said: {shorten(text[-_MAX_EXCERPT:], _MAX_EXCERPT)}"] if text else []
                )
        return "".join(excerpts)


@dataclass
class Conversation:
    """One case with the agent: answers its turns, and remembers them."""

    backend: Backend
    files: Files
    renewed: Callable[[], Awaitable[Backend]]
    """Gives another backend once this one is of no use any more."""
    history: list[Any] = field(default_factory=list)
    """Messages as the agent keeps them; a turn without a reply leaves none."""
    retrieved: dict[str, None] = field(default_factory=dict)
    """What was retrieved since the case began."""

    async def __call__(self, request: Request) -> TaskResult:
        if not self.backend.is_usable:
            self.backend = await self.renewed()
        meter = Meter()
        try:
            content = await self.files.content(request.input, request.files)
            result = await self._run(content, meter, request.sample)
        except (BudgetExceededError, EndpointDownError):
            raise  # the calls that had their replies stand
        except Exception as error:  # the model, its provider and the tools are somebody else's
            agent_error = self._agent_error(error, meter.total)
            await meter.reject(str(agent_error))
            raise agent_error from error
        self.history = result.all_messages()
        tools = {TOOLS: list(meter.offered.values())} if meter.offered else {}
        return TaskResult({**self._outputs(result), **tools}, meter.total)

    async def _run(self, content: Any, meter: Meter, sample: int) -> Any:
        backend = self.backend
        model = RecordedModel(backend.model, backend.plan.endpoint, meter, sample=sample)
        deps = Deps(model, meter, sample=sample)
        with backend.replying():
            result = await backend.agent.run(
                content,
                model=model,
                deps=deps,
                message_history=self.history,
                usage_limits=UsageLimits(request_limit=backend.plan.max_turns),
            )
        self.retrieved |= dict.fromkeys(deps.in_order(_calls_in(result.new_messages())))
        return result

    def _outputs(self, result: Any) -> Mapping[str, Any]:
        outputs = to_agent_trace(result).to_outputs()
        output = "" if result.output is None else result.output
        text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
        context = {CONTEXTS: list(self.retrieved)} if self.retrieved else {}
        return {**outputs, OUTPUT: text, **context}

    def _agent_error(self, error: Exception, spent: CallMetrics | None) -> AgentError:
        """Return what went wrong, with what was spent until then."""
        if isinstance(error, UsageLimitExceeded):
            most = self.backend.plan.max_turns
            text = f"no reply after {most} calls of the model (execution.max_turns)"
        else:
            text = str(error) if isinstance(error, DokimosError) else error_text(error)
        logs = self.backend.read_server_logs() if isinstance(error, ServerGone) else ""
        return AgentError(f"{text}{logs}", metrics=spent)


def _calls_in(messages: Iterable[Any]) -> Iterator[str]:
    """Return the ids of the calls that the model made, in its order."""
    for message in messages:
        yield from (part.tool_call_id for part in message.parts if part.part_kind == "tool-call")


def _settings(plan: AgentPlan) -> Any:
    settings = dict(plan.endpoint.settings)
    return {**settings, "timeout": plan.timeout, "request_timeout": plan.timeout, "max_retries": SDK_RETRIES}


def _output_type(plan: AgentPlan, model: Model) -> Any:
    """Return text, or an object: in the provider's own way where the model has one, else as a call."""
    if plan.response_schema is None:
        return [str, NoneType]  # nothing at all is a reply too, and graded as one
    shape = StructuredDict(dict(plan.response_schema), name=plan.response_schema.get("title", "reply"))
    native = model.profile.get("supports_json_schema_output", False)
    return NativeOutput(shape) if native else ToolOutput(shape)


def _check_of(schema: Mapping[str, Any]) -> Any:
    """Return what sends a reply back to the model that is not as the schema says."""
    import jsonschema_rs

    check = jsonschema_rs.validator_for(dict(schema))

    def validate(ctx: RunContext[Deps], output: object) -> Any:
        faults = [error.message for error in check.iter_errors(output)]
        if faults:
            raise ModelRetry("the reply does not match its JSON Schema: " + "; ".join(faults))
        return output

    return validate
