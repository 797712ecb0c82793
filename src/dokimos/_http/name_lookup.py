"""Resolve names that others entered, some of whose name servers never answer."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import Future
from typing import Any

Found = list[tuple[Any, Any, int, str, tuple[Any, ...]]]
"""What `socket.getaddrinfo` returns."""
_Key = tuple[str, int, int]


class NameLookup:
    """Looks names up, each in a thread of its own and once however many ask for it.

    A thread cannot be stopped: one whose name server does not answer stays for as long as the system's
    resolver tries, half a minute and more, after whoever asked has given up. So a name that hangs keeps one
    thread and no other name waiting; and the threads are daemons: the exit would wait for an executor's.

    Args:
        most: How many names may be looked up at once; further ones fail.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._under_way: dict[_Key, Future[Found]] = {}

    async def look_up(self, host: str, port: int, family: int) -> Found:
        """Return the addresses of a name.

        Raises:
            OSError: It has none, the name server said that it failed, or too many lookups hang.
        """
        return await asyncio.wrap_future(self._join((host, port, family)))

    def _join(self, key: _Key) -> Future[Found]:
        with self._lock:
            future = self._under_way.get(key)
            if future is not None:
                return future
            if len(self._under_way) >= self._most:
                raise OSError(f"{self._most} names are being looked up already")
            future = self._under_way[key] = Future()
            future.set_running_or_notify_cancel()  # so that one who leaves does not cancel it for the others
        thread = threading.Thread(
            target=self._run, args=(key, future), name="dokimos name lookup", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the system gives no more threads
            self._forget(key)
            problem = OSError(f"The name cannot be looked up: {error}")
            future.set_exception(problem)
            raise problem from None
        return future

    def _run(self, key: _Key, future: Future[Found]) -> None:
        host, port, family = key
        try:
            found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
        except Exception as error:
            self._forget(key)
            future.set_exception(error)
        else:
            self._forget(key)
            future.set_result(found)

    def _forget(self, key: _Key) -> None:
        with self._lock:
            del self._under_way[key]
