"""What a server says of its traces: metrics, health and warnings."""

import asyncio

import pytest
from tests.server.test_metrics import read, value
from tests.server.trace_server import export, log, log_export, span

from dokimos.server import ServerSettings
from dokimos.server._db.database import DatabaseUnavailable
from dokimos.server._redaction_rules import RedactionRule
from dokimos.server._services.start_warnings import warn_of_access
from dokimos.server._trace_settings import TraceSettings


def test_spans_and_logs_are_counted_with_the_kind_of_reason(serve):
    rules = (RedactionRule("digits", "[0-9]{4}"),)
    api = serve(traces=TraceSettings(redaction_rules=rules))
    nameless = {**span(1, 2), "name": ""}
    long = {**span(1, 3), "traceId": "x" * 100}
    api.post("/v1/traces", json=export(span(1, 1, pin="1234"), nameless, long))
    api.post("/v1/logs", json=log_export(log(), {**log(), "spanId": ""}))
    samples = read(api)
    name = "dokimos_trace_records"
    assert value(samples, f"{name}_total", kind="span") == 1
    assert value(samples, f"{name}_total", kind="log") == 1
    assert value(samples, f"{name}_rejected_total", kind="span", reason="incomplete") == 1
    assert value(samples, f"{name}_rejected_total", kind="span", reason="too long") == 1
    assert value(samples, f"{name}_rejected_total", kind="log", reason="incomplete") == 1
    assert value(samples, "dokimos_trace_redactions_total", rule="digits") == 1
    assert value(samples, "dokimos_trace_bytes_waiting") == 0
    assert value(samples, "dokimos_trace_exports_refused_total") == 0
    assert value(samples, "dokimos_traces_removed_total") == 0


def test_refused_exports_and_removed_traces_are_counted(serve):
    api = serve(traces=TraceSettings(retention_days=0.0, max_waiting_bytes=10_000))
    api.post("/v1/traces", json=export(span(1, 1)))
    queue = api.app.state.trace_ingestion.queue

    def export_while_another_waits():
        with queue.hold() as count:
            count(10_000)
            return asyncio.run(_refuse(queue))

    assert export_while_another_waits() == "refused"
    sweep = api.app.state.trace_sweeper.sweep
    # A sweep leaves out what another worker of the server locks at that moment.
    assert any(api.portal.call(sweep) for _ in range(100))
    samples = read(api)
    assert value(samples, "dokimos_trace_exports_refused_total") == 1
    assert value(samples, "dokimos_traces_removed_total") == 1


async def _refuse(queue):
    from dokimos.server._services.errors import UnavailableError

    with queue.hold() as count, pytest.raises(UnavailableError):
        count(1)
    return "refused"


def test_the_server_is_well_while_only_its_traces_are_away(api, monkeypatch):
    body = api.get("/actuator/health").json()
    assert {name: part["status"] for name, part in body["components"].items()} == {"db": "UP", "traces": "UP"}

    async def fail(query, lane=None):
        raise DatabaseUnavailable("away")

    monkeypatch.setattr(api.app.state.traces, "read", fail)
    for path in ("/actuator/health", "/actuator/health/readiness"):
        answer = api.get(path)
        assert (answer.status_code, answer.json()["status"]) == (200, "UP")
        assert answer.json()["components"]["traces"]["status"] == "DOWN"
        assert answer.json()["components"]["db"]["status"] == "UP"


@pytest.mark.parametrize(("settings", "warns"), [({}, False), ({"public_traces": True}, True)])
def test_the_server_warns_where_anyone_reads_traces(settings, warns):
    warnings = list(warn_of_access(ServerSettings(host="0.0.0.0", **settings), is_keyed=True))
    assert any("DOKIMOS_PUBLIC_TRACES" in warning for warning in warnings) is warns
