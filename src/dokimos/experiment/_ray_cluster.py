"""The connection of this process to a Ray cluster, shared by the runs that go on at the same time."""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.extras import require
from dokimos.errors import ConfigurationError

if TYPE_CHECKING:
    from dokimos.experiment._ray_executor import RayExecutor

LOCAL: Final = "local"
_lock = threading.Lock()
_users = 0
"""Runs that use a connection which was made here."""
_address = ""


def connect(executor: RayExecutor) -> bool:
    """Connect to the cluster of an executor, or start one; False where the program has done so itself.

    Raises:
        ConfigurationError: The cluster cannot be reached, or a run of this process uses another one.
        MissingExtraError: Ray is not installed.
    """
    global _address, _users
    ray: Any = require("ray", "ray")
    with _lock:
        if not _users:
            if ray.is_initialized():
                return False
            with _without_statistics():
                _initialize(ray, executor)
            _address = executor.address
        elif _address != executor.address:
            raise ConfigurationError(
                f"A run on the Ray cluster {_address} is going on in this process, which cannot use "
                f"{executor.address} at the same time."
            )
        _users += 1
        return True


def disconnect() -> None:
    """Let go of the connection; the last run ends it, and the cluster where it was started here."""
    global _users
    ray: Any = require("ray", "ray")
    with _lock:
        _users -= 1
        if not _users:
            ray.shutdown()


def require_connection(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of Ray as one that raises where there is no connection.

    As it is, it would start a cluster: also in a thread that is about to call it when a run ends.
    """
    starts_cluster = function.__code__.co_name == "auto_init_wrapper"
    return getattr(function, "__wrapped__", function) if starts_cluster else function


def _initialize(ray: Any, executor: RayExecutor) -> None:
    # Its notes on the start are about itself; warnings that come later are about the cluster.
    options: dict[str, Any] = {"logging_level": logging.ERROR}
    if executor.address == LOCAL:
        cores = float(executor.resources.get("num_cpus", 1))
        options["num_cpus"] = max(os.cpu_count() or 1, math.ceil(executor.workers * cores))
        options["include_dashboard"] = False
    else:
        options["runtime_env"] = {"working_dir": os.getcwd(), **executor.runtime_env}
    try:
        ray.init(address=executor.address, **options)
    except Exception as error:  # of its own kinds, and assertions where a process was a client before
        raise ConfigurationError(
            f"The Ray cluster {executor.address} cannot be used: {error}. Say 'local' to start one on this "
            "machine, or the address of a cluster that runs, such as ray://host:10001."
        ) from error
    logging.getLogger("ray").setLevel(logging.WARNING)


@contextmanager
def _without_statistics() -> Iterator[None]:
    """Start a cluster that sends no statistics to anybody; what the user has set holds."""
    name = "RAY_USAGE_STATS_ENABLED"
    is_set = name in os.environ
    os.environ.setdefault(name, "0")
    try:
        yield
    finally:
        if not is_set:
            del os.environ[name]
