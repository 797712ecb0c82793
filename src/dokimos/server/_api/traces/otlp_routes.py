"""Take traces in: the documented route, and the paths to which exporters of OTLP send by default."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any, Final

from fastapi import APIRouter
from sqlalchemy.exc import DBAPIError
from starlette.requests import Request
from starlette.responses import Response

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.admission import LongKind
from dokimos.server._api.http.request_body import check_is_json, stream_body
from dokimos.server._api.traces.otlp_errors import PROTOBUF
from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import UnsupportedMediaError
from dokimos.server._services.traces.trace_ingestion import Ingested, TraceIngestion, first_reason
from dokimos.traces._otlp import Encoding
from dokimos.traces._protobuf_wire import Signal

ROUTER: Final = APIRouter(tags=["Traces"])
_PROTOBUF: Final = ("application/x-protobuf", "application/protobuf")
_BINARY: Final[dict[str, Any]] = {"schema": {"type": "string", "format": "binary"}}
_EXPORT_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}}, _PROTOBUF[0]: _BINARY},
    }
}
_EXPORT_ANSWER: Final[dict[int | str, dict[str, Any]]] = {200: {"content": {_PROTOBUF[0]: _BINARY}}}


@ROUTER.post(
    "/api/v1/traces",
    summary="Take in traces of OpenTelemetry, as JSON or protobuf",
    openapi_extra=_EXPORT_BODY,
)
@access(Access.PROJECT_WRITE)
async def ingest_traces(request: Request, caller: Caller) -> Response:
    """Store the spans of an `ExportTraceServiceRequest`; when this answers, they are on disk."""
    ingested = await _ingest(request, caller, read_encoding(request))
    body: dict[str, object] = {
        "acceptedSpans": ingested.accepted,
        "rejectedSpans": ingested.rejected,
        "traces": ingested.traces,
    }
    if ingested.rejected:
        body["rejectedReasons"] = dict(ingested.reasons)
    return _json(body)


@ROUTER.post(
    "/v1/traces",
    summary="Take in traces, as exporters of OTLP over HTTP send them by default",
    openapi_extra=_EXPORT_BODY,
    responses=_EXPORT_ANSWER,
)
@access(Access.PROJECT_WRITE)
async def export_traces(request: Request, caller: Caller) -> Response:
    """Store the spans of an export, and answer as OTLP says: in the encoding of the request."""
    encoding = read_encoding(request)
    ingested = await _ingest(request, caller, encoding)
    return answer_export(encoding, "traces", ingested.rejected, first_reason(ingested.reasons))


@ROUTER.post(
    "/v1/logs",
    summary="Take in log records that name spans, as events of these",
    openapi_extra=_EXPORT_BODY,
    responses=_EXPORT_ANSWER,
)
@access(Access.PROJECT_WRITE)
async def export_logs(request: Request, caller: Caller) -> Response:
    """Store the log records of an export, and answer as OTLP says: those that name no span are rejected."""
    encoding = read_encoding(request)
    ingested = await _ingest(request, caller, encoding, "logs")
    message = first_reason(ingested.reasons, "Log records")
    return answer_export(encoding, "logs", ingested.rejected, message)


async def _ingest(
    request: Request, caller: Principal, encoding: Encoding, signal: Signal = "traces"
) -> Ingested:
    ingestion: TraceIngestion = request.app.state.trace_ingestion
    ingest = ingestion.ingest if signal == "traces" else ingestion.ingest_logs
    limit: int = request.app.state.settings.traces.max_export_bytes
    with ingestion.queue.hold() as count:
        parts: list[bytes] = []
        async for part in stream_body(request, limit, LongKind.BODY):
            count(len(part))
            if part:  # the last one is empty: one part alone is not copied
                parts.append(part)
        try:
            return await ingest(caller, b"".join(parts), encoding)
        except DBAPIError as error:
            # It is not about what was sent: with 503 exporters send it again, while they give up what is
            # rejected, or answered with 500.
            raise DatabaseUnavailable(str(error.orig)) from error


def read_encoding(request: Request) -> Encoding:
    """Return in which encoding of OTLP the body is.

    Raises:
        UnsupportedMediaError: In none of them.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type in PROTOBUF:
        return "protobuf"
    if content_type and content_type != "application/json" and not content_type.endswith("+json"):
        raise UnsupportedMediaError(
            f"The Content-Type '{content_type[:100]}' is not one of OTLP; send application/json or "
            "application/x-protobuf."
        )
    check_is_json(request, has_bearer="authorization" in request.headers)
    return "json"


def answer_export(encoding: Encoding, signal: str, rejected: int, message: str) -> Response:
    """Return the answer of OTLP to an export of traces or logs."""
    if encoding == "json":
        name = "rejectedSpans" if signal == "traces" else "rejectedLogRecords"
        partial = {name: str(rejected), "errorMessage": message}
        return _json({"partialSuccess": partial} if rejected else {})
    return Response(_partial_success(signal, rejected, message), media_type="application/x-protobuf")


_ANSWERS: Final = {
    "traces": ("opentelemetry.proto.collector.trace.v1.trace_service_pb2", "ExportTraceServiceResponse"),
    "logs": ("opentelemetry.proto.collector.logs.v1.logs_service_pb2", "ExportLogsServiceResponse"),
}
_REJECTED: Final = {"traces": "rejected_spans", "logs": "rejected_log_records"}


def _partial_success(signal: str, rejected: int, message: str) -> bytes:
    module, name = _ANSWERS[signal]
    answer: Any = getattr(import_module(module), name)()
    if rejected:
        setattr(answer.partial_success, _REJECTED[signal], rejected)
        answer.partial_success.error_message = message
    data: bytes = answer.SerializeToString()
    return data


def _json(body: dict[str, Any]) -> Response:
    return Response(json.dumps(body), media_type="application/json")
