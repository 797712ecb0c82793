"""What the workers of one run on Ray are started on: the connection to a cluster."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from dokimos._core.text import pluralize
from dokimos.experiment._ray_calls import RayCalls
from dokimos.experiment._ray_cluster import LOCAL, connect, disconnect, load_ray
from dokimos.experiment._ray_handle import EXECUTOR_ADVICE, RayHandle
from dokimos.experiment._ray_head import HeadWatch, watch_head

if TYPE_CHECKING:
    from dokimos.experiment._ray_executor import RayExecutor

_CALL_SECONDS: Final = 30.0
"""How long the calls of workers that were killed have to return before the connection is kept open.

They look twice a second whether their worker was killed, so that this is far more than they take.
"""
_CLIENT_CALL_SECONDS: Final = 2.0
"""The same for a client, whose calls may wait for longer, and do no harm where its connection ends."""
_log = logging.getLogger("dokimos")


class RayHost:
    """A Ray cluster, on which actors are started."""

    advice = EXECUTOR_ADVICE
    waits_for_all = False  # a cluster that grows has the first nodes long before the last

    def __init__(self, executor: RayExecutor) -> None:
        self._executor = executor
        self._closing = threading.Lock()
        self._calls = RayCalls()
        self._is_connected_here = False
        self._head: HeadWatch | None = None
        address = executor.address
        where = "Starting a Ray cluster on this machine" if address == LOCAL else f"Joining Ray at {address}"
        self.announcement = f"{where} for {pluralize(executor.workers, 'worker')} ..."

    def open(self) -> None:
        self._is_connected_here = connect(self._executor)
        self._head = watch_head(load_ray())

    def create(self, number: int) -> RayHandle:
        is_local = self._is_connected_here and self._executor.address == LOCAL
        return RayHandle(number, self._executor, self._calls, is_local=is_local, head=self._head)

    def close(self) -> None:
        with self._closing:
            is_connected_here, self._is_connected_here = self._is_connected_here, False
            if self._head is not None:
                self._head.stop()
        is_client = self._head is None
        # Also where the connection is the program's own, which may end it as soon as the run has ended.
        have_ended = self._calls.close(_CLIENT_CALL_SECONDS if is_client else _CALL_SECONDS)
        if is_connected_here and (have_ended or is_client):
            disconnect()
        elif is_connected_here:
            _log.warning("The connection to Ray stays open, since a call into it does not return.")
