"""Rerunning suspicious items, to confirm a drop or clear it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from dokimos._core.example import Example
from dokimos._core.results import ExperimentResult, ItemResult
from dokimos.comparison._snapshot import ItemSnapshot
from dokimos.errors import ConfigurationError
from dokimos.gate._severity import Drop, Reruns, RerunScores

if TYPE_CHECKING:
    from dokimos.experiment._experiment import Experiment

Rerun: TypeAlias = "Experiment | Callable[[Sequence[Example]], ExperimentResult]"
"""The experiment, or a function that runs some examples once, in the given order."""


def rerun_items(
    drops: Sequence[Drop], items: Mapping[str, ItemSnapshot], rerun: Rerun, *, times: int
) -> Reruns:
    """Run the items of some drops again and return the scores of the evaluators that dropped.

    What made an item suspicious has no vote: it was chosen for being low.

    Args:
        drops: What is suspicious.
        items: The candidate's items by key.
        rerun: How to run them.
        times: How often.
    """
    keys = list(dict.fromkeys(drop.key for drop in drops))
    examples = [_example(items[key]) for key in keys]
    repeats = _repeats(rerun, examples, times)
    index_of = {key: index for index, key in enumerate(keys)}
    return {
        (drop.key, drop.evaluator): _collect_scores(
            [repeat[index_of[drop.key]] for repeat in repeats], drop.evaluator
        )
        for drop in drops
    }


def _collect_scores(repeats: Sequence[ItemResult], evaluator: str) -> RerunScores:
    results = [(repeat, repeat.result(evaluator)) for repeat in repeats]
    scores = tuple(result.score for _, result in results if result is not None and result.score is not None)
    # An evaluator that skipped the item gave no error, but a result that is missing altogether counts as one.
    errors = sum(
        item.error is not None or result is None or result.error is not None
        for item, result in results
        if result is None or result.score is None
    )
    return RerunScores(times=len(repeats), scores=scores, errors=errors)


def _example(item: ItemSnapshot) -> Example:
    if item.example is None:
        raise ConfigurationError(f"{item.index_key} cannot be run again: its example was not kept.")
    return item.example


def _repeats(rerun: Rerun, examples: Sequence[Example], times: int) -> list[tuple[ItemResult, ...]]:
    results = _run(rerun, examples, times)
    runs = [run.item_results for result in results for run in result.runs]
    if any(len(items) != len(examples) for items in runs) or not runs:
        raise ConfigurationError(
            "rerun must return a result with every example that it was given, in the same order."
        )
    return runs


def _run(rerun: Rerun, examples: Sequence[Example], times: int) -> list[ExperimentResult]:
    from dokimos.datasets._dataset import Dataset
    from dokimos.experiment._experiment import Experiment

    if isinstance(rerun, Experiment):
        repeated_plan = replace(
            rerun,
            dataset=Dataset(examples, name=rerun.dataset.name, source=rerun.dataset.source),
            runs=times,
            reporters=(),
        )
        # No cache: a cached reply would confirm whatever was seen the first time. No journal: it is not a run
        # of its own.
        options: dict[str, Any] = dict.fromkeys(
            ("journal", "cache", "retry_errors", "force", "progress"), False
        )
        return [repeated_plan.run(**options, quiet=True, resume=None, shard=None, keep_results=True)]
    results = [rerun(examples) for _ in range(times)]
    if not all(isinstance(result, ExperimentResult) for result in results):
        raise ConfigurationError(
            "rerun must be an Experiment, or a function that returns an ExperimentResult."
        )
    return results
