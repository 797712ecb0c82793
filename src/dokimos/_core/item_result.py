"""What one run found: item by item, and together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from dokimos._core.error_detail import ErrorDetail, append_place
from dokimos._core.eval_result import EvalResult
from dokimos._core.example import Example
from dokimos._core.jsonable import WIRE_CONFIG, text_form
from dokimos._core.metrics import CallMetrics
from dokimos._core.outcome import SUCCESS, Outcome, derive_outcome, find_culprits
from dokimos._core.printable import Printable
from dokimos._core.summary import RunSummary, Tally
from dokimos._core.test_case import EvalTestCase


@dataclass(frozen=True, slots=True, repr=False)
class ItemResult(Printable):
    """What one run found for one example.

    Example:
        >>> result = evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> item = result.item_results[0]
        >>> item.success, item.actual_outputs, item.eval_results[0].score
        (True, {'output': 'A'}, 1.0)
    """

    __dokimos_view__ = "dokimos.reporting._views:ITEM"

    index: int
    """0-based position in the data set."""
    example: Example
    _: KW_ONLY
    actual_outputs: Mapping[str, Any] = field(default_factory=dict)
    eval_results: tuple[EvalResult, ...] = ()
    metrics: CallMetrics | None = None
    error: str | None = None
    """Why the task gave no answer; the outputs hold how far it came, if that is known."""
    error_detail: ErrorDetail | None = field(default=None, repr=False, compare=False)
    """Where that error came from: the frames of the task's own code, and the whole traceback."""

    __pydantic_config__ = WIRE_CONFIG

    @property
    def key(self) -> str:
        """The example's id, else its position."""
        return self.index_key if self.example.id is None else self.example.id

    @property
    def index_key(self) -> str:
        return f"item-{self.index}"

    @property
    def outcome(self) -> Outcome:
        return derive_outcome(self.error, self.eval_results)

    @property
    def success(self) -> bool | None:
        """True if all that judged it are content, False if one is not or it errored, None if none judged."""
        return SUCCESS.get(self.outcome)

    @property
    def errored(self) -> bool:
        """Whether there is an error in place of an answer, or of every verdict."""
        return self.outcome is Outcome.ERRORED

    @property
    def culprits(self) -> tuple[EvalResult, ...]:
        """The results that keep the item from passing."""
        return find_culprits(self.error, self.eval_results)

    @property
    def errors(self) -> tuple[str, ...]:
        """Why the item is errored: the task's error, or those of its evaluators."""
        task = () if self.error is None else (self.error,)
        if not self._has_failed_evaluators:
            return task
        return task + tuple(result.error_text for result in self.culprits if result.error is not None)

    @property
    def _has_failed_evaluators(self) -> bool:
        """Whether an evaluator has an error: of most items none has, and nothing else need be asked."""
        return any([result.error is not None for result in self.eval_results])

    @property
    def errors_with_location(self) -> tuple[str, ...]:
        """Why the item is errored, each error with its place in the user's code where that is known."""
        task = () if self.error is None else (append_place(self.error, self.error_detail),)
        failed = (result for result in self.culprits if result.error is not None)
        return task + tuple(append_place(result.error_text, result.error_detail) for result in failed)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Errors of evaluators that leave the item's outcome to the others."""
        if not self._has_failed_evaluators:
            return ()
        counted = self.culprits
        return tuple(r.error_text for r in self.eval_results if r.error is not None and r not in counted)

    @property
    def actual_output(self) -> str | None:
        """The text form of `actual_outputs["output"]`, None when absent."""
        return text_form(self.actual_outputs.get("output"))

    def result(self, name: str) -> EvalResult | None:
        """The result of the evaluator called `name`, None if it gave none."""
        return next((r for r in self.eval_results if r.name == name), None)

    def to_test_case(self, run_index: int = 0) -> EvalTestCase:
        return self.example.to_test_case(
            self.actual_outputs, metrics=self.metrics, run_index=run_index, error=self.error
        )


class _SummaryOfItems:
    """The default of `RunResult.summary`, which is computed when it is first asked for.

    Nobody asks for that of a shard: merging takes 12 % less CPU (`benchmarks/finished_runs.py`).
    """

    def __get__(self, run: RunResult | None, owner: type[RunResult]) -> RunSummary | None:
        if run is None:
            return None  # the default, as `dataclass` sees it
        summary = Tally.of(run.item_results).summary()
        run.__dict__["summary"] = summary  # found before this from now on
        return summary


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One repeat over the data set.

    Example:
        >>> data = [Example.of("a", "A")]
        >>> result = evaluate(data, str.upper, [ExactMatch()], runs=2, quiet=True, journal=False)
        >>> [repeat.pass_rate for repeat in result.runs]
        [1.0, 1.0]
    """

    index: int = 0
    item_results: tuple[ItemResult, ...] = ()
    """In dataset order; empty when the experiment ran with `keep_results=False`."""
    summary: RunSummary = _SummaryOfItems()  # type: ignore[assignment] # a descriptor, which gives one
    """Of the items where it is not given."""
    server_run_ids: tuple[str, ...] = ()
    """Which runs on servers have these items, where a reporter sent them to one."""

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        object.__setattr__(self, "item_results", tuple(self.item_results))
        object.__setattr__(self, "server_run_ids", tuple(self.server_run_ids))
        if self.__dict__["summary"] is None:
            del self.__dict__["summary"]  # for `_SummaryOfItems`

    @property
    def total_count(self) -> int:
        return self.summary.total

    @property
    def pass_count(self) -> int:
        return self.summary.passed

    @property
    def fail_count(self) -> int:
        """Items that failed, errored ones included."""
        return self.summary.failed

    @property
    def error_count(self) -> int:
        return self.summary.errored

    @property
    def pass_rate(self) -> float | None:
        """Share of the judged items that passed, None if none was judged."""
        return self.summary.pass_rate

    def average_score(self, name: str) -> float | None:
        """Mean of an evaluator's scores, errors and skips left out; None if nothing was scored."""
        summary = self.summary.evaluator(name)
        return None if summary is None else summary.mean


def names_of_results(run: RunResult) -> Iterable[str]:
    """Return the names of the results of a repeat, in the order first seen, without its summary."""
    if "summary" in run.__dict__:
        return [evaluator.name for evaluator in run.summary.evaluators]
    return dict.fromkeys([result.name for item in run.item_results for result in item.eval_results])
