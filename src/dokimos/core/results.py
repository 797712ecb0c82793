"""What an experiment found: from one evaluator's score to a whole run with its repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial
from statistics import stdev
from typing import Any

from dokimos.core.eval_result import (
    CONTESTED,
    DEFAULT_THRESHOLD,
    HARD_ERRORS,
    UNAVAILABLE,
    UNREADABLE,
    ErrorKind,
    EvalResult,
    Score,
    lowest_score,
    worst_kind,
)
from dokimos.core.example import Example
from dokimos.core.jsonable import WIRE_CONFIG, text_form
from dokimos.core.means import UNIT, mean_of_ratios
from dokimos.core.metrics import CallMetrics
from dokimos.core.outcome import SUCCESS, Outcome, decide_outcome, find_culprits
from dokimos.core.provenance import EvaluatorInfo, Provenance
from dokimos.core.quick_init import quick_init
from dokimos.core.repeats import pass_at_k, pass_hat_k
from dokimos.core.rows import row_of
from dokimos.core.summary import EvaluatorSummary, RunSummary, Tally
from dokimos.core.test_case import EvalTestCase
from dokimos.core.unjudged import describe_unjudged

__all__ = [
    "CONTESTED",
    "DEFAULT_THRESHOLD",
    "HARD_ERRORS",
    "UNAVAILABLE",
    "UNREADABLE",
    "ErrorKind",
    "EvalResult",
    "ExperimentResult",
    "ItemResult",
    "RunResult",
    "RunStatus",
    "Score",
    "lowest_score",
    "worst_kind",
]


@quick_init
@dataclass(frozen=True, slots=True)
class ItemResult:
    """What one run found for one example."""

    index: int
    """0-based position in the data set."""
    example: Example
    _: KW_ONLY
    actual_outputs: Mapping[str, Any] = field(default_factory=dict)
    eval_results: tuple[EvalResult, ...] = ()
    metrics: CallMetrics | None = None
    error: str | None = None
    """Why the task gave no answer; the outputs hold how far it came, if that is known."""

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
        return decide_outcome(self.error, self.eval_results)

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
        return task + tuple(result.error_text for result in self.culprits if result.error is not None)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Errors of evaluators that leave the item's outcome to the others."""
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


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One pass over the data set."""

    index: int = 0
    item_results: tuple[ItemResult, ...] = ()
    """In dataset order; empty when the experiment ran with `keep_results=False`."""
    summary: RunSummary = None  # type: ignore[assignment] # always set: computed from the items if not given

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        object.__setattr__(self, "item_results", tuple(self.item_results))
        if self.summary is None:
            object.__setattr__(self, "summary", Tally.of(self.item_results).summary())

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
        found = self.summary.evaluator(name)
        return None if found is None else found.mean


class RunStatus(StrEnum):
    """How an experiment ended."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    """Ctrl-C or a cancelled task; what was finished is in the result."""
    STOPPED = "stopped"
    """More errors than `max_errors` allows, or the first failure with `fail_fast`."""
    BUDGET_SPENT = "budget_spent"
    """A call was refused because it would have exceeded the budget; what was finished is in the result."""
    ENDPOINT_DOWN = "endpoint_down"
    """An endpoint that the run cannot do without is down; a resumed run does what is missing."""
    BROKEN = "broken"
    """Every item errored."""

    @property
    def in_words(self) -> str:
        return self.value.replace("_", " ")


Count = int | float


@dataclass(frozen=True, kw_only=True)
class ExperimentResult:
    """All repeats of an experiment. Numbers are means over the repeats, unrounded."""

    name: str = "unnamed"
    description: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    runs: tuple[RunResult, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)
    evaluators: tuple[EvaluatorInfo, ...] = ()
    status: RunStatus = RunStatus.COMPLETED
    warnings: tuple[str, ...] = ()
    """What went wrong beside the items: failed reporters, abandoned calls, a journal not kept."""

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", tuple(self.runs))
        object.__setattr__(self, "status", RunStatus(self.status))

    @property
    def notices(self) -> tuple[str, ...]:
        """The warnings, and a sentence for each metric that errored too often or lacked data always."""
        return (*self.warnings, *describe_unjudged(self))

    @property
    def lower_is_better(self) -> frozenset[str]:
        """The names of the evaluators whose scores are to be kept low."""
        return frozenset(info.name for info in self.evaluators if info.lower_is_better)

    @property
    def run_id(self) -> str | None:
        return self.provenance.run_id

    @property
    def run_count(self) -> int:
        return len(self.runs)

    @property
    def total_count(self) -> int:
        """Items in the first repeat."""
        return self.runs[0].total_count if self.runs else 0

    @property
    def pass_count(self) -> Count:
        """Items that passed, as a mean over the repeats (a whole number for one)."""
        return self._mean_count(lambda summary: summary.passed)

    @property
    def fail_count(self) -> Count:
        """Items that failed, errored ones included, as a mean over the repeats."""
        return self._mean_count(lambda summary: summary.failed)

    @property
    def error_count(self) -> Count:
        """Items whose task or evaluators errored, as a mean over the repeats."""
        return self._mean_count(lambda summary: summary.errored)

    @property
    def informational_count(self) -> Count:
        """Items that have scores, none of which decides, as a mean over the repeats."""
        return self._mean_count(lambda summary: summary.informational)

    @property
    def not_judged_count(self) -> Count:
        """Items of which nothing was evaluated, as a mean over the repeats."""
        return self._mean_count(lambda summary: summary.not_judged)

    @property
    def pass_rate(self) -> float | None:
        """Mean over the repeats of the share of judged items that passed, None if nothing was judged."""
        sides = (run.summary for run in self.runs)
        return mean_of_ratios((side.passed, side.judged) for side in sides if side.judged)

    @property
    def item_results(self) -> tuple[ItemResult, ...]:
        """The items of all repeats, one after the other."""
        return tuple(item for run in self.runs for item in run.item_results)

    @cached_property
    def evaluator_names(self) -> tuple[str, ...]:
        """The evaluators that gave results, in declared order, then in the order first seen."""
        declared = [info.name for info in self.evaluators]
        seen = [found.name for run in self.runs for found in run.summary.evaluators]
        return tuple(dict.fromkeys([*(name for name in declared if name in seen), *seen]))

    @property
    def metrics(self) -> CallMetrics:
        """Tokens and cost of all task calls of all repeats added up, with the median latency in ms."""
        return RunSummary.merged(run.summary for run in self.runs).metrics

    @property
    def summary(self) -> RunSummary:
        """The sums over all repeats."""
        return RunSummary.merged(run.summary for run in self.runs)

    def average_score(self, name: str) -> float | None:
        """Mean of the repeats' mean scores; a repeat without a score is left out; None if none has one."""
        sides = [found for run in self.runs if (found := run.summary.evaluator(name)) and found.scored]
        if len(sides) == 1:
            return sides[0].mean
        return mean_of_ratios((side.score_sum, side.scored * UNIT) for side in sides)

    def score_std_dev(self, name: str) -> float:
        """Sample standard deviation (n - 1) of the repeats' mean scores; 0.0 for fewer than two."""
        means = self._run_means(name)
        return stdev(means) if len(means) > 1 else 0.0

    def pass_at_k(self, k: int, evaluator: str | None = None) -> float | None:
        """Mean over the items of the chance that at least one of k attempts passes; each repeat is one.

        `evaluator` counts its own verdict instead of the item's. See `dokimos.core.repeats` for the rest.

        Raises:
            ValueError: when k is more than the number of repeats, or the items were not kept.
        """
        self._require_items("pass_at_k()")
        return pass_at_k(self.runs, k, evaluator)

    def pass_hat_k(self, k: int, evaluator: str | None = None) -> float | None:
        """Mean over the items of the chance that all of k attempts pass; like `pass_at_k`."""
        self._require_items("pass_hat_k()")
        return pass_hat_k(self.runs, k, evaluator)

    def evaluator_summary(self, name: str) -> EvaluatorSummary | None:
        """Counts and scores of one evaluator over all repeats."""
        return self.summary.evaluator(name)

    def by(self, key: str) -> dict[str, ExperimentResult]:
        """Split the result by a metadata value of the examples; items without it are under "".

        A list of tags puts an item under each of them.

        Raises:
            ValueError: when the items were not kept.
        """
        self._require_items("by()")
        tags = dict.fromkeys(tag for item in self.item_results for tag in _tags(item, key))
        return {tag: self.filter(partial(_is_tagged, key, tag)) for tag in tags}

    def filter(self, keep: Callable[[ItemResult], bool]) -> ExperimentResult:
        """Return the result with only the items for which `keep` is true."""
        self._require_items("filter()")
        runs = (
            RunResult(index=run.index, item_results=tuple(i for i in run.item_results if keep(i)))
            for run in self.runs
        )
        return replace(self, runs=tuple(runs))

    def to_rows(self) -> list[dict[str, Any]]:
        """One flat dict per item and repeat, ready for a data frame; `run` counts from 1, as in reports."""
        self._require_items("to_rows()")
        return [
            row_of(run.index, item, self.evaluator_names) for run in self.runs for item in run.item_results
        ]

    def _run_means(self, name: str) -> list[float]:
        means = (run.average_score(name) for run in self.runs)
        return [mean for mean in means if mean is not None]

    def _mean_count(self, count: Callable[[RunSummary], int]) -> Count:
        if not self.runs:
            return 0
        total = sum(count(run.summary) for run in self.runs)
        whole, rest = divmod(total, len(self.runs))
        return whole if rest == 0 else total / len(self.runs)

    def _require_items(self, what: str) -> None:
        if any(run.total_count and not run.item_results for run in self.runs):
            raise ValueError(f"{what} needs the items, and this experiment ran with keep_results=False.")


def _is_tagged(key: str, tag: str, item: ItemResult) -> bool:
    return tag in _tags(item, key)


def _tags(item: ItemResult, key: str) -> Sequence[str]:
    value = item.example.metadata.get(key, "")
    values: Iterable[Any] = value if isinstance(value, list | tuple | set | frozenset) else [value]
    return [text_form(v) or "" for v in values]
