"""The route of metrics, in the text format of Prometheus."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.datastructures import State
from starlette.requests import Request

from dokimos.server._api.http.access import Access, access, authorize_rule
from dokimos.server._services.event_hub import EventHub
from dokimos.server._services.measured_database import MeasuredDatabase
from dokimos.server._services.metrics import Metrics

ROUTER = APIRouter(tags=["Metrics"])
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The metrics, one in each line.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}


@ROUTER.get("/metrics", response_class=Response, responses=_ANSWERS)
@access(Access.PUBLIC)
async def get_metrics(request: Request) -> Response:
    """Return the metrics of this server, for Prometheus.

    Any key may read them. Nobody needs one where the server is open, where it is bound to this machine and no
    proxy passes the request on, and with `DOKIMOS_PUBLIC_METRICS=true`.
    """
    settings = request.app.state.settings
    is_proxied = any(name in request.headers for name in ("forwarded", "x-forwarded-for"))
    if not (settings.public_metrics or (settings.is_loopback and not is_proxied)):
        await authorize_rule(request, Access.PRIVATE_READ)
    # Here, so that a server that nobody watches does not import what writes them.
    from dokimos.server._api.prometheus_text import CONTENT_TYPE, format_metrics

    return Response(format_metrics(request.app.state.metrics), headers={"Content-Type": CONTENT_TYPE})


def watch_server(state: State) -> None:
    """Have metrics show what the parts of a server are doing at the moment."""
    metrics: Metrics = state.metrics
    _watch_databases(state, metrics)
    _watch_traces(state, metrics)
    events: EventHub = state.events
    metrics.watch_each(
        "dokimos_comparisons_waiting",
        "Comparisons that wait to be computed, by what they are for.",
        "kind",
        lambda: state.comparisons.waiting,
    )
    metrics.watch(
        "dokimos_comparisons_running",
        "Comparisons that are being computed.",
        lambda: state.comparisons.running_count,
    )
    metrics.watch("dokimos_event_streams", "Clients that receive events.", lambda: events.subscriber_count)
    metrics.watch(
        "dokimos_event_frames_waiting",
        "Events that wait for the client that is furthest behind.",
        lambda: events.longest_wait,
    )
    metrics.watch(
        "dokimos_failed_logins_total",
        "Wrong keys since the start, each once for its address.",
        lambda: state.keys.failure_count,
    )
    metrics.watch(
        "dokimos_audit_entries_counted",
        "Entries of the audit log that are counted in memory.",
        lambda: state.audit_trail.waiting_count,
    )
    metrics.watch(
        "dokimos_draining", "1 while the server is about to stop.", lambda: float(state.is_draining)
    )


def _watch_databases(state: State, metrics: Metrics) -> None:
    database: MeasuredDatabase = state.unaudited_database
    metrics.watch_each(
        "dokimos_database_under_way",
        "Transactions that wait or run.",
        "operation",
        lambda: database.under_way,
    )
    metrics.watch_each(
        "dokimos_database_connections",
        "Connections to PostgreSQL, by what they do.",
        "state",
        lambda: database.connections,
    )


def _watch_traces(state: State, metrics: Metrics) -> None:
    metrics.watch(
        "dokimos_trace_bytes_waiting",
        "Bytes of exports of traces that are received, parsed or stored at the moment.",
        lambda: state.trace_ingestion.queue.waiting_bytes,
    )
    metrics.watch(
        "dokimos_trace_exports_refused_total",
        "Exports that were refused with 503 because too much was waiting.",
        lambda: state.trace_ingestion.queue.refused_count,
    )
