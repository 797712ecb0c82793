"""Messages about a run that ends early: why, and how to resume it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dokimos._core.endings import EVERYTHING_ERRORED
from dokimos._core.results import ExperimentResult, RunStatus
from dokimos._core.text import pluralize
from dokimos.experiment._fail_fast import first_failure_message
from dokimos.experiment._item_errors import describe_located_error
from dokimos.experiment._model_calls import ModelCalls
from dokimos.experiment._outage import Outage
from dokimos.experiment._resume_advice import how_to_resume
from dokimos.experiment._run_record import RunRecord
from dokimos.experiment._task_calls import TaskCaller


@dataclass(frozen=True, slots=True)
class EndMessages:
    """The messages about the end of one run."""

    record: RunRecord
    caller: TaskCaller
    calls: ModelCalls
    outage: Outage
    runs: int

    def reasons(
        self,
        status: RunStatus,
        broken_by: Exception | None,
        first_failure: str | None,
        not_run: Sequence[str],
    ) -> Iterator[str]:
        """Yield why a run ended as it did, the decisive reason first.

        Args:
            status: How it ended.
            broken_by: What it broke off by, if it did.
            first_failure: The item at which `fail_fast` stopped it, if it did.
            not_run: The items that this left out.
        """
        if first_failure is not None:
            message = first_failure_message(first_failure, list(not_run), self.runs)
            yield f"{message} {how_to_resume(self.record)}".rstrip()
        if status is RunStatus.ENDPOINT_DOWN:
            yield f"{self.outage.reason} {how_to_resume(self.record)}".rstrip()
        if status is RunStatus.BUDGET_SPENT:
            yield f"{self.calls.refusal} {how_to_resume(self.record, larger_budget=True)}".rstrip()
        if broken_by is not None:
            yield f"The run broke off: {describe_located_error(broken_by)}"
        elif status is RunStatus.BROKEN:
            yield self._of_broken_run()

    def of_interrupted_run(self, result: ExperimentResult) -> str:
        message = f"Interrupted after {pluralize(result.summary.total, 'item')}."
        return f"{message} {how_to_resume(self.record)}".rstrip()

    def of_too_many_errors(self, limit: object) -> str:
        message = f"Stopped: more items errored than max_errors={limit} allows. {self.caller.errors.common()}"
        return f"{message.rstrip('.')}. {how_to_resume(self.record, retry_errors=True)}".rstrip()

    def _of_broken_run(self) -> str:
        message = f"{EVERYTHING_ERRORED} {self.caller.errors.common()}"
        advice = self.caller.advice
        return message if advice is None or advice in message else f"{message.rstrip('.')}. {advice}"
