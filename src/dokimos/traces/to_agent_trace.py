"""From spans to what evaluators look at: an `AgentTrace`, a case, a row of a data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from dokimos.core.agent import AgentTrace, ToolDefinition
from dokimos.core.example import Example
from dokimos.core.keys import CONTEXTS, INPUT, PARTIAL_RESPONSE, RETRIEVED, TOOLS, UNKNOWN_RESPONSE
from dokimos.core.metrics import CallMetrics, PriceTable
from dokimos.core.test_case import EvalTestCase
from dokimos.traces.calls import made_calls
from dokimos.traces.ending import find_ending, has_run, outermost_agents
from dokimos.traces.reading import Document, SpanReading
from dokimos.traces.semconv import SpanRole
from dokimos.traces.span import Span, group_by_trace
from dokimos.traces.transcript import Transcript

TRACE_ID = "traceId"
SPAN_ID = "spanId"
"""In the metadata of an example: the span that stands for the whole trace, where results are attached."""

T = TypeVar("T")


def to_agent_trace(spans: Iterable[Span]) -> AgentTrace:
    """Return what an agent did in one trace, or in the part of it that is given.

    The calls of all agents are there in order of time, but none that only stands in the history that the
    model was sent. The final response is what the outermost agent or the root says it is, else the last
    message of the model; a run that failed without one has an `error`, and `errors` are what else failed. Of
    an answer that nobody recorded the trace says so (`has_unknown_response`). The metadata has the trace id,
    and the model, the conversation and the retrieved context where they are known. Raises `ValueError` for
    spans of several traces or none.
    """
    return _trace_of(_only(spans))


def to_agent_traces(spans: Iterable[Span]) -> dict[str, AgentTrace]:
    """Return the agent trace of each trace in which anything ran, by trace id."""
    transcripts = ((key, Transcript.of(found)) for key, found in group_by_trace(spans).items())
    return {key: _trace_of(each) for key, each in transcripts if has_run(each)}


def call_metrics(spans: Iterable[Span], prices: PriceTable | None = None) -> CallMetrics:
    """Return the tokens, cost and time of one trace.

    What the calls of models used is added up; what agents say they used counts only where their models say
    nothing. A cost that was recorded wins over the price table.
    """
    return _metrics_of(_only(spans), prices)


def to_test_case(spans: Iterable[Span], prices: PriceTable | None = None) -> EvalTestCase:
    """Return one trace as a case: input, output, calls, retrieved context, tools and metrics.

    There is no output where nobody recorded the answer, and an error where the run failed without one.
    """
    return _case_of(_only(spans), prices)


def to_examples(spans: Iterable[Span], prices: PriceTable | None = None) -> list[Example]:
    """Return each trace as a row with recorded outputs and metrics, for an experiment over `recorded_task()`.

    Its id is the trace id. A run that failed is a row with the error, which no evaluator scores. A trace in
    which nothing ran, such as one that only sets an agent up, is no row.
    """
    transcripts = ((key, Transcript.of(found)) for key, found in group_by_trace(spans).items())
    return [_example_of(key, each, prices) for key, each in transcripts if has_run(each)]


def _only(spans: Iterable[Span]) -> Transcript:
    traces = group_by_trace(spans)
    if len(traces) != 1:
        raise ValueError(
            f"Spans of exactly one trace are needed, not of {len(traces)}; to_agent_traces and to_examples "
            "take several."
        )
    return Transcript.of(next(iter(traces.values())))


def _trace_of(transcript: Transcript) -> AgentTrace:
    calls = [call for call in made_calls(transcript) if not call.earlier]
    ending = find_ending(transcript)
    known: dict[str, Any] = {} if ending.is_recorded else {UNKNOWN_RESPONSE: True}
    if ending.partial is not None:
        known[PARTIAL_RESPONSE] = ending.partial
    return AgentTrace(
        tuple(call.finished() for call in calls),
        ending.answer,
        reasoning_steps=tuple(_reasoning(transcript)),
        metadata={**dict(_metadata(transcript)), **known},
        error=ending.error,
        errors=ending.errors,
    )


def _reasoning(transcript: Transcript) -> Iterator[str]:
    entries = [entry for thread in transcript.threads for entry in thread.entries[thread.start :]]
    for entry in sorted(entries, key=lambda entry: entry.time_ns):
        yield from entry.message.reasoning


def _metadata(transcript: Transcript) -> Iterator[tuple[str, Any]]:
    yield TRACE_ID, transcript.tree.spans[0].trace_id
    models = [transcript.reading(span).usage.model for span in transcript.spans_of(SpanRole.MODEL)]
    named = _unique(model for model in models if model)
    if len(named) == 1:
        yield "model", named[0]
    conversation = conversation_id(transcript)
    if conversation is not None:
        yield "conversationId", conversation
    yield from _retrieved(transcript)


def conversation_id(transcript: Transcript) -> str | None:
    """Return the conversation that a trace belongs to: the first that a span names."""
    named = (transcript.reading(span).conversation_id for span in transcript.tree.spans)
    return next((each for each in named if each is not None), None)


def _retrieved(transcript: Transcript) -> Iterator[tuple[str, list[str]]]:
    documents = _unique(_documents(transcript))
    texts = _unique(document.content for document in documents if document.content)
    ids = _unique(document.id for document in documents if document.id is not None)
    if texts:
        yield CONTEXTS, texts
    if ids:
        yield RETRIEVED, ids


def _documents(transcript: Transcript) -> Iterator[Document]:
    """Yield what was retrieved, not again what a retriever got from one below it."""
    for span in transcript.spans_of(SpanRole.RETRIEVAL):
        if not any(
            transcript.reading(above).documents for above in transcript.above(span, SpanRole.RETRIEVAL)
        ):
            yield from transcript.reading(span).documents


def _unique(items: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(items))


def _input(transcript: Transcript) -> str | None:
    """Return what the user asked last, else what the root was given."""
    main = transcript.main
    if main is not None:
        asked = [entry.message.text for entry in main.entries if entry.message.role == "user"]
        if asked:
            return asked[-1]
    texts = (transcript.reading(span).input_text for span in transcript.tree.roots)
    return next((text for text in texts if text is not None), None)


def _tools(transcript: Transcript) -> list[ToolDefinition]:
    """Return the tools that models and agents were given, else those that ran and say what they are."""
    ran = [transcript.reading(span) for span in transcript.spans_of(SpanRole.TOOL)]
    given = [reading for reading in transcript.readings.values() if reading.role is not SpanRole.TOOL]
    own, found = _described_by(ran), _described_by(given)
    if found:
        return [tool if tool.input_schema else own.get(name, tool) for name, tool in found.items()]
    # One that ran without a description is there all the same, though nothing is known of its arguments.
    names = _unique(reading.name for reading in ran if reading.error is None or reading.tools)
    return [own.get(name, ToolDefinition(name)) for name in names] if own else []


def _described_by(readings: Iterable[SpanReading]) -> dict[str, ToolDefinition]:
    """Return the tools that spans describe, by name; what is said first counts."""
    found: dict[str, ToolDefinition] = {}
    for reading in readings:
        for tool in reading.tools:
            found.setdefault(tool.name, tool)
    return found


def _case_of(transcript: Transcript, prices: PriceTable | None) -> EvalTestCase:
    example = _example_of(None, transcript, prices)
    return example.to_test_case(example.actual_outputs, metrics=example.metrics, error=example.actual_error)


def _example_of(identity: str | None, transcript: Transcript, prices: PriceTable | None) -> Example:
    trace = _trace_of(transcript)
    given, tools = _input(transcript), _tools(transcript)
    outputs = {**trace.outputs_so_far(), **dict(_retrieved(transcript))}
    known = (*outputs, UNKNOWN_RESPONSE)
    kept = {key: value for key, value in trace.metadata.items() if key not in known}
    metadata = {**kept, SPAN_ID: _judged_span(transcript).span_id}
    return Example(
        {} if given is None else {INPUT: given},
        metadata={**metadata, TOOLS: tools} if tools else metadata,
        id=identity,
        actual_outputs=outputs,
        metrics=_metrics_of(transcript, prices),
        actual_error=trace.error,
    )


def _judged_span(transcript: Transcript) -> Span:
    """Return the span that stands for a trace: the last outermost agent, else the first root."""
    outermost = outermost_agents(transcript)
    return outermost[-1] if outermost else (transcript.tree.roots or transcript.tree.spans)[0]


def _metrics_of(transcript: Transcript, prices: PriceTable | None) -> CallMetrics:
    used = CallMetrics()
    for each in _used(transcript):
        used += _priced(each, prices)
    starts = [span.start_ns for span in transcript.tree.spans if span.start_ns is not None]
    ends = [span.end_ns for span in transcript.tree.spans if span.end_ns is not None]
    latency = max(0, max(ends) - min(starts)) / 1e6 if starts and ends else None
    chunks = [reading.usage.first_chunk_ms for reading in transcript.readings.values()]
    first = min((each for each in chunks if each is not None), default=None)
    return replace(used, latency_ms=latency, first_chunk_ms=first)


def _used(transcript: Transcript) -> Iterator[CallMetrics]:
    """Yield what was used, each use once: what models say, else what the innermost above them says."""
    tree = transcript.tree
    telling = [span for span in tree.spans if transcript.reading(span).usage.tokens is not None]
    models = {span.span_id for span in telling if transcript.reading(span).role is SpanRole.MODEL}
    around = {above.span_id for span in telling for above in tree.ancestors(span)}
    for span in telling:
        if any(above.span_id in models for above in tree.ancestors(span)):
            continue
        if span.span_id in models or span.span_id not in around:
            yield transcript.reading(span).usage


def _priced(used: CallMetrics, prices: PriceTable | None) -> CallMetrics:
    if used.cost_usd is not None or prices is None:
        return used
    return replace(used, cost_usd=prices(used.model, used.tokens_in, used.tokens_out))
