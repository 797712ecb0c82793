"""Notices that the head of a Ray cluster has gone before Ray ends the process because of it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from typing import Any, Final

CHECK_SECONDS: Final = 2.0
_LIMIT_OF_RAY: Final = "RAY_gcs_rpc_server_reconnect_timeout_s"
_SECONDS_OF_RAY: Final = 60.0


class HeadWatch:
    """Connects to the port of a head every two seconds, in a thread, until it has not answered for too long.

    A process that has joined a cluster without the client (`auto`, `host:port`) is ended by Ray, with its
    exit code and its message, a minute after the head has gone. Half of that leaves the time to end a run.
    """

    def __init__(self, address: str, *, most_missed: int) -> None:
        """Plan it; the head, at `host:port`, is lost when so many checks in a row were without an answer."""
        host, _, port = address.rpartition(":")
        self._place = host.strip("[]"), int(port)
        self._most_missed = most_missed
        self._lost = threading.Event()
        self._stopped = threading.Event()

    @property
    def is_lost(self) -> bool:
        return self._lost.is_set()

    def start(self) -> None:
        threading.Thread(target=self._watch, name="dokimos-ray-head", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self) -> None:
        missed, due = 0, time.monotonic()
        while missed < self._most_missed:
            due += CHECK_SECONDS  # a connection that is dropped silently takes as long as one that is refused
            if self._stopped.wait(max(due - time.monotonic(), 0.0)):
                return
            missed = 0 if self._answers() else missed + 1
        self._lost.set()

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(self._place, timeout=CHECK_SECONDS):
            return True
        return False


def find_patience() -> float:
    """Return the seconds without a head after which a run ends: half of what Ray waits."""
    try:
        limit = float(os.environ.get(_LIMIT_OF_RAY, _SECONDS_OF_RAY))
    except ValueError:
        limit = _SECONDS_OF_RAY
    return limit / 2


def watch_head(ray: Any) -> HeadWatch | None:
    """Watch the head of the cluster that this process has joined; None for a client, which Ray never ends."""
    from ray.util.client import ray as client

    if client.is_connected():
        return None
    address = ray.get_runtime_context().gcs_address
    watch = HeadWatch(address, most_missed=max(1, round(find_patience() / CHECK_SECONDS)))
    watch.start()
    return watch
