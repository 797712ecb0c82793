"""Workers that are actors of a Ray cluster."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dokimos._runtime.file_access import files_read
from dokimos.errors import ConfigurationError, RunError
from dokimos.experiment._ray_application import find_import_paths, find_script
from dokimos.experiment._ray_calls import RayCalls, WorkerEndedError
from dokimos.experiment._ray_cluster import KNOWN_RESOURCES, load_ray
from dokimos.experiment._ray_versions import Versions, check_versions
from dokimos.experiment._ray_worker import RayWorker
from dokimos.experiment._worker_handle import HostLostError, WorkerHandle
from dokimos.experiment._worker_messages import END, FAILED, NO_JOB, decode, encode

if TYPE_CHECKING:
    from dokimos.experiment._ray_executor import RayExecutor
    from dokimos.experiment._ray_head import HeadWatch

_CALLS_AT_ONCE: Final = 8
"""Calls that an actor answers at once: one that waits for messages, one that brings some, and lost ones."""
_GATHER_SECONDS: Final = 0.005
"""How long messages to a worker wait for others that go with them: as long as answers to many are made."""
_RETRY_SECONDS: Final = 0.5
_WAIT_SECONDS: Final = 0.5
"""How long a call waits for its answer before it looks whether its worker was killed, or the cluster went."""
EXECUTOR_ADVICE: Final = (
    "The nodes need dokimos and what the application imports: the current folder is sent to them, and "
    "RayExecutor(runtime_env=...) names packages and other folders."
)


class RayHandle(WorkerHandle):
    """One actor.

    Calls and answers may be lost with a connection, so they are made again until Ray says that the actor is
    dead: see `RayWorker`.
    """

    delivers_before_end: ClassVar[bool] = False  # what an actor has not been asked for dies with it

    def __init__(
        self,
        number: int,
        executor: RayExecutor,
        calls: RayCalls,
        *,
        is_local: bool,
        head: HeadWatch | None = None,
    ) -> None:
        """Plan an actor.

        Args:
            number: Which of the workers it is.
            executor: What it takes of a node.
            calls: Those of the run into Ray.
            is_local: Whether it sees the files of this process under the same names.
            head: Says when the cluster has gone; None where Ray does.
        """
        super().__init__(number)
        self._executor = executor
        self._calls = calls
        self._is_local = is_local
        self._head = head
        self._ray = load_ray()
        self._actor: Any = None
        self._node: str | None = None
        self._killed = threading.Event()
        self._ended = threading.Event()
        """Set when no message will come any more."""
        self._exit_reason = "it was ended"
        self._was_preempted = False
        self._lost_connection = False
        self._sent_count = 0
        self._read_count = 0

    def start(self) -> None:
        """Leave it to `prepare`, which may wait for the cluster."""

    def prepare(self, setup: bytes, advice: str) -> None:
        script = find_script(setup, is_local=self._is_local)
        try:
            self._check_head()
            self._create_actor(script)
            self._identify()
            self._put([encode(NO_JOB, (bool(files_read.started_ns),)), setup])
            message = decode(self._take()[0])
        except WorkerEndedError as error:
            if self._lost_connection:
                raise HostLostError(
                    f"The Ray cluster {self._executor.address} cannot be reached any more. What was done is "
                    "kept: dokimos resume continues the run."
                ) from error
            advice = "" if "node" in self._exit_reason else advice
            ended = f"A Ray worker ended before it was ready: {self._exit_reason}."
            raise RunError(f"{ended} {advice}".rstrip()) from error
        if message[0] == FAILED:
            raise ConfigurationError(
                f"A Ray worker cannot import the task or an evaluator: {message[1]}. {EXECUTOR_ADVICE}"
            )

    def end(self) -> None:
        if not self._threads:  # the others could not be started
            self.kill()
            return
        self._outbox.put(encode(NO_JOB, (END,)))
        self._outbox.put(None)

    def kill(self) -> None:
        self._killed.set()
        if self._actor is not None and not self._has_lost_head:
            with contextlib.suppress(Exception), self._calls:  # it has ended, or the connection has
                self._ray.kill(self._actor)

    def join(self, deadline: float) -> None:
        self._ended.wait(max(deadline - time.monotonic(), 0.0))
        self.kill()

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set() or self._has_lost_head

    @property
    def was_preempted(self) -> bool:
        return self._was_preempted

    def describe_end(self) -> str:
        return self._exit_reason

    def _read(self, on_message: Callable[[bytes], None]) -> None:
        try:
            while True:
                for data in self._take():
                    on_message(data)
        except WorkerEndedError:
            return
        finally:
            self._ended.set()

    def _write(self) -> None:
        while True:
            batch = [self._outbox.get()]
            if batch[0] is not None:
                time.sleep(_GATHER_SECONDS)  # a call costs as much as many messages do
            with contextlib.suppress(queue.Empty):
                while batch[-1] is not None:
                    batch.append(self._outbox.get_nowait())
            messages = [data for data in batch if data is not None]
            try:
                if messages:
                    self._put(messages)
            except WorkerEndedError:
                return
            if batch[-1] is None:
                return

    def _create_actor(self, script: str | None) -> None:
        options: dict[str, Any] = actor_options(self._executor, is_local=self._is_local)
        if not self._is_local and self._executor.runtime_env:
            options["runtime_env"] = dict(self._executor.runtime_env)
        folder = os.getcwd() if self._is_local else None
        has_own_folder = "working_dir" in self._executor.runtime_env
        paths = [] if has_own_folder else find_import_paths(is_local=self._is_local)
        try:
            with self._calls:
                actor = self._ray.remote(RayWorker).options(max_concurrency=_CALLS_AT_ONCE, **options)
                if not self._killed.is_set():
                    self._actor = actor.remote(folder, paths, script)
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"Ray does not take the resources of RayExecutor: {error}") from error
        except WorkerEndedError:
            raise
        except Exception as error:
            self._note_end(error)
            raise WorkerEndedError from error
        if self._killed.is_set():  # meanwhile, so that it was not known yet
            self.kill()
            raise WorkerEndedError

    def _identify(self) -> None:
        """Wait until the actor runs.

        Raises:
            ConfigurationError: No node has a place for it, or its versions differ.
        """
        seconds = self._executor.start_timeout
        self._node, *versions = self._call("identify", deadline=time.monotonic() + seconds)
        try:
            check_versions(Versions(*versions), Versions.of_this_process())
        except ConfigurationError:
            self.kill()
            raise

    def _put(self, messages: list[bytes]) -> None:
        self._call("put", self._sent_count, messages)
        self._sent_count += len(messages)

    def _take(self) -> list[bytes]:
        """Return messages that have not been returned yet, at least one. Raises `WorkerEndedError`."""
        while True:
            messages = self._call("take", self._read_count)
            if messages is None:
                raise WorkerEndedError
            if messages:
                self._read_count += len(messages)
                return list(messages)

    def _call(self, method: str, *args: Any, deadline: float | None = None) -> Any:
        """Return what a method of the actor returns; it is called again where the call may have been lost.

        Raises:
            ConfigurationError: The actor has had no place by the deadline.
            WorkerEndedError: It will not be heard of any more.
        """
        errors = self._ray.exceptions
        while not self._killed.is_set():
            try:
                with self._calls:
                    call = getattr(self._actor, method).remote(*args)
                    return self._get(call, deadline)
            except (ConfigurationError, WorkerEndedError):
                raise
            except (errors.ActorUnavailableError, errors.ObjectLostError, errors.NodeDiedError):
                self._check_head()
                time.sleep(_RETRY_SECONDS)  # a connection that comes back takes a while
            except Exception as error:  # the actor is dead, or there is no cluster any more
                self._note_end(error)
                raise WorkerEndedError from error
        raise WorkerEndedError

    def _get(self, call: Any, deadline: float | None) -> Any:
        """Return the result of a call: without a head, Ray waits for it until it ends the process."""
        while self._head is not None or deadline is not None:
            left = math.inf if deadline is None else max(deadline - time.monotonic(), 0.0)
            if self._ray.wait([call], timeout=min(left, _WAIT_SECONDS))[0]:
                break
            if self._killed.is_set():
                raise WorkerEndedError
            self._check_head()
            if left <= _WAIT_SECONDS:
                self.kill()
                raise ConfigurationError(_no_place(self._ray, self._executor))
        return self._ray.get(call)

    @property
    def _has_lost_head(self) -> bool:
        return self._head is not None and self._head.is_lost

    def _check_head(self) -> None:
        if self._has_lost_head:
            self._lost_connection, self._exit_reason = True, "the head of its cluster has gone"
            self._ended.set()
            raise WorkerEndedError

    def _note_end(self, error: Any) -> None:
        """Find out how the actor ended, in a thread that calls it."""
        is_death = isinstance(error, self._ray.exceptions.RayActorError)
        if not is_death:
            self._lost_connection = not self._ray.is_initialized()
            self._exit_reason = str(error).strip().rpartition("\n")[2].rstrip(".") or type(error).__name__
            self.kill()  # else it would work on, beside the one that gets its items
        elif error.preempted or ("node" in str(error) and self._has_lost_node()):
            self._exit_reason, self._was_preempted = "its node has left the cluster", True
        elif "NODE_OUT_OF_MEMORY" in str(error):
            self._exit_reason = "Ray ended it, since its node was out of memory"
        elif self._node is None:
            self._exit_reason = _first_reason(str(error))
        else:
            self._exit_reason = "the process of its actor died"
        self._ended.set()

    def _has_lost_node(self) -> bool:
        try:
            with self._calls:
                nodes = self._ray.nodes()
        except Exception:  # there is no cluster any more
            return False
        if self._node is None:  # it never ran
            return not all(node["Alive"] for node in nodes)
        return not any(node["Alive"] and node["NodeID"] == self._node for node in nodes)


def actor_options(executor: RayExecutor, *, is_local: bool) -> dict[str, Any]:
    """Return the resources of a worker as Ray's options of an actor."""
    # A cluster on this machine is for workers alone, and several runs may share it.
    options: dict[str, Any] = {"num_cpus": 0 if is_local else 1}
    custom: dict[str, float] = {}
    for name, amount in executor.resources.items():
        (options if name in KNOWN_RESOURCES else custom)[name] = amount
    return {**options, "resources": custom} if custom else options


def _no_place(ray: Any, executor: RayExecutor) -> str:
    return (
        f"No node of the Ray cluster has had {describe_needs(executor)} free for a worker in "
        f"{executor.start_timeout:g} seconds. The cluster has {_describe_resources(ray)}. Ask for less, or "
        "wait longer with RayExecutor(start_timeout=...)."
    )


def _first_reason(text: str) -> str:
    """Return the reason in the text of an error of Ray: its lines without those of names and ids."""
    lines = [line for line in text.splitlines()[1:] if line and not line.startswith("\t")]
    return (lines or text.splitlines() or ["it died"])[0].partition(". ")[0].rstrip(".")


def describe_needs(executor: RayExecutor) -> str:
    """Say what a worker takes, such as "num_cpus=1, num_gpus=0.25"."""
    needs = {"num_cpus": 1, **executor.resources}
    return ", ".join(f"{name}={amount:g}" for name, amount in needs.items())


def _describe_resources(ray: Any) -> str:
    """Say what a cluster has, such as "8 CPU, 1 GPU on 2 nodes"."""
    resources = ray.cluster_resources()
    nodes = sum(bool(node["Alive"]) for node in ray.nodes())
    parts = ", ".join(f"{resources[name]:g} {name}" for name in ("CPU", "GPU") if name in resources)
    return f"{parts or 'no CPU'} on {nodes} {'node' if nodes == 1 else 'nodes'}"
