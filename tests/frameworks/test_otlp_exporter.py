"""The exporters of OpenTelemetry's SDK send spans over HTTP and gRPC to a running server."""

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dokimos.server import ServerSettings, create_app
from dokimos.server._serve import Server, configure_uvicorn, listen


@contextmanager
def serve(folder, **settings):
    settings = ServerSettings(host="127.0.0.1", port=0, data_dir=folder, **settings)
    app = create_app(settings)
    started = threading.Event()
    with listen(settings) as listener:
        server = Server(configure_uvicorn(app, settings), app, started.set)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert started.wait(60)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", server
        finally:
            server.should_exit = True
            thread.join()


class CountingExporter(OTLPSpanExporter):
    """Notes what became of each export."""

    def __init__(self, **options):
        super().__init__(**options)
        self.results = []

    def export(self, spans):
        result = super().export(spans)
        self.results.append(result)
        return result


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_spans_of_the_sdk_arrive(tmp_path, compression):
    with serve(tmp_path, api_key="secret") as (address, _):
        exporter = CountingExporter(
            endpoint=f"{address}/v1/traces",
            headers={"Authorization": "Bearer secret"},
            compression=compression,
        )
        provider = TracerProvider(resource=Resource.create({"service.name": "app"}))
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("tests")
        with tracer.start_as_current_span("agent", attributes={"input": "hello"}) as root:
            with tracer.start_as_current_span("chat", kind=trace.SpanKind.CLIENT) as child:
                child.set_attribute("gen_ai.operation.name", "chat")
                child.add_event("first", {"a": 1})
            root.set_attribute("output", "world")
        provider.shutdown()
    assert exporter.results == [SpanExportResult.SUCCESS] * 2
    with closing(sqlite3.connect(tmp_path / "traces.db")) as connection:
        rows = connection.execute(
            "SELECT trace_id, span_count, input_text, output_text FROM traces"
        ).fetchall()
    assert rows == [(f"{root.get_span_context().trace_id:032x}", 2, "hello", "world")]


def test_an_exporter_with_a_wrong_key_is_told_so_and_does_not_repeat(tmp_path, caplog):
    with serve(tmp_path, api_key="secret") as (address, _):
        exporter = CountingExporter(endpoint=f"{address}/v1/traces", headers={"Authorization": "Bearer x"})
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        provider.get_tracer("tests").start_span("agent").end()
        provider.shutdown()
    assert exporter.results == [SpanExportResult.FAILURE]
    assert "401" in caplog.text


def test_an_exporter_over_grpc_repeats_what_was_refused_because_too_much_was_waiting(tmp_path):
    with serve(tmp_path, api_key="secret", grpc_port=0) as (_, server):
        state = server.config.app.state
        queue = state.trace_ingestion.queue
        exporter = GrpcSpanExporter(
            endpoint=f"http://127.0.0.1:{server._grpc.port}",
            headers={"authorization": "Bearer secret"},
            compression=grpc.Compression.Gzip,
        )
        provider = TracerProvider()
        memory = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(memory))
        provider.get_tracer("tests").start_span("agent").end()
        with ThreadPoolExecutor(1) as threads:
            with queue.hold() as count:
                count(state.settings.traces.max_waiting_bytes)
                exported = threads.submit(exporter.export, memory.get_finished_spans())
                while not queue.refused_count:
                    assert not exported.done(), exported.result()
                    time.sleep(0.01)  # between two looks: another thread exports
            assert exported.result() is SpanExportResult.SUCCESS
        exporter.shutdown()
    with closing(sqlite3.connect(tmp_path / "traces.db")) as connection:
        assert connection.execute("SELECT span_count FROM traces").fetchall() == [(1,)]
