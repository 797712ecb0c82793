"""The same run, recorded in each dialect, is the same trace."""

import json

import pytest

from dokimos import AgentTrace, CallMetrics, ToolCall, ToolDefinition
from dokimos._core.conversation import ConversationTrajectory, Message
from dokimos.traces import (
    call_metrics,
    load_spans,
    parse_span,
    read_otlp,
    to_agent_trace,
    to_conversation,
    to_examples,
    to_test_case,
    with_logs,
)
from dokimos.traces._span_messages import MessageCache

DIALECTS = [
    "genai-json",
    "genai-structured",
    "genai-details-event",
    "genai-details-log",
    "genai-message-logs",
    "genai-message-events",
    "prompt-and-completion",
    "prompt-events",
    "openinference",
    "openllmetry",
    "openllmetry-old",
    "ai-sdk",
    "ai-sdk-4",
    "langfuse",
]
RECORDINGS = [
    "google-adk",
    "google-adk-1",
    "langgraph-openinference",
    "langgraph-openllmetry",
    "openai-v2",
    "openinference",
    "openllmetry",
    "openllmetry-old",
    "pydantic-ai",
]
SILENT = "google-adk-silent"
"""The one that captured no content."""
ADK = ("google-adk", "google-adk-1")
FRAMEWORKS = (*ADK, "langgraph-openinference", "langgraph-openllmetry", "pydantic-ai")
"""Their agents answer every call."""
QUIET = ("langgraph-openinference", "langgraph-openllmetry", "openai-v2", "pydantic-ai")
"""They tell of a tool's failure in its result only."""

PARIS = ToolCall("get_weather", {"city": "Paris"}, result='{"celsius":11}', metadata={"id": "call_paris"})
ROME = ToolCall(
    "get_weather",
    {"city": "Rome"},
    result='{"error":"no station"}',
    metadata={"id": "call_rome", "error": "no station"},
)
GUIDE = ToolCall(
    "search_guides",
    {"query": "rain in Paris"},
    result='["Pack light.","Bring an umbrella."]',
    metadata={"id": "call_guide"},
)
TAXI = ToolCall("book_taxi", {"time": "08:00"}, result="booked for 08:00", metadata={"id": "call_taxi"})
ANA = ToolCall("send_message", {"to": "Ana"}, metadata={"id": "call_ana"})

EXPECTED = AgentTrace(
    (PARIS, ROME, GUIDE, TAXI, ANA),
    "The taxi comes at eight.",
    metadata={
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "model": "scripted-1",
        "conversationId": "journey-7",
        "contexts": ["Pack light.", "Bring an umbrella."],
        "retrieved": ["guide-0", "guide-1"],
    },
)


@pytest.fixture(params=DIALECTS)
def spans(request, story):
    batch = read_otlp(json.dumps(story.otlp(request.param)))
    return with_logs(batch.spans, batch.logs)


def test_every_dialect_of_the_story_is_tested(story):
    assert list(story.DIALECTS) == DIALECTS


def test_every_dialect_gives_the_same_agent_trace(spans):
    assert to_agent_trace(spans) == EXPECTED


def test_what_was_read_before_changes_nothing_in_how_a_span_is_read(spans):
    cache = MessageCache()

    for span in sorted(spans, key=lambda span: span.start_ns):
        assert parse_span(span, cache) == parse_span(span)


def test_every_dialect_gives_the_same_conversation(spans):
    assert to_conversation(spans) == ConversationTrajectory(
        (
            Message.system("You plan journeys."),
            Message.user("What shall I pack for Paris and Rome?"),
            Message.assistant("Let me look at the guides.", [PARIS, ROME, GUIDE]),
            Message.assistant("Take an umbrella to Paris."),
            Message.user("Book a taxi for eight and tell Ana."),
            Message.assistant("The taxi comes at eight.", [TAXI, ANA]),
        ),
        metadata={"conversationId": "journey-7"},
    )


def test_tokens_are_added_up_once_although_the_agent_repeats_them(spans, story):
    numbers = [span.id for span in story.spans(story.GenAI()) if span.name == "chat"]

    metrics = call_metrics(spans)

    assert metrics == CallMetrics(10 * sum(numbers), sum(numbers), latency_ms=100_000.0, model="scripted-1")


def test_every_dialect_names_the_tools_that_were_there(spans, story):
    tool = story.TOOL

    assert to_test_case(spans).metadata["tools"] == [
        ToolDefinition(tool["name"], tool["description"], input_schema=tool["parameters"])
    ]


def test_a_row_of_a_data_set_has_all_that_evaluators_need(spans, story):
    (example,) = to_examples(spans)

    assert example.id == story.TRACE
    assert example.input == "Book a taxi for eight and tell Ana."
    assert example.actual_outputs["output"] == "The taxi comes at eight."
    assert example.actual_outputs["toolCalls"] == [PARIS, ROME, GUIDE, TAXI, ANA]
    assert example.actual_outputs["contexts"] == ["Pack light.", "Bring an umbrella."]
    assert example.actual_outputs["retrieved"] == ["guide-0", "guide-1"]
    assert example.metadata["spanId"] == story.span_id(1)
    assert example.metrics.tokens_in == call_metrics(spans).tokens_in


@pytest.fixture(params=RECORDINGS)
def recorded(request, recordings):
    (path,) = recordings.glob(f"{request.param}.json*")
    return request.param, load_spans(path)


def test_every_recording_is_tested(recordings):
    names = {path.name.partition(".")[0] for path in recordings.glob("*.json*")}
    names -= {name for name in names if name.endswith(("-crash", "-silent", "-stream")) and name != SILENT}

    assert sorted(names) == sorted([*RECORDINGS, SILENT])


def test_what_real_instrumentations_recorded_gives_the_same_calls_and_answer(recorded):
    name, spans = recorded
    trace = to_agent_trace(spans)

    assert trace.final_response == "The taxi comes at eight."
    assert [(call.name, call.arguments) for call in trace.tool_calls] == [
        (call.name, call.arguments) for call in EXPECTED.tool_calls
    ]
    last = "sent" if name in FRAMEWORKS else None
    assert [call.result for call in trace.tool_calls] == [
        *(call.result for call in EXPECTED.tool_calls[:-1]),
        last,
    ]
    assert [call.metadata["id"] for call in trace.tool_calls] == [
        call.metadata["id"] for call in EXPECTED.tool_calls
    ]


def test_what_real_instrumentations_recorded_gives_the_same_conversation(recorded):
    conversation = to_conversation(recorded[1])

    assert [
        (message.role, message.content.partition("\n")[0], len(message.tool_calls))
        for message in conversation.messages
    ] == [
        ("system", "You plan journeys. Use the tools.", 0),
        ("user", "What shall I pack for Paris and Rome?", 0),
        ("assistant", "Take an umbrella to Paris. The weather in Rome is not known.", 3),
        ("user", "Book a taxi for eight and tell Ana.", 0),
        ("assistant", "The taxi comes at eight.", 2),
    ]


def test_what_real_instrumentations_recorded_counts_the_same_tokens(recorded):
    name, spans = recorded
    metrics = call_metrics(spans)

    model = "openai/scripted" if name in ADK else "scripted-1"
    assert (metrics.tokens_in, metrics.tokens_out, metrics.model) == (150, 25, model)


def test_tools_that_failed_say_why_where_their_span_says_so(recorded):
    name, spans = recorded
    failed = {call.metadata["id"] for call in to_agent_trace(spans).tool_calls if "error" in call.metadata}

    assert failed == (set() if name in QUIET else {"call_rome"})


@pytest.mark.parametrize("name", ADK)
def test_adk_describes_its_tools(recordings, name):
    (path,) = recordings.glob(f"{name}.json*")

    tools = to_test_case(load_spans(path)).metadata["tools"]

    assert [tool.name for tool in tools] == ["get_weather", "search_guides", "book_taxi", "send_message"]
    assert tools[0].parameters == ("city",)


def test_what_was_not_captured_is_not_known(recordings):
    (path,) = recordings.glob(f"{SILENT}.json*")
    spans = load_spans(path)

    trace = to_agent_trace(spans)

    assert [call.name for call in trace.tool_calls] == [call.name for call in EXPECTED.tool_calls]
    assert all(call.has_unknown_arguments and call.result is None for call in trace.tool_calls)
    assert trace.final_response is None
    assert (to_test_case(spans).input, "output" in to_test_case(spans).actual_outputs) == (None, False)
    assert call_metrics(spans).tokens == 175
