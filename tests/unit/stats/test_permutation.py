import random
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dokimos.stats._mcnemar import mcnemar_p
from dokimos.stats._permutation import (
    FamilyTest,
    SignFlipTest,
    exchange_p,
    max_t_test,
    paired_deltas,
    sign_flip_test,
)

SMALL = st.lists(st.integers(-9, 9), max_size=8)


def by_key(deltas):
    return {f"item-{place}": delta for place, delta in enumerate(deltas)}


def every_sum(deltas):
    return [
        sum(s * d for s, d in zip(signs, deltas, strict=True))
        for signs in product((1, -1), repeat=len(deltas))
    ]


def enumerated_p(deltas):
    """The p-value by going through all signs."""
    sums = every_sum(deltas)
    return sum(abs(one) >= abs(sum(deltas)) for one in sums) / len(sums)


def enumerated_max_t(columns):
    """Adjusted p-values of metrics of the same items, by the definition of step-down max-T."""
    size = len(columns[0])
    squares = [sum(d * d for d in column) for column in columns]

    def statistics(signs):
        sums = [sum(s * d for s, d in zip(signs, column, strict=True)) for column in columns]
        return [one * one / square if square else 0.0 for one, square in zip(sums, squares, strict=True)]

    draws = [statistics(signs) for signs in product((1, -1), repeat=size)]
    seen = statistics((1,) * size)
    order = sorted(range(len(columns)), key=lambda place: -seen[place])
    adjusted, floor = {}, 0.0
    for step, place in enumerate(order):
        hits = sum(max(draw[other] for other in order[step:]) >= seen[place] for draw in draws)
        adjusted[place] = floor = max(floor, hits / len(draws))
    return [adjusted[place] for place in range(len(columns))]


@given(SMALL)
def test_few_differences_are_enumerated(deltas):
    assert sign_flip_test(by_key(deltas)) == SignFlipTest(pytest.approx(enumerated_p(deltas)))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.lists(st.integers(-4, 4), min_size=n, max_size=n), min_size=1, max_size=4)
    )
)
def test_a_small_family_is_enumerated(columns):
    found = max_t_test({str(place): by_key(column) for place, column in enumerate(columns)})

    assert list(found.adjusted.values()) == pytest.approx(enumerated_max_t(columns))


def test_six_drops_of_one_size_are_the_fewest_that_are_significant():
    assert sign_flip_test(by_key([-300_000] * 6 + [0] * 14)).p == 0.03125
    assert sign_flip_test(by_key([-300_000] * 5 + [0] * 15)).p == 0.0625


def test_ties_count_as_hits():
    """Floats would miss sums that are equal in theory and differ in the last bit."""
    drops = paired_deltas(
        {str(n): [0.3] for n in range(8)}, {str(n): [0.1 + 0.1 * (n < 1)] for n in range(8)}
    )

    assert sign_flip_test(drops).p == 2 / 2**8


@pytest.mark.parametrize("deltas", [[], [5], [0, 0, 0]])
def test_what_cannot_differ_is_not_significant(deltas):
    assert sign_flip_test(by_key(deltas)).p == 1.0


@given(st.integers(0, 40), st.integers(0, 40))
def test_verdicts_have_mcnemars_exact_p(worse, better):
    assert sign_flip_test(by_key([-1] * worse + [1] * better + [0] * 5)).p == pytest.approx(
        mcnemar_p(worse, better)
    )


@pytest.mark.parametrize("seed", range(4))
def test_random_swaps_come_near_scipys_permutation_test(seed):
    draw = random.Random(seed)
    deltas = [round(draw.gauss(-0.04, 0.15), 2) for _ in range(60)]
    oracle = stats.permutation_test(
        (deltas,),
        lambda values, axis: abs(values.mean(axis=axis)),
        permutation_type="samples",
        alternative="greater",
        n_resamples=20_000,
        rng=seed,
    ).pvalue

    found = sign_flip_test(by_key([round(delta * 100) for delta in deltas]), stop_above=1)

    assert found.draws == 10_000
    assert found.p == pytest.approx(oracle, abs=0.02)


def noisy_family(metrics, items, seed=1, drop=0.0):
    draw = random.Random(seed)
    return {
        f"m{number}": {f"item-{n}": round(draw.gauss(-drop, 0.2) * 100) for n in range(items)}
        for number in range(metrics)
    }


@pytest.mark.parametrize("items", [10, 40])
def test_a_metrics_own_p_does_not_depend_on_what_else_is_tested(items):
    family = noisy_family(4, items, drop=0.05)

    together = max_t_test(family)

    assert together.marginal == {name: sign_flip_test(deltas) for name, deltas in family.items()}


def test_the_order_of_items_and_metrics_does_not_matter():
    family = noisy_family(3, 40, drop=0.05)
    turned = {name: dict(reversed(deltas.items())) for name, deltas in reversed(family.items())}

    found = max_t_test(turned)

    assert found == max_t_test(family)
    assert list(found.adjusted) == ["m2", "m1", "m0"]


def test_the_seed_and_the_keys_decide_the_swaps():
    deltas = noisy_family(1, 40, drop=0.05)["m0"]
    renamed = {f"other {key}": delta for key, delta in deltas.items()}

    found = {sign_flip_test(deltas).p, sign_flip_test(deltas, seed=43).p, sign_flip_test(renamed).p}

    assert len(found) > 1
    assert sign_flip_test(deltas) == sign_flip_test(dict(deltas))


def test_a_p_value_is_the_same_on_every_machine():
    assert sign_flip_test(by_key([37 * n % 101 - 60 for n in range(40)])) == SignFlipTest(
        381 / 10_001, 10_000
    )


def test_the_unit_of_the_differences_does_not_matter():
    deltas = noisy_family(1, 40, drop=0.05)["m0"]

    assert sign_flip_test({key: 7_919 * delta for key, delta in deltas.items()}) == sign_flip_test(deltas)


def test_metrics_that_move_together_cost_nothing():
    deltas = noisy_family(1, 60, drop=0.07)["m0"]

    found = max_t_test({f"copy {n}": deltas for n in range(8)})

    assert set(found.adjusted.values()) == {sign_flip_test(deltas).p}


def test_metrics_that_move_apart_share_the_error_rate():
    family = {**noisy_family(9, 60, seed=5), "drop": noisy_family(1, 60, drop=0.09)["m0"]}

    found = max_t_test(family)

    assert found.marginal["drop"].p < found.adjusted["drop"] < 10 * found.marginal["drop"].p + 0.002


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(2, 40))
def test_adjusted_p_values_follow_the_statistics_and_are_never_below_the_marginal_ones(seed, metrics, items):
    family = noisy_family(metrics, items, seed=seed, drop=0.05)

    found = max_t_test(family, iterations=400)

    def statistic(name):
        return sum(family[name].values()) ** 2 / max(1, sum(d * d for d in family[name].values()))

    adjusted = [found.adjusted[name] for name in sorted(family, key=statistic, reverse=True)]
    assert adjusted == sorted(adjusted)
    assert all(found.marginal[name].p <= found.adjusted[name] <= 1 for name in family)


def test_a_metric_of_some_items_and_one_that_never_differs_are_part_of_the_family():
    family = noisy_family(1, 40, drop=0.1)
    family |= {"some": dict(list(family["m0"].items())[:20]), "same": dict.fromkeys(family["m0"], 0)}

    found = max_t_test(family)

    assert found.adjusted["same"] == found.marginal["same"].p == 1.0
    assert found.adjusted["m0"] < found.adjusted["some"] < 1


def test_an_empty_family_has_no_p_values():
    assert max_t_test({}) == FamilyTest({}, {})


@pytest.mark.parametrize("seed", range(6))
def test_an_early_stop_changes_no_decision(seed):
    family = noisy_family(3, 40, seed=seed, drop=0.03)

    early, full = max_t_test(family), max_t_test(family, stop_above=1)

    for name in family:
        assert (early.marginal[name].p < 0.1) == (full.marginal[name].p < 0.1)
        assert (early.adjusted[name] < 0.1) == (full.adjusted[name] < 0.1)
        if full.marginal[name].p < 0.1:
            assert early.marginal[name] == full.marginal[name]


def test_an_early_stop_saves_draws_and_comes_near_the_p_of_all():
    deltas = noisy_family(1, 40)["m0"]

    early, full = sign_flip_test(deltas), sign_flip_test(deltas, stop_above=1)

    assert early.draws < full.draws == 10_000
    assert early.p == pytest.approx(full.p, rel=0.15)
    assert early.p == 1_000 / early.draws


def test_a_random_p_is_never_zero():
    assert sign_flip_test(by_key(range(1, 200)), iterations=99) == SignFlipTest(0.01, 99)


@pytest.mark.parametrize("key", ["é", "\ud800", ""])
def test_any_string_is_a_key(key):
    deltas = noisy_family(1, 30, drop=0.1)["m0"]

    assert 0 < sign_flip_test({**deltas, key: -3}).p < 0.1


def test_repeats_make_exact_differences():
    baseline = {"a": [1.0, 1.0, 0.0], "b": [1.0, 0.0, 0.0], "c": [1.0, 0.0]}
    candidate = {"a": [1.0, 0.0, 0.0], "b": [0.0, 0.0, 0.0], "c": [1.0, 1.0]}

    found = paired_deltas(baseline, candidate)

    assert found["a"] == found["b"] == -2_000_000
    assert found["c"] == 3_000_000


def test_items_without_a_score_on_either_side_are_left_out():
    assert paired_deltas({"a": [1.0], "b": [1.0], "c": []}, {"a": [0.5], "c": [1.0], "d": [1.0]}) == {
        "a": -500_000
    }


@pytest.mark.slow
def test_unchanged_systems_rarely_fail_however_many_metrics():
    draw = random.Random(8)
    alarms = 0
    for _ in range(400):
        shared = [draw.gauss(0, 1) for _ in range(30)]
        family = {
            f"m{number}": by_key([round(100 * (one + draw.gauss(0, 1))) for one in shared])
            for number in range(5)
        }
        alarms += min(max_t_test(family, iterations=200).adjusted.values()) < 0.05

    assert alarms <= 33  # 20 are expected at 5 %; more than 33 have a chance of 0.3 %


HUNDREDTHS = st.lists(st.integers(0, 100), min_size=2, max_size=4)


@settings(deadline=None, max_examples=30)
@given(HUNDREDTHS, HUNDREDTHS)
def test_two_samples_are_dealt_out_in_all_ways(before, now):
    # Where all values stay the same, the sum of one sample orders the deals as the difference of means does.
    oracle = stats.permutation_test(
        (before, now), lambda a, b: a.sum(), n_resamples=10**6, alternative="greater"
    )

    found = exchange_p([value / 100 for value in before], [value / 100 for value in now])

    assert found == pytest.approx(oracle.pvalue)


def test_the_smallest_p_of_two_samples_is_one_deal_of_all():
    assert exchange_p([1, 1, 1], [0, 0, 0]) == 1 / 20
    assert exchange_p([0.3, 0.5, 0.9], [0.1, 0.2]) == 1 / 10
    assert exchange_p([1, 0], [0, 1]) == 5 / 6
    assert exchange_p([0], [1]) == 1.0
