"""What repeated runs say: how likely one of k attempts passes, and how likely all of them do.

Chen et al., "Evaluating Large Language Models Trained on Code" (2021), for one of k (pass@k); Yao et al.,
"τ-bench" (2024), for all of k (pass^k). Both are unbiased estimates from n attempts of which c passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import comb
from typing import TYPE_CHECKING

from dokimos._core.means import exact_mean

if TYPE_CHECKING:
    from dokimos._core.results import ItemResult, RunResult


def any_of_k(attempts: int, passed: int, k: int) -> float:
    """Return the probability that at least one of k attempts drawn without replacement passed."""
    return (comb(attempts, k) - comb(attempts - passed, k)) / comb(attempts, k)


def all_of_k(attempts: int, passed: int, k: int) -> float:
    """Return the probability that each of k attempts drawn without replacement passed."""
    return comb(passed, k) / comb(attempts, k)


def pass_at_k(runs: Sequence[RunResult], k: int, evaluator: str | None = None) -> float | None:
    """Return the mean over the items of the probability that one of k attempts passes; see `mean_over`."""
    return mean_over(runs, k, evaluator, any_of_k)


def pass_hat_k(runs: Sequence[RunResult], k: int, evaluator: str | None = None) -> float | None:
    """Return the mean over the items of the probability that all of k attempts pass; see `mean_over`."""
    return mean_over(runs, k, evaluator, all_of_k)


def mean_over(
    runs: Sequence[RunResult], k: int, evaluator: str | None, estimate: Callable[[int, int, int], float]
) -> float | None:
    """Return the mean of an estimate over the items, each with as many attempts as there are repeats.

    An attempt that errored did not pass. One that nothing judged is not an attempt, and items with fewer than
    k attempts are left out; None where none is left.

    Args:
        runs: The repeats.
        k: How many attempts, at least 1 and at most the number of repeats.
        evaluator: Count an attempt as passed by this evaluator's result instead of by all of them.
        estimate: A function of attempts, those that passed, and k.

    Raises:
        ValueError: when k is out of range.
    """
    if not 1 <= k <= len(runs):
        raise ValueError(f"k must be from 1 to the number of repeats, {len(runs)}, not {k!r}.")
    outcomes = _outcomes((item for run in runs for item in run.item_results), evaluator)
    estimates = [estimate(len(attempts), sum(attempts), k) for attempts in outcomes if len(attempts) >= k]
    return exact_mean(estimates) if estimates else None


def _outcomes(items: Iterable[ItemResult], evaluator: str | None) -> list[list[bool]]:
    """Return for each item whether its attempts passed."""
    by_index: dict[int, list[bool]] = {}
    for item in items:
        passed = _has_passed(item, evaluator)
        if passed is not None:
            by_index.setdefault(item.index, []).append(passed)
    return list(by_index.values())


def _has_passed(item: ItemResult, evaluator: str | None) -> bool | None:
    if evaluator is None:
        return item.success
    if item.error is not None:
        return False
    result = item.result(evaluator)
    if result is None:
        return False if _has_errored(item, evaluator.rpartition(".")[0]) else None
    return False if result.error is not None else result.success


def _has_errored(item: ItemResult, evaluator: str) -> bool:
    """Say whether an evaluator of several scores gave none of them."""
    results = [result for result in item.eval_results if result.evaluator == evaluator]
    return bool(results) and all(result.error is not None for result in results)
