"""The frame of a worker that claims work under leases: it begins, watches, renews and gives back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

from dokimos.server._db.database import DatabaseUnavailable, ReadTooSlow
from dokimos.server._workers.periodic import end_task, is_asked_to_end

_LOGGER: Final = logging.getLogger("dokimos.server")
_LOOK_SECONDS: Final = 0.5
"""How often a server looks whether its work was paused, cancelled or taken by another one."""
_DRAIN_SECONDS: Final = 10.0
"""How long what is under way may take when the server stops."""
STOP_SECONDS: Final = 25.0
"""After which such a worker is asked once more to stop: a little more than all that it may wait for."""


class LeasedRun(Protocol):
    """A piece of work under a lease."""

    lease: str

    def abandon(self) -> None:
        """Cancel what is under way."""
        ...


R = TypeVar("R", bound=LeasedRun)


class LeasedWork(Generic[R]):
    """What one server works on, beside the other servers on the same databases.

    Args:
        name: What it works on, as messages name it, such as `Judge jobs`.
        begin: Claims what is due and calls `start`; says whether there was anything.
        renew: Renews leases.
        review: Looks after what is under way, by its leases: stops what was paused, or lost.
        drain: Has something begin nothing further, and finish what is under way: the server stops.
        poll_seconds: How often it looks for what is due again.
        lease_seconds: How long a lease is.
    """

    def __init__(
        self,
        name: str,
        *,
        begin: Callable[[], Awaitable[bool]],
        renew: Callable[[Sequence[str]], Awaitable[object]],
        review: Callable[[Mapping[str, R]], Awaitable[None]],
        drain: Callable[[R], object],
        poll_seconds: float,
        lease_seconds: float,
    ) -> None:
        self._name = name
        self._begin = begin
        self._renew = renew
        self._review = review
        self._drain_run = drain
        self._poll_seconds = poll_seconds
        self._lease_seconds = lease_seconds
        self._running: dict[asyncio.Task[None], R] = {}
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._running)

    def wake(self) -> None:
        """Look at once for what is due."""
        self._wake.set()

    def start(self, run: R, work: Coroutine[Any, Any, None], task_name: str) -> None:
        """Begin with something that was claimed.

        Args:
            run: What it is.
            work: All that is done about it.
            task_name: What its task is called.
        """
        task = asyncio.create_task(work, name=task_name)
        self._running[task] = run
        task.add_done_callback(self._note_end)

    async def run(self) -> None:
        """Work on what is due, again and again, until cancelled."""
        watching = asyncio.create_task(self._watch(), name=f"dokimos leases of {self._name.lower()}")
        try:
            while not is_asked_to_end():
                self._wake.clear()
                if not await self._look() and not is_asked_to_end():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), self._poll_seconds)
        finally:
            await self._drain()
            await end_task(watching)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self.wake()

    async def _look(self) -> bool:
        try:
            return await self._begin()
        except (DatabaseUnavailable, ReadTooSlow) as error:
            _LOGGER.warning("%s wait: the database is not available: %s", self._name, error)
        except Exception:
            _LOGGER.exception("Looking for %s failed; it is tried again", self._name.lower())
        return False

    async def _watch(self) -> None:
        """Renew the leases, and look after what is under way."""
        clock = asyncio.get_running_loop().time
        renewed_at = clock()
        while not is_asked_to_end():
            await asyncio.sleep(min(_LOOK_SECONDS, self._lease_seconds / 4))
            runs = {run.lease: run for run in self._running.values()}
            if not runs:
                continue
            try:
                if clock() - renewed_at >= self._lease_seconds / 3:
                    await self._renew(list(runs))
                    renewed_at = clock()
                await self._review(runs)
            except (DatabaseUnavailable, ReadTooSlow):
                continue  # what stores results finds out, too
            except Exception:
                _LOGGER.exception("Looking after %s failed; it is tried again", self._name.lower())

    async def _drain(self) -> None:
        """Give back what is under way, with what was found until now."""
        for run in self._running.values():
            self._drain_run(run)
        if not self._running:
            return
        _, late = await asyncio.wait(list(self._running), timeout=_DRAIN_SECONDS)
        for task in late:
            self._running[task].abandon()
        if late:
            _, stuck = await asyncio.wait(late, timeout=_DRAIN_SECONDS)
            for task in stuck:
                task.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)
