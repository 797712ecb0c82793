"""Record what real instrumentations say about one scripted conversation, as OTLP JSON.

    python tests/data/traces/record.py INSTRUMENTATION [MODE] > tests/data/traces/INSTRUMENTATION[-MODE].json

Large ones are kept with `gzip -9n`. Each needs an environment of its own with `openai`, `opentelemetry-sdk`,
`opentelemetry-exporter-otlp-json-http`, `aiohttp`, `wrapt<2` and what it is named after:

- `openai-v2`: opentelemetry-instrumentation-openai-v2==2.3b0
- `openinference`: openinference-instrumentation-openai
- `openllmetry`: traceloop-sdk
- `openllmetry-old`: traceloop-sdk==0.46.0, openai<2, opentelemetry-sdk==1.37.0, and the exporter's packages
  without their dependencies
- `pydantic-ai`: pydantic-ai-slim[openai]
- `google-adk`, `google-adk-1` (the schema of its spans before version 2) and `google-adk-silent` (which
  captures no content): google-adk, litellm, mcp
- `langgraph-openinference`: langchain, langchain-openai, openinference-instrumentation-langchain
- `langgraph-openllmetry`: langchain, langchain-openai, opentelemetry-instrumentation-langchain

`openai-v2`, `openinference`, `openllmetry` and `pydantic-ai` have modes: with `crash` the second call of the
model is refused, with `silent` no content is captured, and with `stream` there is one call, whose answer is
streamed (not `pydantic-ai`). With `protobuf`, `openai-v2` is printed as the exports of traces and of logs
that the protobuf exporter sends, one after the other (`opentelemetry-exporter-otlp-proto-common`).

The conversation has two turns, parallel calls whose results come back in another order, a tool that fails, a
retrieval and a call without a result, except where the agent of a framework answers every call. No model is
asked.
"""

import asyncio
import contextlib
import importlib.metadata
import json
import os
import runpy
import sys
import time
from pathlib import Path

SCRIPTED = Path(__file__).parents[2] / "servers" / "scripted.py"
SYSTEM = "You plan journeys. Use the tools."
FIRST = "What shall I pack for Paris and Rome?"
SECOND = "Book a taxi for eight and tell Ana."
MODE = ""


def tool(name, *parameters):
    schema = {"type": "object", "properties": {each: {"type": "string"} for each in parameters}}
    schema["required"] = list(parameters)
    function = {"name": name, "description": f"Call {name}.", "parameters": schema}
    return {"type": "function", "function": function}


TOOLS = [
    tool("get_weather", "city"),
    tool("search_guides", "query"),
    tool("book_taxi", "time"),
    tool("send_message", "to"),
]


def calls(*each):
    made = [
        {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for key, name, arguments in each
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


REPLIES = [
    calls(
        ("call_paris", "get_weather", {"city": "Paris"}),
        ("call_rome", "get_weather", {"city": "Rome"}),
    ),
    calls(("call_guide", "search_guides", {"query": "rain in Paris"})),
    {"role": "assistant", "content": "Take an umbrella to Paris. The weather in Rome is not known."},
    calls(("call_taxi", "book_taxi", {"time": "08:00"}), ("call_ana", "send_message", {"to": "Ana"})),
    {"role": "assistant", "content": "The taxi comes at eight."},
]
RESULTS = {
    "call_paris": '{"celsius": 11}',
    "call_rome": '{"error": "no station"}',
    "call_guide": '["Pack light.", "Bring an umbrella."]',
    "call_taxi": "booked for 08:00",
    "call_ana": None,
}


def completion(index, message):
    finish = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": f"chatcmpl-{index}",
        "object": "chat.completion",
        "created": 1_700_000_000 + index,
        "model": "scripted-1",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10 * (index + 1), "completion_tokens": 5, "total_tokens": 10 * index + 15},
    }


def talk(url, run_tool):
    """Hold the conversation with the OpenAI SDK, as an application would."""
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    if MODE == "stream":
        asked = [{"role": "user", "content": FIRST}]
        options = {"stream": True, "stream_options": {"include_usage": True}}
        stream = client.chat.completions.create(model="scripted", messages=asked, **options)
        return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    messages = [{"role": "system", "content": SYSTEM}]
    for question in (FIRST, SECOND):
        messages.append({"role": "user", "content": question})
        while True:
            reply = client.chat.completions.create(model="scripted", messages=messages, tools=TOOLS)
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            for call in reversed(message.tool_calls):
                if RESULTS[call.id] is not None:
                    result = run_tool(call.function.name, call.id, json.loads(call.function.arguments))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return messages[-1]["content"]


def stream_of(index, text):
    """Write an answer as the events of a stream."""
    head = {"id": f"chatcmpl-{index}", "object": "chat.completion.chunk", "created": 1_700_000_000}
    head["model"] = "scripted-1"
    pieces = [text[start : start + 10] for start in range(0, len(text), 10)]
    deltas = [{"index": 0, "delta": {"content": piece}, "finish_reason": None} for piece in pieces]
    chunks = [{**head, "choices": [delta]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    chunks.append({**head, "choices": [], "usage": usage})
    return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


@contextlib.contextmanager
def surviving():
    """Let the run that is to crash end without ending the recording."""
    try:
        yield
    except Exception:
        if MODE != "crash":
            raise


def providers():
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    try:
        from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter
    except ImportError:
        from opentelemetry.sdk._logs.export import InMemoryLogExporter as InMemoryLogRecordExporter

    resource = Resource({"service.name": "journeys"})
    spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
    tracing, logging = TracerProvider(resource=resource), LoggerProvider(resource=resource)
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    logging.add_log_record_processor(SimpleLogRecordProcessor(logs))
    return tracing, logging, spans, logs


def answer_directly(name, key, arguments):
    return RESULTS[key]


def record_openai_v2(url):
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = str(MODE != "silent").lower()
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor

    tracing, logging, spans, logs = providers()
    OpenAIInstrumentor().instrument(tracer_provider=tracing, logger_provider=logging)
    with surviving(), tracing.get_tracer("journeys").start_as_current_span("plan a journey"):
        talk(url, answer_directly)
    return spans, logs


def record_openinference(url):
    from openinference.instrumentation import OITracer, TraceConfig
    from openinference.instrumentation.openai import OpenAIInstrumentor
    from opentelemetry.trace import Status, StatusCode

    tracing, _, spans, logs = providers()
    config = TraceConfig(hide_inputs=MODE == "silent", hide_outputs=MODE == "silent")
    OpenAIInstrumentor().instrument(tracer_provider=tracing, config=config)
    tracer = OITracer(tracing.get_tracer("journeys"), config)

    def run_tool(name, key, arguments):
        with tracer.start_as_current_span(name, openinference_span_kind="tool") as span:
            described = next(t["function"] for t in TOOLS if t["function"]["name"] == name)
            span.set_tool(name=name, description=described["description"], parameters=described["parameters"])
            span.set_attribute("tool.id", key)
            span.set_input(arguments)
            span.set_output(RESULTS[key])
            if key == "call_guide":
                retrieve()
            if key == "call_rome":
                span.set_status(Status(StatusCode.ERROR, "no station"))
        return RESULTS[key]

    def retrieve():
        with tracer.start_as_current_span("guides", openinference_span_kind="retriever") as span:
            span.set_input("rain in Paris")
            for index, text in enumerate(json.loads(RESULTS["call_guide"])):
                span.set_attribute(f"retrieval.documents.{index}.document.content", text)
                span.set_attribute(f"retrieval.documents.{index}.document.id", f"guide-{index}")

    with surviving(), tracer.start_as_current_span("journeys", openinference_span_kind="agent") as span:
        span.set_input(FIRST)
        span.set_output(talk(url, run_tool))
    return spans, logs


def record_openllmetry(url):
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from traceloop.sdk import Traceloop
    from traceloop.sdk.decorators import tool as traced_tool
    from traceloop.sdk.decorators import workflow
    from traceloop.sdk.instruments import Instruments

    os.environ["TRACELOOP_TRACE_CONTENT"] = str(MODE != "silent").lower()
    spans = InMemorySpanExporter()
    Traceloop.init(
        app_name="journeys",
        exporter=spans,
        disable_batch=True,
        telemetry_enabled=False,
        instruments={Instruments.OPENAI},
    )

    def run_tool(name, key, arguments):
        @traced_tool(name=name)
        def run(**given):
            if key == "call_rome":
                status = trace.Status(trace.StatusCode.ERROR, "no station")
                trace.get_current_span().set_status(status)
            return RESULTS[key]

        return run(**arguments)

    @workflow(name="journeys")
    def plan(question):
        return talk(url, run_tool)

    with surviving():
        plan(FIRST)
    return spans, None


def record_openllmetry_old(url):
    return record_openllmetry(url)


def record_pydantic_ai(url):
    from pydantic_ai import Agent, InstrumentationSettings
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    tracing, _, spans, logs = providers()
    settings = InstrumentationSettings(tracer_provider=tracing, include_content=MODE != "silent")
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key="none")
    model = OpenAIChatModel("scripted", provider=provider)
    agent = Agent(model, name="journeys", system_prompt=SYSTEM)
    Agent.instrument_all(settings)

    @agent.tool_plain
    async def get_weather(city: str) -> dict:
        await asyncio.sleep(0.02 if city == "Paris" else 0)
        return {"celsius": 11} if city == "Paris" else {"error": "no station"}

    @agent.tool_plain
    def search_guides(query: str) -> list[str]:
        return json.loads(RESULTS["call_guide"])

    @agent.tool_plain
    def book_taxi(time: str) -> str:
        return "booked for 08:00"

    @agent.tool_plain
    def send_message(to: str) -> str:
        return "sent"

    async def plan():
        with tracing.get_tracer("journeys").start_as_current_span("plan a journey"):
            first = await agent.run(FIRST)
            await agent.run(SECOND, message_history=first.all_messages())

    with surviving():
        asyncio.run(plan())
    return spans, logs


def record_google_adk(url):
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
    return record_adk(url)


def record_google_adk_1(url):
    os.environ["ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN"] = "1"
    return record_adk(url)


def record_google_adk_silent(url):
    os.environ["ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"] = "false"
    return record_google_adk_1(url)


def record_adk(url):
    from opentelemetry import _logs, trace

    tracing, logging, spans, logs = providers()
    trace.set_tracer_provider(tracing)
    _logs.set_logger_provider(logging)

    from google.adk.agents import LlmAgent
    from google.adk.models.lite_llm import LiteLlm
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    async def get_weather(city: str) -> dict:
        await asyncio.sleep(0.02 if city == "Paris" else 0)
        return json.loads(RESULTS["call_paris" if city == "Paris" else "call_rome"])

    def search_guides(query: str) -> list[str]:
        return json.loads(RESULTS["call_guide"])

    def book_taxi(time: str) -> str:
        return RESULTS["call_taxi"]

    def send_message(to: str) -> str:
        return "sent"

    async def plan():
        tools = [get_weather, search_guides, book_taxi, send_message]
        model = LiteLlm(model="openai/scripted", api_base=f"{url}/v1", api_key="none")
        agent = LlmAgent(name="journeys", model=model, static_instruction=SYSTEM, tools=tools)
        runner = InMemoryRunner(agent=agent)
        session = await runner.session_service.create_session(app_name=runner.app_name, user_id="u")
        where = {"user_id": "u", "session_id": session.id}
        with tracing.get_tracer("journeys").start_as_current_span("plan a journey"):
            for question in (FIRST, SECOND):
                message = types.Content(role="user", parts=[types.Part(text=question)])
                async for _ in runner.run_async(**where, new_message=message):
                    pass

    asyncio.run(plan())
    return spans, logs


def record_langgraph_openinference(url):
    from openinference.instrumentation.langchain import LangChainInstrumentor

    return record_langgraph(url, LangChainInstrumentor())


def record_langgraph_openllmetry(url):
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor

    return record_langgraph(url, LangchainInstrumentor())


def record_langgraph(url, instrumentor):
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    tracing, _, spans, logs = providers()
    instrumentor.instrument(tracer_provider=tracing)

    def get_weather(city: str) -> str:
        """Call get_weather."""
        time.sleep(0.02 if city == "Paris" else 0)
        return RESULTS["call_paris" if city == "Paris" else "call_rome"]

    def search_guides(query: str) -> str:
        """Call search_guides."""
        return RESULTS["call_guide"]

    def book_taxi(time: str) -> str:
        """Call book_taxi."""
        return RESULTS["call_taxi"]

    def send_message(to: str) -> str:
        """Call send_message."""
        return "sent"

    model = ChatOpenAI(model="scripted", base_url=f"{url}/v1", api_key="none")
    agent = create_agent(model, [get_weather, search_guides, book_taxi, send_message], system_prompt=SYSTEM)
    with tracing.get_tracer("journeys").start_as_current_span("plan a journey"):
        state = agent.invoke({"messages": [{"role": "user", "content": FIRST}]})
        agent.invoke({"messages": [*state["messages"], {"role": "user", "content": SECOND}]})
    return spans, logs


def versions():
    wanted = ("openai", "opentelemetry-sdk", "openinference", "opentelemetry-instrumentation-openai")
    wanted += ("opentelemetry-instrumentation-langchain", "langchain", "langgraph")
    wanted += ("google-adk", "litellm", "opentelemetry-util-genai", "traceloop-sdk", "pydantic-ai")
    found = {}
    for each in importlib.metadata.distributions():
        name = each.metadata["Name"]
        if name.startswith(wanted) and not name.endswith("-agents"):
            found[name] = each.version
    return dict(sorted(found.items()))


def as_otlp(spans, logs):
    from opentelemetry.exporter.otlp.json.common import trace_encoder

    tree = trace_encoder.encode_spans(spans.get_finished_spans()).to_dict()
    if logs is not None and logs.get_finished_logs():
        from opentelemetry.exporter.otlp.json.common import _log_encoder

        tree |= _log_encoder.encode_logs(logs.get_finished_logs()).to_dict()
    return tree


def as_protobuf(spans, logs):
    from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    exports = encode_spans(spans.get_finished_spans()), encode_logs(logs.get_finished_logs())
    return b"".join(export.SerializeToString() for export in exports)


def without_stacktraces(tree):
    """Return an export without the paths of the machine that it was recorded on."""
    if isinstance(tree, dict):
        return {key: without_stacktraces(value) for key, value in tree.items()}
    if not isinstance(tree, list):
        return tree
    told = (each for each in tree if not isinstance(each, dict) or each.get("key") != "exception.stacktrace")
    return [without_stacktraces(each) for each in told]


def script(scripted):
    """Return how the server answers, in order."""
    if MODE == "stream":
        return [scripted["raw"](stream_of(0, REPLIES[2]["content"]))]
    replies = [scripted["raw"](json.dumps(completion(*each))) for each in enumerate(REPLIES)]
    return [replies[0], *[scripted["too_many"](0)] * 4] if MODE == "crash" else replies


def main(name):
    scripted = runpy.run_path(str(SCRIPTED), run_name="scripted")
    with scripted["ScriptedServer"]() as server:
        server.then(*script(scripted))
        with contextlib.redirect_stdout(sys.stderr):
            spans, logs = globals()[f"record_{name.replace('-', '_')}"](server.url)
        if MODE == "protobuf":
            sys.stdout.buffer.write(as_protobuf(spans, logs))
            return
        tree = without_stacktraces(as_otlp(spans, logs))
    text = json.dumps({"recordedWith": versions(), **tree}, ensure_ascii=False, separators=(",", ":"))
    print(text.replace(server.url, "http://model.example"))


if __name__ == "__main__":
    MODE = "".join(sys.argv[2:3])
    main(sys.argv[1])
