"""Run an agent of a framework whose instrumentation exports to a server, in a process of its own.

    python export_run.py NAME ENDPOINT PROTOCOL

An instrumentation changes its framework for the rest of the process. Prints as JSON what the integration
reads from the result, and what the library reads from the spans: the server must read the same from what it
stored.
"""

import importlib
import inspect
import json
import sys
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dokimos._core.jsonable import jsonable
from dokimos.traces import call_metrics, spans_from_sdk, to_agent_trace, to_conversation

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "servers")]
"""The agents of frameworks import each other and their servers by name."""

INSTRUMENTORS = {
    "crewai": "CrewAIInstrumentor",
    "haystack": "HaystackInstrumentor",
    "langchain": "LangChainInstrumentor",
    "llama_index": "LlamaIndexInstrumentor",
    "openai_agents": "OpenAIAgentsInstrumentor",
    "smolagents": "SmolagentsInstrumentor",
}
"""Of OpenInference; the other frameworks have their own instrumentation."""


def instrument(name, provider):
    """Switch the instrumentation of a framework on."""
    if name in INSTRUMENTORS:
        module = importlib.import_module(f"openinference.instrumentation.{name}")
        getattr(module, INSTRUMENTORS[name])().instrument(tracer_provider=provider)
    elif name == "pydantic_ai":
        from pydantic_ai import Agent

        Agent.instrument_all(True)
    elif name == "agent_framework":
        from agent_framework.observability import enable_sensitive_telemetry

        enable_sensitive_telemetry()
    if name == "openai_agents":  # which its tests switch off
        from agents import set_tracing_disabled

        set_tracing_disabled(False)


def make_exporter(endpoint, protocol):
    """Return the exporter of a protocol that sends to a server."""
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(endpoint=endpoint, insecure=True)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces")


def main(name, endpoint, protocol):
    # Before the framework is imported: that may switch the SDK off for its own telemetry.
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    memory = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    provider.add_span_processor(SimpleSpanProcessor(make_exporter(endpoint, protocol)))
    trace.set_tracer_provider(provider)
    module = importlib.import_module(f"test_{name}")
    instrument(name, provider)
    agents = run_agent(module)
    provider.shutdown()
    traces = {}
    for span in spans_from_sdk(memory.get_finished_spans()):
        traces.setdefault(span.trace_id, []).append(span)
    print(json.dumps({"agent": agents, "traces": {key: read(spans) for key, spans in traces.items()}}))


def run_agent(module):
    from story import QUESTION
    from tool_calling import ToolCallingServer

    case = find_case(module)
    with ToolCallingServer() as server:
        server.turns.extend(case.first_turn())
        result = case.run(case.agent(server.base_url), QUESTION)
    return jsonable(case.bridge.to_agent_trace(result))


def find_case(module):
    from contract import FrameworkContract

    cases = (each for _, each in inspect.getmembers(module, inspect.isclass))
    own = [
        each for each in cases if issubclass(each, FrameworkContract) and each.__module__ == module.__name__
    ]
    return next(each for each in own if FrameworkContract in each.__bases__)()


def read(spans):
    conversation = to_conversation(spans)
    return {
        "spans": len(spans),
        "agentTrace": jsonable(to_agent_trace(spans)),
        "metrics": jsonable(call_metrics(spans)),
        "conversation": jsonable(conversation),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
