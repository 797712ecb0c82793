from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import EvalResult, Example, ExperimentResult, ItemResult, RunResult
from dokimos._core.repeats import all_of_k, any_of_k, pass_at_k, pass_hat_k


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_the_estimates_are_the_shares_of_all_draws(outcomes, data):
    k = data.draw(st.integers(1, len(outcomes)))
    draws = list(combinations(outcomes, k))
    n, passed = len(outcomes), sum(outcomes)
    assert any_of_k(n, passed, k) == pytest.approx(sum(map(any, draws)) / len(draws))
    assert all_of_k(n, passed, k) == pytest.approx(sum(map(all, draws)) / len(draws))


def run(index, *items):
    return RunResult(index=index, item_results=tuple(items))


def item(index, passed, *, name="A", **more):
    results = () if passed is None else (EvalResult(name, float(passed), success=passed),)
    return ItemResult(index, Example.of(str(index), None), eval_results=results, **more)


def test_the_mean_is_over_the_items():
    runs = [run(0, item(0, True), item(1, True)), run(1, item(0, False), item(1, True))]
    assert (pass_at_k(runs, 1), pass_hat_k(runs, 1)) == (0.75, 0.75)
    assert (pass_at_k(runs, 2), pass_hat_k(runs, 2)) == (1.0, 0.5)


def test_an_attempt_that_errored_did_not_pass():
    runs = [run(0, item(0, True)), run(1, item(0, None, error="TimeoutError"))]
    assert (pass_at_k(runs, 1), pass_hat_k(runs, 2)) == (0.5, 0.0)


def test_an_attempt_that_nothing_judged_is_none():
    runs = [run(0, item(0, True), item(1, None)), run(1, item(0, True), item(1, True))]
    assert pass_hat_k(runs, 2) == 1.0
    assert pass_hat_k([run(0, item(0, None))], 1) is None


def test_one_evaluator_can_be_looked_at_alone():
    both = (EvalResult("A", 1.0, success=True), EvalResult("B", 0.0, success=False))
    errored = (EvalResult("A", error="x"), EvalResult("B", 1.0, success=True))
    runs = [
        run(n, ItemResult(0, Example.of("q", None), eval_results=results))
        for n, results in enumerate((both, errored))
    ]
    assert (pass_at_k(runs, 1, "A"), pass_at_k(runs, 1, "B"), pass_at_k(runs, 1, "C")) == (0.5, 0.5, None)
    assert pass_at_k([run(0, item(0, True, error="x"))], 1, "A") == 0.0


@pytest.mark.parametrize("k", [0, 3, -1])
def test_k_is_at_most_the_number_of_repeats(k):
    with pytest.raises(ValueError, match="from 1 to the number of repeats, 2"):
        pass_at_k([run(0), run(1)], k)


def test_a_result_says_it_of_its_runs():
    runs = (run(0, item(0, True), item(1, True)), run(1, item(0, False), item(1, True)))
    result = ExperimentResult(runs=runs)
    assert (result.pass_at_k(2), result.pass_hat_k(2), result.pass_hat_k(1, "A")) == (1.0, 0.5, 0.75)


def test_a_result_without_its_items_cannot_say():
    kept = run(0, item(0, True))
    result = ExperimentResult(runs=(RunResult(summary=kept.summary),))
    with pytest.raises(ValueError, match="pass_at_k\\(\\) needs the items"):
        result.pass_at_k(1)
