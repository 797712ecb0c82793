"""Run async code from sync code, and sync code from async code in threads, without ever hanging on either."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakSet, ref

from dokimos._runtime.interrupts import Interrupts

T = TypeVar("T")

GRACE_SECONDS = 0.7
"""How long leftover tasks get to end after their cancellation, before they are abandoned."""

LAST_SECONDS = 0.3
"""How long asynchronous generators get to clean up when a loop is closed."""

Call: TypeAlias = Callable[[], Callable[[], None]]
"""Does the work and returns what delivers its outcome; neither raises."""


class _Threads:
    """Daemon threads that are reused: a new one is started only when none is idle."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: deque[_Worker] = deque()
        self._closed = False

    def run(self, call: Call) -> None:
        try:
            # Not "if idle, then pop": another thread may take the last one in between.
            worker = self._idle.pop()
        except IndexError:
            _Worker(self, self._name, call)
        else:
            worker.run(call)

    def forget(self) -> None:
        """Drop all idle threads without stopping them: in a forked child they do not exist."""
        self._idle.clear()

    def take_back(self, worker: _Worker) -> bool:
        """Keep a thread for the next call; False tells it to end."""
        if self._closed:
            return False
        self._idle.append(worker)
        return True

    def close(self) -> None:
        """Let idle threads end; busy ones end with their call. Never waits."""
        self._closed = True
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().run(None)


class _Worker:
    """A daemon thread that puts itself back among the idle ones after each call."""

    def __init__(self, threads: _Threads, name: str, call: Call) -> None:
        self._threads = threads
        self._call: Call | None = call
        # Released to wake the thread, the cheapest signal there is; not taken yet, for the first call.
        self._wake = threading.Lock()
        threading.Thread(target=self._loop, name=name, daemon=True).start()

    def run(self, call: Call | None) -> None:
        self._call = call
        self._wake.release()

    def _loop(self) -> None:
        going_on = True
        while going_on:
            self._wake.acquire()
            call, self._call = self._call, None
            if call is None:
                return
            deliver = call()
            # Idle before anyone knows the outcome, so that whoever waits for it finds this thread free.
            going_on = self._threads.take_back(self)
            deliver()
            del call, deliver


class DaemonThreads(ThreadPoolExecutor):
    """An executor whose threads never hold up the end of the program.

    The standard library's joins its threads at exit, so that one hung call hangs the whole program. Here a
    thread that does not come back is simply left behind. Limiting how many calls run at once is the caller's
    business.
    """

    def __init__(self, name: str = "dokimos") -> None:
        # asyncio takes nothing but a ThreadPoolExecutor as its default executor; this one's threads never
        # start.
        super().__init__(max_workers=1)
        self._daemons = _Threads(name)
        self._closed = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if self._closed:
            raise RuntimeError("cannot schedule new calls after shutdown")
        future: Future[T] = Future()
        context = copy_context()

        def call() -> Callable[[], None]:
            if not future.set_running_or_notify_cancel():
                return _nothing
            try:
                result = context.run(fn, *args, **kwargs)
            except BaseException as error:
                return partial(future.set_exception, _wrap_for_future(error))
            return partial(future.set_result, result)

        self._daemons.run(call)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let idle threads end; busy ones end with their call. Never waits."""
        self._closed = True
        self._daemons.close()


_THREADS: Final = "dokimos-"
_threads = _Threads("dokimos-call")
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.forget)


def is_worker_thread() -> bool:
    """Say whether this is one of the threads in which calls of users' code run."""
    return threading.current_thread().name.startswith(_THREADS)


def start_in_thread(fn: Callable[[], T]) -> Future[T]:
    """Start blocking code in a daemon thread; its future is also there where no loop runs."""
    future: Future[T] = Future()

    def call() -> Callable[[], None]:
        try:
            result = fn()
        except BaseException as error:
            return partial(future.set_exception, _wrap_for_future(error))
        return partial(future.set_result, result)

    _threads.run(call)
    return future


async def call_in_thread(fn: Callable[..., T], *args: Any) -> T:
    """Call blocking code in a daemon thread, with this context's variables; cancelling leaves it behind."""
    return await start_call(_threads.run, fn, *args)


def start_pooled_call(fn: Callable[..., T], *args: Any) -> asyncio.Future[T]:
    """Start what `call_in_thread` awaits."""
    return start_call(_threads.run, fn, *args)


def start_call(
    run: Callable[[Call], None],
    fn: Callable[..., T],
    *args: Any,
    begun: asyncio.Future[None] | None = None,
) -> asyncio.Future[T]:
    """Let `run` take a call to a thread, with this context's variables; the outcome comes back to this loop.

    `begun` has a result as soon as the thread gets to the call, which is skipped if it was cancelled by then.
    """
    loop = asyncio.get_running_loop()
    mailbox = _mailbox_of(loop)
    future: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def call() -> Callable[[], None]:
        if begun is not None:
            mailbox.post(partial(_set_outcome, begun, begun.set_result, None))
            if future.cancelled():
                return _nothing
        try:
            settle = partial(_set_outcome, future, future.set_result, context.run(fn, *args))
        except BaseException as error:
            settle = partial(_set_outcome, future, future.set_exception, _wrap_for_future(error))
        return partial(mailbox.post, settle)

    run(call)
    return future


def _set_outcome(future: asyncio.Future[Any], settle: Callable[[Any], None], outcome: object) -> None:
    if not future.done():  # cancelled: nobody waits any more
        settle(outcome)


class _Mailbox:
    """Takes outcomes from threads to a loop, and wakes it once for all that are waiting."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        # Weak, since `_mailboxes` holds this as the value of its loop: a strong one would keep each loop
        # for ever.
        self._loop = ref(loop)
        self._posted: deque[Callable[[], None]] = deque()
        self._woken = False

    def post(self, callback: Callable[[], None], *, is_urgent: bool = True) -> None:
        self._posted.append(callback)
        loop = self._loop()
        if self._woken or loop is None or not is_urgent:
            return
        self._woken = True
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
            loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # First the flag, then the post: what comes in between is delivered now or wakes the loop again.
        self._woken = False
        while self._posted:
            self._posted.popleft()()


_mailboxes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Mailbox] = WeakKeyDictionary()


def _mailbox_of(loop: asyncio.AbstractEventLoop) -> _Mailbox:
    return _mailboxes.get(loop) or _mailboxes.setdefault(loop, _Mailbox(loop))


def post_to_loop(
    loop: asyncio.AbstractEventLoop, callback: Callable[[], None], *, is_urgent: bool = True
) -> None:
    """Let a loop call this soon, from another thread; what comes together wakes the loop once.

    What is not urgent waits for something that is, and is called before it.
    """
    _mailbox_of(loop).post(callback, is_urgent=is_urgent)


def _wrap_for_future(error: BaseException) -> BaseException:
    """Return an error that a future can carry: asyncio would wait for ever on a StopIteration."""
    if isinstance(error, StopIteration):
        return RuntimeError(f"StopIteration raised: {error.value!r}").with_traceback(error.__traceback__)
    return error


def _nothing() -> None: ...


def run_sync(
    main: Coroutine[Any, Any, T], *, interrupted: Callable[[], BaseException] = KeyboardInterrupt
) -> T:
    """Run a coroutine to its end from sync code, also where this thread has a running loop (Jupyter).

    In that case it runs in a thread of its own with a loop of its own; the caller's loop waits. Ctrl-C
    cancels the coroutine and, once it has ended or does not end soon, raises what `interrupted` returns; more
    of them change nothing.
    """
    # Not begun inside an `except` block: all errors of the coroutine would seem to follow from its exception.
    run = _run_in_own_thread if is_loop_running() else _run_in_own_loop
    return run(main, interrupted)


def is_loop_running() -> bool:
    """Say whether an event loop is running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


_brief: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def loop_ends_soon() -> bool:
    """Say whether the event loop that is running is one of `run_sync`, and ends with it."""
    return asyncio.get_running_loop() in _brief


def _run_in_own_loop(main: Coroutine[Any, Any, T], interrupted: Callable[[], BaseException]) -> T:
    loop = asyncio.new_event_loop()
    _brief.add(loop)
    executor = DaemonThreads("dokimos-executor")
    loop.set_default_executor(executor)
    asyncio.set_event_loop(loop)
    task = loop.create_task(main)
    with Interrupts(task, loop) as interrupts:
        try:
            try:
                return loop.run_until_complete(task)
            finally:
                _close(loop, executor)
        except (asyncio.CancelledError, KeyboardInterrupt) as error:
            if interrupts.was_interrupted or isinstance(error, KeyboardInterrupt):
                raise interrupted() from None
            raise


def _close(loop: asyncio.AbstractEventLoop, executor: DaemonThreads) -> None:
    try:
        leftover = asyncio.all_tasks(loop)
        for task in leftover:
            task.cancel()
        if leftover:
            # A task that swallows its cancellation must not keep us: it is left behind with its loop.
            loop.run_until_complete(asyncio.wait(leftover, timeout=GRACE_SECONDS))
        generators = loop.create_task(loop.shutdown_asyncgens())
        loop.run_until_complete(asyncio.wait((generators,), timeout=LAST_SECONDS))
        for task in (*leftover, generators):
            if task.done() and not task.cancelled():
                task.exception()  # so that asyncio does not complain that nobody wanted it
    finally:
        executor.shutdown(wait=False)
        loop.set_exception_handler(_ignore_abandoned)
        asyncio.set_event_loop(None)
        loop.close()


def _ignore_abandoned(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say nothing of the tasks that were left behind with their loop; report everything else."""
    task = context.get("task")
    if task is None or task.done():
        loop.default_exception_handler(context)


def _run_in_own_thread(main: Coroutine[Any, Any, T], interrupted: Callable[[], BaseException]) -> T:
    context = copy_context()
    outcome: Future[T] = Future()
    started = threading.Event()
    inner: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def run_main() -> T:
        task = asyncio.current_task()
        if task is not None:
            inner.append((asyncio.get_running_loop(), task))
        started.set()
        return await main

    def body() -> None:
        try:
            outcome.set_result(context.run(_run_in_own_loop, run_main(), KeyboardInterrupt))
        except BaseException as error:
            outcome.set_exception(error)
        finally:
            started.set()

    threading.Thread(target=body, name="dokimos-run", daemon=True).start()
    try:
        with _interrupt_raises():
            return outcome.result()
    except KeyboardInterrupt:
        deadline = time.monotonic() + 2 * GRACE_SECONDS
        # Ctrl-C may come before the task exists, and then there is nothing to cancel yet.
        started.wait()
        for loop, task in inner:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(task.cancel)
        while not outcome.done() and (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(KeyboardInterrupt):
                wait((outcome,), timeout=left)
        raise interrupted() from None


@contextlib.contextmanager
def _interrupt_raises() -> Iterator[None]:
    """Let Ctrl-C raise here: `asyncio.run` only cancels its own task, which waits for us."""
    handler = signal.getsignal(signal.SIGINT)
    is_asyncios = getattr(getattr(handler, "func", None), "__qualname__", "") == "Runner._on_sigint"
    if not is_asyncios or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
