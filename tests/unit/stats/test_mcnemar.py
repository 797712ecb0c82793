import pytest
from scipy import stats

from dokimos.stats._mcnemar import McNemarTest, mcnemar_p, mcnemar_test


@pytest.mark.parametrize(
    ("worse", "better"), [(6, 0), (5, 0), (12, 2), (3, 3), (1, 0), (40, 61), (600, 500), (5_100, 4_900)]
)
def test_p_is_that_of_scipys_binomial_test(worse, better):
    oracle = stats.binomtest(worse, worse + better).pvalue

    assert mcnemar_p(worse, better) == pytest.approx(oracle, rel=1e-8)
    assert mcnemar_p(better, worse) == mcnemar_p(worse, better)


def test_six_one_way_changes_are_the_fewest_that_are_significant():
    assert mcnemar_p(6, 0) == 0.03125
    assert mcnemar_p(5, 0) == 0.0625


def test_without_changes_nothing_is_significant():
    assert mcnemar_p(0, 0) == 1.0


def test_both_ways_of_computing_meet():
    assert mcnemar_p(470, 530) == pytest.approx(stats.binomtest(470, 1_000).pvalue, rel=1e-10)
    assert mcnemar_p(470, 531) == pytest.approx(stats.binomtest(470, 1_001).pvalue, rel=1e-10)


def test_pairs_are_counted_by_what_became_of_them():
    baseline = [True] * 8 + [False] * 4
    candidate = [False] * 7 + [True] * 3 + [False] * 2

    assert mcnemar_test(baseline, candidate) == McNemarTest(p=mcnemar_p(7, 2), worse=7, better=2)


def test_verdicts_must_be_of_the_same_items():
    with pytest.raises(ValueError, match="shorter"):
        mcnemar_test([True, False], [True])
