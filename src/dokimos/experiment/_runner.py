"""Running an experiment: repeats over the data set, one async core, failures as values, one result.

`Runner.run` opens the journal, runs each `Repeat` (`_repeat.py`) on the shared `RunState`, and `_finish`
builds the result, also for a run that is interrupted or breaks.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from dokimos._core.provenance import Provenance
from dokimos._core.results import ExperimentResult, RunStatus
from dokimos._runtime.concurrency import run_sync
from dokimos._runtime.interrupts import defer_interrupts
from dokimos._runtime.loop_watch import LoopWatch
from dokimos._runtime.terminal_text import print_line
from dokimos.datasets._dataset import Dataset
from dokimos.errors import DokimosError, RunInterrupted, TooManyErrors
from dokimos.experiment._blocked_loop import LoopBlockedError, block_limits, end_process
from dokimos.experiment._end_messages import EndMessages
from dokimos.experiment._fail_fast import MOST_NAMED, NOT_RUN, find_items_not_run
from dokimos.experiment._item_errors import status_of
from dokimos.experiment._progress import Silent
from dokimos.experiment._repeat import Repeat
from dokimos.experiment._resume_advice import how_to_resume
from dokimos.experiment._run_description import Launch
from dokimos.experiment._run_state import RunState
from dokimos.experiment._task import task_attribute

if TYPE_CHECKING:
    from dokimos.experiment._experiment import Experiment
    from dokimos.experiment._run_options import RunOptions


class Runner:
    """Runs one experiment once."""

    def __init__(self, plan: Experiment, options: RunOptions, *, launch: Launch | None = None) -> None:
        self.result: ExperimentResult | None = None
        """The outcome, also of a run that was cut short."""
        self._plan = plan
        self._options = options
        self._state = state = RunState.create(plan, options, launch)
        self._messages = EndMessages(state.record, state.caller, state.calls, state.outage, plan.runs)
        self._has_begun = False
        self._finish_lock = threading.Lock()
        self._watch = LoopWatch(block_limits(plan, options), None if launch is None else self._end_command)

    def run_sync(self) -> ExperimentResult:
        """Run from sync code; Ctrl-C raises `RunInterrupted` with the partial result."""
        return run_sync(self.run(), interrupted=self._build_interrupt)

    async def run(self) -> ExperimentResult:
        """Run all repeats. Raises `TooManyErrors`; a cancellation leaves the partial result in `result`.

        A task that has `aclose` may close its connections at the end.
        """
        try:
            return await self._run()
        finally:
            if self._state.pool is not None:
                self._state.pool.close()
            close = task_attribute(self._plan.task, "aclose")
            if close is not None:
                await close()

    async def _run(self) -> ExperimentResult:
        state = self._state
        if state.pool is not None:
            if state.pool.announcement and not isinstance(state.progress, Silent):
                print_line(state.pool.announcement)
            await state.pool.open()  # before the run begins: what cannot be sent to workers is told at once
        state.record.open()
        self._has_begun = True
        try:
            state.calls.open(state.record.folder, state.record.earlier)
            if not state.counts_own_calls:
                state.calls.count_earlier_tasks(state.record.finished.task_metrics())
            with self._watch, state.progress:
                status = await self._run_repeats()
        except Exception as error:
            result = self._finish(RunStatus.BROKEN, broken_by=error)
            if isinstance(error, DokimosError) and result.summary.total:
                error.result = result
            raise
        except BaseException as error:
            error.add_note(self._messages.of_interrupted_run(self._finish(RunStatus.INTERRUPTED)))
            raise
        result = self._finish(status)
        if status is RunStatus.STOPPED and state.first_failure is None:
            raise TooManyErrors(self._messages.of_too_many_errors(self._options.max_errors), result)
        return result

    async def _run_repeats(self) -> RunStatus:
        for repeat_index in range(self._plan.runs):
            status = await Repeat(self._state, repeat_index).run()
            if status is not RunStatus.COMPLETED:
                return status
        return status_of(self._state.runs)

    def _end_command(self, problem: str) -> None:
        result = self._finish(RunStatus.BROKEN, broken_by=LoopBlockedError(problem))
        end_process(result, how_to_resume(self._state.record))

    def _build_interrupt(self) -> KeyboardInterrupt:
        if not self._has_begun:
            return KeyboardInterrupt()
        result = self._finish(RunStatus.INTERRUPTED)
        return RunInterrupted(self._messages.of_interrupted_run(result), result)

    def _finish(self, status: RunStatus, broken_by: Exception | None = None) -> ExperimentResult:
        """Release everything and return the result; another call returns the same one."""
        if self._state.pool is not None:
            self._state.pool.close()
        self._state.reporters.close(self._options.auto_close_reporters)
        # Before interrupts are deferred, since it may wait ten seconds for git.
        provenance = self._state.record.provenance()
        # Ctrl-C and the end of the loop may both come here, from two threads.
        with defer_interrupts(), self._finish_lock:
            if self.result is None:
                self.result = self._build_result(status, broken_by, provenance)
            return self.result

    def _build_result(
        self, status: RunStatus, broken_by: Exception | None, provenance: Provenance
    ) -> ExperimentResult:
        state, record = self._state, self._state.record
        state.calls.close(completed=status is RunStatus.COMPLETED)
        not_run = self._list_items_not_run()
        warnings = self._collect_warnings(status, broken_by, not_run)
        metadata = {**record.description.metadata, **({NOT_RUN: not_run[:MOST_NAMED]} if not_run else {})}
        result = ExperimentResult(
            name=record.description.name,
            description=record.description.description,
            metadata=metadata,
            runs=tuple(state.runs),
            provenance=provenance,
            evaluators=record.description.redact_infos(state.evaluator_infos.values()) or (),
            status=status,
            warnings=warnings,
        )
        record.close(result)
        problem = record.writer.problem
        return result if problem is None else replace(result, warnings=(*result.warnings, problem))

    def _list_items_not_run(self) -> list[str]:
        """Return the keys of the items that `fail_fast` kept from running, as far as they are known."""
        state, dataset, redact = self._state, self._plan.dataset, self._state.record.redact
        if state.first_failure is None or not isinstance(dataset, Dataset) or not self._options.keep_results:
            return []
        names = find_items_not_run(dataset, state.record.shard, state.runs, self._plan.runs)
        return names if redact is None else list(map(redact, names))

    def _collect_warnings(
        self, status: RunStatus, broken_by: Exception | None, not_run: list[str]
    ) -> tuple[str, ...]:
        state, redact = self._state, self._state.record.redact
        warnings = [*self._messages.reasons(status, broken_by, state.first_failure, not_run)]
        warnings += [*state.record.warnings, *state.caller.warnings(), *state.reporters.warnings()]
        warnings += [*state.calls.warnings(), *self._watch.warnings()]
        warnings += state.record.finished.describe_reuse(sum(run.total_count for run in state.runs))
        advice = state.caller.advice
        if advice is not None and not any(advice in one for one in warnings):
            warnings.append(advice)
        return tuple(warnings) if redact is None else (*map(redact, warnings), *redact.warnings())
