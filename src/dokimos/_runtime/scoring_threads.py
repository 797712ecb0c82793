"""Threads for sync evaluators: how many at once, one of its own for what needs that, and for how long."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from queue import SimpleQueue
from typing import TypeVar

from dokimos._runtime.concurrency import Call, start_call, start_pooled_call
from dokimos._runtime.stuck_calls import locate_running_call, locate_waiting_coroutine
from dokimos._runtime.time_limits import ExtraTime, count_extra_time, retrieve_exception, wait_with_limit

T = TypeVar("T")


class ThreadLimit:
    """How many sync evaluators of a run are in threads at once.

    It holds on the event loop of the run. An evaluator that runs others from inside its thread, on a loop of
    its own, has its place already.
    """

    def __init__(self, count: int) -> None:
        self._places = asyncio.Semaphore(count)
        self._loop = asyncio.get_running_loop()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        if asyncio.get_running_loop() is not self._loop:
            yield
            return
        async with self._places:
            yield


class SerialThread:
    """A daemon thread that makes its calls one after another; a new one only where a call hangs."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._changing = threading.Lock()
        self._current: object = None
        self._thread = self._start_thread()

    def run(self, call: Call) -> None:
        self._calls.put(call)

    def leave(self, call: object) -> None:
        """Leave this call to itself if it is still going on; later ones get a new thread."""
        with self._changing:
            if self._current is call:
                self._current = None
                self._thread = self._start_thread()

    def close(self) -> None:
        self._calls.put(None)

    def _start_thread(self) -> threading.Thread:
        thread = threading.Thread(target=self._loop, name="dokimos-serial", daemon=True)
        thread.start()
        return thread

    def _loop(self) -> None:
        while (call := self._calls.get()) is not None:
            with self._changing:
                self._current = call
            deliver = call()
            with self._changing:
                # `leave` has started another thread meanwhile: two of them would take calls side by side.
                left = self._current is not call
                if not left:
                    self._current = None
            deliver()
            if left:
                return
            del call, deliver


_serial: dict[int, SerialThread] = {}
"""The threads of owners that are alive, by their identity: owners need not be hashable."""


def serial_thread_of(owner: object) -> SerialThread:
    """Return the one thread of an owner, which ends with it."""
    owner = getattr(owner, "__self__", owner)  # bound methods come and go, their object stays
    thread = _serial.get(id(owner))
    if thread is None:
        # The id may belong to another object once this one is gone; by then its thread is no longer found.
        weakref.finalize(owner, _close, id(owner))
        thread = _serial[id(owner)] = SerialThread()
    return thread


def _close(owner_id: int) -> None:
    thread = _serial.pop(owner_id, None)
    if thread is not None:
        thread.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_serial.clear)


async def call_within(seconds: float | None, fn: Callable[..., T], *args: object) -> T:
    """Call blocking code in a daemon thread. Raises `TimeoutError` after so long, and leaves it behind."""
    with count_extra_time() as extra:
        try:
            return await await_within(seconds, start_pooled_call(fn, *args), extra)
        except TimeoutError as late:
            raise late.with_traceback(locate_running_call(fn, *args) or late.__traceback__) from None


async def call_serially(owner: object, seconds: float | None, fn: Callable[..., T], *args: object) -> T:
    """Call blocking code in the one thread of `owner`; waiting for its turn does not count as its time."""
    thread = serial_thread_of(owner)
    begun = asyncio.get_running_loop().create_future()
    sent: list[Call] = []

    def run(call: Call) -> None:
        sent.append(call)
        thread.run(call)

    with count_extra_time() as extra:
        future = start_call(run, fn, *args, begun=begun)
    try:
        await begun
    except asyncio.CancelledError:
        future.cancel()  # not to be begun any more
        raise
    try:
        return await await_within(seconds, future, extra)
    except TimeoutError as late:
        if future.cancelled():
            thread.leave(sent[0])
        raise late.with_traceback(locate_running_call(fn, *args) or late.__traceback__) from None


async def await_within(seconds: float | None, work: asyncio.Future[T], extra: ExtraTime | None = None) -> T:
    """Await what is going on. After so long it is cancelled and left behind, and `TimeoutError` raised.

    `extra` is what it waited for endpoints, which does not count.
    """
    if seconds is None:
        return await work
    try:
        await wait_with_limit(work, seconds, extra or ExtraTime())
    except asyncio.CancelledError:
        _abandon(work)
        raise
    if work.done():
        return work.result()
    where = locate_waiting_coroutine(work.get_coro()) if isinstance(work, asyncio.Task) else None
    # Not awaited: what swallows its cancellation must not keep whoever waits.
    _abandon(work)
    raise TimeoutError(f"no result within {seconds:g} s; the call was abandoned").with_traceback(where)


def _abandon(work: asyncio.Future[T]) -> None:
    work.cancel()
    work.add_done_callback(retrieve_exception)
