"""Where to cut scores so that the verdicts agree best with labels."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean


@dataclass(frozen=True, slots=True)
class Threshold:
    """A cut, and the mean of sensitivity and specificity that it reaches: 0.5 is chance."""

    value: float
    balanced_accuracy: float


def best_threshold(scores: Sequence[float], labels: Sequence[bool], *, near: float = 0.5) -> Threshold:
    """Return the threshold with the highest balanced accuracy; of equally good ones, the nearest to `near`.

    A score at or above it passes. It lies half-way between two scores, so that it holds for scores that
    differ a little from those seen.
    """
    candidates = [(low + high) / 2 for low, high in pairwise(sorted(set(scores)))]
    thresholds = [Threshold(cut, balanced_accuracy(scores, labels, cut)) for cut in {*candidates, near}]
    # The last key is for cuts equally far from `near`: a set has no order that repeats.
    return max(thresholds, key=lambda t: (t.balanced_accuracy, -abs(t.value - near), -t.value))


def cross_validated_accuracy(
    scores: Sequence[float], labels: Sequence[bool], *, folds: int = 5, near: float = 0.5, seed: int = 0
) -> float:
    """Return the balanced accuracy on rows that had no part in choosing the threshold.

    Each of the folds, which hold both labels in equal shares, is judged with the threshold that is best on
    the others (M. Stone, 1974).
    """
    fold_of = stratified_folds(labels, folds, seed)
    # All verdicts are scored together: a fold of few rows may hold one label only, which has no accuracy.
    verdicts = [0.0] * len(labels)
    for fold in range(folds):
        others = [row for row, its in enumerate(fold_of) if its != fold]
        cut = best_threshold([scores[row] for row in others], [labels[row] for row in others], near=near)
        for row, its in enumerate(fold_of):
            if its == fold:
                verdicts[row] = float(scores[row] >= cut.value)
    return balanced_accuracy(verdicts, labels, 0.5)


def balanced_accuracy(scores: Sequence[float], labels: Sequence[bool], threshold: float) -> float:
    """Return the mean of sensitivity and specificity; both labels must occur."""
    right: dict[bool, list[bool]] = {True: [], False: []}
    for score, label in zip(scores, labels, strict=True):
        right[label].append((score >= threshold) is label)
    return (fmean(right[True]) + fmean(right[False])) / 2


def stratified_folds(labels: Sequence[bool], folds: int, seed: int) -> list[int]:
    """Return a fold for each row, dealt out at random within each label."""
    draw = random.Random(seed)
    fold_of = [0] * len(labels)
    # Counted on across both labels, so that the sizes of the folds differ by one at most.
    dealt = 0
    for label in (False, True):
        rows = [row for row, its in enumerate(labels) if its is label]
        draw.shuffle(rows)
        for row in rows:
            fold_of[row] = dealt % folds
            dealt += 1
    return fold_of
