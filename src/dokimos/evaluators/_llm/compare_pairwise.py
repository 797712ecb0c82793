"""Compare two results of an experiment pair by pair: which application gives the better outputs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypedDict, Unpack

from dokimos._core.jsonable import WIRE_CONFIG
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize
from dokimos.errors import ConfigurationError
from dokimos.evaluators._llm.pairwise import BASELINE_OUTPUT, DEFAULT_CRITERIA, Pairwise
from dokimos.judges._protocol import JudgeLike
from dokimos.stats._intervals import Interval, wilson_interval

PAIRS_AT_ONCE: Final = 8
TIE: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseItem:
    """The outcome of one pair of outputs."""

    key: str
    run_index: int
    result: EvalResult

    __pydantic_config__ = WIRE_CONFIG

    @property
    def outcome(self) -> str:
        """The candidate's `win` or `loss`, `tie`, or `error`."""
        score = self.result.score
        if score is None:
            return "error"
        if score == TIE:
            return "tie"
        return "win" if score > TIE else "loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseReport:
    """How often the candidate's output was better. Rates leave errors and unpaired items out.

    Example:
        >>> result = evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> report = compare_pairwise(result, result, lambda prompt: '{"winner": "tie"}')
        >>> report.ties
        1
    """

    items: tuple[PairwiseItem, ...]
    unpaired: int
    """Items without an output on both sides."""

    __pydantic_config__ = WIRE_CONFIG

    @property
    def wins(self) -> int:
        return self._count("win")

    @property
    def losses(self) -> int:
        return self._count("loss")

    @property
    def ties(self) -> int:
        return self._count("tie")

    @property
    def errors(self) -> int:
        return self._count("error")

    @property
    def verdict_count(self) -> int:
        return len(self.items) - self.errors

    @property
    def win_rate(self) -> float | None:
        """Share of the judged pairs that the candidate won, None if none was judged."""
        return self._share(self.wins)

    @property
    def loss_rate(self) -> float | None:
        return self._share(self.losses)

    @property
    def tie_rate(self) -> float | None:
        return self._share(self.ties)

    @property
    def win_interval(self) -> Interval:
        """Wilson's 95 % interval of the win rate."""
        return wilson_interval(self.wins, self.verdict_count)

    @property
    def win_rate_without_ties(self) -> float | None:
        """Share of the pairs with a winner that the candidate won: above 0.5 it is the better one."""
        untied = self.wins + self.losses
        return self.wins / untied if untied else None

    @property
    def interval_without_ties(self) -> Interval:
        """Wilson's 95 % interval of the share of decided pairs that the candidate won."""
        return wilson_interval(self.wins, self.wins + self.losses)

    @property
    def position_bias_rate(self) -> float | None:
        """Share of the judged pairs for which the judge chose the same place in both orders."""
        return self._share(sum(bool(item.result.metadata.get("positionBias")) for item in self.items))

    def summary(self) -> str:
        """Return the outcome in two or three sentences."""
        if not self.verdict_count:
            return f"No pair was judged: {pluralize(self.errors, 'error')}, {self.unpaired} unpaired."
        low, high = _percent(self.win_interval.low), _percent(self.win_interval.high)
        return (
            f"The candidate won {self.wins} of {pluralize(self.verdict_count, 'pair')}: "
            f"{_percent(self.win_rate)}, 95 % interval {low} to {high}. "
            f"It lost {self.losses} and tied {self.ties}. "
            f"The judge chose by place in {_percent(self.position_bias_rate)} of the pairs. "
            f"{pluralize(self.errors, 'error')}, {self.unpaired} unpaired."
        )

    def _count(self, outcome: str) -> int:
        return sum(item.outcome == outcome for item in self.items)

    def _share(self, count: int) -> float | None:
        return count / self.verdict_count if self.verdict_count else None


class PairwiseKeywords(TypedDict, total=False):
    """The options of `compare_pairwise`, for type checkers."""

    criteria: str
    samples: int
    pairs_at_once: int


def compare_pairwise(
    baseline: ExperimentResult,
    candidate: ExperimentResult,
    judge: JudgeLike,
    **options: Unpack[PairwiseKeywords],
) -> PairwiseReport:
    """Ask a judge, in both orders, whose outputs are better, item by item and run by run.

    Items pair by their id, else by their place. A pair with equal outputs is a tie without a call, any other
    takes two calls. Options are `criteria` (what makes an answer the better one), `samples` (how often to
    ask) and `pairs_at_once` (eight unless given).

    Raises:
        ConfigurationError: when no item of one result has a partner in the other.

    Example:
        >>> from dokimos import Dataset, Example, Experiment
        >>> from dokimos.evaluators import Length
        >>> data = Dataset([Example.of("Capital of France?", id="france")])
        >>> before = Experiment(data, lambda question: "Lyon", [Length(min=1)]).run(journal=False)
        >>> after = Experiment(data, lambda question: "Paris", [Length(min=1)]).run(journal=False)
        >>> compare_pairwise(before, after, lambda prompt: '{"winner": "tie"}').ties
        1
    """
    from dokimos._runtime.concurrency import run_sync

    return run_sync(compare_pairwise_async(baseline, candidate, judge, **options))


async def compare_pairwise_async(
    baseline: ExperimentResult,
    candidate: ExperimentResult,
    judge: JudgeLike,
    **options: Unpack[PairwiseKeywords],
) -> PairwiseReport:
    """Compare as `compare_pairwise` does, from async code.

    Example:
        >>> from dokimos import Dataset, Example, Experiment
        >>> from dokimos.evaluators import Length
        >>> data = Dataset([Example.of("1 + 1?", id="sum")])
        >>> result = Experiment(data, lambda question: "2", [Length(min=1)]).run(journal=False)
        >>> judge = lambda prompt: "never asked: the outputs are equal"
        >>> asyncio.run(compare_pairwise_async(result, result, judge)).ties
        1
    """
    evaluator = Pairwise(
        judge=judge, criteria=options.get("criteria", DEFAULT_CRITERIA), samples=options.get("samples", 1)
    )
    ours, theirs = _with_outputs(candidate), _with_outputs(baseline)
    shared = [key for key in ours if key in theirs]
    if not shared:
        raise ConfigurationError(
            "The two results have no item with an output in common; were they made from the same data set, "
            "and with keep_results on?"
        )
    slots = asyncio.Semaphore(options.get("pairs_at_once", PAIRS_AT_ONCE))

    async def judge_pair(key: tuple[int, str]) -> PairwiseItem:
        async with slots:
            result = await evaluator.evaluate_async(_case(ours[key], theirs[key], run_index=key[0]))
        return PairwiseItem(key=key[1], run_index=key[0], result=result)

    # Errors of judges come back as results, so that one pair does not end the others.
    items = await asyncio.gather(*map(judge_pair, shared))
    everything = {*_keys(baseline), *_keys(candidate)}
    return PairwiseReport(items=tuple(items), unpaired=len(everything) - len(shared))


def _with_outputs(result: ExperimentResult) -> Mapping[tuple[int, str], ItemResult]:
    return {
        key: item
        for key, item in _items(result)
        if item.error is None and item.actual_outputs.get("output") is not None
    }


def _keys(result: ExperimentResult) -> Iterator[tuple[int, str]]:
    return (key for key, _ in _items(result))


def _items(result: ExperimentResult) -> Iterator[tuple[tuple[int, str], ItemResult]]:
    for run in result.runs:
        for item in run.item_results:
            yield (run.index, item.key), item


def _case(ours: ItemResult, theirs: ItemResult, *, run_index: int) -> EvalTestCase:
    case = ours.to_test_case(run_index)
    metadata: dict[str, Any] = {**case.metadata, BASELINE_OUTPUT: theirs.actual_outputs["output"]}
    return replace(case, metadata=metadata)


def _percent(rate: float | None) -> str:
    return "–" if rate is None else f"{100 * rate:.1f} %"
