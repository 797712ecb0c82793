"""What a journal holds about one item, and which of an item's results still count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dokimos._core.error_detail import ErrorDetail
from dokimos._core.fast_constructor import fast_factory
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult
from dokimos._core.wire import from_json, list_from_json


@dataclass(frozen=True, slots=True)
class StoredItem:
    """What the journal holds about one item."""

    example_hash: str
    outputs: Mapping[str, Any] | None
    metrics: CallMetrics | None
    error: str | None
    error_kind: str | None = None
    error_detail: ErrorDetail | None = None
    results: Mapping[str, EvalResult] = field(default_factory=dict)

    @classmethod
    def of(cls, record: Mapping[str, Any], results: Mapping[str, EvalResult]) -> StoredItem:
        """Return what the line of an item says, with its results."""
        metrics, detail = record.get("m"), record.get("d")
        return _new_item(
            record["h"],
            record.get("o"),
            None if metrics is None else from_json(CallMetrics, metrics),
            record.get("e"),
            record.get("k"),
            None if detail is None else from_json(ErrorDetail, detail),
            results,
        )


_new_item: Final = fast_factory(StoredItem)


def read_results(
    lines: Iterable[tuple[int, Sequence[Mapping[str, Any]]]], void: Mapping[str, int]
) -> dict[str, EvalResult]:
    """Return the results of an item that count, by their names.

    Args:
        lines: Where each line with results begins, and what it holds, in the order of the journal.
        void: Up to where the results of an evaluator are void; of all evaluators under "".
    """
    results: dict[str, EvalResult] = {}
    for offset, trees in lines:
        scored = list_from_json(EvalResult, trees)
        if results:
            # All scores of an evaluator are replaced: scored again, it may give other keys.
            rescored = {result.evaluator for result in scored}
            results = {
                name: earlier for name, earlier in results.items() if earlier.evaluator not in rescored
            }
        if not void:
            results |= {result.name: result for result in scored}
            continue
        for result in scored:
            if offset >= max(void.get(result.evaluator, 0), void.get("", 0)):
                results[result.name] = result
    return results
