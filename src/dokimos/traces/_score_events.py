"""Scores as OpenTelemetry events on the span that was judged. Nothing is sent unless this is called."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

from dokimos._core.extras import require
from dokimos._core.results import EvalResult
from dokimos._version import __version__
from dokimos.traces._span import Span, SpanEvent

EVENT_NAME: Final = "gen_ai.evaluation.result"


def evaluation_events(
    results: Iterable[EvalResult], *, response_id: str | None = None
) -> tuple[SpanEvent, ...]:
    """Return results as events in the form of the GenAI conventions; skipped ones give none.

    The label is "pass" or "fail" where something was decided. An errored result has its error as `error.type`
    and explanation, and no score. `response_id` names the answer of the model that was judged.
    """
    return tuple(
        SpanEvent(EVENT_NAME, _attributes(result, response_id))
        for result in results
        if result.skipped is None
    )


def _attributes(result: EvalResult, response_id: str | None) -> dict[str, Any]:
    attributes: dict[str, Any] = {"gen_ai.evaluation.name": result.name}
    if result.error is not None:
        attributes["error.type"] = result.error.partition(":")[0].strip() or "_OTHER"
        attributes["gen_ai.evaluation.explanation"] = result.error
    else:
        if result.score is not None:
            attributes["gen_ai.evaluation.score.value"] = float(result.score)
        if result.success is not None:
            attributes["gen_ai.evaluation.score.label"] = "pass" if result.success else "fail"
        if result.reason:
            attributes["gen_ai.evaluation.explanation"] = result.reason
    return attributes if response_id is None else {**attributes, "gen_ai.response.id": response_id}


def emit_evaluations(
    results: Iterable[EvalResult],
    span: Span | tuple[str, str] | None = None,
    *,
    logger_provider: Any = None,
    response_id: str | None = None,
) -> int:
    """Send results as events through OpenTelemetry's logs, as children of the judged span; return how many.

    `span` is that span, or its trace id and span id; without it, the span that is current. Without
    `logger_provider` the global one is used, which sends nothing until the application sets one up.

    Raises:
        MissingExtraError: without OpenTelemetry, which the extra `otel` brings.
        ValueError: for ids that are not hexadecimal.
    """
    context = None if span is None else _context(span)
    logs = require("opentelemetry._logs", extra="otel")
    logger = (logger_provider or logs.get_logger_provider()).get_logger("dokimos", __version__)
    events = evaluation_events(results, response_id=response_id)
    for event in events:
        logger.emit(
            timestamp=time.time_ns(),
            context=context,
            severity_number=logs.SeverityNumber.INFO,
            attributes=event.attributes,
            event_name=event.name,
        )
    return len(events)


def _context(span: Span | tuple[str, str]) -> Any:
    trace = require("opentelemetry.trace", extra="otel")
    trace_id, span_id = (span.trace_id, span.span_id) if isinstance(span, Span) else span
    # Processors may drop events of a span that was not sampled.
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    judged = trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(judged))
