"""A thread that reads, stores or removes spans lets requests go first."""

import threading
from types import SimpleNamespace

import pytest
from tests.server.trace_server import TraceClock, open_traces, span

from dokimos.server._db.database import Lane
from dokimos.server._services.measured_database import MeasuredDatabase
from dokimos.server._services.traces import request_pace
from dokimos.server._services.traces.request_pace import NO_PAUSES, RequestPace
from dokimos.server._services.traces.trace_ingestion import TraceIngestion
from dokimos.server._workers.trace_retention import TraceSweeper


@pytest.fixture
def pauses(monkeypatch):
    """The threads that have paused, by name."""
    names = []

    def note(seconds):
        names.append(threading.current_thread().name)

    monkeypatch.setattr(request_pace, "time", SimpleNamespace(sleep=note))
    return names


def test_a_request_goes_first_until_it_has_its_answer(pauses):
    pace = RequestPace(lambda: len(pauses) < 8)
    assert [each for part in (range(4), range(4, 25)) for each in pace.keep(part)] == list(range(25))
    assert len(pauses) == 8


def test_requests_without_end_slow_the_spans_only(pauses):
    pace = RequestPace(lambda: True)
    assert list(pace.keep(range(10_000))) == list(range(10_000))
    assert len(pauses) == 20 + 10_000 // 5 - 1  # what was saved up, and one for each five spans


def test_spans_are_read_without_pauses_while_none_waits(pauses):
    assert list(RequestPace(lambda: False).keep(range(100))) == list(range(100))
    assert list(NO_PAUSES.keep(range(100))) == list(range(100))
    assert pauses == []


async def test_the_event_loop_never_pauses(monkeypatch, pauses, database_settings):
    clock = TraceClock(monkeypatch)
    async with open_traces(clock, **database_settings) as server:
        server.ingestion = TraceIngestion(
            server.traces, server.projects, server.settings.traces, serves_requests=lambda: True
        )
        await server.send(*(span(1, number) for number in range(1, 16)))
        storing = {"dokimos-sqlite-writer"} if server.traces.dialect == "sqlite" else set()
        assert set(pauses) == storing  # so small an export is read in the thread of the loop
        await server.send(*(span(2, number, text="word " * 500) for number in range(1, 31)))
    assert set(pauses) == storing | {"dokimos-traces_0"}


async def test_what_removes_traces_lets_requests_go_first(monkeypatch, pauses, database_settings):
    clock = TraceClock(monkeypatch)
    async with open_traces(clock, **database_settings) as server:
        server.sweeper = TraceSweeper(
            server.traces,
            server.database,
            server.ingestion.store,
            server.metrics,
            wall=clock.seconds,
            monotonic=clock.seconds,
            serves_requests=lambda: True,
        )
        await server.send(*(span(trace, number) for trace in range(1, 31) for number in range(1, 3)))
        clock.step(31)
        assert await server.sweeper.sweep() == 30
    # More than were saved up: each step allows further ones.
    assert len(pauses) > 20 if server.traces.dialect == "sqlite" else pauses == []
    assert set(pauses) <= {"dokimos-sqlite-writer"}


async def test_reads_of_requests_are_told_from_those_of_workers(monkeypatch, database_settings):
    clock = TraceClock(monkeypatch)
    async with open_traces(clock, **database_settings) as server:
        measured = MeasuredDatabase(server.traces, server.metrics)

        def serves(_):
            return measured.serves_reads, measured.serves_requests

        assert await measured.read(serves, Lane.PAGE) == (True, True)
        assert await measured.read(serves, Lane.WORK) == (False, False)
        assert await measured.write(serves) == (False, True)
        assert await measured.write(serves, background=True) == (False, False)
        assert not measured.serves_requests
