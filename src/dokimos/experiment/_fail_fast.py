"""What a run with `fail_fast` did not run after its first failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Final

from dokimos._core.results import RunResult
from dokimos._core.text import format_list, pluralize
from dokimos.datasets._dataset import Dataset

NOT_RUN: Final = "notRun"
"""Where the metadata of a result names the items."""
MOST_NAMED: Final = 1000


def find_items_not_run(
    dataset: Dataset, shard: tuple[int, int] | None, runs: Sequence[RunResult], repeats: int
) -> list[str]:
    """Return the keys of the items that some repeat has not run, in the order of the data set."""
    first, step = shard or (1, 1)
    done = Counter(item.index for run in runs for item in run.item_results)
    return [
        f"item-{index}" if example.id is None else example.id
        for index, example in islice(enumerate(dataset), first - 1, None, step)
        if done[index] < repeats
    ]


def first_failure_message(key: str, not_run: Sequence[str], repeats: int) -> str:
    """Return a sentence about the item at which a run stopped and the items that it did not run."""
    message = f"Stopped at the first failure, {key!r}."
    if not not_run:
        return message
    were = "was" if len(not_run) == 1 else "were"
    often = " in every repeat" if repeats > 1 else ""
    return f"{message} {pluralize(len(not_run), 'item')} {were} not run{often}: {format_list(list(not_run))}."
