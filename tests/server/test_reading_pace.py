"""A thread that reads spans lets requests come in between."""

import threading
from types import SimpleNamespace

import pytest
from tests.server.trace_server import TraceClock, open_traces, span

from dokimos.server._services.traces import reading_pace
from dokimos.server._services.traces.reading_pace import NO_PAUSES, ReadingPace


@pytest.fixture
def pauses(monkeypatch):
    """The threads that have paused, by name."""
    names = []

    def note(seconds):
        names.append(threading.current_thread().name)

    monkeypatch.setattr(reading_pace, "time", SimpleNamespace(sleep=note))
    return names


def test_spans_are_read_with_pauses_while_requests_wait(pauses):
    pace = ReadingPace(lambda: True)
    assert [each for part in (range(4), range(4, 25)) for each in pace.keep(part)] == list(range(25))
    assert len(pauses) == 5


def test_spans_are_read_without_pauses_while_none_waits(pauses):
    assert list(ReadingPace(lambda: False).keep(range(100))) == list(range(100))
    assert list(NO_PAUSES.keep(range(100))) == list(range(100))
    assert pauses == []


async def test_the_event_loop_never_pauses(monkeypatch, pauses, database_settings):
    clock = TraceClock(monkeypatch)
    async with open_traces(clock, **database_settings) as server:
        server.ingestion._pace = ReadingPace(lambda: True)
        await server.send(*(span(1, number) for number in range(1, 16)))
        assert pauses == []  # so small an export is read in its thread
        await server.send(*(span(2, number, text="word " * 500) for number in range(1, 31)))
    assert len(pauses) == 12  # while 30 spans are parsed, and while they are digested
    assert all(name.startswith("dokimos-traces") for name in pauses)
