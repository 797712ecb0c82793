"""Where a run calls its task and scores outputs: in its own process, in others, on a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dokimos._core import checks
from dokimos.experiment._job_window import LEAST_AHEAD

if TYPE_CHECKING:
    from dokimos.experiment._worker_handle import WorkerHost


class Executor(ABC):
    """Where a run calls its task and scores outputs.

    `LocalExecutor`, `ProcessExecutor` and `RayExecutor` are its forms. Whichever a run has, what asks models,
    the budget, the stores of replies, the journal and the reports stay in the process that starts the run, so
    that its result and its calls are the same. An executor is a plain value: equal ones are interchangeable,
    one is for any number of runs, also at the same time, and nothing is started before a run asks for its
    workers.

    Example:
        >>> plan = Experiment([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> plan.run(executor=LocalExecutor()).pass_rate
        1.0
    """

    __slots__ = ()

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many workers there are, 0 where everything is done in the process of the run."""

    @property
    def most_ahead(self) -> int:
        """How many items may wait in a worker, so that it never waits for the process of the run."""
        return LEAST_AHEAD

    @abstractmethod
    def host(self) -> WorkerHost:
        """Return what the workers of one run are started on; called once for each run that needs workers.

        Its type is internal, so executors of your own have to follow its changes.
        """


@dataclass(frozen=True, slots=True)
class LocalExecutor(Executor):
    """Everything is done in the process of the run, which is the default.

    Example:
        >>> LocalExecutor().workers
        0
    """

    @property
    def workers(self) -> int:
        return 0

    def host(self) -> WorkerHost:
        raise NotImplementedError("There are no workers.")


@dataclass(frozen=True, slots=True)
class ProcessExecutor(Executor):
    """The task is called and outputs are scored in processes of this machine, as with `processes=n`.

    Args:
        processes: How many there are.

    Example:
        >>> ProcessExecutor(4).workers
        4
    """

    processes: int

    def __post_init__(self) -> None:
        checks.require_positive("processes", self.processes)

    @property
    def workers(self) -> int:
        return self.processes

    def host(self) -> WorkerHost:
        from dokimos.experiment._process_handle import ProcessHost

        return ProcessHost()
