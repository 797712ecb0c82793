"""What a run will cost and how long it will take, from items that have been run; ranges, as items differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dokimos._core.item_result import ItemResult
from dokimos._core.jsonable import WIRE_CONFIG
from dokimos._core.means import exact_mean, exact_sum
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import ExperimentResult

CONFIDENCE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A figure of the whole run, between these two in about nine of ten cases."""

    low: float
    high: float

    __pydantic_config__ = WIRE_CONFIG


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a run will take. A figure is None where nothing measured it."""

    items: int
    """Times that the task is to be called: items times repeats."""
    seen: int
    """Items that it rests on, each repeat counted."""
    source: str
    """The run that they are of."""
    calls: int | None
    """Calls of models, one for each item of a task that tells what it costs and not of how many calls."""
    tokens: Range | None
    cost_usd: Range | None
    seconds: Range | None
    unpriced: tuple[str, ...] = ()
    """Models with tokens whose price is not known, so that their cost is missing."""
    is_task_measured: bool = True
    """Whether the task tells its tokens or cost; else what it costs is missing."""
    errored: int = 0
    """Items among those seen that errored, and are left out."""
    spent_usd: float | None = None
    """What the items cost that were run for the estimate, 0 where none was."""

    __pydantic_config__ = WIRE_CONFIG


def estimate_run(
    result: ExperimentResult,
    *,
    items: int,
    parallelism: int,
    calls: int | None,
    seconds: float | None,
    spent_usd: float | None = 0.0,
) -> Estimate:
    """Estimate a run of `items` calls of the task from the items of a result.

    Args:
        result: Items that have been run in the same way.
        items: How often the task will be called.
        parallelism: How many items run at once.
        calls: How many calls of models the result took, if that is known.
        seconds: How long an item took, as one after the other.
        spent_usd: What the items cost that were run for this estimate alone.
    """
    seen = [item for item in result.item_results if item.error is None]
    costs = list(map(_metrics_of, seen))
    return Estimate(
        items=items,
        seen=len(seen),
        source=result.run_id or result.name,
        calls=None if calls is None or not result.total_count else round(calls / result.total_count * items),
        tokens=scale_mean([sum(one.tokens or 0 for one in cost) for cost in costs if cost], items),
        cost_usd=_cost(costs, items),
        seconds=_duration(seen, seconds, items, parallelism),
        unpriced=_find_unpriced_models(costs),
        is_task_measured=any(_is_measured(item.metrics) for item in seen),
        errored=len(result.item_results) - len(seen),
        spent_usd=spent_usd,
    )


def _cost(costs: Sequence[Sequence[CallMetrics]], items: int) -> Range | None:
    """Return the dollars of what has a price, None where nothing has one."""
    if all(one.cost_usd is None for cost in costs for one in cost):
        return None
    return scale_mean([exact_sum([one.cost_usd or 0.0 for one in cost]) for cost in costs if cost], items)


def _find_unpriced_models(costs: Sequence[Sequence[CallMetrics]]) -> tuple[str, ...]:
    """Name the models with tokens and no cost."""
    models = (one.model for cost in costs for one in cost if one.cost_usd is None and one.tokens is not None)
    return tuple(sorted({model or "a model without a name" for model in models}))


def scale_mean(values: Sequence[float], times: int) -> Range | None:
    """Return the sum of so many values like these: `times` the 90 % interval of their mean.

    The interval is Student's, cut to the values that were seen; of equal values it has no width.
    """
    if not values:
        return None
    low, high = _mean_interval(values)
    return Range(low=low * times, high=high * times)


def _mean_interval(values: Sequence[float]) -> tuple[float, float]:
    from dokimos.stats._student_t import t_quantile

    count, mean = len(values), exact_mean(values)
    if count == 1:
        return mean, mean
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    reach = t_quantile((1 + CONFIDENCE) / 2, count - 1) * (variance / count) ** 0.5
    return max(min(values), mean - reach), min(max(values), mean + reach)


def _metrics_of(item: ItemResult) -> list[CallMetrics]:
    """Return what is known of the calls for an item: of its task, then of its evaluators."""
    found = [item.metrics, *(result.metrics for result in item.eval_results)]
    return [metrics for metrics in found if _is_measured(metrics)]  # type: ignore[misc] # None is not measured


def _is_measured(metrics: CallMetrics | None) -> bool:
    return metrics is not None and (metrics.tokens is not None or metrics.cost_usd is not None)


def _duration(
    seen: Iterable[ItemResult], seconds: float | None, items: int, parallelism: int
) -> Range | None:
    if seconds is None:
        return None
    # Latencies give only the spread: the measured seconds also hold evaluators, retries and waiting.
    whole = seconds * items / min(parallelism, items)
    latencies = [item.metrics.latency_ms for item in seen if item.metrics and item.metrics.latency_ms]
    mean = exact_mean(latencies) if latencies else 0.0
    if not mean:
        return Range(low=whole, high=whole)
    low, high = _mean_interval(latencies)
    return Range(low=whole * low / mean, high=whole * high / mean)
