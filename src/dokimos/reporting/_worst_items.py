"""The items to look at first; those with the same error share one line."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final

from dokimos._core.error_groups import TASK, error_key, group_errors
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, lowest_score

MOST_TRACEBACKS: Final = 10


@dataclass(frozen=True, slots=True)
class Entry:
    """An item that did not pass, or several that have one error."""

    items: tuple[ItemResult, ...]

    @property
    def first(self) -> ItemResult:
        return self.items[0]

    @property
    def label(self) -> str:
        return self.first.key if len(self.items) == 1 else f"{len(self.items)} items"


def worst_entries(result: ExperimentResult, *, one_by_one: bool = False) -> list[Entry]:
    """Return the items that did not pass in the order of `worst_items`, those with one error together."""
    lower = result.lower_is_better
    groups: dict[Hashable, list[ItemResult]] = {}
    for position, item in enumerate(worst_items(result)):
        kind = None if one_by_one else _kind_of(item, wrong_results(item, lower))
        # Items that merely failed stay apart: their reasons differ even where their scores are the same.
        groups.setdefault(position if kind is None else kind, []).append(item)
    return [Entry(tuple(items)) for items in groups.values()]


def worst_items(result: ExperimentResult) -> list[ItemResult]:
    """Return the items that did not pass, in the order of the reports: errors, then the lowest score."""
    lower = result.lower_is_better

    def sort_key(item: ItemResult) -> tuple[bool, bool, float, int]:
        return not item.errored, not item.warnings, lowest_score(item.eval_results, lower), item.index

    return sorted((item for item in result.item_results if item.success is False), key=sort_key)


def wrong_results(item: ItemResult, lower_is_better: frozenset[str]) -> list[EvalResult]:
    """Return the results that keep an item from passing: errors, then the lowest score."""

    def sort_key(result: EvalResult) -> tuple[bool, float]:
        return result.error is None, lowest_score([result], lower_is_better)

    return sorted(item.culprits, key=sort_key)


def first_tracebacks(result: ExperimentResult) -> Iterator[tuple[str, str]]:
    """Yield the whole traceback of the first error of each kind, those of most items first, with a headline.

    Errors without one are what dokimos itself says, and shown as that elsewhere.
    """
    groups = [group for group in group_errors(result.item_results) if group.detail is not None]
    for group in groups[:MOST_TRACEBACKS]:
        more = f" and {len(group.keys) - 1} more" if len(group.keys) > 1 else ""
        traceback = group.detail.traceback if group.detail is not None else None
        yield f"{group.source}: {group.keys[0]}{more}", traceback or group.text
    if len(groups) > MOST_TRACEBACKS:
        yield f"... and {len(groups) - MOST_TRACEBACKS} other kinds of errors", ""


def _kind_of(item: ItemResult, wrong: list[EvalResult]) -> Hashable | None:
    """Return what items with one error have in common, None for an item that only failed."""
    if item.error is not None:
        return TASK, error_key(item.error, item.error_detail)
    if wrong and wrong[0].error is not None:
        return wrong[0].name, "evaluator", error_key(wrong[0].problem, wrong[0].error_detail)
    return None
