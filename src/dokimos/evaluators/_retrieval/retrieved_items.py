"""Retrieved documents as what they are compared by: their id or their text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from dokimos._core.contexts import are_ids, document_id, document_text, strip_score
from dokimos.evaluators._retrieval.matching import Strategy, compares_items, key_of


def comparable_items(items: Sequence[Any], relevant: Sequence[Any], strategy: Strategy) -> list[Any]:
    """Return retrieved items in the form in which a strategy compares them with the relevant ones.

    Documents stay as they are where the relevant items are maps, or the strategy looks at fields or is the
    user's own. Otherwise a document is its id or its text: which of them is relevant, else its id where the
    relevant items look like ids, else its text.
    """
    if compares_items(strategy) or any(isinstance(item, Mapping) for item in relevant):
        return [*items]
    key = key_of(strategy)
    if key is None:
        return [_text_or_item(item) for item in items]
    keys = {key(item) for item in relevant}
    # Some data sets list ids and others texts; the relevant items decide which of a document is compared.
    by_id = bool(relevant) and are_ids([*relevant])
    return [_comparable_form(item, key, keys, by_id=by_id) for item in items]


def _comparable_form(
    item: object, key: Callable[[Any], Hashable], relevant: set[Hashable], *, by_id: bool
) -> Any:
    named = document_id(strip_score(item))
    text = _text_or_item(item)
    if named is None or key(text) in relevant:
        return text
    return named if by_id or key(named) in relevant else text


def _text_or_item(item: object) -> Any:
    document = strip_score(item)
    text = document_text(document)
    return document if text is None else text
