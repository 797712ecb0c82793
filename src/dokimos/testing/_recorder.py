"""What one test records about its case, for reporters and the report of the session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dokimos._core.container_copy import copy_containers
from dokimos._core.error_detail import ErrorDetail
from dokimos._core.example import Example
from dokimos._core.keys import OUTPUT
from dokimos._core.metrics import CallMetrics
from dokimos._core.outcome import find_culprits
from dokimos._core.results import EvalResult, ItemResult
from dokimos._core.test_case import EvalTestCase

if TYPE_CHECKING:
    from dokimos._core.provenance import EvaluatorInfo
    from dokimos.evaluators._base import Evaluator


class ItemRecorder:
    """Records the outputs, results and metrics of one test; every method returns the recorder itself."""

    def __init__(self, example: Example | None = None, *, index: int = 0, run_index: int = 0) -> None:
        self.example = example
        """The example of the test; None if it has none: then the case that it asserts on is the example."""
        self.index = index
        self.run_index = run_index
        self._case: EvalTestCase | None = None
        self._outputs: dict[str, Any] = {}
        self._results: dict[str, EvalResult] = {}
        self._metrics: CallMetrics | None = None
        self.evaluators: dict[str, EvaluatorInfo] = {}
        """The configuration of the evaluators that `assert_eval` ran."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was recorded about the case."""
        recorded = (self.example, self._case, self._metrics)
        return not (self._outputs or self._results) and all(one is None for one in recorded)

    def actual_output(self, value: object, key: str = OUTPUT) -> ItemRecorder:
        """Record one output of the application."""
        self._outputs[key] = copy_containers(value)
        return self

    def actual_outputs(self, outputs: Mapping[str, Any]) -> ItemRecorder:
        """Record several outputs."""
        self._outputs.update(copy_containers(outputs))
        return self

    def eval_result(self, result: EvalResult) -> ItemRecorder:
        """Record the result of an evaluator; a later result of the same name replaces it."""
        self._results[result.name] = copy_containers(result)
        return self

    def eval_results(self, results: Iterable[EvalResult]) -> ItemRecorder:
        """Record the results of several evaluators."""
        for result in results:
            self.eval_result(result)
        return self

    def metrics(self, metrics: CallMetrics) -> ItemRecorder:
        """Record tokens, cost and latency of the application's call."""
        self._metrics = metrics
        return self

    def case(
        self, case: EvalTestCase, results: Iterable[EvalResult], evaluators: Iterable[Evaluator] = ()
    ) -> ItemRecorder:
        """Record a case that was asserted on, replacing an earlier one but not what was recorded by hand."""
        self.evaluators |= {evaluator.name: evaluator.info() for evaluator in evaluators}
        self._case = copy_containers(case)
        return self.eval_results(results)

    def item(
        self, *, index: int, id: str, error: str | None = None, error_detail: ErrorDetail | None = None
    ) -> ItemResult:
        """Return what was recorded as the result of one item, with the name of its test as id."""
        case = self._case or EvalTestCase()
        own = Example(case.inputs, case.expected_outputs, metadata=case.metadata)
        return ItemResult(
            index,
            replace(self.example or own, id=id),
            actual_outputs={**case.actual_outputs, **self._outputs},
            eval_results=tuple(self._results.values()),
            metrics=self._metrics or case.metrics,
            error=error,
            error_detail=error_detail,
        )

    @property
    def has_failed(self) -> bool:
        """Whether an evaluator's verdict already fails the case."""
        return bool(find_culprits(None, tuple(self._results.values())))


# A process runs one test at a time, whose threads and event loops all see this.
_current: ItemRecorder | None = None


def current_recorder() -> ItemRecorder | None:
    """Return the recorder of the running test, None if nothing is recorded."""
    return _current


def set_current_recorder(recorder: ItemRecorder | None) -> None:
    """Set the recorder of the running test."""
    global _current
    _current = recorder
