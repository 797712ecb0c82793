"""Pair the elements of two arrays, ignoring order, extra fields and nulls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from dokimos.errors import EvaluationError
from dokimos.evaluators._bipartite import maximum_matching
from dokimos.evaluators._json_tree import Keys, Tree, leaf_count, scalar_key

MAX_COMPARISONS: Final = 1_000_000
"""More pairs of elements are not compared: they take seconds, and hundreds of bytes each."""

_Trait = tuple[tuple[str | None, ...], Hashable]
_Postings = dict[_Trait, list[int]]


class LenientEquality:
    """Whether a tree is all that another expects: objects may have more fields, arrays the same."""

    def __init__(self) -> None:
        self._keys = Keys("lenient")
        self._results: dict[tuple[int, int], bool] = {}
        self._comparisons = 0

    def holds(self, expected: Tree, actual: Tree) -> bool:
        """Return whether `actual` has all of `expected`; null and a missing field are the same."""
        pair = (self._keys.of(expected), self._keys.of(actual))
        if pair[0] == pair[1]:
            return True
        if pair not in self._results:
            self._results[pair] = self._compare(expected, actual)
        return self._results[pair]

    def fitting(self, expected: Tree, actual: Sequence[Tree], indexes: Sequence[int]) -> list[int]:
        """Return the places of the elements that have all of `expected`.

        Raises:
            EvaluationError: where arrays are too large and too much alike to be paired.
        """
        self._comparisons += len(indexes)
        if self._comparisons > MAX_COMPARISONS:
            raise EvaluationError(
                f"The arrays are too much alike to be paired without regard to order: it takes more than "
                f'{MAX_COMPARISONS:,} comparisons. Compare in mode "strict", or fewer elements.'
            )
        return [index for index in indexes if self.holds(expected, actual[index])]

    def number_of(self, tree: Tree) -> int:
        """Return a number that equal trees share."""
        return self._keys.of(tree)

    def pairs(self, expected: Sequence[Tree], actual: Sequence[Tree]) -> dict[int, int]:
        """Pair elements of `expected` with those of `actual` that have all of them, for the most leaves."""
        # A null field also matches a missing one, so an equal pair need not be part of the best pairing.
        with_nulls = any(map(_has_null_field, expected))
        pairs = self._equal_pairs(expected, actual, only_scalars=with_nulls)
        paired = set(pairs.values())
        free = [j for j, element in enumerate(actual) if j not in paired and isinstance(element, dict | list)]
        rest = [
            i for i, element in enumerate(expected) if i not in pairs and isinstance(element, dict | list)
        ]
        if free and rest:
            # Largest first: what is paired stays paired, so this order maximizes the leaves, too.
            rest.sort(key=lambda i: -leaf_count(expected[i]))
            pairs |= maximum_matching(rest, _Candidates(self, expected, actual, free))
        return pairs

    def _compare(self, expected: Tree, actual: Tree) -> bool:
        if isinstance(expected, dict) and isinstance(actual, dict):
            return all(self.holds(child, actual.get(key)) for key, child in expected.items())
        if isinstance(expected, list) and isinstance(actual, list):
            return len(expected) == len(actual) == len(self.pairs(expected, actual))
        return False

    def _equal_pairs(
        self, expected: Sequence[Tree], actual: Sequence[Tree], *, only_scalars: bool
    ) -> dict[int, int]:
        """Pair what is equal; without nulls among the fields expected, some best pairing contains these."""
        indexes_by_key: defaultdict[int, list[int]] = defaultdict(list)
        # Backwards, so that `pop` takes the first of equal elements.
        for j in reversed(range(len(actual))):
            indexes_by_key[self._keys.of(actual[j])].append(j)
        pairs = {}
        for i, element in enumerate(expected):
            if only_scalars and isinstance(element, dict | list):
                continue
            if waiting := indexes_by_key.get(self._keys.of(element)):
                pairs[i] = waiting.pop()
        return pairs


class _Candidates:
    """The actual elements that an expected one may be paired with, found by its rarest trait."""

    def __init__(
        self, equality: LenientEquality, expected: Sequence[Tree], actual: Sequence[Tree], free: Sequence[int]
    ) -> None:
        self._equality = equality
        self._expected = expected
        self._actual = actual
        self._free = free
        self._postings = _postings(actual, free)
        self._found: dict[int, list[int]] = {}

    def __call__(self, i: int) -> list[int]:
        element = self._expected[i]
        number = self._equality.number_of(element)
        if number not in self._found:
            self._found[number] = self._equality.fitting(element, self._actual, self._likely(element))
        return self._found[number]

    def _likely(self, element: Tree) -> Sequence[int]:
        candidates = (self._postings.get(trait, []) for trait in _traits(element))
        # An element must have all traits, so the rarest leaves the fewest to compare.
        return min(candidates, key=len, default=self._free)


def _postings(actual: Sequence[Tree], free: Sequence[int]) -> _Postings:
    postings: defaultdict[_Trait, list[int]] = defaultdict(list)
    for j in free:
        for trait in dict.fromkeys(_traits(actual[j])):
            postings[trait].append(j)
    return dict(postings)


def _traits(tree: Tree, path: tuple[str | None, ...] = ()) -> Iterator[_Trait]:
    """Yield what a tree must have too in order to have all of this one: scalars, and lengths of arrays."""
    if isinstance(tree, dict):
        for key, child in tree.items():
            yield from _traits(child, (*path, key))
    elif isinstance(tree, list):
        yield path, ("length", len(tree))
        for child in tree:
            yield from _traits(child, (*path, None))
    # Null is not a trait: a missing field is the same.
    elif tree is not None:
        yield path, scalar_key(tree)


def _has_null_field(tree: Tree) -> bool:
    if isinstance(tree, dict):
        return any([child is None or _has_null_field(child) for child in tree.values()])
    return isinstance(tree, list) and any([_has_null_field(child) for child in tree])
