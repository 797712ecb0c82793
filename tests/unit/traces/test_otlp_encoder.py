"""Spans that are written as OTLP are read back as they were."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos.traces import Span, SpanEvent, SpanLink, read_otlp
from dokimos.traces._otlp_encoder import encode_spans

ENCODINGS = ["json", "protobuf"]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KEYS = TEXTS.filter(bool)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
MAPS = st.dictionaries(KEYS, VALUES, max_size=3)
COUNTS = st.integers(0, 2**32 - 1)
TIMES = st.none() | st.integers(1, 2**64 - 1)


def ids(size):
    return st.binary(min_size=size, max_size=size).filter(any).map(bytes.hex)


EVENTS = st.builds(SpanEvent, TEXTS, MAPS, time_ns=TIMES, dropped_attributes=COUNTS)
LINKS = st.builds(SpanLink, ids(16), ids(8), MAPS, trace_state=TEXTS, flags=COUNTS, dropped_attributes=COUNTS)
SPANS = st.builds(
    Span,
    ids(16),
    ids(8),
    name=TEXTS.filter(str.strip),
    parent_id=st.none() | ids(8),
    kind=st.sampled_from([None, "internal", "server", "client", "producer", "consumer"]),
    start_ns=TIMES,
    end_ns=TIMES,
    status=st.sampled_from(["unset", "ok", "error"]),
    status_message=TEXTS,
    attributes=MAPS,
    events=st.lists(EVENTS, max_size=2).map(tuple),
    resource=MAPS,
    resource_schema_url=TEXTS,
    scope=TEXTS,
    scope_version=TEXTS,
    scope_attributes=MAPS,
    schema_url=TEXTS,
    links=st.lists(LINKS, max_size=2).map(tuple),
    trace_state=TEXTS,
    flags=COUNTS,
    dropped_attributes=COUNTS,
    dropped_events=COUNTS,
    dropped_links=COUNTS,
)


@pytest.mark.parametrize("encoding", ENCODINGS)
@settings(deadline=None, max_examples=60)
@given(spans=st.lists(SPANS, max_size=4))
def test_spans_are_read_back_as_they_were(encoding, spans):
    spans = [*spans, *(replace(each, name="again") for each in spans[-1:])]

    assert list(read_otlp(encode_spans(spans, encoding), encoding=encoding).spans) == spans


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_numbers_that_are_not_finite_stay(encoding):
    span = Span("1" * 32, "1" * 16, name="a", attributes={"nan": math.nan, "low": -math.inf})

    (read,) = read_otlp(encode_spans([span], encoding), encoding=encoding).spans

    assert math.isnan(read.attributes["nan"])
    assert read.attributes["low"] == -math.inf


def test_spans_of_one_instrumentation_share_what_they_have_in_common():
    spans = [Span("1" * 32, f"{n:016x}", name="a", resource={"a": 1}, scope="lib") for n in (1, 2)]

    (group,) = json.loads(encode_spans(spans, "json"))["resourceSpans"]

    assert [len(part["spans"]) for part in group["scopeSpans"]] == [2]


def test_what_protobuf_cannot_hold_becomes_the_nearest_that_it_can():
    span = Span("trace-1", "1" * 16, name="a\ud800", attributes={"large": 2**70})

    (read,) = read_otlp(encode_spans([span], "protobuf"), encoding="protobuf").spans

    assert read.trace_id == b"trace-1".hex()
    assert (read.name, read.attributes) == ("a?", {"large": str(2**70)})
    (read,) = read_otlp(encode_spans([span], "json"), encoding="json").spans
    assert (read.trace_id, read.attributes) == ("trace-1", {"large": 2**70})


def test_the_body_of_a_log_record_is_an_attribute():
    span = Span("1" * 32, "1" * 16, name="a", events=(SpanEvent("e", body={"a": [1]}),))

    (read,) = read_otlp(encode_spans([span], "json")).spans

    assert read.events[0].attributes == {"body": {"a": [1]}}
