"""What belongs to the run that is going on, for everything that is called inside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple

from dokimos._core.metrics import CallMetrics
from dokimos._runtime.time_limits import retrieve_exception

if TYPE_CHECKING:
    from dokimos._http.breaker import Breakers
    from dokimos._runtime.scoring_threads import ThreadLimit
    from dokimos.judges._call_ledger import CallLedger
    from dokimos.judges._judge_calls import CallStore

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScope:
    """Set by the runner for each repeat and copied into its threads; the default stands outside a run."""

    run_index: int = 0
    seed: int | None = None
    call_stores: tuple[CallStore, ...] = ()
    """Where replies of judges are kept, asked in this order."""
    budget: CallLedger | None = None
    in_flight: dict[Any, asyncio.Future[Any]] | None = None
    """Model calls that are going on, by what they ask, so that none is made twice at once."""
    retry_keys: set[str] = field(default_factory=set)
    """Keys of calls whose replies were of no use, in a run that repeats what errored, until they are made."""
    breakers: Breakers | None = None
    """What is known of endpoints that are down; None outside a run."""
    memo: dict[Any, asyncio.Future[Any]] | None = field(default_factory=dict)
    """What evaluators have worked out for the whole run, such as evaluation steps; None outside a run."""
    evaluator_timeout: float | None = None
    """Seconds that an evaluator may take for one item."""
    threads: ThreadLimit | None = None
    """How many sync evaluators may be in threads at once, None for any number."""


class Usage:
    """Adds up what the model calls of one evaluation cost."""

    # Of the class until there is a call: one is made for each score, and most make none.
    metrics: CallMetrics | None = None
    calls: int = 0

    def add(self, metrics: CallMetrics | None) -> None:
        self.calls += 1
        if metrics is not None:
            self.metrics = metrics if self.metrics is None else self.metrics + metrics

    def include(self, other: Usage) -> None:
        self.add(other.metrics)
        self.calls += other.calls - 1


_scope: ContextVar[RunScope] = ContextVar("dokimos_run_scope", default=RunScope(memo=None))  # noqa: B039 - frozen
_usage: ContextVar[Usage | None] = ContextVar("dokimos_usage", default=None)
_memo: ContextVar[dict[Any, asyncio.Future[Any]] | None] = ContextVar("dokimos_item_memo", default=None)
"""What evaluators of one item have worked out and share, such as the claims in its output."""


def current_scope() -> RunScope:
    """Return the scope of the run that is calling."""
    return _scope.get()


def enter_scope(scope: RunScope) -> None:
    """Make `scope`, and its circuit breakers, current in this context and in those copied from it."""
    from dokimos._http.breaker import use_breakers  # later than values that only read a scope

    _scope.set(scope)
    use_breakers(scope.breakers)


@contextmanager
def evaluator_timeout(seconds: float) -> Iterator[None]:
    """Let evaluators inside the block take at most so long, or less where the run allows less."""
    scope = _scope.get()
    outer = scope.evaluator_timeout
    narrower = replace(scope, evaluator_timeout=seconds if outer is None else min(outer, seconds))
    token = _scope.set(narrower)
    try:
        yield
    finally:
        _scope.reset(token)


def current_usage() -> Usage | None:
    """Return where the evaluation that is calling counts its model calls, None outside one."""
    return _usage.get()


get_usage: Final = _usage.get
set_usage: Final = _usage.set
"""For the start of each score of an async evaluator, in a context that is left for good: what is counted has
to be added to that of the block around by `counting_usage.count_outside`."""


class counting_usage(Usage):  # used like a function; as a generator it would take three times as long
    """Count the model calls made inside the block, also for the block around it."""

    outer: Usage | None = None

    def __enter__(self) -> Usage:
        self.outer = _usage.get()
        self._token = _usage.set(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        _usage.reset(self._token)
        self.count_outside()

    def count_outside(self) -> None:
        """Add what was counted to that of the block around it."""
        if self.outer is not None:
            self.outer.include(self)


class sharing_within_item:
    """Let the evaluators called inside the block share what `once_per_item` works out."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = _memo.set({})

    def __exit__(self, *exc_info: object) -> None:
        _memo.reset(self._token)


async def once_per_item(key: object, work_out: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what `work_out` gives, worked out once for all evaluators of an item that give the same key.

    Outside a run it is worked out anew each time. An error is shared too.
    """
    memo = _memo.get()
    if memo is None:
        return await work_out()
    return await coalesce(memo, key, work_out)


async def once_per_run(key: object, work_out: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what `work_out` gives, worked out once in this repeat; an error is not kept.

    Outside a run it is worked out anew each time.
    """
    memo = current_scope().memo
    if memo is None:
        return await work_out()
    try:
        return await coalesce(memo, key, work_out)
    except Exception:
        if key in memo and memo[key].done():
            del memo[key]
        raise


async def coalesce(
    pending: dict[Any, asyncio.Future[Any]],
    key: object,
    make: Callable[[*Ts], Coroutine[Any, Any, T]],
    *args: *Ts,
) -> T:
    """Return the result of the one task for `key`, starting it if there is none (single-flight).

    Callers with equal keys are coalesced: the first one starts the task, the others await the same one. The
    task goes on if a waiter is cancelled. Finished tasks stay in `pending` until they are removed, so that
    later calls are deduplicated too.
    """
    loop = asyncio.get_running_loop()
    future = pending.get(key)
    # A future of another event loop (a second `asyncio.run`) cannot be awaited here.
    if future is None or future.get_loop() is not loop:
        waiter = loop.create_future()
        future = pending[key] = loop.create_task(_run_and_wake(waiter, make, *args))
    elif not future.done():
        waiter = loop.create_future()
        future.add_done_callback(partial(_wake, waiter))
    else:
        waiter = None
    try:
        if waiter is not None:
            await waiter
    except asyncio.CancelledError:
        future.add_done_callback(retrieve_exception)  # perhaps nobody else waits for it
        raise
    result: T = future.result()
    return result


async def _run_and_wake(
    waiter: asyncio.Future[None], make: Callable[[*Ts], Coroutine[Any, Any, T]], *args: *Ts
) -> T:
    """Make a call and wake the first who waits for it, a turn of the loop earlier than a callback would."""
    try:
        return await make(*args)
    finally:
        _wake(waiter)


def _wake(waiter: asyncio.Future[None], _: object = None) -> None:
    if not waiter.done():
        waiter.set_result(None)
