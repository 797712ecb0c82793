"""Whatever comes late, repeated, out of order or at once: the traces are the same in the end."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from tests.server.trace_exports import (
    RECORDINGS,
    accept,
    clear,
    describe_store,
    export,
    join,
    post,
    read_recording,
    read_spans,
    rows,
    span,
    split_recording,
)

from dokimos.server import ServerSettings, create_app
from dokimos.server._db.trace_tables import TRACES

RECORDED = sorted(path.name for path in RECORDINGS.glob("*.json*"))
WORDS = ("paris", "weather", "tool", "error")


def send(api, parts):
    """Send some exports of one span as one export."""
    assert post(api, join(parts)).status_code == 200


@pytest.fixture(scope="module")
def expected(shared_server):
    """A function that returns what is stored of a recording that comes at once."""
    known = {}

    def describe(name):
        if name not in known:
            clear(shared_server)
            send(shared_server, split_recording(read_recording(name)))
            known[name] = describe_store(shared_server, WORDS)
        return known[name]

    return describe


@settings(
    max_examples=25,
    deadline=timedelta(minutes=2),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.sampled_from(RECORDED), st.randoms(use_true_random=False), st.integers(1, 6))
def test_any_split_order_and_repetition_gives_the_same(shared_server, expected, name, pick, size):
    whole = expected(name)
    parts = split_recording(read_recording(name))
    order = [*parts, *pick.choices(parts, k=len(parts) // 3)]
    pick.shuffle(order)
    clear(shared_server)
    while order:
        count = pick.randint(1, size * 3)
        send(shared_server, order[:count])
        del order[:count]
    assert describe_store(shared_server, WORDS) == whole


def make_copies():
    """Copies of one span that differ: in what they say, or only in where they come from."""
    early = span(1, {"input": "early"}, endTimeUnixNano="0")
    late = span(1, {"input": "late", "output": "done"})
    return [
        export(early, service="a"),
        export(late, service="a"),
        export(late, service="b"),
        export(span(1, {"input": "late", "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5})),
        export(span(2, {"input": "another"})),
    ]


def test_of_copies_that_differ_the_same_one_stays_in_any_order(shared_server):
    pick, stores = random.Random(5), []
    for _ in range(12):
        clear(shared_server)
        copies = make_copies() * 2
        pick.shuffle(copies)
        while copies:
            count = pick.randint(1, 3)
            send(shared_server, copies[:count])
            del copies[:count]
        stores.append(describe_store(shared_server, ("early", "late", "another")))
    assert all(store == stores[0] for store in stores)
    assert stores[0]["traces"][0]["span_count"] == 2
    assert stores[0]["found"]["early"] == []


def test_both_encodings_of_a_span_are_one_span(shared_server):
    stores = []
    for first in (False, True):
        clear(shared_server)
        accept(shared_server, export(span(1, {"input": "a"})), protobuf=first)
        accept(shared_server, export(span(1, {"input": "a"})), protobuf=not first)
        stores.append(describe_store(shared_server, ("a",)))
    assert stores[0] == stores[1]
    assert len(stores[0]["spans"]) == 1


def test_several_writers_of_one_trace_at_once(shared_server):
    clear(shared_server)
    spans = [span(number, {"input": f"question {number}"}) for number in range(1, 41)]
    accept(shared_server, export(*spans), 40)
    whole = describe_store(shared_server, ("question",))
    clear(shared_server)
    batches = [export(*spans[start : start + 7]) for start in range(0, 40, 4)] * 2
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda batch: post(shared_server, batch), batches))
    assert {answer.status_code for answer in answers} == {200}
    assert describe_store(shared_server, ("question",)) == whole


def test_two_servers_that_write_the_same_traces_at_once(postgres_database):
    with ExitStack() as stack, ThreadPoolExecutor(6) as threads:
        server_settings = ServerSettings(host="127.0.0.1", database_url=postgres_database)
        servers = [
            stack.enter_context(TestClient(create_app(server_settings), raise_server_exceptions=False))
            for _ in range(2)
        ]
        parts = split_recording(read_recording("openinference.json"))
        parts += [export(span(number, trace=f"{number % 3 + 1:032x}")) for number in range(1, 31)]
        send(servers[0], parts)
        whole = describe_store(servers[0], WORDS)
        clear(servers[0])
        for server in servers:
            server.app.state.trace_ingestion.store.forget()
        pick = random.Random(11)
        order = [*parts, *parts]
        pick.shuffle(order)
        batches = [order[start : start + 5] for start in range(0, len(order), 5)]
        statuses = threads.map(
            lambda each: post(servers[each[0] % 2], join(each[1])).status_code, enumerate(batches)
        )
        assert set(statuses) == {200}
        assert describe_store(servers[0], WORDS) == whole


def test_a_late_span_belongs_to_the_day_of_its_trace(shared_server):
    clear(shared_server)
    accept(shared_server, export(span(1)))
    accept(shared_server, export(span(2)))
    (trace,) = rows(shared_server, TRACES)
    assert {each["day"] for each in read_spans(shared_server)} == {trace["day"]}
