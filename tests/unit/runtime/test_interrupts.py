"""Ctrl-C while an event loop of ours runs, moment by moment."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from dokimos._runtime import interrupts
from dokimos._runtime.interrupts import Interrupts, defer_interrupts

ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""What ends a command as Ctrl-C does."""


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
        with defer_interrupts():
            ours._interrupt()
            assert not ours._overdue  # it came, and was held off
        press()
    assert ours.was_interrupted


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


@pytest.fixture
def told(monkeypatch):
    """A process that ends on SIGTERM, and what it says about the first one."""
    monkeypatch.setattr(interrupts, "_received", [])
    before = {number: signal.getsignal(number) for number in ENDING}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    heard: list[int] = []
    interrupts.end_on_signals(heard.append)
    yield heard
    for number, handler in before.items():
        signal.signal(number, handler)


def test_signals_that_come_together_are_one_and_a_later_one_is_another(told, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(interrupts, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=time.sleep))
    assert interrupts.signal_received() is None
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    now[0] += interrupts.SEVERAL_SECONDS * 2
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert interrupts.signal_received() == signal.SIGTERM
    assert told == [signal.SIGTERM]


def test_a_signal_cancels_what_is_running_also_where_ctrl_c_is_ignored(told, monkeypatch):
    monkeypatch.setattr(interrupts, "BUSY_SECONDS", 3600)
    monkeypatch.setattr(interrupts, "DOUBLE_SECONDS", 0)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a shell
    loop = asyncio.new_event_loop()
    task = loop.create_task(asyncio.sleep(3600))
    with Interrupts(task, loop) as ours:
        signal.raise_signal(signal.SIGTERM)
        loop.run_until_complete(asyncio.wait((task,)))
    loop.close()
    assert signal.signal(signal.SIGINT, before) is signal.SIG_IGN
    assert (ours.was_interrupted, task.cancelled()) == (True, True)


def test_the_end_waits_for_a_signal_that_is_being_sent_also_where_ctrl_c_is_not_ours(told, monkeypatch):
    monkeypatch.setattr(interrupts, "BUSY_SECONDS", 3600)
    monkeypatch.setattr(interrupts, "DOUBLE_SECONDS", 0)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    loop = asyncio.new_event_loop()
    task = loop.create_task(asyncio.sleep(3600))
    ours = Interrupts(task, loop)
    sending, over, was_entered = threading.Event(), threading.Event(), []

    def send():
        sending.set()
        ours._ended.wait(60)
        over.wait(0.05)  # for an end that does not wait; it never comes
        was_entered.append(ours in interrupts._active)

    monkeypatch.setattr(ours, "_send", send)
    with ours:
        signal.raise_signal(signal.SIGTERM)
        loop.run_until_complete(asyncio.wait((task,)))
        thread = threading.Thread(target=ours._interrupt)
        thread.start()
        sending.wait(60)
    over.set()
    thread.join()
    loop.close()
    signal.signal(signal.SIGINT, before)
    assert was_entered == [True]


def test_what_others_handle_or_ignore_stays(monkeypatch):
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    interrupts.end_on_signals(lambda number: None)
    for number, handler in before.items():
        assert signal.signal(number, handler) is signal.SIG_IGN
