"""What an experiment found: from one evaluator's score to a whole run with its repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial
from statistics import stdev
from typing import TYPE_CHECKING, Any

from dokimos._core.data_frames import frame_of
from dokimos._core.endings import describe_failure
from dokimos._core.eval_result import (
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
from dokimos._core.evaluator_summary import EvaluatorSummary
from dokimos._core.item_result import ItemResult, RunResult, names_of_results
from dokimos._core.jsonable import WIRE_CONFIG, text_form
from dokimos._core.means import UNIT, mean_of_ratios
from dokimos._core.metric_coverage import describe_broken_metrics
from dokimos._core.metrics import CallMetrics
from dokimos._core.printable import Printable
from dokimos._core.provenance import EvaluatorInfo, Provenance, expand_parts
from dokimos._core.repeats import pass_at_k, pass_hat_k
from dokimos._core.rows import rows_of
from dokimos._core.score_range import USUAL_RANGE, ScoreRange
from dokimos._core.summary import RunSummary
from dokimos.errors import RunFailedError

if TYPE_CHECKING:
    import pandas

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


class RunStatus(StrEnum):
    """How an experiment ended.

    Example:
        >>> RunStatus("completed")
        <RunStatus.COMPLETED: 'completed'>
    """

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


@dataclass(frozen=True, kw_only=True, repr=False)
class ExperimentResult(Printable):
    """All repeats of an experiment. Numbers are means over the repeats, unrounded.

    Example:
        >>> examples = [Example.of("a", "A"), Example.of("b", "?")]
        >>> result = evaluate(examples, str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> result.pass_rate, result.average_score("Exact Match"), len(result.item_results)
        (0.5, 0.5, 2)
    """

    __dokimos_view__ = "dokimos.reporting._views:RESULT"

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
        names = dict.fromkeys(name for run in self.runs for name in names_of_results(run))
        # Only the scores of an evaluator that gives several have a dot in their names.
        if any("." in name for name in names):
            object.__setattr__(self, "evaluators", expand_parts(self.evaluators, names))

    def raise_for_status(self) -> None:
        """Raise unless the run came to its end and at least one item was not errored.

        Whether items passed is another question: see `dokimos.testing.assert_scores`.

        Raises:
            RunFailedError: where it did not; its `result` is this one.
        """
        problem = describe_failure(self)
        if problem is not None:
            raise RunFailedError(problem, self)

    @property
    def notices(self) -> tuple[str, ...]:
        """The warnings, and a sentence for each metric that errored too often or lacked data always."""
        return (*self.warnings, *describe_broken_metrics(self))

    @property
    def lower_is_better(self) -> frozenset[str]:
        """The names of the evaluators whose scores are to be kept low."""
        return frozenset(info.name for info in self.evaluators if info.lower_is_better)

    def score_range_of(self, name: str) -> ScoreRange:
        """The lowest and the highest score that an evaluator can give."""
        summary = self.summary.evaluator(name)
        ranges = [info.score_range for info in self.evaluators if info.name == name]
        ranges.append(None if summary is None else summary.score_range)
        return next((one for one in ranges if one is not None), USUAL_RANGE)

    @property
    def run_id(self) -> str | None:
        return self.provenance.run_id

    @property
    def server_run_ids(self) -> tuple[str, ...]:
        """The ids of the runs on servers that hold these items, in the order of the repeats, each once.

        Empty where no reporter sent the run to a server, and of a part of a result, or one scored again.
        """
        return tuple(dict.fromkeys(id for run in self.runs for id in run.server_run_ids))

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
        seen = dict.fromkeys(summary.name for run in self.runs for summary in run.summary.evaluators)
        return tuple(dict.fromkeys([*(name for name in declared if name in seen), *seen]))

    @property
    def metrics(self) -> CallMetrics:
        """Tokens and cost of all task calls of all repeats added up, with the median latency in ms."""
        return RunSummary.merge(run.summary for run in self.runs).metrics

    @property
    def summary(self) -> RunSummary:
        """The sums over all repeats."""
        return RunSummary.merge(run.summary for run in self.runs)

    def average_score(self, name: str) -> float | None:
        """Mean of the repeats' mean scores; a repeat without a score is left out; None if none has one."""
        sides = [summary for run in self.runs if (summary := run.summary.evaluator(name)) and summary.scored]
        if len(sides) == 1:
            return sides[0].mean
        return mean_of_ratios((side.score_sum, side.scored * UNIT) for side in sides)

    def score_std_dev(self, name: str) -> float:
        """Sample standard deviation (n - 1) of the repeats' mean scores; 0.0 for fewer than two."""
        means = self._run_means(name)
        return stdev(means) if len(means) > 1 else 0.0

    def pass_at_k(self, k: int, evaluator: str | None = None) -> float | None:
        """Mean over the items of the chance that at least one of k attempts passes; each repeat is one.

        `evaluator` counts its own verdict instead of the item's.

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
        # Without a summary: it is counted again from the items that stay.
        runs = tuple(
            RunResult(index=run.index, item_results=tuple(i for i in run.item_results if keep(i)))
            for run in self.runs
        )
        is_part = any(
            len(run.item_results) < len(whole.item_results)
            for run, whole in zip(runs, self.runs, strict=True)
        )
        provenance = replace(self.provenance, derivation="filtered") if is_part else self.provenance
        return replace(self, runs=runs, provenance=provenance)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a flat dict for each item and repeat, all with the same keys.

        They are `run` (from 1, where there are several), `id`, `input`, `output`, `expected`, their other
        keys as `input.lang`, `metadata.topic`, the score of each evaluator under its name, `passed`, `error`,
        `latency_ms`, `tokens_in`, `tokens_out` and `cost_usd`. Those that no item has a value for are left
        out.

        Raises:
            ValueError: when the items were not kept.
        """
        self._require_items("to_rows()")
        return rows_of(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """Return the rows of `to_rows` as a data frame: numbers are numeric, whatever is missing is NA.

        Raises:
            ValueError: when the items were not kept.
            MissingExtraError: where pandas is not installed.
        """
        self._require_items("to_dataframe()")
        return frame_of(rows_of(self))

    def _run_means(self, name: str) -> list[float]:
        means = (run.average_score(name) for run in self.runs)
        return [mean for mean in means if mean is not None]

    def _mean_count(self, count: Callable[[RunSummary], int]) -> Count:
        if not self.runs:
            return 0
        total = sum(count(run.summary) for run in self.runs)
        whole, rest = divmod(total, len(self.runs))
        # A whole number stays an int, so that reports say 3 and not 3.0.
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
