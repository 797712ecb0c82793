"""Maximum matching between two sets of things, some of which fit each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def maximum_matching(left: Iterable[int], fits: Callable[[int], Sequence[int]]) -> dict[int, int]:
    """Pair as many of `left` as possible, each with one of `fits(i)`; returns left -> right.

    Augmenting paths, without recursion. An element once paired stays paired, so with `left` in descending
    order of weight the pairs have the greatest total weight as well as the greatest number.
    """
    pairs: dict[int, int] = {}
    owners: dict[int, int] = {}
    hopeless: set[int] = set()  # what a failed search has reached can never be freed later
    # One search for each element (Kuhn's algorithm); the shared set of dead ends keeps them cheap.
    for start in left:
        _augment(start, fits, pairs, owners, hopeless)
    return pairs


def _augment(
    start: int,
    fits: Callable[[int], Sequence[int]],
    pairs: dict[int, int],
    owners: dict[int, int],
    hopeless: set[int],
) -> None:
    """Find the nearest free element on the right that a chain of swaps frees for `start`."""
    reached_from: dict[int, int] = {}
    queue = [start]
    for i in queue:
        for j in fits(i):
            if j in reached_from or j in hopeless:
                continue
            reached_from[j] = i
            if j not in owners:
                _swap_along(j, reached_from, pairs, owners)
                return
            queue.append(owners[j])
    hopeless.update(reached_from)


def _swap_along(
    free: int, reached_from: dict[int, int], pairs: dict[int, int], owners: dict[int, int]
) -> None:
    j: int | None = free
    while j is not None:
        i = reached_from[j]
        before = pairs.get(i)
        pairs[i], owners[j] = j, i
        j = before
