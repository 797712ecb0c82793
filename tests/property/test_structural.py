from __future__ import annotations

import json
import random
from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._json_tree import tree_of
from dokimos.evaluators._lenient_equality import LenientEquality
from dokimos.evaluators._structural import StructuralMatch

SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.5, 1.0, -2.0]) | st.sampled_from("ab")
)
KEYS = st.sampled_from("abc")
TREES = st.recursive(
    SCALARS,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(KEYS, children, max_size=3),
    max_leaves=12,
)


def score(expected: Any, actual: Any, **options: Any) -> float:
    case = EvalTestCase({}, {"output": actual}, expected_outputs={"output": expected})
    result = StructuralMatch(**options).evaluate(case)
    assert result.error is None
    assert result.score is not None
    assert 0.0 <= result.score <= 1.0
    return result.score


def canonical(tree: Any) -> str:
    """Equal texts for equal JSON values: numbers by value, booleans apart."""
    if isinstance(tree, bool) or tree is None or isinstance(tree, str):
        return json.dumps(tree)
    if isinstance(tree, int | float):
        return repr(float(tree))
    if isinstance(tree, list):
        return "[" + ",".join(map(canonical, tree)) + "]"
    return "{" + ",".join(f"{key}:{canonical(tree[key])}" for key in sorted(tree)) + "}"


def shuffled(tree: Any, rng: random.Random) -> Any:
    if isinstance(tree, list):
        return rng.sample([shuffled(child, rng) for child in tree], len(tree))
    if isinstance(tree, dict):
        return {key: shuffled(child, rng) for key, child in tree.items()}
    return tree


@given(TREES, TREES)
def test_strict_scores_are_symmetric(left, right):
    assert score(left, right) == score(right, left)


@given(TREES, TREES)
def test_strict_binary_is_1_only_for_equal_values(left, right):
    assert score(left, right, binary=True) == float(canonical(left) == canonical(right))


@given(TREES)
def test_a_value_equals_itself_and_its_json(tree):
    for mode in ("strict", "lenient"):
        assert score(tree, tree, mode=mode, binary=True) == 1.0
        assert score(tree, json.dumps(tree), mode=mode) == 1.0


@given(TREES, TREES, st.randoms(use_true_random=False))
def test_lenient_scores_do_not_depend_on_the_order_of_arrays(expected, actual, rng):
    before = score(expected, actual, mode="lenient")
    assert score(shuffled(expected, rng), shuffled(actual, rng), mode="lenient") == before


@given(st.lists(TREES, max_size=4), st.lists(TREES, max_size=4))
def test_lenient_arrays_are_paired_as_well_as_trying_every_order(expected, actual):
    left, right = [tree_of(e) for e in expected], [tree_of(a) for a in actual]
    equality = LenientEquality()
    found = equality.pairs(left, right)
    assert len(set(found.values())) == len(found)
    assert all(equality.holds(left[i], right[j]) for i, j in found.items())
    pad: list[Any] = [*range(len(right)), *[None] * len(left)]
    best = max(
        sum(j is not None and equality.holds(left[i], right[j]) for i, j in enumerate(order))
        for order in permutations(pad, len(left))
    )
    assert len(found) == best


@given(st.dictionaries(KEYS, TREES, min_size=1, max_size=3), TREES)
def test_extra_fields_are_free_in_lenient_mode_only(tree, extra):
    more = {**tree, "extra": extra}
    assert score(tree, more, mode="lenient", binary=True) == 1.0
    assert score(tree, more, binary=True) == 0.0
