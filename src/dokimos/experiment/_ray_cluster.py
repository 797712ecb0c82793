"""The connection of this process to a Ray cluster, shared by the runs that go on at the same time."""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.extras import require
from dokimos.errors import ConfigurationError

if TYPE_CHECKING:
    from dokimos.experiment._ray_executor import RayExecutor

LOCAL: Final = "local"
NOT_SENT: Final = (".env", ".env.*", "*.pem", "*.key", ".netrc", ".aws", ".ssh", ".dokimos", "node_modules")
"""What of the current folder does not go to a cluster, beside what Ray leaves out itself."""
KNOWN_RESOURCES: Final = ("num_cpus", "num_gpus", "memory")
"""Resources that Ray takes under a name of their own; others are custom ones."""
_AUTO_CONNECT: Final = "RAY_ENABLE_AUTO_CONNECT"
_ATTEMPTS: Final = 4
"""How often a client asks a cluster for its server."""
_FAILED_STARTS: Final = ("Starting Ray client server failed", "Proxy failed to Connect to backend")
"""How Ray says that the process it forked for a client died before it had run anything: about every tenth."""
_lock = threading.Lock()
_users = 0
"""Runs that use a connection which was made here."""
_shared: tuple[RayExecutor, str] | None = None
"""For which executor it was made, and in which folder."""


def load_ray() -> Any:
    """Import Ray so that none of its functions starts a cluster by itself.

    As it is, each of them does so where there is no connection: in a run whose cluster has gone, or in a
    thread that is about to call it when a run ends.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    earlier = os.environ.get(_AUTO_CONNECT)
    os.environ[_AUTO_CONNECT] = "0"
    try:
        ray = require("ray", "ray")
    finally:
        if earlier is None:
            del os.environ[_AUTO_CONNECT]
        else:
            os.environ[_AUTO_CONNECT] = earlier
    # It reads the variable when it is imported, which the program may have done.
    setattr(sys.modules["ray._private.auto_init_hook"], "enable_auto_connect", False)  # noqa: B010 (mypy knows no such attribute)
    return ray


def connect(executor: RayExecutor) -> bool:
    """Connect to the cluster of an executor, or start one; False where the program has done so itself.

    Raises:
        ConfigurationError: The cluster cannot be reached, or another run of this process uses another one.
        MissingExtraError: Ray is not installed.
    """
    global _shared, _users
    ray = load_ray()
    with _lock:
        if not _users:
            if ray.is_initialized():
                return False
            _start(ray, executor) if executor.address == LOCAL else _join(ray, executor)
            _shared = executor, os.getcwd()
        elif _shared != (executor, os.getcwd()):
            raise ConfigurationError(
                "Another run of this process is using Ray, with another executor or from another folder; one "
                "process has one connection. Wait for that run, or start this one in a process of its own."
            )
        _users += 1
        return True


def disconnect() -> None:
    """Let go of the connection; the last run ends it, and the cluster where it was started here."""
    global _users
    ray = load_ray()
    with _lock:
        _users = max(_users - 1, 0)
        if not _users:
            ray.shutdown()
            _variables.restore()


def _start(ray: Any, executor: RayExecutor) -> None:
    """Start a cluster on this machine that has room for the workers, and sends no statistics to anybody."""
    required = {name: float(amount) for name, amount in executor.resources.items()}
    custom = {name: required[name] * executor.workers for name in required if name not in KNOWN_RESOURCES}
    cores = math.ceil(executor.workers * required.get("num_cpus", 0))
    _variables.set()
    try:
        ray.init(
            address=LOCAL,
            num_cpus=max(os.cpu_count() or 1, cores),
            resources=custom or None,
            include_dashboard=False,
            logging_level=logging.ERROR,
        )
    except Exception as error:
        _variables.restore()
        raise ConfigurationError(f"A Ray cluster cannot be started on this machine: {error}") from error
    logging.getLogger("ray").setLevel(logging.WARNING)
    for name, key in (("num_gpus", "GPU"), ("memory", "memory")):
        there = float(ray.cluster_resources().get(key, 0))
        if required.get(name, 0) > there:
            ray.shutdown()
            _variables.restore()
            raise ConfigurationError(
                f"A worker takes {name}={required[name]:g}, and this machine has {there:g}."
            )


def _join(ray: Any, executor: RayExecutor) -> None:
    sent = {"working_dir": os.getcwd(), **executor.runtime_env}
    sent["excludes"] = [*NOT_SENT, *sent.get("excludes", ())]
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            # Notes on the start are about Ray itself; warnings that come later are about the cluster.
            ray.init(address=executor.address, runtime_env=sent, logging_level=logging.ERROR)
            break
        except Exception as error:  # of many kinds, and assertions where this process was a client before
            problem = _problem_of(str(error))
            if attempt < _ATTEMPTS and any(text in problem for text in _FAILED_STARTS):
                continue
            raise ConfigurationError(
                f"The Ray cluster {executor.address} cannot be used: {problem}. {advise(problem)}"
            ) from error
    logging.getLogger("ray").setLevel(logging.WARNING)


def _problem_of(text: str) -> str:
    """Return what an error of Ray says without the traceback of the cluster's process, if it has one."""
    has_traceback = "Traceback (most recent call last):" in text
    return (text.strip().rpartition("\n")[2] if has_traceback else text.strip()).rstrip(".")


def advise(problem: str) -> str:
    """Say what to do where a cluster cannot be joined."""
    if "ersion" in problem and "Python" in problem:  # Ray compares both before anything else happens
        return (
            "Start the run with the Python and the Ray that the nodes have, or give the nodes those of this "
            "process. With RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL=minor, Ray takes 3.11.4 for 3.11.9."
        )
    return (
        "An address is ray://host:10001, host:port, or auto on a node of the cluster. One that asks for a "
        "token needs RAY_AUTH_MODE and RAY_AUTH_TOKEN."
    )


class _Variables:
    """Those of the environment that Ray reads and sets; what the user has set holds."""

    def __init__(self) -> None:
        self._earlier: dict[str, str | None] = {}

    def set(self) -> None:
        """Let a cluster that is started send no statistics to anybody."""
        self._earlier = {name: os.environ.get(name) for name in ("RAY_USAGE_STATS_ENABLED", "RAY_AUTH_MODE")}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

    def restore(self) -> None:
        for name, value in self._earlier.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._earlier = {}


_variables = _Variables()
