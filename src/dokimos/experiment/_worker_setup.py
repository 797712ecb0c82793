"""What of a run may leave its process, as its worker processes are told when they start."""

from __future__ import annotations

import math
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dokimos._core.tracebacks import format_located_error
from dokimos.errors import ConfigurationError
from dokimos.evaluators._base import Evaluator
from dokimos.experiment._run_options import RunOptions
from dokimos.experiment._task import Task, prepare, task_attribute
from dokimos.experiment._worker_messages import NO_JOB, encode

if TYPE_CHECKING:
    from dokimos.experiment._executor import Executor
    from dokimos.experiment._experiment import EvaluatorSource, Experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSetup:
    """What a worker process needs to know before its first job."""

    task: Task | None
    """None where the task is called in the process of the run."""
    evaluators: tuple[Evaluator, ...]
    options: RunOptions
    """Those that concern single calls."""
    jobs_at_once: int

    def encode(self) -> bytes:
        """Return it as a message. Raises `ConfigurationError` if the task cannot be pickled."""
        try:
            return encode(NO_JOB, (self,))
        except Exception as error:
            raise ConfigurationError(
                f"The task cannot be sent to worker processes: {format_located_error(error)}. Define it with "
                "def at the top level of a module, without lambda or objects that cannot be pickled, or run "
                "it in this process, without workers."
            ) from error


def plan_workers(plan: Experiment, options: RunOptions, executor: Executor) -> WorkerSetup | None:
    """Return what leaves the process of a run; None where nothing does."""
    task = plan.task if _may_leave(plan.task) else None
    return plan_scoring(plan.evaluators, options, executor, parallelism=plan.parallelism, task=task)


def plan_scoring(
    evaluators: EvaluatorSource,
    options: RunOptions,
    executor: Executor,
    *,
    parallelism: int,
    task: Task | None = None,
) -> WorkerSetup | None:
    """Return what leaves the process that scores; None where nothing does."""
    portable = () if callable(evaluators) else tuple(filter(_is_portable, evaluators))
    if not executor.workers or (task is None and not portable):
        return None
    return WorkerSetup(
        task=task,
        evaluators=portable,
        options=RunOptions(
            timeout=options.timeout,
            retries=options.retries,
            seed=options.seed,
            evaluator_timeout=options.evaluator_timeout,
        ),
        jobs_at_once=math.ceil(max(parallelism, executor.workers) / executor.workers),
    )


def _may_leave(task: Task) -> bool:
    """Say whether the task may be called in a worker: one that waits, as models let it, stays."""
    stays = prepare(task).is_async or task_attribute(task, "counts_own_calls")
    return not stays and task_attribute(task, "aclose") is None


def _is_portable(evaluator: Evaluator) -> bool:
    """Say whether an evaluator may score in a worker."""
    if evaluator.is_async or evaluator.serial or evaluator.stays_in_thread():
        return False
    try:
        pickle.dumps(evaluator, pickle.HIGHEST_PROTOCOL)
    except Exception:
        return False
    return True
