"""A level that is reached is reached, whatever scores, repeats and directions led to it."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from dokimos._core.example import Example
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos._core.summary import RunSummary, Tally
from dokimos.errors import EvalAssertionError
from dokimos.evaluators._llm.base import aggregate_scores
from dokimos.experiment._required_levels import parse_levels
from dokimos.testing._assertions import assert_scores

DECIMALS = st.sampled_from((10, 20, 25, 50, 100, 1000))
"""Grids whose steps have a short decimal spelling."""
STEPS = st.one_of(DECIMALS, st.sampled_from((3, 6, 7, 9, 11, 12, 60, 96)))


@st.composite
def repeats(draw, steps=STEPS):
    """Return the scores of each repeat as fractions on one grid."""
    below = draw(steps)
    share = st.integers(0, below).map(lambda above: Fraction(above, below))
    return draw(st.lists(st.lists(share, min_size=1, max_size=12), min_size=1, max_size=4))


def result_of(runs, *, lower=False):
    info = EvaluatorInfo(name="E", direction="lower_is_better" if lower else "higher_is_better")
    return ExperimentResult(
        runs=tuple(RunResult(index=i, item_results=items_of(scores)) for i, scores in enumerate(runs)),
        evaluators=(info,),
    )


def items_of(scores):
    return tuple(
        ItemResult(
            i, Example.of("q"), eval_results=(EvalResult("E", float(score), success=score >= Fraction(1, 2)),)
        )
        for i, score in enumerate(scores)
    )


def mean(values):
    return sum(values, Fraction()) / len(values)


@given(repeats())
def test_the_average_is_the_float_nearest_to_the_exact_mean(runs):
    assert result_of(runs).average_score("E") == float(mean([mean(scores) for scores in runs]))
    for scores in runs:
        assert result_of([scores]).runs[0].average_score("E") == float(mean(scores))
        assert aggregate_scores([*map(float, scores)], "mean", threshold=None) == float(mean(scores))


@given(repeats(DECIMALS), st.booleans())
def test_its_own_mean_as_level_is_reached_and_the_next_hundredth_is_not(runs, lower):
    result = result_of(runs, lower=lower)
    exact = mean([mean(scores) for scores in runs])
    for hundredths in {int(exact * 100) + step for step in (-1, 0, 1)} & set(range(101)):
        level = Fraction(hundredths, 100)
        reached = exact <= level if lower else exact >= level
        for spec in (f"E={float(level)}", f"E={hundredths}%"):
            [wanted] = parse_levels([spec])
            assert (wanted.explain_miss(result) is None) == reached
        assert (result.average_score("E") >= float(level)) == (exact >= level)
        assert passes(lambda at: assert_scores(result, {"E": at}), float(level)) == reached


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=40), min_size=1, max_size=4))
def test_a_pass_rate_reaches_the_level_that_its_counts_reach(runs):
    result = result_of([[Fraction(passed) for passed in flags] for flags in runs])
    exact = mean([Fraction(sum(flags), len(flags)) for flags in runs])
    assert result.pass_rate == float(exact)
    for hundredths in range(101):
        reached = exact >= Fraction(hundredths, 100)
        [percent], [share] = parse_levels([f"{hundredths}%"]), parse_levels([str(hundredths / 100)])
        assert percent == share
        assert (percent.explain_miss(result) is None) == reached
        assert passes(lambda at: assert_scores(result, pass_rate=at), hundredths / 100) == reached


@given(repeats(), st.randoms())
def test_totals_depend_on_no_order_and_no_split(runs, random):
    items = [item for scores in runs for item in items_of(scores)]
    whole = Tally.of(items).summary()
    random.shuffle(items)
    cuts = sorted(random.randint(0, len(items)) for _ in range(3))
    parts = [items[a:b] for a, b in zip([0, *cuts], [*cuts, len(items)], strict=True)]
    merged = RunSummary.merge(Tally.of(part).summary() for part in parts)
    assert merged == whole
    assert merged.evaluator("E").mean == float(mean([score for scores in runs for score in scores]))


def passes(check, level):
    try:
        check(level)
    except EvalAssertionError:
        return False
    return True
