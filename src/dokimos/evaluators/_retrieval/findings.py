"""What was found in one case: the retrieved items, the relevant ones, and which of them match."""

from __future__ import annotations

from collections.abc import Coroutine, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dokimos.evaluators._json_tree import identity_key
from dokimos.evaluators._retrieval.matching import Strategy, key_of, matches


@dataclass(frozen=True, slots=True)
class Findings:
    """What one case's metrics are computed from."""

    retrieved_count: int
    """Items retrieved (within k), repeated ones included."""
    relevant_count: int
    """Items relevant, repeated ones included."""
    retrieved: tuple[Any, ...]
    """Distinct items in the order of their first rank."""
    ranks: tuple[int, ...]
    """The 1-based rank of each, counted with the repeated ones."""
    relevant: tuple[Any, ...]
    """Distinct items."""
    gains: tuple[float, ...]
    """The gain of each relevant item, 1 unless they are graded."""
    hits: tuple[frozenset[int], ...]
    """For each retrieved item, the relevant ones that it matches."""


@dataclass(frozen=True, slots=True)
class RelevantItems:
    """The relevant items with their gains, and how many there were before repeated ones went."""

    count: int
    items: tuple[Any, ...]
    gains: tuple[float, ...]


def deduplicate(items: Sequence[Any]) -> dict[int, Any]:
    """Return the first of each set of equal items, by its 1-based rank."""
    seen: set[Hashable] = set()
    first = {}
    for rank, item in enumerate(items, 1):
        key = identity_key(item)
        if key not in seen:
            seen.add(key)
            first[rank] = item
    return first


def build_findings(
    retrieved: Sequence[Any], distinct: Mapping[int, Any], graded: RelevantItems, hits: list[frozenset[int]]
) -> Findings:
    """Return what the metrics are computed from."""
    return Findings(
        retrieved_count=len(retrieved),
        relevant_count=graded.count,
        retrieved=tuple(distinct.values()),
        ranks=tuple(distinct),
        relevant=graded.items,
        gains=graded.gains,
        hits=tuple(hits),
    )


def find_hits(strategy: Strategy, retrieved: Sequence[Any], relevant: Sequence[Any]) -> list[frozenset[int]]:
    """Return for each retrieved item the indexes of the relevant ones that it matches."""
    key = key_of(strategy)
    if key is None:
        return [frozenset([j for j, r in enumerate(relevant) if strategy(item, r)]) for item in retrieved]
    indexes_by_key: dict[Hashable, list[int]] = {}
    for j, item in enumerate(relevant):
        indexes_by_key.setdefault(key(item), []).append(j)
    # None is the key of items without one, which match nothing, not even each other.
    indexes_by_key.pop(None, None)
    return [frozenset(indexes_by_key.get(key(item), ())) for item in retrieved]


async def find_hits_async(
    strategy: Strategy, retrieved: Sequence[Any], relevant: Sequence[Any]
) -> list[frozenset[int]]:
    """Return the same by a strategy that must be awaited: all pairs are asked about at once."""
    pairs = [matches(strategy, item, other) for item in retrieved for other in relevant]
    answers = await _await_all(pairs)
    width = len(relevant)
    rows = [answers[i * width : (i + 1) * width] for i in range(len(retrieved))]
    return [frozenset([j for j, matched in enumerate(row) if matched]) for row in rows]


async def _await_all(calls: Sequence[Coroutine[Any, Any, bool]]) -> list[bool]:
    """Await all together; the first error ends the others."""
    import asyncio

    # gather alone would let the other calls run on, and be paid for, after the first error.
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
