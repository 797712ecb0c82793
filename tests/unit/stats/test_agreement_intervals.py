import random

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa

from dokimos.stats._agreement import cohen_kappa, krippendorff_alpha
from dokimos.stats._agreement_intervals import cohen_kappa_interval, krippendorff_alpha_interval

RATINGS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=30)


def verdicts(draw, n, rate, error, raters):
    truth = [draw.random() < rate for _ in range(n)]
    return [[value != (draw.random() < error) for _ in range(raters)] for value in truth]


def test_with_many_items_it_is_that_of_the_large_sample_formula():
    rated = verdicts(random.Random(1), 20_000, 0.5, 0.1, 2)
    table = numpy.zeros((2, 2))
    for a, b in rated:
        table[int(a), int(b)] += 1
    oracle = cohens_kappa(table)
    found = cohen_kappa_interval(*zip(*rated, strict=True))

    assert (found.low, found.high) == pytest.approx((oracle.kappa_low, oracle.kappa_upp), abs=0.002)


@given(RATINGS)
def test_the_interval_holds_the_value_that_was_seen(pairs):
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    for weights in (None, "linear", "quadratic"):
        kappa = cohen_kappa(first, second, weights=weights)
        found = cohen_kappa_interval(first, second, weights=weights)
        assert (found is None) == (kappa is None or len(pairs) < 2)
        if found is not None:
            assert -1 <= found.low <= kappa + 1e-9
            assert kappa - 1e-9 <= found.high <= 1
            assert found.low < found.high


@given(st.lists(st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=4), max_size=20))
def test_the_interval_of_alpha_holds_the_value_that_was_seen(units):
    rated = sum(sum(value is not None for value in unit) > 1 for unit in units)
    for level in ("nominal", "ordinal", "interval"):
        alpha = krippendorff_alpha(units, level=level)
        found = krippendorff_alpha_interval(units, level=level)
        assert (found is None) == (alpha is None or rated < 2)
        if found is not None:
            assert found.low <= max(alpha, -1) + 1e-9
            assert alpha - 1e-9 <= found.high <= 1


@pytest.mark.parametrize("n", [10, 20, 100])
def test_raters_who_agree_on_few_items_may_still_disagree(n):
    ratings = [number % 2 for number in range(n)]
    found = cohen_kappa_interval(ratings, ratings)
    of_three = krippendorff_alpha_interval([[value] * 3 for value in ratings])

    assert found.high == of_three.high == 1.0
    assert found.low < 1 - 3 / n
    assert of_three.low < 1 - 1 / n


@pytest.mark.parametrize("same", [([], []), ([1], [1]), ([1, 1], [1, 1])])
def test_nothing_can_be_said_where_nothing_can_differ(same):
    assert cohen_kappa_interval(*same) is None
    assert krippendorff_alpha_interval(list(zip(*same, strict=True))) is None


@pytest.mark.parametrize(("rate", "error"), [(0.5, 0.02), (0.5, 0.3), (0.95, 0.1)])
@pytest.mark.parametrize("raters", [2, 3])
def test_twenty_items_hold_the_agreement_of_many(raters, rate, error):
    """A few points of the sweep of `make validity`."""

    def measure(units):
        if raters == 2:
            first, second = zip(*units, strict=True)
            return cohen_kappa(first, second), cohen_kappa_interval(first, second)
        return krippendorff_alpha(units), krippendorff_alpha_interval(units)

    truth, _ = measure(verdicts(random.Random(2), 20_000, rate, error, raters))
    draw, times, covered, defined = random.Random(f"{raters} {rate} {error}"), 200, 0, 0
    for _ in range(times):
        _, found = measure(verdicts(draw, 20, rate, error, raters))
        if found is not None:
            defined += 1
            covered += found.low <= truth <= found.high
    assert defined > 150
    assert covered / defined >= 0.88  # 93 %, less three standard errors


def test_numbers_that_lie_far_from_zero_keep_their_digits():
    units = [[1e9 + value, 1e9 + value + 0.5] for value in (0.0, 3.0, 7.0, 1.0, 5.0)]
    near = [[value - 1e9 for value in unit] for unit in units]
    far, same = (krippendorff_alpha_interval(each, level="interval") for each in (units, near))

    assert (far.low, far.high) == pytest.approx((same.low, same.high), abs=1e-6)
