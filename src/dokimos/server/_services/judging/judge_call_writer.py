"""Group commit for calls to models: what begins or ends at about the same time shares a transaction.

While one transaction is on its way to the disk, the calls of the next one gather. A transaction for each call
would take more processor time than judging does (`benchmarks/server_judging.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import chain, repeat
from typing import Final, TypeVar

from dokimos._runtime.redaction import Redactor
from dokimos.server._db.database import Database, DatabaseUnavailable
from dokimos.server._services.judging.judge_budgets import Limits
from dokimos.server._services.judging.judge_call_rows import store_group
from dokimos.server._services.judging.judge_calls import EndedCall, Group, NewCall
from dokimos.server._services.judging.judge_leases import LeasedJob, LeaseLost
from dokimos.server._services.judging.judge_replies import encode_reply

T = TypeVar("T")
_LOGGER: Final = logging.getLogger("dokimos.server")
_PAUSE_SECONDS: Final = 0.002
_LONGEST_PAUSE_SECONDS: Final = 0.02
"""Between two transactions, for each call of the last one, and at most.

Where many calls are made at once, more of them share a transaction; next to a reply of a model ten
milliseconds are nothing.
"""
_RETRY_SECONDS: Final = (0.1, 0.2, 0.5, 1.0)
"""Between attempts to store something while the database is away; then `_LONGEST_RETRY_SECONDS`."""
_LONGEST_RETRY_SECONDS: Final = 2.0
_LONG_REPLY: Final = 65_536
"""Characters from which a reply is compressed in a thread."""


class CallWriter:
    """Stores the calls of one job in groups, in the event loop that uses it.

    Whoever adds something gets a future that is done when it is on disk; it is that of all who wait for the
    same transaction, and must be shielded. While the database is away, it waits; once the job is not this
    worker's any more, it raises `LeaseLost`.
    """

    def __init__(self, database: Database, job: LeasedJob, limits: Limits, clean: Redactor) -> None:
        self.problem: LeaseLost | None = None
        """Why nothing more is stored; None as long as the job is this worker's."""
        self._database = database
        self._job = job
        self._limits = limits
        self._clean = clean
        self._group = Group()
        self._stored: asyncio.Future[None] | None = None
        """Done when the group that gathers is stored; None while it is empty."""
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def add_new(self, call: NewCall) -> asyncio.Future[None]:
        """Reserve what a call may cost, unless that is too much; then `call.exceeded` says so."""
        return self._add(self._group.new, call)

    def add_ended(self, ended: EndedCall) -> asyncio.Future[None]:
        """Store what has become of a call."""
        return self._add(self._group.ended, ended)

    def add_reply(self, key: str, identity: str, reply: str) -> asyncio.Future[None]:
        """Store a reply that cost nothing of its own."""
        return self._add(self._group.puts, (key, identity, reply))

    def add_rejected(self, key: str) -> asyncio.Future[None]:
        """Store that the reply to a call is of no use."""
        return self._add(self._group.rejected, key)

    async def close(self, seconds: float) -> None:
        """Wait until all is stored; after so many seconds give it up, as after a power cut.

        What is added later is not stored.
        """
        self._is_closed = True
        if self._task is None:
            return
        _, late = await asyncio.wait([self._task], timeout=seconds)
        if late:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _add(self, part: list[T], one: T) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        problem = self.problem
        if problem is None and self._is_closed:
            problem = LeaseLost(f"This server has ended its work on job {self._job.job_id}.")
        if problem is not None:
            return _failed(loop.create_future(), problem)
        part.append(one)
        if self._stored is None:
            self._stored = loop.create_future()
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._store_groups())
        return self._stored

    async def _store_groups(self) -> None:
        while self._group:
            group, self._group = self._group, Group()
            stored, self._stored = self._stored, None
            assert stored is not None
            try:
                await self._encode(group)
                await self._store(group)
            except BaseException as error:
                if isinstance(error, LeaseLost):
                    self.problem = error
                    _LOGGER.warning("%s What it was answered meanwhile is not stored.", error)
                _failed(stored, error)
                if not isinstance(error, Exception):
                    raise
            else:
                if not stored.done():
                    stored.set_result(None)
            await asyncio.sleep(min(len(group) * _PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS))

    async def _encode(self, group: Group) -> None:
        """Write the replies of a group as the table keeps them; long ones in a thread."""
        for ended in group.ended:
            if ended.outcome is None:
                continue
            encode = partial(encode_reply, ended.outcome, self._clean)
            is_long = len(ended.outcome.text) > _LONG_REPLY
            ended.reply = await asyncio.to_thread(encode) if is_long else encode()

    async def _store(self, group: Group) -> None:
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            # Whether an attempt that failed was stored nevertheless, nobody knows.
            await self._database.write(
                partial(
                    store_group, job=self._job, limits=self._limits, group=group, is_repeated=attempts > 1
                )
            )

        await insist(attempt)


async def insist(action: Callable[[], Awaitable[T]]) -> T:
    """Do something with the database, again and again while that is away."""
    for delay in _delays():
        try:
            return await action()
        except DatabaseUnavailable as error:
            _LOGGER.warning("A judge job waits for the database: %s", error)
            await asyncio.sleep(delay)
    raise AssertionError("unreachable")


def _delays() -> Iterator[float]:
    return chain(_RETRY_SECONDS, repeat(_LONGEST_RETRY_SECONDS))


def _failed(future: asyncio.Future[None], error: BaseException) -> asyncio.Future[None]:
    """Fail a future for which perhaps nobody waits."""
    if not future.done():
        if isinstance(error, asyncio.CancelledError):
            error = DatabaseUnavailable("The server stopped before it was stored.")
        future.set_exception(error)
        future.exception()  # so that asyncio does not complain of what nobody waits for
    return future
