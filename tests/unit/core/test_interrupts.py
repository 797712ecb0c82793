"""Ctrl-C while an event loop of ours runs, moment by moment."""

from __future__ import annotations

import asyncio
import signal
import time
from types import SimpleNamespace

import pytest

from dokimos.core import interrupts
from dokimos.core.interrupts import Interrupts, undisturbed


def press() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.fixture
def ours(monkeypatch):
    """The interrupts of a task that has not ended yet; nothing is overdue unless a test says so."""
    monkeypatch.setattr(interrupts, "BUSY_SECONDS", 3600)
    loop = asyncio.new_event_loop()
    task = loop.create_task(asyncio.sleep(0))
    yield Interrupts(task, loop)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    loop.run_until_complete(asyncio.wait((task,)))
    loop.close()


def test_only_what_does_not_end_is_interrupted_where_it_is(ours):
    with ours:
        press()
        press()
        with pytest.raises(KeyboardInterrupt):
            ours._interrupt()


def test_what_was_not_to_be_disturbed_is_not_followed_by_an_interrupt(ours):
    with ours:
        press()
        with undisturbed():
            ours._interrupt()
            assert not ours._overdue  # it came, and was held off
        press()
    assert ours.happened


def test_ctrl_c_is_heard_again_after_an_interrupt_at_the_very_end(ours, monkeypatch):
    pressed_meanwhile = SimpleNamespace(sleep=lambda seconds: ours._interrupt(), monotonic=time.monotonic)
    monkeypatch.setattr(interrupts, "time", pressed_meanwhile)
    with ours:
        press()
    with pytest.raises(KeyboardInterrupt):
        press()


def test_nothing_is_interrupted_after_the_end(ours):
    with ours:
        press()
    ours._interrupt()
    assert not ours._overdue
