"""Traces with the real SDK of OpenTelemetry: what it keeps, what it prints, and scores that go back to it."""

import json

import pytest
from opentelemetry import trace
from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dokimos import Dataset, Experiment, ToolCall
from dokimos.datasets._answer_replay import recorded_task
from dokimos.evaluators import Contains
from dokimos.reporting._otel import EvaluationEvents
from dokimos.traces import load_spans, spans_from_sdk, to_agent_trace, to_examples


@pytest.fixture
def sdk():
    """A tracer and a logger of the SDK, and what they exported."""
    resource = Resource({"service.name": "app"})
    spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
    tracing, logging = TracerProvider(resource=resource), LoggerProvider(resource=resource)
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    logging.add_log_record_processor(SimpleLogRecordProcessor(logs))
    yield tracing, logging, spans, logs
    tracing.shutdown()
    logging.shutdown()


def message(role, *parts):
    return {"role": role, "parts": list(parts)}


def run_agent(tracing, logging):
    """Answer a question with a call of a tool, and say so with spans, an event and a log record."""
    tracer, logger = tracing.get_tracer("app"), logging.get_logger("app")
    asked = message("user", {"type": "text", "content": "Weather in Paris?"})
    called = message(
        "assistant", {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Paris"}}
    )
    told = message("tool", {"type": "tool_call_response", "id": "c1", "response": {"celsius": 11}})
    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
        with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}) as span:
            span.set_attribute("gen_ai.input.messages", json.dumps([asked]))
            logger.emit(
                severity_number=SeverityNumber.INFO,
                event_name="gen_ai.client.inference.operation.details",
                attributes={"gen_ai.output.messages": [called]},
            )
        with tracer.start_as_current_span("execute_tool weather") as span:
            span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather"})
            span.set_attribute("gen_ai.tool.call.id", "c1")
            span.set_status(trace.Status(trace.StatusCode.ERROR, "old data"))
        with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}) as span:
            span.set_attribute("gen_ai.input.messages", json.dumps([asked, called, told]))
            answer = message("assistant", {"type": "text", "content": "It is 11 degrees."})
            span.add_event("gen_ai.choice", {"gen_ai.event.content": json.dumps({"message": answer})})


EXPECTED_CALL = ToolCall(
    "weather", {"city": "Paris"}, result='{"celsius":11}', metadata={"id": "c1", "error": "old data"}
)


def test_spans_and_log_records_of_the_sdk_become_a_trace(sdk):
    tracing, logging, spans, logs = sdk
    run_agent(tracing, logging)

    read = spans_from_sdk(spans.get_finished_spans(), logs.get_finished_logs())
    agent = to_agent_trace(read)

    assert (agent.tool_calls, agent.final_response) == ((EXPECTED_CALL,), "It is 11 degrees.")
    assert {span.resource["service.name"] for span in read} == {"app"}
    assert [span.name for span in read if span.parent_id is None] == ["invoke_agent"]


def test_spans_that_the_sdk_prints_are_read_from_a_file(sdk, tmp_path):
    tracing, logging, spans, _ = sdk
    run_agent(tracing, logging)
    kept = spans_from_sdk(spans.get_finished_spans())
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(f"{span.to_json(indent=None)}\n" for span in spans.get_finished_spans()))

    printed = load_spans(path)

    assert [(s.trace_id, s.span_id, s.parent_id, s.name, s.kind, s.status) for s in printed] == [
        (s.trace_id, s.span_id, s.parent_id, s.name, s.kind, s.status) for s in kept
    ]
    assert [dict(span.attributes) for span in printed] == [dict(span.attributes) for span in kept]
    # What is printed ends with microseconds.
    assert all(abs(a.start_ns - b.start_ns) < 1000 for a, b in zip(printed, kept, strict=True))


def test_scores_come_back_as_events_on_the_span_that_was_judged(sdk):
    tracing, logging, spans, logs = sdk
    run_agent(tracing, logging)
    read = spans_from_sdk(spans.get_finished_spans(), logs.get_finished_logs())
    logs.clear()
    reporter = EvaluationEvents(logger_provider=logging)

    Experiment(
        Dataset(to_examples(read)), recorded_task(), [Contains(values="11")], reporters=[reporter]
    ).run()

    (record,) = logs.get_finished_logs()
    judged = next(span for span in read if span.name == "invoke_agent")
    assert record.log_record.event_name == "gen_ai.evaluation.result"
    assert f"{record.log_record.trace_id:032x}" == judged.trace_id
    assert f"{record.log_record.span_id:016x}" == judged.span_id
    assert record.log_record.attributes["gen_ai.evaluation.score.value"] == 1.0
    assert record.log_record.attributes["gen_ai.evaluation.score.label"] == "pass"
    after = spans_from_sdk(spans.get_finished_spans(), [record])
    assert {span.name: [event.name for event in span.events] for span in after if span.events} == {
        "invoke_agent": ["gen_ai.evaluation.result"],
        "chat": ["gen_ai.choice"],
    }
