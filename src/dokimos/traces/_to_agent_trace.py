"""Converts spans to what evaluators look at: an `AgentTrace`, a case, an example."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from dokimos._core.agent import AgentTrace
from dokimos._core.example import Example
from dokimos._core.keys import CONTEXTS, INPUT, PARTIAL_RESPONSE, RETRIEVED, TOOLS, UNKNOWN_RESPONSE
from dokimos._core.metrics import CallMetrics, PriceTable
from dokimos._core.test_case import EvalTestCase
from dokimos._core.tool_definition import ToolDefinition
from dokimos.traces._call_matching import collect_calls
from dokimos.traces._run_ending import find_ending, has_run, outermost_agents
from dokimos.traces._semconv import SpanRole
from dokimos.traces._span import Span, group_by_trace
from dokimos.traces._span_content import Document, SpanContent
from dokimos.traces._transcript import Transcript

TRACE_ID = "traceId"
SPAN_ID = "spanId"
"""In the metadata of an example: the span that stands for the whole trace, where results are attached."""

T = TypeVar("T")


def to_agent_trace(spans: Iterable[Span]) -> AgentTrace:
    """Return what an agent did in one trace, or in the part of it that is given.

    The calls of all agents are there in order of time, without those that are only in the history that the
    model was sent. The final response is the one that the outermost agent or the root declares, else the last
    message of the model; a run that failed without one has an `error`, and `errors` are the other failures. A
    trace whose answer was not recorded says so (`has_unknown_response`). The metadata has the trace id, and
    the model, the conversation and the retrieved context where they are known. Raises `ValueError` for
    spans of several traces or none.
    """
    return _build_trace(_parse_one_trace(spans))


def to_agent_traces(spans: Iterable[Span]) -> dict[str, AgentTrace]:
    """Return the agent trace of each trace in which anything ran, by trace id."""
    transcripts = ((key, Transcript.of(group)) for key, group in group_by_trace(spans).items())
    return {key: _build_trace(each) for key, each in transcripts if has_run(each)}


def call_metrics(spans: Iterable[Span], prices: PriceTable | None = None) -> CallMetrics:
    """Return the tokens, cost and time of one trace.

    The usage of model calls is added up; that of agents counts only where their models record none. A
    recorded cost takes precedence over the price table. A call without either adds nothing to the cost:
    `price_coverage` counts them.
    """
    return _sum_metrics(_parse_one_trace(spans), prices)


class PriceCoverage(NamedTuple):
    """How many of the calls that used tokens have a known cost."""

    priced: int
    unpriced: int
    """Where there are any, the cost of the trace is the sum of the others, and so a lower bound."""


def price_coverage(spans: Iterable[Span], prices: PriceTable | None = None) -> PriceCoverage:
    """Return how many of the calls that `call_metrics` adds up have a cost, recorded or from the price table.

    Example:
        >>> from dokimos.traces import Span
        >>> def call(span_id, cost):
        ...     usage = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100}
        ...     return Span(span_id=span_id, trace_id="1", name="chat", attributes=usage | cost)
        >>> price_coverage([call("a", {"gen_ai.usage.cost": 0.01}), call("b", {})])
        PriceCoverage(priced=1, unpriced=1)
    """
    used = [_add_cost(each, prices) for each in _iterate_usage(_parse_one_trace(spans))]
    priced = sum(each.cost_usd is not None for each in used)
    return PriceCoverage(priced, len(used) - priced)


def to_test_case(spans: Iterable[Span], prices: PriceTable | None = None) -> EvalTestCase:
    """Return one trace as a case: input, output, calls, retrieved context, tools and metrics.

    There is no output where the answer was not recorded, and an error where the run failed without one.
    """
    return _build_case(_parse_one_trace(spans), prices)


def to_examples(spans: Iterable[Span], prices: PriceTable | None = None) -> list[Example]:
    """Return each trace as a row with recorded outputs and metrics, for an experiment over `recorded_task()`.

    Its id is the trace id. A run that failed is a row with the error, which no evaluator scores. A trace in
    which nothing ran, such as one that only sets an agent up, gives no row.
    """
    transcripts = ((key, Transcript.of(group)) for key, group in group_by_trace(spans).items())
    return [_build_example(key, each, prices) for key, each in transcripts if has_run(each)]


def _parse_one_trace(spans: Iterable[Span]) -> Transcript:
    traces = group_by_trace(spans)
    if len(traces) != 1:
        raise ValueError(
            f"Spans of exactly one trace are needed, not of {len(traces)}; to_agent_traces and to_examples "
            "take several."
        )
    return Transcript.of(next(iter(traces.values())))


def _build_trace(transcript: Transcript) -> AgentTrace:
    calls = [call for call in collect_calls(transcript) if not call.is_earlier]
    ending = find_ending(transcript)
    flags: dict[str, Any] = {} if ending.is_recorded else {UNKNOWN_RESPONSE: True}
    if ending.partial is not None:
        flags[PARTIAL_RESPONSE] = ending.partial
    return AgentTrace(
        tuple(call.build() for call in calls),
        ending.answer,
        reasoning_steps=tuple(_reasoning(transcript)),
        metadata={**dict(_metadata(transcript)), **flags},
        error=ending.error,
        errors=ending.errors,
    )


def _reasoning(transcript: Transcript) -> Iterator[str]:
    entries = [entry for thread in transcript.threads for entry in thread.entries[thread.start :]]
    for entry in sorted(entries, key=lambda entry: entry.time_ns):
        yield from entry.message.reasoning


def _metadata(transcript: Transcript) -> Iterator[tuple[str, Any]]:
    yield TRACE_ID, transcript.tree.spans[0].trace_id
    models = [transcript.content(span).usage.model for span in transcript.spans_of(SpanRole.MODEL)]
    model_names = _deduplicate(model for model in models if model)
    if len(model_names) == 1:
        yield "model", model_names[0]
    conversation = conversation_id(transcript)
    if conversation is not None:
        yield "conversationId", conversation
    yield from _collect_retrieval(transcript)


def conversation_id(transcript: Transcript) -> str | None:
    """Return the conversation that a trace belongs to: the first that a span names."""
    ids = (transcript.content(span).conversation_id for span in transcript.tree.spans)
    return next((each for each in ids if each is not None), None)


def _collect_retrieval(transcript: Transcript) -> Iterator[tuple[str, list[str]]]:
    documents = _deduplicate(_documents(transcript))
    texts = _deduplicate(document.content for document in documents if document.content)
    ids = _deduplicate(document.id for document in documents if document.id is not None)
    if texts:
        yield CONTEXTS, texts
    if ids:
        yield RETRIEVED, ids


def _documents(transcript: Transcript) -> Iterator[Document]:
    """Yield the retrieved documents; those that a retriever got from one below it come once."""
    for span in transcript.spans_of(SpanRole.RETRIEVAL):
        if not any(
            transcript.content(above).documents for above in transcript.ancestors_of(span, SpanRole.RETRIEVAL)
        ):
            yield from transcript.content(span).documents


def _deduplicate(items: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(items))


def _input(transcript: Transcript) -> str | None:
    """Return the last message of the user, else the input of the root."""
    main = transcript.main
    if main is not None:
        questions = [entry.message.text for entry in main.entries if entry.message.role == "user"]
        if questions:
            return questions[-1]
    texts = (transcript.content(span).input_text for span in transcript.tree.roots)
    return next((text for text in texts if text is not None), None)


def _tools(transcript: Transcript) -> list[ToolDefinition]:
    """Return the tools that models and agents were offered, else those that ran and describe themselves."""
    ran = [transcript.content(span) for span in transcript.spans_of(SpanRole.TOOL)]
    others = [content for content in transcript.contents.values() if content.role is not SpanRole.TOOL]
    described, offered = _collect_definitions(ran), _collect_definitions(others)
    if offered:
        return [tool if tool.input_schema else described.get(name, tool) for name, tool in offered.items()]
    # A tool that ran without a description is listed too, though its arguments are unknown.
    names = _deduplicate(content.name for content in ran if content.error is None or content.tools)
    return [described.get(name, ToolDefinition(name)) for name in names] if described else []


def _collect_definitions(contents: Iterable[SpanContent]) -> dict[str, ToolDefinition]:
    """Return the tools that spans describe, by name; the first description counts."""
    by_name: dict[str, ToolDefinition] = {}
    for content in contents:
        for tool in content.tools:
            by_name.setdefault(tool.name, tool)
    return by_name


def _build_case(transcript: Transcript, prices: PriceTable | None) -> EvalTestCase:
    example = _build_example(None, transcript, prices)
    return example.to_test_case(example.actual_outputs, metrics=example.metrics, error=example.actual_error)


def _build_example(id_: str | None, transcript: Transcript, prices: PriceTable | None) -> Example:
    trace = _build_trace(transcript)
    user_input, tools = _input(transcript), _tools(transcript)
    outputs = {**trace.outputs_so_far(), **dict(_collect_retrieval(transcript))}
    in_outputs = (*outputs, UNKNOWN_RESPONSE)
    other_metadata = {key: value for key, value in trace.metadata.items() if key not in in_outputs}
    metadata = {**other_metadata, SPAN_ID: _find_judged_span(transcript).span_id}
    return Example(
        {} if user_input is None else {INPUT: user_input},
        metadata={**metadata, TOOLS: tools} if tools else metadata,
        id=id_,
        actual_outputs=outputs,
        metrics=_sum_metrics(transcript, prices),
        actual_error=trace.error,
    )


def _find_judged_span(transcript: Transcript) -> Span:
    """Return the span that stands for a trace: the last outermost agent, else the first root."""
    outermost = outermost_agents(transcript)
    return outermost[-1] if outermost else (transcript.tree.roots or transcript.tree.spans)[0]


def _sum_metrics(transcript: Transcript, prices: PriceTable | None) -> CallMetrics:
    total = CallMetrics()
    for each in _iterate_usage(transcript):
        total += _add_cost(each, prices)
    starts = [span.start_ns for span in transcript.tree.spans if span.start_ns is not None]
    ends = [span.end_ns for span in transcript.tree.spans if span.end_ns is not None]
    # Spans of several machines: their clocks may differ, but a run never takes negative time.
    latency = max(0, max(ends) - min(starts)) / 1e6 if starts and ends else None
    chunks = [content.usage.first_chunk_ms for content in transcript.contents.values()]
    first = min((each for each in chunks if each is not None), default=None)
    return replace(total, latency_ms=latency, first_chunk_ms=first)


def _iterate_usage(transcript: Transcript) -> Iterator[CallMetrics]:
    """Yield the usage of models, or of the innermost spans above them where models record none."""
    tree = transcript.tree
    measured = [span for span in tree.spans if transcript.content(span).usage.tokens is not None]
    models = {span.span_id for span in measured if transcript.content(span).role is SpanRole.MODEL}
    around = {above.span_id for span in measured for above in tree.ancestors(span)}
    for span in measured:
        if any(above.span_id in models for above in tree.ancestors(span)):
            continue
        if span.span_id in models or span.span_id not in around:
            yield transcript.content(span).usage


def _add_cost(used: CallMetrics, prices: PriceTable | None) -> CallMetrics:
    if used.cost_usd is not None or prices is None:
        return used
    return replace(used, cost_usd=prices(used.model, used.tokens_in, used.tokens_out))
