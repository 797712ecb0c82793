"""Traces that are removed for their age, and what is given back with them."""

import asyncio
from functools import partial
from types import SimpleNamespace

import asyncpg
import pytest
from sqlalchemy import func, select
from tests.server.trace_server import TraceClock, open_traces, span

from dokimos.server._db.clock import DAY
from dokimos.server._db.trace_tables import (
    SPANS,
    TRACE_DAYS,
    TRACE_HOURS,
    TRACE_METADATA,
    TRACE_SOURCES,
    TRACES,
)
from dokimos.server._services.accounts.principal import SYSTEM, Principal, Role
from dokimos.server._services.projects.project_settings import change_settings
from dokimos.server._services.projects.projects import find_or_create_project
from dokimos.server._services.traces import trace_retention
from dokimos.server._services.traces.day_storage import give_space_back, list_stored_days
from dokimos.server._services.traces.request_pace import NO_PAUSES
from dokimos.server._services.traces.trace_removals import find_removal
from dokimos.server._trace_settings import TraceSettings


@pytest.fixture
def clock(monkeypatch):
    return TraceClock(monkeypatch)


@pytest.fixture
async def server(database_settings, clock):
    async with open_traces(clock, **database_settings) as server:
        yield server


async def count(server, table):
    return (await server.read(select(func.count()).select_from(table)))[0][0]


async def keep(server, project, days):
    def change(connection):
        find_or_create_project(connection, SYSTEM, project)
        change_settings(connection, SYSTEM, project, {"trace_retention_days": days})

    await server.database.write(change)
    server.projects.forget()


async def test_a_trace_is_removed_after_thirty_days_with_its_spans(server, clock):
    await server.send(span(1, 1), span(1, 2))
    clock.step(29.9)
    assert await server.sweeper.sweep() == 0
    clock.step(0.2)
    await server.send(span(2, 1))
    assert await server.sweeper.sweep() == 1
    assert [row.trace_id[-1] for row in await server.read(select(TRACES))] == ["2"]
    assert await count(server, SPANS) == 1


async def test_each_batch_of_a_trace_sets_its_stamp_anew(server, clock):
    await server.send(span(1, 1))
    clock.step(29)
    await server.send(span(1, 2))
    clock.step(29)
    assert await server.sweeper.sweep() == 0
    clock.step(1.1)
    assert await server.sweeper.sweep() == 1


async def test_a_sweep_waits_for_what_removes_deleted_traces_at_that_moment(server, clock):
    await server.send(span(1, 1))
    clock.step(31)
    async with server.traces.claim("removing traces"):
        sweep = asyncio.create_task(server.sweeper.sweep())
        while "sweeping traces" not in server.traces._claims._held:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert await server.sweeper.sweep() == 0  # one at a time
        assert not sweep.done()
    assert await sweep == 1


@pytest.mark.parametrize(("days", "left"), [(0, 0), (2, 1), (-1, 1)])
async def test_a_project_sets_how_long_its_traces_stay(server, clock, days, left):
    await keep(server, "chat", days)
    await server.send(span(1, 1), project="chat")
    await server.sweeper.sweep()
    assert await count(server, TRACES) == left
    clock.step(40)
    await server.sweeper.sweep()
    assert await count(server, TRACES) == (1 if days == -1 else 0)


@pytest.mark.parametrize(
    "names", [("chat", "search"), ("search", "chat"), ("chat", None), (None, "chat")], ids=str
)
async def test_a_trace_of_several_projects_stays_as_long_as_the_longest(server, clock, names):
    await keep(server, "chat", 2)
    await keep(server, "search", 20)
    for number, name in enumerate(names, start=1):
        await server.send(span(1, number), project=name)
    clock.step(19)
    assert await server.sweeper.sweep() == 0
    clock.step(12)
    assert await server.sweeper.sweep() == 1


@pytest.mark.parametrize("names", [("chat", "audit"), ("audit", "chat")])
async def test_a_trace_that_a_project_keeps_for_ever_is_kept_whatever_else_comes(server, clock, names):
    await keep(server, "chat", 2)
    await keep(server, "audit", -1)
    for number, name in enumerate(names, start=1):
        await server.send(span(1, number), project=name)
    clock.step(1000)
    assert await server.sweeper.sweep() == 0


async def test_a_span_that_comes_while_its_trace_is_removed_begins_a_new_one(server, clock):
    await server.send(span(1, 1))
    clock.step(31)
    await server.traces.write(lambda c: trace_retention.expire_traces(c, clock()))
    await server.send(span(1, 2))
    assert await server.sweeper.sweep() == 1
    rows = await server.read(select(TRACES.c.span_count, TRACES.c.deleted_at))
    assert [tuple(row) for row in rows] == [(1, None)]
    assert await count(server, SPANS) == 1


@pytest.mark.parametrize(
    "first", [span(1, 2), span(1, 1)], ids=["a span of yesterday's trace", "a repeated one"]
)
async def test_a_day_that_begins_with_what_belongs_to_the_one_before_takes_new_traces(server, clock, first):
    clock.step(0.999 - clock() % DAY / DAY)
    await server.send(span(1, 1))
    clock.step(0.002)
    await server.send(first)

    assert (await server.send(span(2, 1))).accepted == 1


async def test_what_a_trace_has_is_removed_in_small_transactions(server, clock, monkeypatch):
    monkeypatch.setattr(trace_retention, "SPANS_AT_ONCE", 7)
    await server.send(*(span(1, number) for number in range(1, 31)))
    await server.send(*(span(trace, 1) for trace in range(2, 20)))
    clock.step(31)
    await server.send(span(99, 1))  # of today, so that the day of the others is over
    sizes = []
    purge = trace_retention.purge_traces

    def note(connection, **arguments):
        before = connection.execute(select(func.count()).select_from(SPANS)).scalar_one()
        result = purge(connection, **arguments)
        sizes.append(before - connection.execute(select(func.count()).select_from(SPANS)).scalar_one())
        return result

    monkeypatch.setattr("dokimos.server._workers.trace_retention.purge_traces", note)
    assert await server.sweeper.sweep() == 19
    assert max(sizes) <= 7
    assert await count(server, SPANS) == 1


@pytest.mark.parametrize(("traces", "selects"), [(["a"], True), (["a", "b"], False)])
def test_postgresql_looks_for_spans_first_only_where_it_removes_a_part_of_them(traces, selects):
    statements = []

    def execute(statement):
        statements.append(str(statement))
        return SimpleNamespace(rowcount=2)

    connection = SimpleNamespace(dialect=SimpleNamespace(name="postgresql"), execute=execute)
    assert trace_retention._remove_spans(connection, 1, traces, NO_PAUSES) == 2
    assert ["SELECT" in statement for statement in statements] == [selects]


async def test_a_day_that_is_over_gives_its_storage_back(server, clock):
    await server.send(span(1, 1))
    clock.step(5)
    await server.send(span(2, 1))
    clock.step(25.01)
    await server.sweeper.sweep()
    assert await server.traces.read(list_stored_days) == [clock.day - 25]
    await server.send(span(3, 1))
    assert await server.traces.read(list_stored_days) == [clock.day - 25, clock.day]
    assert await count(server, SPANS) == 2


async def test_the_last_two_days_keep_their_storage(server, clock):
    await keep(server, "chat", 0)
    await server.send(span(1, 1), project="chat")
    first = clock.day
    for _ in range(2):
        await server.sweeper.sweep()
        assert await server.traces.read(list_stored_days) == [first]
        clock.step(1)
    await server.sweeper.sweep()
    assert await server.traces.read(list_stored_days) == []
    await server.send(span(2, 1), project="chat")
    assert await count(server, SPANS) == 1


async def test_a_day_of_which_a_trace_stays_keeps_the_spans_of_that(server, clock):
    await keep(server, "archive", -1)
    await server.send(span(1, 1), project="archive")
    await server.send(*(span(2, number) for number in range(1, 6)))
    clock.step(31)
    assert await server.sweeper.sweep() == 1
    assert await count(server, SPANS) == 1


async def test_spans_wait_for_the_rest_of_their_day_where_that_goes_at_once(server, clock):
    clock.step(0.001 - clock() % DAY / DAY)  # just after midnight
    await server.send(span(1, 1))
    clock.step(0.5)
    await server.send(span(2, 1))
    clock.step(29.6)
    goes_at_once = (await server.traces.read(partial(trace_retention.read_day, day=clock.day))).goes_at_once
    assert goes_at_once or server.traces.dialect == "sqlite"
    assert await server.sweeper.sweep() == (0 if goes_at_once else 1)
    assert [row.trace_id[-1] for row in await server.read(select(TRACES).where(SYSTEM.sees(TRACES)))] == ["2"]
    clock.step(0.5)
    assert await server.sweeper.sweep() == (2 if goes_at_once else 1)
    assert await server.traces.read(list_stored_days) == []


async def test_what_somebody_deletes_does_not_wait_for_its_day(server, clock):
    clock.step(0.001 - clock() % DAY / DAY)
    await server.send(span(1, 1))
    await server.send(span(2, 1))
    clock.step(29.5)
    first = (await server.read(select(TRACES.c.id).order_by(TRACES.c.id)))[0].id
    await server.traces.write(lambda c: trace_retention.mark_traces(c, [first]))
    assert await server.sweeper.sweep() == 1
    assert await count(server, SPANS) == 1


async def test_a_day_that_is_being_read_is_dropped_at_the_next_sweep(server, clock, monkeypatch):
    monkeypatch.setattr("dokimos.server._services.traces.day_storage._LOCK_WAIT", "20ms")
    await server.send(span(1, 1))
    clock.step(31)
    if server.traces.dialect == "sqlite":
        return  # where readers never hold up the writer
    reader = await asyncpg.connect(server.settings.database_url)
    reading = reader.transaction()
    await reading.start()
    await reader.fetchval("SELECT count(*) FROM spans")
    assert await server.sweeper.sweep() == 0
    assert await server.read(select(TRACES).where(SYSTEM.sees(TRACES))) == []
    await reading.rollback()
    await reader.close()
    assert await server.sweeper.sweep() == 1
    assert await server.traces.read(list_stored_days) == []


async def test_a_clock_that_is_set_forward_removes_nothing(server, clock):
    await server.send(span(1, 1))
    steady = clock.seconds()
    sweeper = type(server.sweeper)(
        server.traces,
        server.database,
        server.ingestion.store,
        server.metrics,
        wall=clock.seconds,
        monotonic=lambda: steady,
    )
    clock.step(365)
    assert await sweeper.sweep() == 0
    assert await count(server, TRACES) == 1


async def test_what_was_removed_is_told_to_those_who_would_see_it(server, clock):
    tenant = Principal("ada", Role.EDITOR, tenant="ada", is_restricted=True)
    other = Principal("bob", Role.VIEWER, tenant="bob", is_restricted=True)
    await server.send(span(1, 1), span(1, 2), principal=tenant)
    identifier = (await server.read(select(TRACES.c.id)))[0].id
    clock.step(31)
    await server.sweeper.sweep()

    async def find(principal, **arguments):
        return await server.traces.read(lambda c: find_removal(c, principal, **arguments))

    removal = await find(tenant, trace=identifier)
    assert (removal.traces, removal.spans) == (1, 2)
    assert removal.last_removed_at == clock()
    assert await find(SYSTEM, begin=clock() - 32 * DAY, end=clock()) == removal
    assert await find(other, trace=identifier) is None
    assert await find(tenant, begin=clock() - DAY) is None


async def test_counts_of_hours_stay_and_unused_sources_go(server, clock):
    await server.send(span(1, 1))
    hours = await server.read(select(TRACE_HOURS))
    clock.step(31)
    await server.sweeper.sweep()
    assert await server.read(select(TRACE_HOURS)) == hours
    assert await count(server, TRACE_DAYS) == 1
    assert await count(server, TRACE_SOURCES) == 0
    await server.send(span(2, 1))  # the store knows no more that the source was there
    assert await count(server, TRACE_SOURCES) == 1


async def test_sqlite_makes_its_file_smaller(tmp_path, clock, monkeypatch):
    given = []

    def note(connection, pace):
        given.append(give_space_back(connection, pace))
        return given[-1]

    monkeypatch.setattr("dokimos.server._workers.trace_retention.give_space_back", note)
    async with open_traces(clock, data_dir=tmp_path) as server:
        text = "all work and no play " * 500
        for trace in range(20):
            await server.send(*(span(trace, number, text=text) for number in range(1, 11)))
        pages = await server.traces.read(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
        clock.step(31)
        await server.sweeper.sweep()
        left = await server.traces.read(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
        of_days = "SELECT name FROM sqlite_master WHERE name GLOB 'span_*_[0-9]*'"
        assert await server.traces.read(lambda c: c.exec_driver_sql(of_days).all()) == []
    assert left < pages / 5
    assert given[0] == min(250, sum(given))


async def test_a_sweep_ends_while_what_comes_in_frees_pages_all_the_time(tmp_path, clock, monkeypatch):
    async with open_traces(clock, data_dir=tmp_path) as server:
        await server.send(span(1, 1))
        monkeypatch.setattr("dokimos.server._workers.trace_retention.count_free_pages", lambda c: 10)
        monkeypatch.setattr("dokimos.server._workers.trace_retention.give_space_back", lambda c, pace: 4)
        assert await asyncio.wait_for(server.sweeper.sweep(), 60) == 0


async def test_others_forget_a_trace_before_it_is_removed(server, clock):
    await server.send(span(1, 1))
    clock.step(31)
    seen = []

    async def forget(ids):
        seen.append((list(ids), await count(server, SPANS)))

    identifier = (await server.read(select(TRACES.c.id)))[0].id
    server.sweeper.before_removal.append(forget)
    await server.sweeper.sweep()
    assert [ids for ids, _ in seen] == [[identifier]]


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection:sqlalchemy.exc.SAWarning")
@pytest.mark.filterwarnings("ignore:autogenerate skipping metadata-specified expression-based index")
async def test_the_migration_makes_the_tables_that_the_server_uses(server):
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    def compare(connection):
        context = MigrationContext.configure(connection, opts={"version_table": "trace_alembic_version"})
        return [each for each in compare_metadata(context, TRACE_METADATA) if "spans" not in str(each)]

    if server.traces.dialect == "sqlite":  # PostgreSQL has the tables of the server beside these
        assert await server.traces.read(compare) == []


def test_settings_say_how_often_and_how_long(serve):
    api = serve(traces=TraceSettings(retention_days=7.0))
    api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"})
    answer = api.get("/api/v1/projects/chat/settings").json()
    assert answer["effective"]["traceRetentionDays"] == 7
    answer = api.patch("/api/v1/projects/chat/settings", json={"traceRetentionDays": 0}).json()
    assert (answer["settings"]["traceRetentionDays"], answer["defaults"]["traceRetentionDays"]) == (0, 7)
    assert api.patch("/api/v1/projects/chat/settings", json={"traceRetentionDays": -2}).status_code == 400
