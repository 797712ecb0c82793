"""How to continue with a run, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dokimos.experiment._run_record import RunRecord


def how_to_resume(record: RunRecord, *, retry_errors: bool = False, larger_budget: bool = False) -> str:
    """Return a sentence that says how to resume the run, or why it cannot be; "" where nobody asked for it.

    Args:
        record: The record of the run.
        retry_errors: Whether items with an error are to run again.
        larger_budget: Whether the budget is spent.
    """
    if record.run_id is None:
        return record.journal_problem or ""
    if record.given_up is not None:
        return (
            f"The run cannot be resumed: {record.given_up} "
            f"To see what was written until then: dokimos show {record.run_id}"
        )
    if record.launch is not None and record.launch.is_sample:
        return ""
    if record.launch is not None:
        flags = " --retry-errors" * retry_errors + " --budget-usd ..." * larger_budget
        return f"To continue: dokimos resume {record.run_id}{flags}"
    keywords = ", retry_errors=True" * retry_errors + ", budget=..." * larger_budget
    resume = f"resume={record.run_id!r}{keywords}"
    return f"To continue: experiment.run({resume}), or evaluate(..., {resume})"
