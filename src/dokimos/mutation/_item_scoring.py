"""Scoring items by metrics that cost nothing first, and by those that ask a model only where it matters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dokimos._core.eval_result import EvalResult
from dokimos._core.item_result import ItemResult, RunResult
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import ExperimentResult
from dokimos.experiment._model_calls import ModelCalls
from dokimos.experiment._rescoring import rescore_async
from dokimos.experiment._run_options import RunOptions
from dokimos.mutation._plan import MutationPlan, choose_for_item, select_judged


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredItems:
    """Items with their scores, by their place among those that were to be scored."""

    found: Mapping[int, ItemResult]
    """Those that are fully scored, or decided by metrics that cost nothing."""
    asked: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """The names of the scores for which a model was asked."""
    is_cut_short: bool = False
    """Whether the budget did not allow a call."""
    results: tuple[ExperimentResult, ...]
    """What the scores come from."""

    @property
    def lower_is_better(self) -> frozenset[str]:
        return frozenset().union(*(result.lower_is_better for result in self.results))

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(warning for result in self.results for warning in result.warnings)

    @property
    def cost(self) -> CallMetrics | None:
        """What the judges cost; None where none was asked, or the cost is not known."""
        sums = [result.summary.judging for result in self.results]
        known = [one.metrics for one in sums if one.tokenized or one.metrics.cost_usd is not None]
        return sum(known, CallMetrics()) if known else None


@dataclass(frozen=True)
class ItemScorer:
    """Scores items with the evaluators of a plan."""

    plan: MutationPlan
    calls: ModelCalls
    options: RunOptions
    parallelism: int

    async def score(
        self, items: Sequence[ItemResult], is_decided: Callable[[int, ItemResult], bool]
    ) -> ScoredItems:
        """Score items; a model is asked about those that are not decided without one, or about all."""
        asking = {place: names for place, one in enumerate(items) if (names := self.plan.list_judged(one))}
        if not asking or self.plan.all_metrics or (len(asking) == len(items) and not self._has_free(items)):
            return await self._score_at_once(items, asking)
        free = await self._rescore(items, judged=False)
        found = {one.index: one for one in free.item_results}
        open_places = [place for place in asking if place not in found or not is_decided(place, found[place])]
        judged = await self._rescore([items[place] for place in open_places], judged=True)
        by_place = {open_places[one.index]: one for one in judged.item_results}
        for place in open_places:
            # Without its verdict, whatever the other metrics say is not all that there is to say.
            before, after = found.pop(place, None), by_place.get(place)
            if before is not None and after is not None:
                found[place] = self._join(before, after)
        return ScoredItems(
            found=found,
            asked={place: _names_of(one) for place, one in by_place.items()},
            is_cut_short=self.calls.refusal is not None,
            results=(free, judged),
        )

    async def _score_at_once(
        self, items: Sequence[ItemResult], asking: Mapping[int, tuple[str, ...]]
    ) -> ScoredItems:
        result = await self._rescore(items)
        found = {one.index: one for one in result.item_results}
        return ScoredItems(
            found=found,
            asked={place: frozenset(names) for place, names in asking.items() if place in found},
            is_cut_short=self.calls.refusal is not None,
            results=(result,),
        )

    def _has_free(self, items: Sequence[ItemResult]) -> bool:
        return any(
            len(choose_for_item(self.plan.source, one)) > len(self.plan.list_judged(one)) for one in items
        )

    def _join(self, free: ItemResult, judged: ItemResult) -> ItemResult:
        """Return an item with the scores of both, in the order of the evaluators."""
        order = {one.name: place for place, one in enumerate(choose_for_item(self.plan.source, free))}

        def place_of(result: EvalResult) -> int:
            return order.get(result.part_of or result.name, len(order))

        joined = sorted((*free.eval_results, *judged.eval_results), key=place_of)
        return replace(free, eval_results=tuple(joined))

    async def _rescore(self, items: Sequence[ItemResult], *, judged: bool | None = None) -> ExperimentResult:
        source = self.plan.source if judged is None else select_judged(self.plan.source, judged=judged)
        numbered = tuple(replace(item, index=index) for index, item in enumerate(items))
        result = ExperimentResult(name=self.plan.name, runs=(RunResult(item_results=numbered),))
        return await rescore_async(
            result, source, parallelism=self.parallelism, options=self.options, calls=self.calls
        )


def _names_of(item: ItemResult) -> frozenset[str]:
    return frozenset(result.name for result in item.eval_results)
