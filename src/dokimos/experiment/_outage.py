"""Stopping a run because an endpoint that it needs is down."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dokimos._core.results import UNAVAILABLE, EvalResult
from dokimos.datasets._dataset import Dataset
from dokimos.errors import EndpointDownError, EvaluationError
from dokimos.experiment._item_scoring import choose_evaluators

if TYPE_CHECKING:
    from dokimos._http.breaker import Breakers
    from dokimos.evaluators._base import Evaluator
    from dokimos.experiment._experiment import Experiment


class Outage:
    """Decides whether a run stops because of endpoints that are down.

    It stops if the application's endpoint is down, or if no verdict is possible without a judge whose
    endpoint is down. An evaluator that only informs, without a verdict, stops nothing.
    """

    def __init__(self, plan: Experiment, breakers: Breakers) -> None:
        self.reason: str | None = None
        """Why the run stops; None while it continues."""
        self._plan = plan
        self._breakers = breakers
        self._blocked: dict[str, str] = {}
        """Evaluators that need an endpoint that is down, with its history."""
        self._informing: set[str] = set()
        """Evaluators whose scores are not verdicts."""
        self._ahead = 0
        """No example before this one is known to get a verdict."""

    @property
    def has_begun(self) -> bool:
        """Whether an endpoint was found to be down, so that results have to be recorded."""
        return self._breakers.has_opened

    def record_task_outage(self, down: EndpointDownError) -> None:
        """Record that the application could not reach its endpoint."""
        if down.history and self.reason is None:
            self.reason = f"Stopped: {down.history}."

    def record_results(self, index: int, results: Iterable[EvalResult]) -> None:
        """Record the results of an item's evaluators, and decide whether the run can go on."""
        if self.reason is not None or not self._breakers.has_opened:
            return
        judged, blocked = False, None
        for result in results:
            history = self._history(result)
            judged = judged or (result.success is not None and result.expects_verdict)
            if history is None:
                self._record_answer(result)
                continue
            self._blocked[result.name] = history
            if result.expects_verdict:
                blocked = history
        if blocked is not None and not judged and not self._verdicts_left(index):
            self.reason = f"Stopped, since no verdict can be had without it: {blocked}."

    def _history(self, result: EvalResult) -> str | None:
        """Return since when an evaluator's endpoint has been down, None if it is up."""
        if result.error is None or result.error_kind != UNAVAILABLE:
            return None
        causes = [one for one in self._breakers.open_breakers() if one.label in result.error]
        return causes[0].history() if causes else None

    def _record_answer(self, result: EvalResult) -> None:
        if result.score is None:
            return
        self._blocked.pop(result.name, None)
        if not result.expects_verdict:
            self._informing.add(result.name)

    def _verdicts_left(self, index: int) -> bool:
        source, dataset = self._plan.evaluators, self._plan.dataset
        if not callable(source):
            return self._may_judge(tuple(source))
        if not isinstance(dataset, Dataset):
            return True  # a stream cannot be looked at in advance
        self._ahead = max(self._ahead, index + 1)
        while self._ahead < len(dataset):
            with contextlib.suppress(EvaluationError):
                if self._may_judge(choose_evaluators(source, dataset[self._ahead])):
                    return True
            self._ahead += 1
        return False

    def _may_judge(self, evaluators: Sequence[Evaluator]) -> bool:
        return any(
            evaluator.name not in self._blocked
            and evaluator.name not in self._informing
            and not getattr(evaluator, "is_skipped", False)
            for evaluator in evaluators
        )
