import random

import krippendorff
import numpy
import pytest
from statsmodels.stats.inter_rater import cohens_kappa

from dokimos.stats._agreement import agreement, cohen_kappa, krippendorff_alpha


def ratings(seed, n=60, categories=4):
    """Two raters who often agree."""
    draw = random.Random(seed)
    first = [draw.randrange(categories) for _ in range(n)]
    second = [value if draw.random() < 0.6 else draw.randrange(categories) for value in first]
    return first, second


def table(first, second, categories=4):
    counts = numpy.zeros((categories, categories))
    for a, b in zip(first, second, strict=True):
        counts[a, b] += 1
    return counts


def with_gaps(seed, raters=3, n=40, categories=5):
    draw = random.Random(seed)
    truth = [draw.randrange(categories) for _ in range(n)]
    rated = [
        [value if draw.random() < 0.7 else draw.randrange(categories) for _ in range(raters)]
        for value in truth
    ]
    return [[None if draw.random() < 0.2 else value for value in unit] for unit in rated]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_kappa_is_that_of_statsmodels(seed, weights):
    first, second = ratings(seed)
    oracle = cohens_kappa(table(first, second), wt=weights, return_results=False)

    assert cohen_kappa(first, second, weights=weights, categories=range(4)) == pytest.approx(
        oracle, abs=1e-12
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_is_that_of_the_krippendorff_package(seed, level):
    units = with_gaps(seed)
    data = [[numpy.nan if value is None else value for value in rater] for rater in zip(*units, strict=True)]
    oracle = krippendorff.alpha(reliability_data=data, level_of_measurement=level)

    assert krippendorff_alpha(units, level=level) == pytest.approx(oracle, abs=1e-12)


def test_kappa_of_a_textbook_table():
    """Fifty grant proposals: both yes 20, only the first 5, only the second 10, both no 15."""
    first = ["yes"] * 25 + ["no"] * 25
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15

    assert cohen_kappa(first, second) == pytest.approx(0.4)
    assert agreement(first, second) == pytest.approx(0.7)


def test_alpha_takes_words_for_categories():
    assert krippendorff_alpha([["a", "a"], ["b", "b"], ["a", "b"]]) == pytest.approx(4 / 9)


def test_full_agreement_is_one():
    assert cohen_kappa([0, 1, 1], [0, 1, 1]) == 1.0
    assert krippendorff_alpha([[0, 0], [1, 1]]) == 1.0


def test_weights_forgive_a_near_miss():
    near, far = ([0, 1, 2, 2], [0, 1, 2, 1]), ([0, 1, 2, 2], [0, 1, 2, 0])

    assert cohen_kappa(*near, weights="quadratic") > cohen_kappa(*far, weights="quadratic")


@pytest.mark.parametrize("same", [([], []), ([1, 1], [1, 1])])
def test_kappa_is_unknown_where_chance_explains_everything(same):
    assert cohen_kappa(*same) is None


@pytest.mark.parametrize("units", [[], [[1, None], [None, 2]], [[1, 1], [1, 1]]])
def test_alpha_is_unknown_where_nothing_can_differ(units):
    assert krippendorff_alpha(units) is None


def test_raters_must_rate_the_same_items():
    with pytest.raises(ValueError, match="shorter"):
        agreement([1, 2], [1])
