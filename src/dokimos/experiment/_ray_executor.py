"""Runs whose items are worked on by a Ray cluster."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dokimos._core import checks
from dokimos._core.checks import is_number
from dokimos.errors import ConfigurationError
from dokimos.experiment._executor import Executor

if TYPE_CHECKING:
    from dokimos.experiment._worker_handle import WorkerHost

_MOST_AHEAD: Final = 64
"""Items that wait in a worker: a message to another machine takes as long as many short items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayExecutor(Executor):
    """The task is called and outputs are scored by actors of a [Ray](https://docs.ray.io) cluster.

    As with `ProcessExecutor`, what asks models, the budget, the journal and the reports stay in the process
    that starts the run: it makes the same calls and has the same result. Needs the extra `ray`, on this
    machine and on the nodes, which need the same versions of dokimos and of Python.

    Args:
        address: `"local"` starts a cluster on this machine, which ends with the run; `"ray://host:10001"`
            and `"auto"` join one. A program that has called `ray.init()` uses the cluster that it chose.
        num_workers: How many actors there are; on this machine as many as it has cores, unless given.
        resources: What a worker takes of its node: `num_cpus` (1 unless given, and on this machine not
            counted), `num_gpus`, `memory` in bytes, and custom resources of the cluster.
        runtime_env: What the nodes get beside the current folder, as Ray's `runtime_env`: `pip`, `env_vars`,
            `excludes` and so on; for a cluster that is joined.
        start_timeout: Seconds to wait until a node has a place for a worker.

    Raises:
        ConfigurationError: where a value is not what it must be, or `num_workers` is missing for a cluster.

    Example:
        >>> RayExecutor(address="ray://head:10001", num_workers=32, resources={"num_gpus": 0.25}).workers
        32
    """

    address: str = "local"
    num_workers: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    start_timeout: float = 300.0

    def __post_init__(self) -> None:
        if not checks.require_text("address", self.address).strip():
            raise ConfigurationError("address must be local, auto, host:port or ray://host:port, not empty.")
        if self.num_workers is not None:
            checks.require_positive("num_workers", self.num_workers)
        elif self.address != "local":
            raise ConfigurationError(
                f"RayExecutor(num_workers=...) must say how many workers there are on {self.address}."
            )
        for name, amount in checks.require_mapping("resources", self.resources).items():
            if not is_number(amount) or not 0 <= amount < math.inf:
                raise ConfigurationError(f"resources[{name!r}] must be 0 or more, not {amount!r:.80}.")
        if checks.require_mapping("runtime_env", self.runtime_env) and self.address == "local":
            raise ConfigurationError(
                "runtime_env is for a cluster that is joined; one on this machine has what this process has."
            )
        if not is_number(self.start_timeout) or not 0 < self.start_timeout < math.inf:
            raise ConfigurationError(
                f"start_timeout must be more than 0 seconds, not {self.start_timeout!r:.80}."
            )

    @property
    def workers(self) -> int:
        return self.num_workers or os.cpu_count() or 1

    @property
    def most_ahead(self) -> int:
        return _MOST_AHEAD

    def host(self) -> WorkerHost:
        from dokimos.experiment._ray_host import RayHost

        return RayHost(self)
