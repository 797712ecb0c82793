"""Agents, workflows, engines, models and evaluators of LlamaIndex (`llama_index.core`).

An agent is an agent, an `AgentWorkflow`, a query engine, a chat engine, an LLM, or a function without
parameters that makes one for each input. An input is text; `run_options` are those of the object's own method
(`run`, `aquery`, `achat`, `acomplete`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Unpack

from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.eval_result import require_one_score
from dokimos._core.extras import require
from dokimos._core.json_object import parse_object
from dokimos._core.jsonable import text_form
from dokimos._core.keys import CONTEXTS, INPUT, OUTPUT
from dokimos._core.means import relative_position
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult
from dokimos._core.test_case import EvalTestCase
from dokimos._core.tool_definition import ToolDefinition
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import EvaluationError
from dokimos.evaluators._base import Evaluator, ScoreLike
from dokimos.integrations._agent_runs import AgentRun, finish_run
from dokimos.integrations._agent_task import AgentApplication, AgentTask, ResultOptions, TaskOptions
from dokimos.integrations._background_loop import run_on_background_loop
from dokimos.integrations._document_texts import extract_texts
from dokimos.integrations._foreign_evaluators import ForeignEvaluator, parse_score
from dokimos.integrations._framework import Framework, RunOptions, find_method, resolve_agent
from dokimos.integrations._framework_objects import FrameworkObject, get
from dokimos.integrations._llama_index_results import find_documents, find_text, parse_trace, parse_usage
from dokimos.integrations._tool_lists import merge_tools

__all__ = [
    "as_application",
    "as_evaluator",
    "as_judge",
    "as_task",
    "from_eval_result",
    "from_evaluator",
    "run_and_trace",
    "run_and_trace_async",
    "to_agent_trace",
    "to_call_metrics",
    "to_test_case",
    "to_tool_definitions",
]

EXTRA: Final = "llama-index"


class LlamaIndex(Framework):
    """LlamaIndex."""

    name = "llama-index"
    # Of a query engine, an LLM, a chat engine, an agent; an object that has several is run by the first.
    agent_methods: ClassVar[tuple[str, ...]] = ("aquery", "acomplete", "achat", "run")

    def to_agent_trace(self, result: object) -> AgentTrace:
        """Return what a run did.

        Takes the `AgentOutput` of an agent, a list of the events of its handler (which alone have what a
        model said between its calls), the response of a query or chat engine, or that of a model.
        """
        return parse_trace(result)

    def to_tool_definitions(self, agent: object) -> tuple[ToolDefinition, ...]:
        """Return the tools of an agent, of all agents of a workflow, or of a list of tools or functions.

        The tool of a workflow by which agents hand over is among them.
        """
        if isinstance(agent, list | tuple):
            return tuple(_define_tool(tool) for tool in agent)
        agent = resolve_agent(agent, self.agent_methods)
        return run_sync(run_on_background_loop(_list_tools)(agent, ""))

    def parse_usage(self, result: object) -> CallMetrics | None:
        """Return the tokens of a result.

        An `AgentOutput` knows only the last of its model calls, the list of a handler's events all of them.
        The responses of engines carry no tokens.
        """
        return parse_usage(result)

    def parse_run(self, result: object) -> AgentRun:
        return AgentRun(
            trace=parse_trace(result),
            usage=parse_usage(result),
            documents=find_documents(result),
            hint="as source nodes of the response",
        )

    async def run_agent(self, agent: object, inputs: object, options: RunOptions) -> AgentRun:
        return await self._answer(agent, text_form(inputs) or "", [], options)

    async def converse(
        self, agent: object, conversation: ConversationTrajectory, options: RunOptions
    ) -> AgentRun:
        *history, last = conversation.to_messages("openai")
        messages = [_to_theirs(message) for message in history]
        return await self._answer(agent, last["content"], messages, options)

    async def _answer(
        self, agent: FrameworkObject, text: str, history: list[Any], options: RunOptions
    ) -> AgentRun:
        match find_method(agent, self.agent_methods):
            case "aquery":
                run = self.parse_run(await agent.aquery(text, **options))
            case "acomplete" if history:
                messages = [*history, _to_theirs({"role": "user", "content": text})]
                run = self.parse_run(await agent.achat(messages, **options))
            case "acomplete":
                run = self.parse_run(await agent.acomplete(text, **options))
            case "achat":
                run = self.parse_run(await agent.achat(text, chat_history=history, **options))
            case _:
                run = await _run_agent(agent, text, history, options)
        return replace(run, tools=await _find_tools(agent, text))

    def describe_agent(self, agent: object) -> Iterable[object]:
        llm = get(agent, "llm", "_llm", default=agent)
        name = get(agent, "name", default=type(agent).__qualname__)
        return name, get(llm, "model"), get(agent, "system_prompt")


_FRAMEWORK: Final = LlamaIndex()
to_agent_trace: Final = _FRAMEWORK.to_agent_trace
to_tool_definitions: Final = _FRAMEWORK.to_tool_definitions
to_call_metrics: Final = _FRAMEWORK.to_call_metrics
run_and_trace: Final = _FRAMEWORK.run_and_trace
run_and_trace_async: Final = _FRAMEWORK.run_and_trace_async
as_judge: Final = _FRAMEWORK.as_judge


def as_task(
    agent: object, *, run_options: RunOptions | None = None, **options: Unpack[TaskOptions]
) -> AgentTask:
    """Return a task that runs an agent, engine or model on an input, each without a memory of the others.

    The source nodes of engines, also of those that an agent has as tools, are the retrieved context.
    """
    return _FRAMEWORK.as_task(agent, run_options=run_options, **options)


def as_application(
    agent: object, *, run_options: RunOptions | None = None, **options: Unpack[ResultOptions]
) -> AgentApplication:
    """Return an agent, engine or model as the application of a simulated conversation.

    A query engine is given only the last message of the user.
    """
    return _FRAMEWORK.as_application(agent, run_options=run_options, **options)


def to_test_case(request: object, *, query: str | None = None, expected: object = None) -> EvalTestCase:
    """Return the arguments of LlamaIndex's evaluators, or the response of an engine, as a case.

    Takes an `EvaluationResult` (query to input, response to output, contexts to context), or a response of an
    engine, whose `query` must be given; its source nodes are the context.
    """
    question = get(request, "query", default=query)
    contexts, documents = get(request, "contexts"), find_documents(request)
    if contexts is None and documents is not None:
        contexts = extract_texts(documents)
    outputs = {OUTPUT: find_text(request), CONTEXTS: None if contexts is None else list(contexts)}
    return EvalTestCase(
        {} if question is None else {INPUT: question},
        {key: value for key, value in outputs.items() if value is not None},
        expected_outputs={} if expected is None else {OUTPUT: expected},
    )


def from_eval_result(result: EvalResult, case: EvalTestCase | None = None) -> Any:
    """Return a result of dokimos as an `EvaluationResult`: success to passing, reason to feedback.

    A result with an error or of a skipped evaluator is invalid and has no score.
    """
    problem = result.error or result.skipped
    return require("llama_index.core.evaluation", EXTRA).EvaluationResult(
        query=None if case is None else case.input,
        contexts=None if case is None else case.contexts,
        response=None if case is None else case.actual_output,
        passing=result.success,
        feedback=result.reason or None,
        score=result.score,
        invalid_result=problem is not None,
        invalid_reason=problem,
    )


def as_evaluator(
    evaluator: FrameworkObject,
    *,
    name: str = "",
    threshold: float | None = 0.5,
    scale: tuple[float, float] = (0.0, 1.0),
) -> ForeignEvaluator:
    """Return an evaluator of LlamaIndex as one of dokimos.

    It is given input, output, context and, where there is one, the expected output as `reference`. Its score
    is placed on `scale` (1 to 5 for `CorrectnessEvaluator`); without one, whether it passes is the score. An
    invalid result is an error.
    """

    async def ask(case: EvalTestCase) -> ScoreLike:
        reference = {} if case.expected_output is None else {"reference": case.expected_output}
        result = await evaluator.aevaluate(
            query=case.input, response=case.actual_output, contexts=case.contexts, **reference
        )
        return _parse_evaluation(result, scale)

    return ForeignEvaluator(name=name or type(evaluator).__name__, threshold=threshold, ask=ask)


def from_evaluator(evaluator: Evaluator) -> Any:
    """Return an evaluator of dokimos as one of LlamaIndex; a `reference` becomes the expected output."""
    base = require("llama_index.core.evaluation", EXTRA).BaseEvaluator

    class DokimosEvaluator(base):  # type: ignore[misc,valid-type] # known only where it is installed
        def _get_prompts(self) -> dict[str, Any]:
            return {}

        def _update_prompts(self, prompts: dict[str, Any]) -> None:
            pass  # it has none of LlamaIndex's

        async def aevaluate(
            self,
            query: str | None = None,
            response: str | None = None,
            contexts: Sequence[str] | None = None,
            **kwargs: Any,
        ) -> Any:
            request = {"query": query, "response": response, "contexts": contexts}
            case = to_test_case(request, expected=kwargs.get("reference"))
            result = require_one_score(await evaluator.evaluate_async(case), "LlamaIndex")
            return from_eval_result(result, case)

    return DokimosEvaluator()


async def _find_tools(agent: object, text: str) -> tuple[ToolDefinition, ...] | None:
    try:
        return await _list_tools(agent, text)
    except Exception:  # tools that cannot be described do not keep the agent from running
        return None


async def _list_tools(agent: FrameworkObject, text: str) -> tuple[ToolDefinition, ...]:
    """Return the tools that an agent has for a text: its own, those that it looks up, that of handoffs."""
    if not callable(get(agent, "get_tools")):
        return tuple(_define_tool(tool) for tool in get(agent, "tools", default=()))
    names = get(agent, "agents")
    lists = (
        [await agent.get_tools(text)] if names is None else [await agent.get_tools(n, text) for n in names]
    )
    return merge_tools(_define_tool(tool) for tools in lists for tool in tools)


async def _run_agent(agent: FrameworkObject, text: str, history: list[Any], options: RunOptions) -> AgentRun:
    events: list[Any] = []

    def read_progress() -> tuple[AgentTrace, CallMetrics | None]:
        return parse_trace(events), parse_usage(events)

    async def attempt() -> AgentRun:
        handler = agent.run(user_msg=text, chat_history=history or None, **options)
        async for event in handler.stream_events():
            events.append(event)
        output = await handler
        return AgentRun(
            trace=parse_trace(events),
            output=get(output, "structured_response"),
            usage=parse_usage(events),
            documents=find_documents(output),
            hint="as the source nodes of a query engine that is a tool",
        )

    return await finish_run(attempt(), read_progress)


def _to_theirs(message: Mapping[str, Any]) -> Any:
    """Convert a message of Chat Completions to one of LlamaIndex."""
    types = require("llama_index.core.base.llms.types", EXTRA)
    blocks = [types.TextBlock(text=message["content"])] if message.get("content") else []
    for call in message.get("tool_calls", ()):
        function = call["function"]
        arguments = parse_object(function["arguments"]) or {}
        blocks.append(
            types.ToolCallBlock(tool_call_id=call["id"], tool_name=function["name"], tool_kwargs=arguments)
        )
    call_id = {key: value for key, value in message.items() if key == "tool_call_id"}
    return types.ChatMessage(role=message["role"], blocks=blocks, additional_kwargs=call_id)


def _define_tool(tool: object) -> ToolDefinition:
    about = get(tool, "metadata")
    if about is None:
        return ToolDefinition.from_object(tool)
    return ToolDefinition(about.name or "", about.description or "", input_schema=about.get_parameters_dict())


def _parse_evaluation(result: FrameworkObject, scale: tuple[float, float]) -> ScoreLike:
    if result.invalid_result:
        raise EvaluationError(result.invalid_reason or "LlamaIndex calls its result invalid.")
    passing = {} if result.passing is None else {"passing": result.passing}
    if result.score is None:
        return parse_score(result.passing, result.feedback)
    low, high = scale
    return parse_score(relative_position(low, high, result.score), result.feedback, passing)
