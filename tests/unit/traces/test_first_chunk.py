"""The time to the first piece of a streamed answer, in each dialect that has it."""

from dataclasses import replace

import pytest

from dokimos.traces import SpanEvent, call_metrics, load_spans, to_examples

CHAT = {"gen_ai.operation.name": "chat"}


@pytest.fixture
def streamed(span):
    """Make a span of 500 ms that starts at 2023-11-14T22:13:20Z."""

    def make(attributes=None, events=(), scope=""):
        start = 1_700_000_000_000_000_000
        events = tuple(SpanEvent(name, time_ns=start + ms * 1_000_000) for name, ms in events)
        return replace(
            span(), attributes=attributes or CHAT, events=events, scope=scope,
            start_ns=start, end_ns=start + 500_000_000,
        )  # fmt: skip

    return make


@pytest.mark.parametrize(
    ("attributes", "scope", "expected"),
    [
        ({"gen_ai.response.time_to_first_chunk": 0.25}, "", 250),
        ({"gen_ai.server.time_to_first_token": 0.25}, "openlit", 250),
        ({"gen_ai.server.time_to_first_token": 250}, "strands.telemetry.tracer", 250),
        ({"ai.response.msToFirstChunk": 250.0}, "ai", 250),
        ({"ai.stream.msToFirstChunk": 250}, "ai", 250),
        ({"langfuse.observation.completion_start_time": '"2023-11-14T22:13:20.250Z"'}, "langfuse-sdk", 250),
        ({"langfuse.observation.completion_start_time": "2023-11-15T00:13:20.250+02:00"}, "", 250),
        ({"langfuse.observation.completion_start_time": "2023-11-14T22:13:20.250"}, "", None),
        ({"langfuse.observation.completion_start_time": "2023-11-14T22:13:19Z"}, "", None),
        ({"langfuse.observation.completion_start_time": "soon"}, "", None),
        ({"langfuse.observation.completion_start_time": 7}, "", None),
        ({"gen_ai.response.time_to_first_chunk": "0.25"}, "", None),
        ({"gen_ai.response.time_to_first_chunk": True}, "", None),
        ({"gen_ai.response.time_to_first_chunk": -1}, "", None),
        ({"gen_ai.response.time_to_first_chunk": float("nan")}, "", None),
        ({"gen_ai.response.time_to_first_chunk": 10**400}, "", None),
        ({}, "", None),
    ],
)
@pytest.mark.parametrize("role", [CHAT, {"gen_ai.operation.name": "invoke_agent"}, {"ai.operationId": "x"}])
def test_attributes_tell_the_time_to_the_first_chunk(streamed, attributes, scope, expected, role):
    assert call_metrics([streamed({**role, **attributes}, scope=scope)]).first_chunk_ms == expected


@pytest.mark.parametrize(
    "name",
    [
        "First Token Stream Event",
        "gen_ai.content.completion.chunk",
        "llm.content.completion.chunk",
        "ai.stream.firstChunk",
    ],
)
def test_events_tell_the_time_to_the_first_chunk(streamed, name):
    events = [("gen_ai.user.message", 1), (name, 250), (name, 300)]

    assert call_metrics([streamed(events=events)]).first_chunk_ms == 250
    assert call_metrics([streamed(events=[(name, -1)])]).first_chunk_ms is None
    assert call_metrics([replace(streamed(events=events), start_ns=None)]).first_chunk_ms is None


def test_of_several_calls_the_first_chunk_of_the_quickest_counts(streamed):
    spans = [
        replace(streamed({**CHAT, "gen_ai.response.time_to_first_chunk": seconds}), span_id=f"{place:016x}")
        for place, seconds in enumerate((0.5, 0.25, 1.0), 1)
    ]

    assert call_metrics(spans).first_chunk_ms == 250


@pytest.mark.parametrize("name", ["openinference", "openllmetry"])
def test_real_instrumentations_of_streams_are_read(recordings, name):
    spans = load_spans(recordings / f"{name}-stream.json.gz")

    (row,) = to_examples(spans)

    assert 0 < row.metrics.first_chunk_ms < row.metrics.latency_ms
    assert row.metrics.tokens == 15
    assert row.actual_outputs["output"] == "Take an umbrella to Paris. The weather in Rome is not known."
