"""Workers that are actors of a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import pickletools
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dokimos._core.extras import require
from dokimos._core.text import pluralize
from dokimos._runtime.file_access import files_read
from dokimos._version import __version__
from dokimos.errors import ConfigurationError
from dokimos.experiment._ray_cluster import LOCAL, connect, disconnect, require_connection
from dokimos.experiment._ray_worker import RayWorker
from dokimos.experiment._worker_handle import WorkerHandle
from dokimos.experiment._worker_messages import END, FAILED, NO_JOB, decode, encode

if TYPE_CHECKING:
    from dokimos.experiment._ray_executor import RayExecutor

_CALLS_AT_ONCE: Final = 8
"""Calls that an actor answers at once: one that waits for messages, one that brings some, and lost ones."""
_RETRY_SECONDS: Final = 0.5
_OPTIONS: Final = ("num_cpus", "num_gpus", "memory")
"""Resources that Ray takes under a name of their own; others are custom ones."""
_EXECUTOR_ADVICE: Final = (
    "The nodes need dokimos and what the application imports: the current folder is sent to them, and "
    "RayExecutor(runtime_env=...) names packages and other folders."
)


class RayHost:
    """A Ray cluster, on which actors are started."""

    advice = _EXECUTOR_ADVICE
    waits_for_all = False  # a cluster that grows has the first nodes long before the last

    def __init__(self, executor: RayExecutor) -> None:
        self._executor = executor
        self._is_connected_here = False
        address = executor.address
        where = "Starting a Ray cluster on this machine" if address == LOCAL else f"Joining Ray at {address}"
        self.announcement = f"{where} for {pluralize(executor.workers, 'worker')} ..."

    def open(self) -> None:
        self._is_connected_here = connect(self._executor)

    def create(self, number: int) -> RayHandle:
        is_local = self._is_connected_here and self._executor.address == LOCAL
        return RayHandle(number, self._executor, is_local=is_local)

    def close(self) -> None:
        if self._is_connected_here:
            self._is_connected_here = False
            disconnect()


class RayHandle(WorkerHandle):
    """One actor.

    Calls and answers may be lost with a connection, so they are made again until Ray says that the actor is
    dead: see `RayWorker`.
    """

    delivers_before_end: ClassVar[bool] = False  # what an actor has not been asked for dies with it

    def __init__(self, number: int, executor: RayExecutor, *, is_local: bool) -> None:
        """Plan an actor.

        Args:
            number: Which of the workers it is.
            executor: What it takes of a node.
            is_local: Whether it sees the files of this process under the same names.
        """
        super().__init__(number)
        self._executor = executor
        self._is_local = is_local
        self._ray: Any = require("ray", "ray")
        self._actor: Any = None
        self._node: str | None = None
        self._how = "it was ended"
        self._was_taken_away = False
        self._ended = threading.Event()
        """Set when no message will come any more."""
        self._sent_count = 0
        self._read_count = 0

    def start(self) -> None:
        """Ask for the actor. Its class is imported by the nodes, so they see no closure."""

    def prepare(self, setup: bytes, advice: str) -> None:
        script = _script_of(setup, is_local=self._is_local)
        folder = os.getcwd() if self._is_local else None
        actor = self._ray.remote(RayWorker).options(
            max_concurrency=_CALLS_AT_ONCE, **actor_options(self._executor)
        )
        self._actor = actor.remote(folder, _import_paths(is_local=self._is_local), script)
        try:
            self._identify()
            self._put([encode(NO_JOB, (bool(files_read.started_ns),)), setup])
            message = decode(self._take()[0])
        except _EndedError as error:
            ended = f"A Ray worker ended before it was ready: {self.describe_end()}."
            raise ConfigurationError(f"{ended} {advice}".rstrip()) from error
        if message[0] == FAILED:
            raise ConfigurationError(
                f"A Ray worker cannot import the task or an evaluator: {message[1]}. {_EXECUTOR_ADVICE}"
            )

    def end(self) -> None:
        if not self._threads:  # the others could not be started
            self.kill()
            return
        self._outbox.put(encode(NO_JOB, (END,)))
        self._outbox.put(None)

    def kill(self) -> None:
        if self._actor is not None:
            with contextlib.suppress(Exception):  # it has ended, or the connection has
                require_connection(self._ray.kill)(self._actor)

    def join(self, deadline: float) -> None:
        self._ended.wait(max(deadline - time.monotonic(), 0.0))
        self.kill()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    @property
    def was_taken_away(self) -> bool:
        return self._was_taken_away

    def describe_end(self) -> str:
        return self._how

    def _read(self, on_message: Callable[[bytes], None]) -> None:
        try:
            while True:
                for data in self._take():
                    on_message(data)
        except _EndedError:
            return
        finally:
            self._ended.set()

    def _write(self) -> None:
        while True:
            batch = [self._outbox.get()]
            with contextlib.suppress(queue.Empty):
                while batch[-1] is not None:
                    batch.append(self._outbox.get_nowait())
            messages = [data for data in batch if data is not None]
            try:
                if messages:
                    self._put(messages)
            except _EndedError:
                return
            if batch[-1] is None:
                return

    def _identify(self) -> None:
        """Wait until the actor runs.

        Raises:
            ConfigurationError: No node has a place for it, or its versions differ.
        """
        call = self._actor.identify.remote()
        seconds = self._executor.start_timeout
        [*ready], _ = require_connection(self._ray.wait)([call], timeout=seconds)
        if not ready:
            self.kill()
            raise ConfigurationError(
                f"No node of the Ray cluster has had {describe_needs(self._executor)} free for a worker "
                f"in {seconds:g} seconds. The cluster has {_describe_resources(self._ray)}. Ask for less, or "
                "wait longer with RayExecutor(start_timeout=...)."
            )
        self._node, *versions = self._get(call)
        expected = [__version__, f"{sys.version_info.major}.{sys.version_info.minor}"]
        if versions != expected:
            self.kill()
            raise ConfigurationError(
                f"The nodes have dokimos {versions[0]} on Python {versions[1]}, this process {expected[0]} "
                f"on {expected[1]}: both must be the same."
            )

    def _put(self, messages: list[bytes]) -> None:
        self._call("put", self._sent_count, messages)
        self._sent_count += len(messages)

    def _take(self) -> list[bytes]:
        """Return messages that have not been returned yet, at least one. Raises `_EndedError`."""
        while True:
            messages = self._call("take", self._read_count)
            if messages is None:
                raise _EndedError
            if messages:
                self._read_count += len(messages)
                return list(messages)

    def _call(self, method: str, *args: Any) -> Any:
        while True:
            try:
                return self._get(getattr(self._actor, method).remote(*args))
            except _LostCallError:
                time.sleep(_RETRY_SECONDS)

    def _get(self, call: Any) -> Any:
        """Return what a call returned.

        Raises:
            _EndedError: The actor will not be heard of any more.
            _LostCallError: The call may be made again.
        """
        errors = self._ray.exceptions
        try:
            return require_connection(self._ray.get)(call)
        except (errors.ActorUnavailableError, errors.ObjectLostError, errors.NodeDiedError) as error:
            raise _LostCallError from error
        except Exception as error:  # the actor is dead, or there is no cluster any more
            self._note_end(error)
            raise _EndedError from error

    def _note_end(self, error: Any) -> None:
        """Find out how the actor ended, in the thread that reads from it."""
        is_death = isinstance(error, self._ray.exceptions.RayActorError)
        if is_death and self._node is None:  # it never ran
            self._how = str(error).rpartition("\n")[2].rstrip(".")
        elif is_death and (error.preempted or self._has_lost_node()):
            self._how, self._was_taken_away = "its node has left the cluster", True
        elif "NODE_OUT_OF_MEMORY" in str(error):
            self._how = "Ray ended it, since its node was out of memory"
        elif is_death:
            self._how = "the process of its actor died"
        else:
            self._how = str(error).partition("\n")[0].rstrip(".")
        self._ended.set()

    def _has_lost_node(self) -> bool:
        try:
            nodes = require_connection(self._ray.nodes)()
        except Exception:  # there is no cluster any more
            return False
        return not any(node["Alive"] and node["NodeID"] == self._node for node in nodes)


class _EndedError(Exception):
    """An actor will not be heard of any more."""


class _LostCallError(Exception):
    """A call may not have arrived, or its answer may not."""


def actor_options(executor: RayExecutor) -> dict[str, Any]:
    """Return the resources of a worker as Ray's options of an actor."""
    options: dict[str, Any] = {"num_cpus": 1}
    custom: dict[str, float] = {}
    for name, amount in executor.resources.items():
        (options if name in _OPTIONS else custom)[name] = amount
    return {**options, "resources": custom} if custom else options


def describe_needs(executor: RayExecutor) -> str:
    """Say what a worker takes, such as "num_cpus=1, num_gpus=0.25"."""
    needs = {"num_cpus": 1, **executor.resources}
    return ", ".join(f"{name}={amount:g}" for name, amount in needs.items())


def _script_of(setup: bytes, *, is_local: bool) -> str | None:
    """Return the file of the module `__main__` if the setup has something of it; else None.

    Raises:
        ConfigurationError: Nodes cannot run it.
    """
    if not any(argument == "__main__" for _, argument, _ in pickletools.genops(setup[8:])):
        return None
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is None:
        raise ConfigurationError(
            "The task or an evaluator is defined in this session, which the nodes of a cluster cannot "
            "import. Put it into a module."
        )
    path = Path(file).resolve()
    if is_local:
        return str(path)
    if not path.is_relative_to(Path.cwd()):
        raise ConfigurationError(
            f"The task or an evaluator is defined in {path}, which is not sent to the nodes: start it from "
            "the folder that it is in."
        )
    return path.relative_to(Path.cwd()).as_posix()


def _import_paths(*, is_local: bool) -> list[str]:
    """Return where this process looks for modules: on this machine all, else what the current folder has."""
    paths = [os.path.abspath(path) for path in sys.path if not path.endswith(".zip")]
    if is_local:
        return paths
    here = os.getcwd()
    inside = (path for path in paths if path == here or path.startswith(here + os.sep))
    own = (path for path in inside if "site-packages" not in path)
    return [os.path.relpath(path, here).replace(os.sep, "/") for path in own]


def _describe_resources(ray: Any) -> str:
    """Say what a cluster has, such as "8 CPU, 1 GPU on 2 nodes"."""
    resources = require_connection(ray.cluster_resources)()
    nodes = sum(bool(node["Alive"]) for node in require_connection(ray.nodes)())
    parts = ", ".join(f"{resources[name]:g} {name}" for name in ("CPU", "GPU") if name in resources)
    return f"{parts or 'no CPU'} on {nodes} {'node' if nodes == 1 else 'nodes'}"
