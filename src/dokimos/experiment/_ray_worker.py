"""A worker of a run on Ray, as it runs in the process of an actor."""

from __future__ import annotations

import os
import queue
import runpy
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Final

from dokimos._core.tracebacks import format_located_error
from dokimos.experiment._ray_versions import Versions
from dokimos.experiment._worker_messages import FAILED, NO_JOB, encode
from dokimos.experiment._worker_process import serve

GATHER_SECONDS: Final = 0.1
"""How long messages of a worker that has more to do wait for others that go with them.

A call costs as much as many messages do. It is less than the time for which a worker has jobs ahead of it,
`AHEAD_SECONDS`, so that it does not wait for the next ones.
"""
MANY: Final = 128
"""Messages that do not wait for others."""
TAKE_SECONDS: Final = 5.0
"""How long a call of `take` waits for messages before it returns none."""


class RayWorker:
    """The other end of a `RayHandle`: messages are put into it and taken out of it.

    A call, or its answer, may be lost with a connection, and is made again then. So messages are numbered:
    those that come twice are dropped, and those that go out are kept until the next call says that they have
    arrived.
    """

    def __init__(self, folder: str | None, paths: Sequence[str], script: str | None) -> None:
        """Make ready to import the application.

        Args:
            folder: The working directory, None for the one that Ray chose.
            paths: Where modules are looked for, relative to it.
            script: The file of the module `__main__`, if it is needed.
        """
        if folder is not None:
            os.chdir(folder)
        here = os.getcwd()
        for path in reversed(paths):
            full = os.path.normpath(os.path.join(here, path))
            if full not in sys.path:
                sys.path.insert(0, full)
        self._script = script
        self._inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._received = 0
        self._outbox: list[bytes] = []
        self._first = 0
        """The number of the first message of the outbox."""
        self._is_urgent = False
        """Whether the outbox does not wait for more."""
        self._has_ended = False
        self._changed = threading.Condition()
        threading.Thread(target=self._serve, name="dokimos-ray-worker", daemon=True).start()

    def identify(self) -> tuple[str, str, str]:
        """Return the id of the node, and the version of dokimos and of Python."""
        import ray

        node = str(ray.get_runtime_context().get_node_id())
        return node, *Versions.of_this_process()

    def put(self, first: int, messages: Sequence[bytes]) -> None:
        """Take messages in, of which `first` is the number of the first one."""
        with self._changed:
            for number, message in enumerate(messages, start=first):
                if number == self._received:
                    self._received += 1
                    self._inbox.put(message)

    def take(self, first: int) -> list[bytes] | None:
        """Return the messages from a number on, as soon as there are some; those before it have arrived.

        None means that there will be none any more.
        """
        with self._changed:
            if first > self._first:
                del self._outbox[: first - self._first]
                self._first = first
            self._changed.wait_for(lambda: self._outbox or self._has_ended, TAKE_SECONDS)
            if self._outbox:
                self._changed.wait_for(lambda: self._is_urgent or self._has_ended, GATHER_SECONDS)
                self._is_urgent = False
            return None if self._has_ended and not self._outbox else list(self._outbox)

    def flush(self) -> None:
        """Let what is in the outbox go at once: the worker has nothing else to do."""
        with self._changed:
            self._is_urgent = bool(self._outbox)
            self._changed.notify_all()

    # What `serve` calls: `Connection`.

    def send_bytes(self, buf: bytes, /) -> None:
        with self._changed:
            self._outbox.append(buf)
            count = len(self._outbox)
            if count == 1 or count >= MANY:  # whoever waits need not look at each message
                self._is_urgent = self._is_urgent or count >= MANY
                self._changed.notify_all()

    def recv_bytes(self) -> bytes:
        return self._inbox.get()

    def _serve(self) -> None:
        try:
            self._import_script()
            serve(self, on_idle=self.flush)
        except BaseException as error:  # the script is the user's code
            self.send_bytes(encode(NO_JOB, (FAILED, format_located_error(error))))
        finally:
            with self._changed:
                self._has_ended = True
                self._changed.notify_all()

    def _import_script(self) -> None:
        """Run the script as the standard library does it for worker processes: not as the main program."""
        if self._script is None:
            return
        module = ModuleType("__mp_main__")
        sys.modules["__main__"] = sys.modules["__mp_main__"] = module
        module.__dict__.update(runpy.run_path(self._script, run_name="__mp_main__"))
