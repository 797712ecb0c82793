"""Rules read the spans of many traces at once: with few requests where spans are in a store of their own."""

from types import SimpleNamespace

import pytest
from sqlalchemy import event, select
from tests.server.trace_server import open_traces, span

from dokimos.server._db.clickhouse_client import ClickHouseClient
from dokimos.server._db.clock import now
from dokimos.server._db.trace_tables import SPANS, TRACES
from dokimos.server._services.online import back_fills, matched_spans, span_matching
from dokimos.server._services.online.enabled_rules import EvalRule
from dokimos.server._services.online.rule_conditions import Condition, MatchType
from dokimos.server._services.online.rule_sampling import Sampling
from dokimos.server._services.online.scored_cases import load_scored_spans
from dokimos.server._services.traces import span_pages
from dokimos.server._trace_settings import TraceSettings

ALWAYS = (0, 1 << 57)
TRACE_COUNT = 40


def rule(scope="span", **values):
    condition = Condition(MatchType("WILDCARD"), "step*", None)
    return EvalRule("rule", None, None, scope, condition, Sampling(**values), "judge", "{}")


@pytest.fixture
async def server(database_settings):
    async with open_traces(**database_settings) as server:
        yield server


@pytest.fixture
async def clickhouse_server(database_settings, clickhouse_database):
    traces = TraceSettings(clickhouse_url=clickhouse_database)
    async with open_traces(traces=traces, **database_settings) as server:
        yield server


@pytest.fixture
def requests(monkeypatch):
    """The texts of the queries that ClickHouse is asked."""
    texts, send = [], ClickHouseClient._send_form

    async def count(self, statement, settings, seconds):
        texts.append(statement.text)
        return await send(self, statement, settings, seconds)

    monkeypatch.setattr(ClickHouseClient, "_send_form", count)
    return texts


async def fill(server, traces=TRACE_COUNT):
    for first in range(1, traces + 1, 10):
        await server.send(
            *(
                span(number, step, parent=None if step == 1 else 1, session=f"s{number % 3}")
                for number in range(first, first + 10)
                for step in (1, 2, 3)
            )
        )


async def match(server, own, **options):
    def run(connection):
        traces = connection.execute(select(TRACES).order_by(TRACES.c.id)).all()
        return span_matching.match_traces(connection, traces, [own], **options)

    return await server.traces.read(run)


@pytest.mark.parametrize("scope", ["span", "parent", "trace"])
async def test_a_trial_of_many_traces_asks_clickhouse_once(clickhouse_server, requests, scope):
    await fill(clickhouse_server)
    requests.clear()
    step = await clickhouse_server.traces.read(
        lambda connection: back_fills.try_rule(connection, rule(scope), ALWAYS, None)
    )
    assert (step.traces, step.matched) == (TRACE_COUNT, TRACE_COUNT * (3 if scope == "span" else 1))
    assert len(requests) == 1


@pytest.mark.parametrize("scope", ["span", "trace"])
async def test_the_cases_of_many_jobs_are_loaded_with_one_request(clickhouse_server, requests, scope):
    await fill(clickhouse_server)
    jobs = [job for each in await match(clickhouse_server, rule(scope)) for job in each.jobs]
    requests.clear()
    lengths = await clickhouse_server.traces.read(
        lambda connection: back_fills.measure_texts(connection, jobs, scope)
    )
    assert len(lengths) == len(jobs) == TRACE_COUNT * (3 if scope == "span" else 1)
    assert len(requests) == 1


async def test_new_spans_are_those_since_each_trace_was_due(server):
    await fill(server, 10)
    later = now() + 1

    def change(connection):
        ids = connection.execute(select(TRACES.c.id).order_by(TRACES.c.id)).scalars().all()
        for number, trace in enumerate(ids):
            due = later if number % 2 else 0
            connection.execute(TRACES.update().where(TRACES.c.id == trace).values(match_due_at=due))

    await server.traces.write(change)
    assert [each.matched for each in await match(server, rule(), only_new=True)] == [3, 0] * 5


@pytest.mark.parametrize("scope", ["span", "parent", "trace"])
async def test_pages_of_spans_change_nothing_of_what_matches(server, monkeypatch, scope):
    await fill(server, 10)
    whole = [(each.matched, each.jobs) for each in await match(server, rule(scope))]
    pages = []
    read = span_matching.read_spans

    def note(*arguments, **options):
        for page in read(*arguments, **options):
            pages.append(len(page))
            yield page

    monkeypatch.setattr(span_matching, "read_spans", note)
    monkeypatch.setattr(span_pages, "MAX_SPANS", 2)
    assert [(each.matched, each.jobs) for each in await match(server, rule(scope))] == whole
    assert pages == [2, 1] * 10


async def test_a_page_has_few_bytes_and_a_larger_span_is_alone(server, monkeypatch):
    await server.send(*(span(1, number, text="x" * (5000 if number == 2 else 10)) for number in range(1, 6)))
    monkeypatch.setattr(span_pages, "MAX_BYTES", 2000)

    def read(connection):
        traces = connection.execute(select(TRACES)).all()
        columns = (SPANS.c.trace, SPANS.c.span_id, SPANS.c.body)
        return [
            (len(page), sum(len(row.body) for row in page))
            for page in span_pages.read_pages(connection, columns, traces)
        ]

    pages = await server.traces.read(read)
    assert sum(count for count, _ in pages) == 5
    assert [count for count, size in pages if size > 2000] == [1]


async def test_a_trace_that_grew_since_its_row_was_read_is_read_in_pages(server, monkeypatch):
    await fill(server, 10)
    monkeypatch.setattr(span_pages, "MAX_SPANS", 5)

    def read(connection):
        traces = connection.execute(select(TRACES)).all()
        early = [SimpleNamespace(**{**row._mapping, "span_count": 0}) for row in traces[:3]]
        pages = list(matched_spans.read_spans(connection, early))
        return [len(page) for page in pages]

    assert await server.traces.read(read) == [3, 3, 3]


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([(1, 10)] * 4, [4]),
        ([(600, 10), (300, 10), (200, 10)], [2, 1]),
        ([(1, 10), (99_999, 10), (1, 10)], [1, 1, 1]),
        ([(1, 3 << 20), (1, 3 << 20), (1, 1)], [1, 2]),
        ([], []),
    ],
)
def test_traces_are_batched_by_their_spans_and_bytes(sizes, batches):
    traces = [SimpleNamespace(span_count=count, byte_count=size) for count, size in sizes]
    assert [len(each) for each in span_pages.batch_traces(traces)] == batches


async def test_jobs_of_removed_traces_have_no_spans(server):
    await fill(server, 10)
    [job] = (await match(server, rule("trace")))[0].jobs
    gone = SimpleNamespace(trace="01a22828-9d86-73f6-a6f7-9d79369ee605", span_id="1")
    missing = SimpleNamespace(trace=job.trace, span_id="ff")

    def load(connection, scope):
        return {
            each.span_id: [len(spans) for spans in traces]
            for each, traces in load_scored_spans(connection, [gone, job, missing], scope)
        }

    assert await server.traces.read(lambda connection: load(connection, "span")) == {
        "1": [],
        job.span_id: [1],
        "ff": [],
    }
    assert (await server.traces.read(lambda connection: load(connection, "trace")))[job.span_id] == [3]


async def test_on_sql_too_one_query_reads_the_spans_of_many_traces(server):
    await fill(server)
    texts = []

    def run(connection):
        def note(_connection, _cursor, statement, *_):
            texts.append(statement)

        event.listen(connection, "before_cursor_execute", note)
        try:
            return back_fills.try_rule(connection, rule(), ALWAYS, None)
        finally:
            event.remove(connection, "before_cursor_execute", note)

    assert (await server.traces.read(run)).matched == TRACE_COUNT * 3
    assert len([text for text in texts if "spans" in text]) == 1
