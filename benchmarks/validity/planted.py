"""How often a drop that was planted is found, beside the power that was predicted."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from numpy.typing import NDArray
from tables import Row, Table, percent, rate_error

from dokimos.stats._mcnemar import mcnemar_p
from dokimos.stats._permutation import sign_flip_test
from dokimos.stats._power import Spread, mcnemar_power, paired_power
from dokimos.stats._verdict_power import VerdictDesign, verdict_power

ALPHA = 0.05
ITERATIONS = 999
POINTS = 0.03
ENOUGH = 4_000
"""Repetitions from which on the simulation itself is not to blame for more than a point."""


def power_table(repetitions: int) -> Table:
    rows = [
        *(
            verdict_row(n, drop, flips, 2 * repetitions)
            for n, (drop, flips) in product((30, 100, 400), VERDICTS)
        ),
        *(score_row(*design, repetitions) for design in product((20, 50, 200), (1, 3), (0.05, 0.1))),
        *(
            repeated_verdict_row(*design, repetitions)
            for design in product((30, 50, 200), (0.05, 0.1), (0.1, 0.4))
        ),
    ]
    return Table(
        "Predicted and simulated power",
        "Drops are found as often as predicted, within 3 points. Verdicts of one run are tested by "
        f"McNemar's test and simulated {2 * repetitions:,} times, everything else by sign flips and "
        f"{repetitions:,} times.",
        ("scores", "n", "repeats", "drop", "noise", "predicted", "found"),
        tuple(rows),
    )


VERDICTS = ((0.05, 0.0), (0.05, 0.05), (0.1, 0.0), (0.1, 0.05), (0.2, 0.1))


def verdict_row(n: int, drop: float, flips: float, repetitions: int) -> Row:
    draw = np.random.default_rng([n, round(100 * drop), round(100 * flips)])
    worse_share = flips + drop
    predicted = mcnemar_power(n, worse=worse_share, better=flips, alpha=ALPHA)
    splits = draw.multinomial(n, [worse_share, flips, 1 - worse_share - flips], size=repetitions)
    found = sum(mcnemar_p(int(worse), int(better)) < ALPHA for worse, better, _ in splits) / repetitions
    return row("binary", n, 1, drop, f"{percent(flips)} flip", (predicted, found), repetitions)


def score_row(n: int, repeats: int, drop: float, repetitions: int) -> Row:
    """Simulate judge scores of two decimals, whose true change varies from item to item."""
    spread = Spread(items=0.12, noise=0.1 * math.sqrt(2))
    draw = np.random.default_rng([n, repeats, round(100 * drop)])
    changes = draw.normal(-drop, spread.items, size=(repetitions, n, 1))
    quality = draw.normal(0.6, 0.1, size=(repetitions, n, 1))
    baseline = np.round(quality + 0.1 * draw.normal(size=(repetitions, n, repeats)), 2)
    candidate = np.round(quality + changes + 0.1 * draw.normal(size=(repetitions, n, repeats)), 2)
    predicted = paired_power(n, drop, spread.of_mean(repeats), alpha=ALPHA)
    found = found_share((candidate.sum(axis=2) - baseline.sum(axis=2)) * 100)
    return row("continuous", n, repeats, drop, "sd 0.1, items 0.12", (predicted, found), repetitions)


def repeated_verdict_row(n: int, drop: float, noise_share: float, repetitions: int) -> Row:
    """Simulate verdicts of which a share of the variance is chance; a drop breaks some of the items."""
    design = VerdictDesign(rate=0.8, noise_share=noise_share, repeats=3)
    draw = np.random.default_rng([n, round(1000 * drop), round(100 * noise_share)])
    shape, strength = (repetitions, n), noise_share / (1 - noise_share)
    before = draw.beta(design.rate * strength, (1 - design.rate) * strength, size=shape)
    after = np.where(draw.random(shape) < drop / design.rate, 0.0, before)
    found = found_share(draw.binomial(3, after) - draw.binomial(3, before))
    predicted = verdict_power(n, drop, design, alpha=ALPHA, simulations=2 * repetitions)
    return row("binary", n, 3, drop, f"{percent(noise_share)} chance", (predicted, found), repetitions)


def found_share(deltas: NDArray[np.float64]) -> float:
    """Return in how many of the simulated comparisons the test is significant and the sum negative."""
    found = 0
    for seed, one in enumerate(np.rint(deltas).astype(int).tolist()):
        keyed = {str(place): delta for place, delta in enumerate(one)}
        test = sign_flip_test(keyed, iterations=ITERATIONS, seed=seed)
        found += test.p < ALPHA and sum(one) < 0
    return found / len(deltas)


def row(
    kind: str, n: int, repeats: int, drop: float, noise: str, shares: tuple[float, float], repetitions: int
) -> Row:
    predicted, found = shares
    cells = (
        kind,
        str(n),
        str(repeats),
        f"{100 * drop:.0f} points",
        noise,
        percent(predicted),
        percent(found),
    )
    coarse = 3 * rate_error(predicted, repetitions) if repetitions < ENOUGH else 0.0
    return Row(cells, holds=abs(found - predicted) <= POINTS + coarse)
