"""What changes while one run goes on: the data that the runner and its repeats share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import RunResult
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._prepared_scoring import Scorer
from dokimos.experiment._example_source import count_examples
from dokimos.experiment._item_scoring import prepare_scorers
from dokimos.experiment._model_calls import ModelCalls
from dokimos.experiment._outage import Outage
from dokimos.experiment._progress import Progress, make_progress
from dokimos.experiment._reporters import Reporters
from dokimos.experiment._run_options import RunOptions, executor_for
from dokimos.experiment._run_record import RunRecord
from dokimos.experiment._task import task_attribute
from dokimos.experiment._task_calls import TaskCaller
from dokimos.experiment._worker_pool import WorkerPool
from dokimos.experiment._worker_setup import plan_workers

if TYPE_CHECKING:
    from dokimos.experiment._experiment import Experiment
    from dokimos.experiment._run_description import Launch


@dataclass(slots=True, kw_only=True)
class RunState:
    """The state of one run, over all of its repeats."""

    plan: Experiment
    options: RunOptions
    record: RunRecord
    reporters: Reporters
    calls: ModelCalls
    outage: Outage
    caller: TaskCaller
    pool: WorkerPool | None
    """The workers, None where everything runs in this process."""
    progress: Progress
    evaluators: tuple[Evaluator, ...] | None
    """The evaluators of every item; None where a function chooses them for each example."""
    scorers: tuple[Scorer, ...] | None
    """What scores with each of them, where none waits for anything, so that no task of its own is needed."""
    are_repeatable: bool
    """Whether all of them would score an item the same again, so that nothing is lost with their results."""
    parallelism: int
    """How many items are going on at once, those that wait in workers included."""
    counts_own_calls: bool
    """Whether the task itself accounts to the budget for each call that it makes."""
    evaluator_infos: dict[str, EvaluatorInfo] = field(default_factory=dict)
    """The configuration of the evaluators that were used, by name."""
    runs: list[RunResult] = field(default_factory=list)
    """The results of the repeats that have ended."""
    first_failure: str | None = None
    """The key of the item at which `fail_fast` stopped the run."""

    @classmethod
    def create(cls, plan: Experiment, options: RunOptions, launch: Launch | None) -> RunState:
        """Return the state of a run that has not begun."""
        record = RunRecord(plan, options, launch)
        calls = ModelCalls(options, record.redact)
        counts_own_calls = bool(task_attribute(plan.task, "counts_own_calls"))
        is_sample = launch is not None and launch.is_sample
        evaluators = None if callable(plan.evaluators) else tuple(plan.evaluators)
        caller = TaskCaller(
            plan.task,
            options,
            None if counts_own_calls else calls.ledger,
            prices=plan.prices,
            dataset=plan.dataset,
        )
        executor = executor_for(count_examples(plan.dataset, options.shard), options)
        setup = plan_workers(plan, options, executor)
        pool = None
        if setup is not None:
            pool = WorkerPool(setup, executor, caller, parallelism=plan.parallelism)
        parallelism = plan.parallelism if pool is None else pool.items_at_once
        state = cls(
            plan=plan,
            options=options,
            record=record,
            # The sample of an estimate is not a run that anybody wants to see on a server.
            reporters=Reporters(
                () if is_sample else plan.reporters, lambda name: record.writer.open_state(name)
            ),
            calls=calls,
            outage=Outage(plan, calls.breakers),
            caller=caller,
            pool=pool,
            progress=make_progress(plan, options, parallelism),
            evaluators=evaluators,
            scorers=None
            if pool is not None or evaluators is None
            else prepare_scorers(evaluators, options.evaluator_timeout),
            are_repeatable=all(evaluator.deterministic for evaluator in evaluators or ()),
            parallelism=parallelism,
            counts_own_calls=counts_own_calls,
        )
        state.add_infos(evaluators or ())
        return state

    def add_infos(self, evaluators: Iterable[Evaluator]) -> None:
        """Remember how evaluators are configured, for the result."""
        for evaluator in evaluators:
            if evaluator.name not in self.evaluator_infos:
                self.evaluator_infos[evaluator.name] = evaluator.info()
