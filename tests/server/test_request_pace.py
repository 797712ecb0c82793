"""A thread that reads or stores spans lets requests go first."""

import threading
from types import SimpleNamespace

import pytest
from tests.server.trace_server import TraceClock, open_traces, span

from dokimos.server._services.traces import request_pace
from dokimos.server._services.traces.request_pace import NO_PAUSES, RequestPace
from dokimos.server._services.traces.trace_ingestion import TraceIngestion


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
