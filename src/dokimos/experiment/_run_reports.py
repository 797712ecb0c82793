"""What reporters learn when a repeat begins and when it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dokimos._core.results import RunStatus
from dokimos.experiment._fail_fast import first_failure_message
from dokimos.experiment._item_errors import describe_located_error
from dokimos.reporting._reported_run import RunEnd, RunOutcome, RunStart

if TYPE_CHECKING:
    from dokimos._core.provenance import EvaluatorInfo
    from dokimos._core.summary import RunSummary
    from dokimos.experiment._run_state import RunState


def describe_start(state: RunState, repeat_index: int, planned_items: int | None) -> RunStart:
    """Return what is known of a repeat before its first item."""
    record = state.record
    return RunStart(
        run_id=record.lasting_run_id,
        name=record.description.name,
        description=record.description.description,
        metadata=record.description.metadata,
        repeat_index=repeat_index,
        repeat_count=state.plan.runs,
        planned_items=planned_items,
        evaluators=_evaluators(state),
        provenance=replace(record.provenance(), ended_at=None),
        is_resumed=record.is_resumed,
    )


def describe_end(state: RunState, ending: RunStatus | BaseException, summary: RunSummary) -> RunEnd:
    """Return how a repeat ended: with a status, or broken off by an exception."""
    error = _describe_error(state, ending)
    redact = state.record.redact
    return RunEnd(
        outcome=_outcome_of(ending),
        summary=summary,
        error=error if error is None or redact is None else redact(error),
        evaluators=_evaluators(state),
    )


def _evaluators(state: RunState) -> tuple[EvaluatorInfo, ...]:
    return state.record.description.redact_infos(state.evaluator_infos.values()) or ()


def _outcome_of(ending: RunStatus | BaseException) -> RunOutcome:
    if isinstance(ending, Exception):
        return RunOutcome.FAILED
    if isinstance(ending, BaseException):  # a cancelled task, Ctrl-C, the end of the process
        return RunOutcome.INTERRUPTED
    return RunOutcome.FINISHED if ending is RunStatus.COMPLETED else RunOutcome.STOPPED


def _describe_error(state: RunState, ending: RunStatus | BaseException) -> str | None:
    if isinstance(ending, Exception):
        return describe_located_error(ending)
    if isinstance(ending, BaseException) or ending is RunStatus.COMPLETED:
        return None
    if ending is RunStatus.ENDPOINT_DOWN:
        return state.outage.reason
    if ending is RunStatus.BUDGET_SPENT:
        return state.calls.refusal
    if state.first_failure is not None:
        return first_failure_message(state.first_failure, [], state.plan.runs)
    return f"Stopped: more items errored than max_errors={state.options.max_errors} allows."
