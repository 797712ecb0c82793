import random
from statistics import fmean

import pytest

from dokimos.stats._thresholds import (
    balanced_accuracy,
    best_threshold,
    cross_validated_accuracy,
    stratified_folds,
)


def test_the_threshold_lies_between_the_two_labels():
    found = best_threshold([0.1, 0.2, 0.8, 0.9], [False, False, True, True], near=0.95)

    assert (found.value, found.balanced_accuracy) == (pytest.approx(0.5), 1.0)


def test_a_threshold_that_is_as_good_is_kept():
    assert best_threshold([0.1, 0.2, 0.8, 0.9], [False, False, True, True], near=0.7).value == 0.7


def test_rare_labels_count_as_much_as_frequent_ones():
    scores, labels = [0.6] * 9 + [0.4], [True] * 9 + [False]

    assert balanced_accuracy(scores, labels, 0.0) == 0.5
    assert balanced_accuracy(scores, labels, 0.5) == 1.0


def test_one_score_for_all_keeps_the_threshold():
    assert best_threshold([0.5, 0.5], [True, False], near=0.3).value == 0.3


def test_noise_gains_nothing_on_rows_that_were_not_used():
    draw = random.Random(1)
    chosen, held_out = [], []
    for _ in range(20):
        noise = [draw.random() for _ in range(40)]
        labels = [draw.random() < 0.5 for _ in range(40)]
        chosen.append(best_threshold(noise, labels).balanced_accuracy)
        held_out.append(cross_validated_accuracy(noise, labels))

    assert fmean(chosen) > 0.57
    assert fmean(held_out) < 0.53


def test_clear_scores_are_cut_right_on_rows_that_were_not_used():
    labels = [row % 3 == 0 for row in range(30)]
    scores = [0.9 if label else 0.3 for label in labels]

    assert cross_validated_accuracy(scores, labels, near=0.95) == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_every_fold_has_its_share_of_both_labels(seed):
    labels = [True] * 15 + [False] * 10

    fold_of = stratified_folds(labels, 5, seed)

    for fold in range(5):
        mine = [label for label, its in zip(labels, fold_of, strict=True) if its == fold]
        assert (mine.count(True), mine.count(False)) == (3, 2)
