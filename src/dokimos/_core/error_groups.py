"""Errors of one kind together: five hundred items with one bug are one error."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from dokimos._core.error_detail import ErrorDetail, append_place
from dokimos._core.item_result import ItemResult

TASK = "task"


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Items that have an error of one type from one place in one source."""

    source: str
    """`task`, or the name of the evaluator."""
    text: str
    """The error of the first of them, as `Type: message`; the messages of the others may differ."""
    detail: ErrorDetail | None
    keys: tuple[str, ...]
    """The items, in the order of the data set; one that errored in several repeats stands here as often."""

    @property
    def located_text(self) -> str:
        return append_place(self.text, self.detail)


def error_key(text: str, detail: ErrorDetail | None) -> Hashable:
    """Return what errors of one kind have in common: type and place, else the text."""
    place = "" if detail is None else detail.place
    return text if detail is None or not place else (detail.type, place)


def group_errors(items: Iterable[ItemResult]) -> tuple[ErrorGroup, ...]:
    """Return the errors of tasks and evaluators by kind, those of most items first."""
    members: dict[Hashable, tuple[str, str, ErrorDetail | None, list[str]]] = {}
    for item in items:
        for source, text, detail in _iterate_errors(item):
            group = members.setdefault((source, error_key(text, detail)), (source, text, detail, []))
            group[3].append(item.key)
    groups = [
        ErrorGroup(source, text, detail, tuple(keys)) for source, text, detail, keys in members.values()
    ]
    # Sorting is stable: groups of equal size stay in the order of the data set.
    return tuple(sorted(groups, key=lambda group: -len(group.keys)))


def errors_of(item: ItemResult) -> tuple[tuple[str, ErrorDetail | None], ...]:
    """Return why an item is errored, as `ItemResult.errors` does, each with where it came from."""
    task = () if item.error is None else ((item.error, item.error_detail),)
    culprits = (result for result in item.culprits if result.error is not None)
    return task + tuple((result.error_text, result.error_detail) for result in culprits)


def _iterate_errors(item: ItemResult) -> Iterator[tuple[str, str, ErrorDetail | None]]:
    if item.error is not None:
        yield TASK, item.error, item.error_detail
    for result in item.eval_results:
        if result.error is not None:
            yield result.name, result.problem, result.error_detail
