"""What all integrations share: a framework's agent as a task, a judge and an application."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypedDict

from dokimos.core.agent import AgentTrace, ToolDefinition
from dokimos.core.conversation import ConversationTrajectory
from dokimos.core.error_detail import ErrorDetail
from dokimos.core.example import Example
from dokimos.core.jsonable import text_form
from dokimos.core.keys import CONTEXTS, INPUT, OUTPUT, TOOLS, input_of
from dokimos.core.means import exact_mean
from dokimos.core.metrics import CallMetrics, PriceTable
from dokimos.core.results import Score
from dokimos.core.task_marker import takes_example
from dokimos.core.task_progress import report_progress
from dokimos.core.task_result import TaskResult
from dokimos.core.test_case import EvalTestCase
from dokimos.core.text import error_text
from dokimos.errors import (
    DokimosError,
    EndpointDownError,
    EvaluationError,
    IntegrationError,
    JudgeUnavailableError,
)
from dokimos.evaluators.base import Evaluator, ScoreLike
from dokimos.experiment.item_errors import describe_error
from dokimos.integrations.lasting_loop import on_lasting_loop
from dokimos.integrations.reading import (
    documents_of_tools,
    extract_texts,
    extract_texts_with_metadata,
    priced,
)
from dokimos.judges.judge_identity import identity_of
from dokimos.judges.protocol import JsonSchemaDict, JudgeReply


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """One run of a framework's agent, chain or model, in our terms."""

    trace: AgentTrace
    output: Any = None
    """What it gave, where that is more than the text of the final response."""
    usage: CallMetrics | None = None
    """As the framework reports it; the cost only where it reports one."""
    documents: tuple[Any, ...] | None = None
    """What was retrieved, as the framework has it; None where the result carries no sources."""
    tools: tuple[ToolDefinition, ...] | None = None
    """The tools that the agent had; None where they are not known."""
    hint: str = "under one of its usual keys"
    """Where this framework's results could carry their sources, for the message that they do not."""
    cause: Exception | None = None
    """What ended it, where its trace has an error."""

    @classmethod
    def of_failure(
        cls, error: Exception, trace: AgentTrace | None = None, usage: CallMetrics | None = None
    ) -> AgentRun:
        """Return a run that an error broke off: what it had done, and no answer.

        Raises:
            DokimosError: where the error is one of ours, or an endpoint of a run is down: these are not the
                agent's.
        """
        if isinstance(error, DokimosError) or EndpointDownError.behind(error) is not None:
            raise error
        done = replace(trace or AgentTrace(), final_response=None, error=describe_error(error))
        return cls(trace=done, usage=usage, cause=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bridge:
    """How to run a framework's agent."""

    identity: str
    """Tells agents apart across processes: framework, name, model, a mark of the instructions."""
    run: Callable[[Any], Awaitable[AgentRun]]
    """Runs it on the value of an input."""
    converse: Callable[[ConversationTrajectory], Awaitable[AgentRun]]
    """Lets it reply to a conversation; the trace holds only what it did for this reply."""
    judge: Callable[[str, JsonSchemaDict | None], Awaitable[AgentRun]] | None = None
    """Answers a judge's prompt in JSON of a schema, where it can be held to one."""

    def __post_init__(self) -> None:
        for name in ("run", "converse"):
            object.__setattr__(self, name, on_lasting_loop(_failing_by_value(getattr(self, name))))
        if self.judge is not None:
            object.__setattr__(self, "judge", on_lasting_loop(self.judge))


def _failing_by_value(run: Callable[[Any], Awaitable[AgentRun]]) -> Callable[[Any], Awaitable[AgentRun]]:
    """Return `run` with what it raises as the error of its trace."""

    @functools.wraps(run)
    async def failing(given: Any) -> AgentRun:
        try:
            return await run(given)
        except Exception as error:
            return AgentRun.of_failure(error)

    return failing


class ResultOptions(TypedDict, total=False):
    """What to make of a result; options of `as_application` and, with two more, of `as_task`."""

    model: str | None
    """What the price table is asked for, where the framework does not say which model answered."""
    price_table: PriceTable | None
    """Asked where the framework reports no cost of its own."""
    allow_blank: bool
    """Whether a blank reply is a reply; it is an error otherwise."""
    contexts_key: str
    """Under which key retrieved texts go into the outputs ("contexts")."""
    metadata_key: str | None
    """Under which key the same texts go with their metadata, if at all."""
    context_tools: tuple[str, ...]
    """The names of tools whose results are retrieved context."""
    needs_context: bool
    """Whether a result without sources is an error: the application is known to retrieve."""


class TaskOptions(ResultOptions, total=False):
    """Options of `as_task`."""

    input_key: str
    """Which of an example's inputs the agent is given ("input")."""
    output_key: str
    """Under which key its answer goes into the outputs ("output")."""


@dataclass(frozen=True)
class AgentTask:
    """A framework's agent as the task of an experiment; made by `as_task`."""

    bridge: Bridge
    input_key: str = INPUT
    output_key: str = OUTPUT
    contexts_key: str = CONTEXTS
    metadata_key: str | None = None
    context_tools: tuple[str, ...] = ()
    needs_context: bool = False
    model: str | None = None
    price_table: PriceTable | None = None
    allow_blank: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.context_tools, str):
            object.__setattr__(self, "context_tools", (self.context_tools,))
        # Two agents are two tasks: a run of one is not resumed with the other.
        object.__setattr__(self, "__qualname__", f"as_task({self.bridge.identity})")

    @takes_example
    async def __call__(self, example: Example) -> TaskResult:
        asked = input_of(example.inputs, self.input_key)
        if asked is None and self.input_key not in example.inputs:
            raise EvaluationError(
                f"The agent needs {self.input_key!r} in the inputs, which this example lacks."
            )
        with _telling_how_far(self.result_of):
            return self.result_of(await self.bridge.run(asked))

    def result_of(self, run: AgentRun) -> TaskResult:
        """Return outputs and metrics of a run.

        A run that broke off, a blank reply, and missing sources where they are needed are errors, beside what
        was done until then.
        """
        output = run.trace.final_response if run.output is None else run.output
        outputs = {key: value for key, value in run.trace.outputs_so_far().items() if key != OUTPUT}
        if run.tools is not None:
            outputs[TOOLS] = list(run.tools)
        error = run.trace.error
        detail = None if error is None or run.cause is None else ErrorDetail.of(run.cause)
        if error is None:
            outputs = {self.output_key: "" if output is None else output, **outputs}
            try:
                if not self.allow_blank:
                    _check_reply(run)
                outputs |= self._context(run)
            except IntegrationError as fault:
                error = error_text(fault)
        metrics = priced(run.usage, self.model, self.price_table)
        return TaskResult(outputs, metrics, error=error, error_detail=detail)

    def _context(self, run: AgentRun) -> dict[str, Any]:
        documents = run.documents
        if self.context_tools:
            of_tools = documents_of_tools(run.trace, self.context_tools)
            documents = documents if of_tools is None else (*(documents or ()), *of_tools)
        if documents is None:
            if self.needs_context:
                raise IntegrationError(_no_sources(run, self.context_tools))
            return {}
        context: dict[str, Any] = {self.contexts_key: extract_texts(documents)}
        if self.metadata_key is not None:
            context[self.metadata_key] = extract_texts_with_metadata(documents)
        return context


def _check_reply(run: AgentRun) -> None:
    """Refuse a reply without text, unless it leaves calls to whoever asked."""
    output = run.trace.final_response if run.output is None else run.output
    blank = output is None or (isinstance(output, str) and not output.strip())
    calls = run.trace.tool_calls
    if blank and not (calls and calls[-1].result is None):
        raise IntegrationError("The agent gave a blank reply; allow_blank=True accepts one.")


def _no_sources(run: AgentRun, tools: tuple[str, ...]) -> str:
    if tools:
        return f"The result carries no sources: none of the tools {', '.join(tools)} was called and answered."
    return (
        f"The result carries no sources. Return the retrieved documents {run.hint}, or name the tools that "
        f"retrieve with context_tools=(...)."
    )


@dataclass(frozen=True)
class AgentApplication:
    """A framework's agent as the application of a simulated conversation; made by `as_application`."""

    task: AgentTask

    async def __call__(self, conversation: ConversationTrajectory) -> TaskResult:
        result = self.task.result_of(await self.task.bridge.converse(conversation))
        # What else an application gives goes with its reply, and each of its replies has the same tools.
        outputs = {key: value for key, value in result.outputs.items() if key != TOOLS}
        return replace(result, outputs=outputs)


@dataclass(frozen=True)
class AgentJudge:
    """A framework's agent or model as a judge; made by `as_judge`."""

    bridge: Bridge
    model: str | None = None
    price_table: PriceTable | None = None

    @cached_property
    def identity(self) -> str:
        """Names the agent, with a mark of all that it holds: replies of two judges must not be mixed up."""
        try:
            held = identity_of(self.bridge.judge or self.bridge.run)
        except Exception:  # an agent may hold anything
            held = f"{id(self):x}"
        return f"{self.bridge.identity}#{_mark(held)}"

    async def complete(self, prompt: str, *, schema: JsonSchemaDict | None = None) -> JudgeReply:
        try:
            if self.bridge.judge is None:
                run = await self.bridge.run(prompt)
            else:
                run = await self.bridge.judge(prompt, schema)
        except DokimosError:
            raise
        except Exception as error:
            raise JudgeUnavailableError(
                f"{self.bridge.identity} gave no answer: {error_text(error)}"
            ) from error
        if run.trace.error is not None:
            message = f"{self.bridge.identity} gave no answer: {run.trace.error}"
            raise JudgeUnavailableError(message) from run.cause
        text = text_form(run.trace.final_response if run.output is None else run.output)
        return JudgeReply(text or "", priced(run.usage, self.model, self.price_table))


@dataclass(frozen=True, kw_only=True)
class ForeignEvaluator(Evaluator):
    """An evaluator of another framework; made by `as_evaluator`."""

    default_name = "Foreign Evaluator"
    deterministic = False
    gets_copies = True

    ask: Callable[[EvalTestCase], Awaitable[ScoreLike]]
    """Asks it about a case and reads what it says, on a loop that its clients can rely on."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "ask", on_lasting_loop(self.ask))

    async def score(self, case: EvalTestCase) -> ScoreLike:
        return await self.ask(case)


_NOT_FINISHED = "The run was given up before it had answered."
_results: ContextVar[Callable[[AgentRun], TaskResult] | None] = ContextVar("agent_results", default=None)


@contextmanager
def _telling_how_far(result_of: Callable[[AgentRun], TaskResult]) -> Iterator[None]:
    token = _results.set(result_of)
    try:
        yield
    finally:
        _results.reset(token)


def keep_so_far(read: Callable[[], tuple[AgentTrace, CallMetrics | None]]) -> None:
    """Have `read` asked what an agent has done and used, where a runner gives up its run."""
    result_of = _results.get()
    if result_of is None:
        return

    def tell() -> TaskResult:
        trace, usage = read()
        done = replace(trace, final_response=None, error=trace.error or _NOT_FINISHED)
        return result_of(AgentRun(trace=done, usage=usage))

    report_progress(tell)


def describe_tools(
    describe: Callable[[Any], tuple[ToolDefinition, ...]], agent: Any
) -> tuple[ToolDefinition, ...] | None:
    """Return the tools of an agent for the evaluators of its run; None where they cannot be described."""
    try:
        return describe(agent)
    except Exception:  # what cannot be described does not keep the agent from running
        return None


def made(agent_or_factory: Any, method: str) -> Any:
    """Return an agent: what has `method` is one; anything else is called to make a fresh one.

    Raises:
        IntegrationError: for what is neither.
    """
    if hasattr(agent_or_factory, method) and not isinstance(agent_or_factory, type):
        return agent_or_factory
    if not callable(agent_or_factory):
        raise IntegrationError(
            f"An agent with {method!r}, or a function without parameters that makes one, is needed, "
            f"not {agent_or_factory!r:.80}."
        )
    agent = agent_or_factory()
    if not hasattr(agent, method):
        raise IntegrationError(f"{agent_or_factory!r:.80} made {agent!r:.80}, which has no {method!r}.")
    return agent


def identity(framework: str, *parts: Any) -> str:
    """Return the text that tells an agent apart: short parts as they are, long ones by a mark."""
    return ":".join([framework, *(_short(part) for part in parts if part)])


def _short(part: Any) -> str:
    text = part if isinstance(part, str) else getattr(part, "__qualname__", None) or type(part).__qualname__
    if len(text) <= 60 and "\n" not in text:
        return text
    return f"#{_mark(text)}"


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]


def numeric_score(value: Any, reason: Any = None, metadata: Mapping[str, Any] | None = None) -> Score:
    """Return what another framework's evaluator said as ours: a number in 0..1, or a verdict as 1 or 0.

    Raises:
        EvaluationError: where it gave neither.
    """
    text = reason if isinstance(reason, str) else ""
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return Score(float(value), text, metadata=dict(metadata or {}))
    said = f": {text}" if text else "."
    raise EvaluationError(f"It gave {value!r:.80} as a score, which is not a number in 0..1{said}")


def mean_score(scores: Mapping[str, Score]) -> Score:
    """Return several scores of one evaluator as their mean, each of them in the reason and the metadata.

    Raises:
        EvaluationError: where there are none.
    """
    if not scores:
        raise EvaluationError("It gave no score.")
    if len(scores) == 1:
        return next(iter(scores.values()))
    lines = [f"{name}: {score.value:g} {score.reason}".rstrip() for name, score in scores.items()]
    values = {name: score.value for name, score in scores.items()}
    return Score(exact_mean([*values.values()]), "\n".join(lines), metadata={"scores": values})
