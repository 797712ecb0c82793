"""Items of a run from its journal, as the run returned them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from dokimos._core.error_detail import ErrorDetail
from dokimos._core.example import Example
from dokimos._core.fast_constructor import fast_factory, positional_factory
from dokimos._core.json_parsing import parse_json
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult, ItemResult
from dokimos._core.wire import from_json
from dokimos.experiment._item_errors import CHOICE
from dokimos.experiment._item_index import Position
from dokimos.experiment._remembered_results import RememberedResults
from dokimos.experiment._stored_run import StoredRun

_make_item: Final = fast_factory(ItemResult)
_new_example: Final[Callable[..., Example]] = positional_factory(
    Example, "inputs", "expected_outputs", "metadata", "id", is_checked=False
)


class ItemLoader:
    """Loads the items of a run, one at a time and in any order."""

    def __init__(self, stored: StoredRun, order: Mapping[str, int]) -> None:
        """Take the run, and the place of each evaluator by its name; results come in this order."""
        self._stored = stored
        self._order = order
        self._results = RememberedResults(partial(_order_results, order=order))

    def load(self, position: Position) -> ItemResult | None:
        """Return an item as its run would return it, None where the line with its example is damaged."""
        stored = self._stored
        lines = stored.lines_at(position)
        scores = None if lines is None else self._results.load(lines[1])
        if lines is None or scores is None:
            return self._load_any(position)
        record: Any = parse_json(lines[0])
        tree = record.get("x")
        if tree is None:
            tree = stored.example(position)
            if tree is None:
                return None
        metrics, detail = record.get("m"), record.get("d")
        return _make_item(
            position[1],
            read_example(tree),
            actual_outputs=record.get("o") or {},
            eval_results=scores[1],
            metrics=None if metrics is None else from_json(CallMetrics, metrics),
            error=record.get("e"),
            error_detail=None if detail is None else from_json(ErrorDetail, detail),
        )

    def load_all(self) -> Iterator[tuple[Position, ItemResult | None]]:
        """Yield all items that count, in order, each with its place."""
        for position in self._stored.positions:
            yield position, self.load(position)

    def _load_any(self, position: Position) -> ItemResult | None:
        """Load an item whose lines may be of another tool, and whose results may be void."""
        item = self._stored.item(position)
        example = self._stored.example(position)
        if item is None or example is None:
            return None
        return _make_item(
            position[1],
            from_json(Example, example),
            actual_outputs=item.outputs or {},
            eval_results=_order_results(item.results, self._order),
            metrics=item.metrics,
            error=item.error,
            error_detail=item.error_detail,
        )


def read_example(tree: dict[str, Any]) -> Example:
    """Return what `from_json` does of a tree that was just parsed; the usual one in a third of the time.

    The example takes the maps of the tree, which nobody else has.
    """
    get = tree.get
    inputs, expected, metadata, id = get("inputs"), get("expectedOutputs"), get("metadata"), get("id")
    known = 0
    for content in (inputs, expected, metadata):
        if type(content) is dict:
            known += 1
    if type(id) is str:
        known += 1
    if known != len(tree):
        return from_json(Example, tree)
    return _new_example(inputs or {}, expected or {}, metadata or {}, id)


def _order_results(results: Mapping[str, EvalResult], order: Mapping[str, int]) -> tuple[EvalResult, ...]:
    """Return the results in the order of the evaluators, without those that a later resume dropped."""
    if tuple(results) == tuple(order):
        return tuple(results.values())
    ordered = sorted(
        results.values(),
        key=lambda result: order.get(result.name, order.get(result.evaluator, len(order))),
    )
    return tuple(
        result
        for result in ordered
        if not order or result.name in order or result.evaluator in order or result.name == CHOICE
    )
