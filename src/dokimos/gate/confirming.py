"""Running suspicious items again, and letting the majority decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from dokimos.comparison.snapshot import ItemSnapshot
from dokimos.core.example import Example
from dokimos.core.figures import half_up
from dokimos.core.results import ExperimentResult, ItemResult
from dokimos.errors import ConfigurationError
from dokimos.gate.severity import Drop

if TYPE_CHECKING:
    from dokimos.experiment.experiment import Experiment

Rerun: TypeAlias = "Experiment | Callable[[Sequence[Example]], ExperimentResult]"
"""The experiment, or a function that runs some examples once, in the given order."""


def unconfirmed(
    drops: Sequence[Drop],
    items: Mapping[str, ItemSnapshot],
    rerun: Rerun,
    *,
    times: int,
    margin: float,
    lower_is_better: frozenset[str],
) -> frozenset[tuple[str, str]]:
    """Run the items of some drops again and return those drops that most repeats do not show.

    What made an item suspicious has no vote: it was chosen for being low.

    Args:
        drops: What guard 2 found.
        items: The candidate's items by key.
        rerun: How to run them.
        times: How often.
        margin: What counts as a drop.
        lower_is_better: The evaluators whose scores are to be kept low.
    """
    keys = list(dict.fromkeys(drop.key for drop in drops))
    examples = [_example(items[key]) for key in keys]
    repeats = _repeats(rerun, examples, times)
    cleared = set()
    for drop in drops:
        place = keys.index(drop.key)
        sign = 1 if drop.evaluator in lower_is_better else -1
        shown = sum(_shows(drop, repeat[place], sign, margin) for repeat in repeats)
        if 2 * shown <= len(repeats):
            cleared.add((drop.key, drop.evaluator))
    return frozenset(cleared)


def _example(item: ItemSnapshot) -> Example:
    if item.example is None:
        raise ConfigurationError(f"{item.index_key} cannot be run again: its example was not kept.")
    return item.example


def _shows(drop: Drop, item: ItemResult, sign: int, margin: float) -> bool:
    found = item.result(drop.evaluator)
    if found is None or found.score is None:
        return item.error is not None or found is None or found.error is not None
    return half_up(sign * (found.score - drop.baseline_mean)) > margin


def _repeats(rerun: Rerun, examples: Sequence[Example], times: int) -> list[tuple[ItemResult, ...]]:
    results = _run(rerun, examples, times)
    runs = [run.item_results for result in results for run in result.runs]
    if any(len(items) != len(examples) for items in runs) or not runs:
        raise ConfigurationError(
            "rerun must return a result with every example that it was given, in the same order."
        )
    return runs


def _run(rerun: Rerun, examples: Sequence[Example], times: int) -> list[ExperimentResult]:
    from dokimos.datasets.dataset import Dataset
    from dokimos.experiment.experiment import Experiment

    if isinstance(rerun, Experiment):
        again = replace(rerun, dataset=Dataset(examples, name=rerun.dataset.name), runs=times, reporters=())
        options: dict[str, Any] = dict.fromkeys(
            ("journal", "cache", "retry_errors", "force", "progress"), False
        )
        return [again.run(**options, resume=None, shard=None, keep_results=True)]
    results = [rerun(examples) for _ in range(times)]
    if not all(isinstance(result, ExperimentResult) for result in results):
        raise ConfigurationError(
            "rerun must be an Experiment, or a function that returns an ExperimentResult."
        )
    return results
