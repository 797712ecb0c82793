"""The days of a dashboard that are added up say what their hours say, whatever comes after that."""

import asyncio
import random
from functools import partial

import pytest
from sqlalchemy import select, update
from tests.server.trace_server import TraceClock, open_traces, span

from dokimos.server._db.clock import DAY, HOUR
from dokimos.server._db.trace_tables import TRACE_HOURS, TRACE_ROLLUPS
from dokimos.server._services.accounts.principal import SYSTEM, Principal, Role
from dokimos.server._services.projects.projects import find_or_create_project
from dokimos.server._services.traces import day_rollups, trace_hours, trace_stats
from dokimos.server._services.traces.day_rollups import add_up_days, choose_days, store_rollups
from dokimos.server._services.traces.trace_stats import choose_period, read_stats
from dokimos.server._workers import trace_rollups
from dokimos.server._workers.trace_rollups import roll_up_days

DAYS = 6


@pytest.fixture
def clock(monkeypatch):
    return TraceClock(monkeypatch)


@pytest.fixture
async def server(clock, empty_database_settings):
    async with open_traces(clock, **empty_database_settings) as server:
        yield server


ADA, BOB = (Principal(name, Role.EDITOR, tenant=name, is_restricted=True) for name in ("ada", "bob"))


def make_span(clock, trace, number=1, *, milliseconds=500, **values):
    """A span that begins now, of a model call."""
    own = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 10, **values}
    made = span(trace, number, **own)
    start = clock() * 1000
    return made | {"startTimeUnixNano": str(start), "endTimeUnixNano": str(start + milliseconds * 1_000_000)}


async def make_project(server, name="chat"):
    row = await server.database.write(lambda connection: find_or_create_project(connection, SYSTEM, name))
    return row.id


async def send_days(server, clock, days=DAYS):
    """Send some traces on each of some days, the last of which is today."""
    for day in range(days):
        for number in range(3):
            made = make_span(
                clock,
                10 * day + number + 1,
                milliseconds=10**number,
                **{"gen_ai.request.model": f"m{number}"},
            )
            await server.send(made, project="chat")
        if day < days - 1:
            clock.step(1)


async def read(server, project, clock, *, days=DAYS + 1, principal=SYSTEM, step="day"):
    """What the dashboard shows of the last days."""
    period = choose_period(clock() - days * DAY, clock() + HOUR, step)
    stats = await server.traces.read(
        partial(read_stats, principal=principal, project_id=project, period=period)
    )
    return stats.buckets, {step: dict(+bins) for step, bins in stats.latencies.items()}, stats.models


def roll_up(server, clock):
    return roll_up_days(server.traces, clock=clock)


async def read_days(server):
    rows = await server.read(select(TRACE_ROLLUPS).order_by(TRACE_ROLLUPS.c.day))
    return {row.day: (row.changes, row.content is not None) for row in rows}


async def test_days_that_are_over_are_added_up_once(server, clock):
    project = await make_project(server)
    await send_days(server, clock)
    hours = await read(server, project, clock)

    assert await roll_up(server, clock) == DAYS - 2

    assert list(await read_days(server)) == list(range(clock.day - DAYS + 1, clock.day - 1))
    assert await read(server, project, clock) == hours
    assert await read(server, project, clock, days=3) != hours
    assert await roll_up(server, clock) == 0
    clock.step(1)
    assert await roll_up(server, clock) == 1


async def test_a_day_that_is_added_up_is_not_read_by_the_hour(server, clock, monkeypatch):
    project = await make_project(server)
    await send_days(server, clock)
    await roll_up(server, clock)
    ranges = []
    read_models = trace_stats._Hours.read_models

    def note(self, first, end):
        ranges.append((first // 24, end / 24))
        return read_models(self, first, end)

    monkeypatch.setattr(trace_stats._Hours, "read_models", note)
    await read(server, project, clock)

    oldest = clock.day - DAYS + 1
    assert [first for first, _ in ranges] == [oldest - 2, clock.day - 1]
    assert ranges[0][1] == oldest


async def test_spans_that_come_late_are_counted_at_once_and_added_up_again(server, clock):
    project = await make_project(server)
    await send_days(server, clock)
    await roll_up(server, clock)
    day = clock.day - 4
    before = await read(server, project, clock)
    late = make_span(clock, 900, milliseconds=77, **{"gen_ai.request.model": "late"})
    start = int(late["startTimeUnixNano"]) - 4 * DAY * 1000
    await server.send(
        late | {"startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 77_000_000)}, project="chat"
    )

    assert (await read_days(server))[day] == (1, False)
    hours = await read(server, project, clock)
    assert hours[0][day]["trace_count"] == before[0][day]["trace_count"] + 1
    assert [name for name, _ in hours[2]] == ["m0", "m1", "m2", "late"]
    assert await roll_up(server, clock) == 1
    assert (await read_days(server))[day] == (1, True)
    assert await read(server, project, clock) == hours


async def test_a_day_that_changes_while_it_is_added_up_is_added_up_by_the_next_run(server, clock):
    project = await make_project(server)
    await send_days(server, clock)
    owner, day = (project, ""), clock.day - 3
    chosen = await server.traces.read(partial(choose_days, owner=owner, moment=clock()))
    rollups = await server.traces.read(partial(add_up_days, owner=owner, days=chosen))
    await server.traces.write(
        partial(day_rollups.mark_changed_days, hours=[(*owner, day * 24)], today=clock.day)
    )

    await server.traces.write(partial(store_rollups, rollups=rollups))

    days = await read_days(server)
    assert days.pop(day) == (1, False)
    assert set(days.values()) == {(0, True)}
    assert await roll_up(server, clock) == 1
    assert (await read_days(server))[day] == (1, True)


async def test_what_an_earlier_version_stores_late_is_counted_without_a_mark(server, clock):
    project = await make_project(server)
    await send_days(server, clock)
    await roll_up(server, clock)
    day = clock.day - 4
    of_day = (TRACE_HOURS.c.hour >= day * 24, TRACE_HOURS.c.hour < (day + 1) * 24)
    more = update(TRACE_HOURS).where(*of_day).values(trace_count=TRACE_HOURS.c.trace_count + 1)
    await server.traces.write(lambda connection: connection.execute(more).rowcount)

    buckets, latencies, _ = await read(server, project, clock)

    assert (await read_days(server))[day] == (0, True)
    assert buckets[day]["trace_count"] == 4
    assert sum(latencies[day].values()) == 3


def draw_span(draw, clock, trace):
    """A span that began now, or up to some days before."""
    values = {"gen_ai.request.model": f"m{draw.randrange(3)}"}
    made = make_span(clock, trace, draw.randrange(1, 4), milliseconds=draw.choice((1, 300)), **values)
    earlier = int(draw.choice((0, 0, 1, 5, 40)) * draw.random() * DAY) * 1000
    times = ("startTimeUnixNano", "endTimeUnixNano")
    return made | {name: str(int(made[name]) - earlier) for name in times}


@pytest.mark.parametrize("seed", range(2))
async def test_days_say_what_their_hours_say_whatever_comes_in_whatever_order(
    server, clock, monkeypatch, seed
):
    """Late spans, more spans of old traces, a server of an earlier version, and a clock that is set back."""
    draw = random.Random(seed)
    projects = [await make_project(server, name) for name in ("chat", "other")]
    read_rollups = trace_stats._Hours.read_rollups
    used = []

    def note(self, totals):
        used.extend(days := read_rollups(self, totals))
        return days

    for number in range(50):
        with monkeypatch.context() as patch:
            if draw.random() < 0.2:  # of an earlier version, which marks nothing
                patch.setattr(trace_hours, "mark_changed_days", lambda *_: None)
            spans = [draw_span(draw, clock, draw.randrange(1, number + 2)) for _ in range(2)]
            name, caller = draw.choice(("chat", "other")), draw.choice((SYSTEM, ADA, BOB))
            await server.send(*spans, project=name, principal=caller)
        clock.step(draw.choice((0, 0, 0.3, 1, 2, -0.5, -1.2)))
        if draw.random() < 0.3:
            await roll_up(server, clock)
        for project in projects:
            own = {"days": draw.choice((2, 8, 60)), "principal": draw.choice((SYSTEM, ADA, BOB))}
            with monkeypatch.context() as patch:
                patch.setattr(trace_stats._Hours, "read_rollups", note)
                by_days = await read(server, project, clock, **own)
                patch.setattr(trace_stats._Hours, "read_rollups", lambda *_: [])
                assert await read(server, project, clock, **own) == by_days
    assert used


@pytest.mark.parametrize("most_tenants", [100, 1])
async def test_each_tenant_sees_its_own_days(server, clock, monkeypatch, most_tenants):
    monkeypatch.setattr(trace_stats, "_MOST_TENANTS", most_tenants)
    monkeypatch.setattr(trace_rollups, "_OWNERS_AT_ONCE", 1)
    monkeypatch.setattr(trace_rollups, "_DAYS_AT_ONCE", 2)
    project = await make_project(server)
    for day in range(4):
        for number, caller in enumerate((SYSTEM, ADA, BOB, BOB)):
            made = make_span(clock, 10 * day + number + 1, milliseconds=10**number)
            await server.send(made, project="chat", principal=caller)
        clock.step(1)
    callers = (SYSTEM, ADA, BOB)
    hours = [await read(server, project, clock, principal=each) for each in callers]
    assert [sum(each["trace_count"] for each in of_caller[0].values()) for of_caller in hours] == [16, 8, 12]

    assert await roll_up(server, clock) == 3 * 3
    assert [await read(server, project, clock, principal=each) for each in callers] == hours
    late = make_span(clock, 900) | {"startTimeUnixNano": str((clock() - 3 * DAY) * 1000)}
    await server.send(late, project="chat", principal=ADA)

    later = [await read(server, project, clock, principal=each) for each in callers]
    assert later[2] == hours[2]
    assert [each[0][clock.day - 3]["trace_count"] for each in later] == [5, 3, 3]


async def test_today_and_yesterday_are_marked_by_nobody_who_stores_in_time(server, clock):
    await make_project(server)
    await send_days(server, clock, days=2)

    assert await read_days(server) == {}


async def test_a_store_of_the_version_before_is_added_up_after_its_upgrade(clock, empty_database_settings):
    async with open_traces(clock, **empty_database_settings) as server:
        project = await make_project(server)
        await send_days(server, clock)
        hours = await read(server, project, clock)

        def go_back(connection):
            for table in ("trace_eval_chances", "trace_rollups"):
                connection.exec_driver_sql(f"DROP TABLE {table}")
            connection.exec_driver_sql("ALTER TABLE trace_eval_jobs DROP COLUMN first_probability")
            return connection.exec_driver_sql(
                "UPDATE trace_alembic_version SET version_num = '0002'"
            ).rowcount

        assert await server.traces.write(go_back) == 1

    async with open_traces(clock, **empty_database_settings) as server:
        assert await read(server, project, clock) == hours
        assert await roll_up(server, clock) == DAYS - 2
        assert await read(server, project, clock) == hours


async def test_two_servers_do_not_add_days_up_at_the_same_time(server, clock):
    await make_project(server)
    await send_days(server, clock)

    counts = await asyncio.gather(*(roll_up(server, clock) for _ in range(3)))

    assert sorted(counts) == [0, 0, DAYS - 2]


def test_a_step_that_begins_within_a_day_reads_what_is_left_of_it():
    period = choose_period(int(25.5 * HOUR), 75 * HOUR, "day")

    assert list(trace_stats._ranges_without({2}, period)) == [(25, 48), (72, 75)]
    assert list(trace_stats._ranges_without(set(), period)) == [(25, 75)]
    whole = choose_period(DAY, 3 * DAY, "day")
    assert list(trace_stats._ranges_without({1, 2}, whole)) == []
