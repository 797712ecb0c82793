"""Scores of online evaluation as `gen_ai.evaluation.result` events of OTLP, on the spans that were judged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from dokimos._core.results import EvalResult
from dokimos._version import __version__
from dokimos.server._services.judging.judge_results import SKIPPED, ItemOutcome, ItemScore
from dokimos.traces._score_events import evaluation_events
from dokimos.traces._span import Span

_RESPONSE_ID: Final = "gen_ai.response.id"
_TRACE_ID_BYTES: Final = 16
_SPAN_ID_BYTES: Final = 8
_INFO: Final = 9
"""The number of the severity."""
_NANOSECONDS: Final = 1000
"""Of a microsecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreEvent:
    """A score, or an error in its place, of a span."""

    trace_id: bytes
    span_id: bytes
    at: int
    """When it was scored, in microseconds since 1970."""
    result: EvalResult
    response_id: str | None
    """How the model named the answer that was judged."""


def make_event(
    name: str, outcome: ItemOutcome, span_id: str, traces: Sequence[Sequence[Span]], at: int
) -> ScoreEvent | None:
    """Return what became of a job as an event; None where nothing was scored, or nothing names the span.

    Args:
        name: What the scores are called.
        outcome: What became of the job.
        span_id: The span below which the result stands.
        traces: The spans that were scored.
        at: When, in microseconds since 1970.
    """
    # Of a session, the last trace is the one that its job names.
    spans = {span.span_id: span for trace in traces for span in trace}
    judged = spans.get(span_id)
    if judged is None or (not isinstance(outcome, ItemScore) and outcome.kind == SKIPPED):
        return None
    ids = _read_hex(judged.trace_id, _TRACE_ID_BYTES), _read_hex(span_id, _SPAN_ID_BYTES)
    if ids[0] is None or ids[1] is None:
        return None
    response = judged.attributes.get(_RESPONSE_ID)
    return ScoreEvent(
        trace_id=ids[0],
        span_id=ids[1],
        at=at,
        result=_read_outcome(name, outcome),
        response_id=response if isinstance(response, str) else None,
    )


def encode_events(events: Sequence[ScoreEvent]) -> bytes:
    """Return events as an export of logs in OTLP's protobuf."""
    service: Any = import_module("opentelemetry.proto.collector.logs.v1.logs_service_pb2")
    request = service.ExportLogsServiceRequest()
    resource = request.resource_logs.add()
    _set_attribute(resource.resource, "service.name", "dokimos")
    scope = resource.scope_logs.add()
    scope.scope.name, scope.scope.version = "dokimos", __version__
    for event in events:
        for each in evaluation_events([event.result], response_id=event.response_id):
            record = scope.log_records.add(
                time_unix_nano=event.at * _NANOSECONDS,
                observed_time_unix_nano=event.at * _NANOSECONDS,
                severity_number=_INFO,
                event_name=each.name,
                trace_id=event.trace_id,
                span_id=event.span_id,
                flags=1,  # processors may drop events of a span that was not sampled
            )
            for key, value in each.attributes.items():
                _set_attribute(record, key, value)
    data: bytes = request.SerializeToString()
    return data


def _read_outcome(name: str, outcome: ItemOutcome) -> EvalResult:
    if not isinstance(outcome, ItemScore):
        return EvalResult(name, error=f"{outcome.kind}: {outcome.message}", error_kind=outcome.kind)
    reason = "" if outcome.reason is None else json.loads(outcome.reason)
    return EvalResult(name, outcome.score, success=outcome.success, reason=_clean(str(reason or "")))


def _clean(text: str) -> str:
    """Return a text without halves of characters, which protobuf does not take."""
    return text.encode("utf-8", "replace").decode()


def _set_attribute(owner: Any, key: str, value: str | float) -> None:
    attribute = owner.attributes.add(key=key)
    if isinstance(value, str):
        attribute.value.string_value = _clean(value)
    else:
        attribute.value.double_value = value


def _read_hex(text: str, length: int) -> bytes | None:
    try:
        data = bytes.fromhex(text)
    except ValueError:
        return None
    return data if len(data) == length and any(data) else None
