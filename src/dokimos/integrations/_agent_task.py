"""A framework's agent as the task of an experiment, the application of a conversation, and a judge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypedDict

from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.error_detail import ErrorDetail
from dokimos._core.example import Example
from dokimos._core.jsonable import text_form
from dokimos._core.keys import CONTEXTS, INPUT, OUTPUT, TOOLS, input_of
from dokimos._core.metrics import PriceTable
from dokimos._core.task_marker import takes_example
from dokimos._core.task_result import TaskResult
from dokimos._core.text import error_text
from dokimos.errors import DokimosError, EvaluationError, IntegrationError, JudgeUnavailableError
from dokimos.integrations._agent_runs import AgentRun, AgentRunner, hash_text, report_runs_as
from dokimos.integrations._document_texts import (
    extract_texts,
    extract_texts_with_metadata,
    find_tool_documents,
)
from dokimos.integrations._token_usage import add_cost
from dokimos.judges._judge_identity import identity_of
from dokimos.judges._protocol import JsonSchemaDict, JudgeReply


class ResultOptions(TypedDict, total=False):
    """How to convert a result; options of `as_application` and, with two more, of `as_task`."""

    model: str | None
    """The name for the price table, where the framework does not report the model."""
    price_table: PriceTable | None
    """Gives the cost where the framework reports none."""
    allow_blank: bool
    """Whether a blank reply is accepted; it is an error otherwise."""
    contexts_key: str
    """Under which key retrieved texts go into the outputs ("contexts")."""
    metadata_key: str | None
    """Under which key the same texts go with their metadata, if at all."""
    context_tools: tuple[str, ...]
    """The names of tools whose results are retrieved context."""
    needs_context: bool
    """Whether a result without sources is an error, since the application retrieves."""


class TaskOptions(ResultOptions, total=False):
    """Options of `as_task`."""

    input_key: str
    """Which of an example's inputs the agent is given ("input")."""
    output_key: str
    """Under which key its answer goes into the outputs ("output")."""


@dataclass(frozen=True)
class AgentTask:
    """A framework's agent as the task of an experiment; made by `as_task`."""

    runner: AgentRunner
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
        object.__setattr__(self, "__qualname__", f"as_task({self.runner.identity})")

    @takes_example
    async def __call__(self, example: Example) -> TaskResult:
        value = input_of(example.inputs, self.input_key)
        if value is None and self.input_key not in example.inputs:
            raise EvaluationError(
                f"The agent needs the input {self.input_key!r}, which this example does not have."
            )
        with report_runs_as(self.result_of):
            return self.result_of(await self.runner.run(value))

    def result_of(self, run: AgentRun) -> TaskResult:
        """Return outputs and metrics of a run.

        A run that failed, a blank reply, and missing sources where they are needed are errors; the outputs
        have what was done until then.
        """
        output = run.answer
        outputs = {key: value for key, value in run.trace.outputs_so_far().items() if key != OUTPUT}
        if run.tools is not None:
            outputs[TOOLS] = list(run.tools)
        error = run.trace.error
        detail = None if error is None or run.cause is None else ErrorDetail.of(run.cause)
        if error is None:
            outputs = {self.output_key: "" if output is None else output, **outputs}
            try:
                if not self.allow_blank:
                    _require_reply(run)
                outputs |= self._context(run)
            except IntegrationError as problem:
                error = error_text(problem)
        metrics = add_cost(run.usage, self.model, self.price_table)
        return TaskResult(outputs, metrics, error=error, error_detail=detail)

    def _context(self, run: AgentRun) -> dict[str, Any]:
        documents = run.documents
        if self.context_tools:
            tool_documents = find_tool_documents(run.trace, self.context_tools)
            documents = documents if tool_documents is None else (*(documents or ()), *tool_documents)
        if documents is None:
            if self.needs_context:
                raise IntegrationError(_describe_missing_sources(run, self.context_tools))
            return {}
        context: dict[str, Any] = {self.contexts_key: extract_texts(documents)}
        if self.metadata_key is not None:
            context[self.metadata_key] = extract_texts_with_metadata(documents)
        return context


def _require_reply(run: AgentRun) -> None:
    """Refuse a reply without text, unless it ends with a call that the caller has to make."""
    output = run.answer
    blank = output is None or (isinstance(output, str) and not output.strip())
    calls = run.trace.tool_calls
    if blank and not (calls and calls[-1].result is None):
        raise IntegrationError("The agent gave a blank reply; allow_blank=True accepts one.")


def _describe_missing_sources(run: AgentRun, tools: tuple[str, ...]) -> str:
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
        result = self.task.result_of(await self.task.runner.converse(conversation))
        # What else an application gives goes with its reply, and each of its replies has the same tools.
        outputs = {key: value for key, value in result.outputs.items() if key != TOOLS}
        return replace(result, outputs=outputs)


@dataclass(frozen=True)
class AgentJudge:
    """A framework's agent or model as a judge; made by `as_judge`."""

    runner: AgentRunner
    model: str | None = None
    price_table: PriceTable | None = None

    @cached_property
    def identity(self) -> str:
        """The agent with a hash of its content: cached replies of two judges must not be mixed up."""
        try:
            content = identity_of(self.runner.judge or self.runner.run)
        except Exception:  # an agent may hold anything
            # No reply is then found in a cache: it is asked for again rather than taken from another agent.
            content = f"{id(self):x}"
        return f"{self.runner.identity}#{hash_text(content)}"

    async def complete(self, prompt: str, *, schema: JsonSchemaDict | None = None) -> JudgeReply:
        try:
            if self.runner.judge is None:
                run = await self.runner.run(prompt)
            else:
                run = await self.runner.judge(prompt, schema)
        except DokimosError:
            raise
        except Exception as error:
            raise JudgeUnavailableError(
                f"{self.runner.identity} gave no answer: {error_text(error)}"
            ) from error
        if run.trace.error is not None:
            message = f"{self.runner.identity} gave no answer: {run.trace.error}"
            raise JudgeUnavailableError(message) from run.cause
        text = text_form(run.answer)
        return JudgeReply(text or "", add_cost(run.usage, self.model, self.price_table))
