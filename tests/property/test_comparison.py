"""What holds for every comparison."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos.comparison import Change, Snapshot, compare_runs
from dokimos.comparison._snapshot import EvaluatorFacts, ItemSnapshot
from dokimos.comparison._tree import comparison_tree

SCORE = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
ITEM = st.lists(SCORE, min_size=1, max_size=3)
SIDES = st.lists(st.tuples(ITEM, ITEM), min_size=1, max_size=16)
OPPOSITE = {
    Change.REGRESSED: Change.IMPROVED,
    Change.IMPROVED: Change.REGRESSED,
    Change.UNCHANGED: Change.UNCHANGED,
}


def snapshot(items, lower=False):
    return Snapshot(
        items=tuple(
            ItemSnapshot(
                index=index,
                id=f"id {index}",
                scores={"A": tuple(scores)},
                verdicts=tuple(score >= 0.5 for score in scores),
            )
            for index, scores in enumerate(items)
        ),
        evaluators={"A": EvaluatorFacts(name="A", lower_is_better=lower)},
    )


def sides(pairs):
    return snapshot(before for before, _ in pairs), snapshot(now for _, now in pairs)


@settings(max_examples=60)
@given(SIDES)
def test_swapping_the_sides_turns_every_change_round(pairs):
    before, now = sides(pairs)

    there, back = compare_runs(before, now), compare_runs(now, before)

    for one, other in zip(there.metrics, back.metrics, strict=True):
        assert one.p_value == other.p_value
        assert one.adjusted_p_value == other.adjusted_p_value
        assert one.change is OPPOSITE[other.change]
        assert (one.worse, one.better) == (other.better, other.worse)
        assert one.delta == -other.delta


@settings(max_examples=60)
@given(SIDES)
def test_p_values_are_in_order_and_counts_add_up(pairs):
    found = compare_runs(*sides(pairs))

    for metric in found.metrics:
        assert 0 < metric.p_value <= metric.adjusted_p_value <= 1
        assert metric.worse + metric.better <= metric.n == len(pairs)
        assert metric.interval is None or metric.interval.low <= metric.interval.high
    assert sum(found.count(change) for change in Change) == len(pairs)


@settings(max_examples=40)
@given(SIDES)
def test_items_that_only_one_side_has_decide_nothing(pairs):
    before, now = sides(pairs)
    more = snapshot([scores for _, scores in pairs] + [[1.0]] * 5)

    plain, grown = compare_runs(before, now), compare_runs(before, more)

    assert [(m.p_value, m.delta, m.change) for m in plain.metrics] == [
        (m.p_value, m.delta, m.change) for m in grown.metrics
    ]
    assert grown.count(Change.ADDED) == 5


@settings(max_examples=40)
@given(SIDES)
def test_a_score_to_be_kept_low_changes_the_other_way(pairs):
    scores = [before for before, _ in pairs], [now for _, now in pairs]

    high = compare_runs(*map(snapshot, scores)).evaluator("A")
    low = compare_runs(*(snapshot(side, lower=True) for side in scores)).evaluator("A")

    assert low.change is OPPOSITE[high.change]
    assert low.p_value == high.p_value


@settings(max_examples=40)
@given(SIDES)
def test_the_json_has_every_item_with_rounded_numbers(pairs):
    tree = comparison_tree(compare_runs(*sides(pairs)))

    assert len(tree["cases"]) == len(pairs)
    for metric in tree["metrics"]:
        assert metric["delta"] == round(metric["delta"], 6)
