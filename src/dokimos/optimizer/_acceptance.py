"""Whether a change is accepted: a paired test on held-out cases, at levels that hold for the whole search.

Each phase of a cycle may put one candidate to the test, its best one on the training cases. A cycle has a
level to spend, alpha in the first one, which its phases share equally. What an accepted change was tested
at is handed on to the next cycle; what was not accepted is spent. Without an acceptance there is no next
cycle, so where nothing is better the levels of all tests that can happen add up to alpha at most.

The search learns nothing from the held-out cases but whether a candidate was accepted. Up to the first
acceptance the candidates therefore depend on the training cases alone, and the bound on a false acceptance
needs no new cases for each test (A. Blum, M. Hardt, The Ladder, 2015).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dokimos._core.means import exact_mean
from dokimos._core.number_format import round_half_up
from dokimos.stats._intervals import Interval
from dokimos.stats._paired_estimates import mean_estimate
from dokimos.stats._permutation import ITERATIONS, SEED, STOP_ABOVE, sign_flip_test, to_fixed_point


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the held-out cases say about a candidate."""

    accepted: bool
    improvement: float
    """By how much the loss is smaller."""
    p: float
    """One-sided: how likely so large an improvement is where there is none."""
    level: float
    cases: int
    interval: Interval | None = None
    """At 95 %, of the improvement."""
    reason: str = ""


def one_sided_p(improvements: Mapping[str, float], *, seed: int = SEED, level: float = 0.05) -> float:
    """Test whether the mean improvement is above zero, by flipping the signs of whole cases.

    A case's improvement is the mean over its repeats and metrics, so repeats add no cases. Where nothing
    changed, either side of a case could as well have been the other: the p-value is exact up to 14 cases that
    differ, and counted from 10,000 random flips above, never below what an exact count could give.
    """
    deltas = {case: to_fixed_point(value) for case, value in improvements.items()}
    if sum(deltas.values()) <= 0:
        return 1.0
    # A test that stops early has p >= stop_above, which is still above the level when it is halved below.
    test = sign_flip_test(deltas, seed=seed, stop_above=max(STOP_ABOVE, min(1.0, 4 * level)))
    # The distribution is symmetric, so one side has half of the flips; the flip that was seen counts whole.
    return test.p / 2 if test.draws is None else (test.p + 1 / (ITERATIONS + 1)) / 2


def decide(
    improvements: Mapping[str, float], *, level: float, min_delta: float = 0.0, seed: int = SEED
) -> Decision:
    """Accept a candidate whose improvement is significant at `level` and larger than `min_delta`."""
    values = list(improvements.values())
    mean = exact_mean(values) if values else 0.0
    p = one_sided_p(improvements, seed=seed, level=level)
    estimate = mean_estimate(values, within=(-1.0, 1.0))
    # Rounded: 0.3 - 0.2 is 0.09999999999999998, and a gain of just min_delta must not depend on such a digit.
    accepted = p <= level and round_half_up(mean) > min_delta
    return Decision(
        accepted=accepted,
        improvement=mean,
        p=p,
        level=level,
        cases=len(values),
        interval=None if estimate is None else estimate.interval,
        reason=_reason(mean, p, level, min_delta),
    )


def _reason(mean: float, p: float, level: float, min_delta: float) -> str:
    loss_change = f"On the held-out cases the loss {'falls' if mean > 0 else 'rises'} by {abs(mean):.4f}"
    if round_half_up(mean) <= min_delta:
        return f"{loss_change}, which is not more than {min_delta:g}."
    if p > level:
        return f"{loss_change}, which may be chance (p = {p:.3g}, and {level:.3g} is needed)."
    return f"{loss_change}, which is not chance (p = {p:.3g}, and {level:.3g} is needed)."


def fewest_cases(level: float) -> int:
    """Return how many cases have to improve, with none that is worse, for a test to accept at `level`."""
    cases = 1
    # With n cases, all better, one of 2^n flips reaches what was seen.
    while 0.5**cases > level:
        cases += 1
    return cases


class Levels:
    """Hands out the levels of the tests of a search."""

    def __init__(self, alpha: float, phases: int) -> None:
        self._phases = phases
        self._wealth = alpha
        self._kept = 0.0

    @property
    def next(self) -> float:
        """The level of each test of this cycle."""
        return self._wealth / self._phases

    def carry_over(self) -> None:
        """Hand the level of an accepted change on to the next cycle."""
        self._kept += self.next

    def end_cycle(self) -> None:
        self._wealth, self._kept = self._kept, 0.0
