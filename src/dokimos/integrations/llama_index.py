"""Agents, workflows, engines, models and evaluators of LlamaIndex (`llama_index.core`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, Unpack

from dokimos.core.agent import AgentTrace, ToolDefinition
from dokimos.core.conversation import ConversationTrajectory
from dokimos.core.eval_result import require_one_score
from dokimos.core.extras import require
from dokimos.core.json_object import parse_object
from dokimos.core.jsonable import text_form
from dokimos.core.keys import CONTEXTS, INPUT, OUTPUT
from dokimos.core.means import place_between
from dokimos.core.metrics import CallMetrics, PriceTable
from dokimos.core.results import EvalResult
from dokimos.core.test_case import EvalTestCase
from dokimos.errors import EvaluationError
from dokimos.evaluators.base import Evaluator, ScoreLike
from dokimos.integrations.base import (
    AgentApplication,
    AgentJudge,
    AgentRun,
    AgentTask,
    Bridge,
    ForeignEvaluator,
    ResultOptions,
    TaskOptions,
    identity,
    keep_so_far,
    numeric_score,
)
from dokimos.integrations.kinds import made_one_of, method_of
from dokimos.integrations.lasting_loop import on_lasting_loop
from dokimos.integrations.llama_index_results import documents_of, read_trace, text_in, usage_in
from dokimos.integrations.reading import extract_texts, get, merge_tools, priced
from dokimos.runtime.concurrency import run_sync

EXTRA: Final = "llama-index"

AgentLike: TypeAlias = Any
"""An agent, an `AgentWorkflow`, a query engine, a chat engine, an LLM, or a function that makes one."""


def to_agent_trace(result: Any) -> AgentTrace:
    """Return what a run did.

    Takes the `AgentOutput` of an agent, a list of the events of its handler (which alone tell what a model
    said between its calls), the response of a query or chat engine, or that of a model.
    """
    return read_trace(result)


def to_tool_definitions(agent: AgentLike | Iterable[Any]) -> tuple[ToolDefinition, ...]:
    """Return the tools of an agent, of all agents of a workflow, or of a list of tools or functions.

    That of a workflow by which agents hand over is among them.
    """
    if isinstance(agent, list | tuple):
        return tuple(_definition(tool) for tool in agent)
    return run_sync(on_lasting_loop(_tools_of)(made_one_of(agent, _METHODS), ""))


def to_call_metrics(
    result: Any, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return the tokens of a run, and their cost; None where nothing was measured.

    An `AgentOutput` knows only the last of its model calls, the list of a handler's events all of them. The
    responses of engines carry no tokens.
    """
    return priced(usage_in(result), model, price_table)


def run_and_trace(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Run an agent, engine or model on text; `run_options` are those of its own method."""
    return run_sync(run_and_trace_async(agent, inputs, **run_options))


async def run_and_trace_async(agent: AgentLike, inputs: Any, **run_options: Any) -> AgentTrace:
    """Do what `run_and_trace` does, on the event loop that is running."""
    return (await _bridge(agent, run_options).run(inputs)).trace


def as_task(
    agent: AgentLike, *, run_options: Mapping[str, Any] | None = None, **options: Unpack[TaskOptions]
) -> AgentTask:
    """Return a task that runs an agent, engine or model on an input, each without a memory of the others.

    The source nodes of engines, also of those that an agent has as tools, are the retrieved context.
    """
    return AgentTask(_bridge(agent, run_options or {}), **options)


def as_application(
    agent: AgentLike, *, run_options: Mapping[str, Any] | None = None, **options: Unpack[ResultOptions]
) -> AgentApplication:
    """Return an agent, engine or model as the application of a simulated conversation.

    A query engine is given only what the user said last.
    """
    return AgentApplication(AgentTask(_bridge(agent, run_options or {}), **options))


def as_judge(
    agent: AgentLike, *, model: str | None = None, price_table: PriceTable | None = None
) -> AgentJudge:
    """Return an LLM or an agent as a judge."""
    return AgentJudge(_bridge(agent, {}), model, price_table)


def to_test_case(request: Any, *, query: str | None = None, expected: Any = None) -> EvalTestCase:
    """Return what LlamaIndex's evaluators are given, or what an engine answered, as a case.

    Takes an `EvaluationResult` (query to input, response to output, contexts to context), or a response of an
    engine, whose `query` must be given; its source nodes are the context.
    """
    asked = get(request, "query", default=query)
    contexts, documents = get(request, "contexts"), documents_of(request)
    if contexts is None and documents is not None:
        contexts = extract_texts(documents)
    outputs = {OUTPUT: text_in(request), CONTEXTS: None if contexts is None else list(contexts)}
    return EvalTestCase(
        {} if asked is None else {INPUT: asked},
        {key: value for key, value in outputs.items() if value is not None},
        expected_outputs={} if expected is None else {OUTPUT: expected},
    )


def from_eval_result(result: EvalResult, case: EvalTestCase | None = None) -> Any:
    """Return a result of ours as an `EvaluationResult`: success to passing, reason to feedback.

    An error, or that the evaluator was skipped, makes it invalid, with no score.
    """
    fault = result.error or result.skipped
    return require("llama_index.core.evaluation", EXTRA).EvaluationResult(
        query=None if case is None else case.input,
        contexts=None if case is None else case.contexts,
        response=None if case is None else case.actual_output,
        passing=result.success,
        feedback=result.reason or None,
        score=result.score,
        invalid_result=fault is not None,
        invalid_reason=fault,
    )


def as_evaluator(
    theirs: Any,
    *,
    name: str = "",
    threshold: float | None = 0.5,
    scale: tuple[float, float] = (0.0, 1.0),
) -> ForeignEvaluator:
    """Return an evaluator of LlamaIndex as one of ours.

    It is given input, output, context and, where there is one, the expected output as `reference`. Its score
    is read on `scale` (1 to 5 for `CorrectnessEvaluator`); without one, whether it passes is the score. An
    invalid result is an error.
    """

    async def ask(case: EvalTestCase) -> ScoreLike:
        reference = {} if case.expected_output is None else {"reference": case.expected_output}
        result = await theirs.aevaluate(
            query=case.input, response=case.actual_output, contexts=case.contexts, **reference
        )
        return _judged(result, scale)

    return ForeignEvaluator(name=name or type(theirs).__name__, threshold=threshold, ask=ask)


def from_evaluator(ours: Evaluator) -> Any:
    """Return an evaluator of ours as one of LlamaIndex; a `reference` becomes the expected output."""
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
            result = require_one_score(await ours.evaluate_async(case), "LlamaIndex")
            return from_eval_result(result, case)

    return DokimosEvaluator()


_METHODS: Final = ("aquery", "acomplete", "achat", "run")
"""What only a query engine, an LLM, a chat engine and an agent have; the first of them decides."""


def _bridge(agent: AgentLike, run_options: Mapping[str, Any]) -> Bridge:
    async def answer(text: str, history: list[Any]) -> AgentRun:
        ready = made_one_of(agent, _METHODS)
        run_it = _RUNNERS[method_of(ready, _METHODS) or "run"]
        answered = await run_it(ready, text, history, run_options)
        return replace(answered, tools=await _known_tools(ready, text))

    async def run(inputs: Any) -> AgentRun:
        return await answer(text_form(inputs) or "", [])

    async def converse(conversation: ConversationTrajectory) -> AgentRun:
        *history, last = conversation.to_messages("openai")
        return await answer(last["content"], [_told(message) for message in history])

    return Bridge(identity=_identity(agent), run=run, converse=converse)


async def _known_tools(ready: Any, text: str) -> tuple[ToolDefinition, ...] | None:
    try:
        return await _tools_of(ready, text)
    except Exception:  # what cannot be described does not keep the agent from running
        return None


async def _tools_of(agent: Any, text: str) -> tuple[ToolDefinition, ...]:
    """Return the tools that an agent has for a text: its own, those that it looks up, that of handoffs."""
    if not callable(get(agent, "get_tools")):
        return tuple(_definition(tool) for tool in get(agent, "tools", default=()))
    names = get(agent, "agents")
    found = (
        [await agent.get_tools(text)] if names is None else [await agent.get_tools(n, text) for n in names]
    )
    return merge_tools(_definition(tool) for tools in found for tool in tools)


async def _run_agent(agent: Any, text: str, history: list[Any], options: Mapping[str, Any]) -> AgentRun:
    events: list[Any] = []

    def so_far() -> tuple[AgentTrace, CallMetrics | None]:
        return to_agent_trace(events), usage_in(events)

    keep_so_far(so_far)
    try:
        handler = agent.run(user_msg=text, chat_history=history or None, **options)
        async for event in handler.stream_events():
            events.append(event)
        output = await handler
    except Exception as error:
        return AgentRun.of_failure(error, *so_far())
    return AgentRun(
        trace=to_agent_trace(events),
        output=get(output, "structured_response"),
        usage=usage_in(events),
        documents=documents_of(output),
        hint="as the source nodes of a query engine that is a tool",
    )


async def _query(engine: Any, text: str, history: list[Any], options: Mapping[str, Any]) -> AgentRun:
    return _read(await engine.aquery(text, **options))


async def _chat(engine: Any, text: str, history: list[Any], options: Mapping[str, Any]) -> AgentRun:
    return _read(await engine.achat(text, chat_history=history, **options))


async def _complete(llm: Any, text: str, history: list[Any], options: Mapping[str, Any]) -> AgentRun:
    if not history:
        return _read(await llm.acomplete(text, **options))
    return _read(await llm.achat([*history, _told({"role": "user", "content": text})], **options))


_RUNNERS: Final = {"aquery": _query, "acomplete": _complete, "achat": _chat, "run": _run_agent}


def _read(result: Any) -> AgentRun:
    return AgentRun(
        trace=to_agent_trace(result),
        usage=usage_in(result),
        documents=documents_of(result),
        hint="as source nodes of the response",
    )


def _told(message: Mapping[str, Any]) -> Any:
    """Return a message of Chat Completions as one of LlamaIndex's."""
    types = require("llama_index.core.base.llms.types", EXTRA)
    blocks = [types.TextBlock(text=message["content"])] if message.get("content") else []
    for call in message.get("tool_calls", ()):
        function = call["function"]
        arguments = parse_object(function["arguments"]) or {}
        blocks.append(
            types.ToolCallBlock(tool_call_id=call["id"], tool_name=function["name"], tool_kwargs=arguments)
        )
    answered = {key: value for key, value in message.items() if key == "tool_call_id"}
    return types.ChatMessage(role=message["role"], blocks=blocks, additional_kwargs=answered)


def _identity(agent: AgentLike) -> str:
    if method_of(agent, _METHODS) is None:
        return identity("llama-index", agent)
    llm = get(agent, "llm", "_llm", default=agent)
    name = get(agent, "name", default=type(agent).__qualname__)
    return identity("llama-index", name, get(llm, "model"), get(agent, "system_prompt"))


def _definition(tool: Any) -> ToolDefinition:
    about = get(tool, "metadata")
    if about is None:
        return ToolDefinition.from_object(tool)
    return ToolDefinition(about.name or "", about.description or "", input_schema=about.get_parameters_dict())


def _judged(result: Any, scale: tuple[float, float]) -> ScoreLike:
    if result.invalid_result:
        raise EvaluationError(result.invalid_reason or "LlamaIndex calls its result invalid.")
    passing = {} if result.passing is None else {"passing": result.passing}
    if result.score is None:
        return numeric_score(result.passing, result.feedback)
    low, high = scale
    return numeric_score(place_between(low, high, result.score), result.feedback, passing)
