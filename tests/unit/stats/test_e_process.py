import json
import math
import random
from copy import deepcopy
from fractions import Fraction
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.stats._betting import SHARES
from dokimos.stats._e_process import EDetector, EProcess

TENTHS = st.integers(0, 10).map(lambda tenths: tenths / 10)
KINDS = [lambda **more: EProcess(0.8, **more), lambda **more: EDetector(0.8, average_run_length=50, **more)]
BOTH = pytest.mark.parametrize("make", KINDS, ids=["test", "detector"])


def passes(draw, n, rate):
    return [draw.random() < rate for _ in range(n)]


def passed_share(draw, n, rate):
    return sum(passes(draw, n, rate)) / n


def first_alarm(test, values, alpha=0.05):
    return next((test.n for value in values if test.add(value) <= alpha), None)


def looks_until_alarm(detector, draw, rate, n=50, most=100_000):
    for look in range(1, most):
        detector.start_look()
        if detector.add_mean(passed_share(draw, n, rate), n):
            return look
    raise AssertionError("There was no alarm.")


# What the evidence is


def test_the_evidence_is_what_the_players_win_by_hand():
    test = EProcess(0.8)
    for value in (1.0, 0.0, 0.5):
        test.add(value)

    up = [(1 + bet * (1 / 0.8 - 1)) * (1 - bet) * (1 + bet * (0.5 / 0.8 - 1)) for bet in SHARES]
    down = [(1 - bet) * (1 + bet * (1 / 0.2 - 1)) * (1 + bet * (0.5 / 0.2 - 1)) for bet in SHARES]
    assert test.e_value == pytest.approx(fmean(up + down))
    assert test.n == 3


@given(st.lists(TENTHS, max_size=5), st.sampled_from(["two-sided", "less", "greater"]))
def test_the_game_is_fair(history, alternative):
    """Whatever happened, the next observation pays nothing on average while the mean is the target."""
    test = EProcess(0.3, alternative=alternative)
    for value in history:
        test.add(value)
    hit, missed = deepcopy(test), deepcopy(test)
    hit.add(1.0)
    missed.add(0.0)

    assert 0.3 * hit.e_value + 0.7 * missed.e_value == pytest.approx(test.e_value)


def test_a_sampled_population_with_its_mean_at_the_target_pays_nothing_on_average():
    """Half of the traces pass and all those are kept; of the others a tenth, with ten times the weight."""
    hit, missed = EProcess(0.5, largest_weight=10), EProcess(0.5, largest_weight=10)
    hit.add(1.0, weight=1)
    missed.add(0.0, weight=10)

    assert (0.5 * hit.e_value + 0.05 * missed.e_value) / 0.55 == pytest.approx(1.0)


def test_one_side_does_not_see_the_other():
    drops, rises = EProcess(0.5, alternative="less"), EProcess(0.5, alternative="greater")
    for _ in range(20):
        drops.add(0.0)
        rises.add(0.0)

    assert drops.p < 0.001
    assert rises.p == 1.0


@pytest.mark.parametrize(("value", "direction"), [(0.0, "less"), (1.0, "greater")])
def test_the_direction_is_where_the_mean_went(value, direction):
    test, detector = EProcess(0.5), EDetector(0.5, average_run_length=100)
    for _ in range(9):
        test.add(value)
        detector.add(value)

    assert test.direction == detector.direction == direction


@given(st.lists(TENTHS, min_size=1, max_size=30))
def test_p_is_one_over_the_largest_evidence_so_far(values):
    test, largest = EProcess(0.5), 1.0
    for value in values:
        p = test.add(value)
        largest = max(largest, test.e_value)
        assert p == test.p == pytest.approx(1 / largest)


@given(st.lists(TENTHS, min_size=1, max_size=30))
def test_another_range_is_the_same_test(values):
    plain, wide = EProcess(0.5), EProcess(3.0, 1, 5)
    for value in values:
        plain.add(value)
        wide.add(1 + 4 * value)

    assert wide.e_value == pytest.approx(plain.e_value)


@BOTH
def test_a_mean_of_verdicts_is_the_same_as_each_of_them(make):
    each, together = make(), make()
    for passed in [True] * 30 + [False] * 20:
        each.add(passed)
    together.add_mean(0.6, 50)

    assert together.state()["log_capital"] == pytest.approx(each.state()["log_capital"])
    assert together.n == each.n == 50


@BOTH
@given(values=st.lists(TENTHS, min_size=1, max_size=20), weight=st.sampled_from([0.2, 1.0, 3.0]))
def test_a_mean_is_never_more_evidence_than_the_values_themselves(make, values, weight):
    each, together = make(largest_weight=3), make(largest_weight=3)
    each.add(0.0)
    together.add(0.0)
    for value in values:
        each.add(value, weight=weight)
    together.add_mean(fmean(values), len(values), weight=weight)

    pairs = zip(each.state()["log_capital"], together.state()["log_capital"], strict=True)
    assert all(lower <= log + 1e-9 for log, lower in pairs)


def test_a_tolerated_mean_is_no_evidence():
    strict, tolerant = EProcess(0.9), EProcess(0.9, tolerance=0.02)
    for test in (strict, tolerant):
        test.add_mean(0.88, 20_000)

    assert strict.p < 1e-6
    assert tolerant.p == 1.0
    assert EProcess(0.9, tolerance=0.02).add_mean(0.84, 20_000) < 1e-6


# What it promises


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_looking_all_the_time_raises_few_false_alarms(rate):
    draw = random.Random(3)

    alarms = sum(first_alarm(EProcess(rate), passes(draw, 300, rate)) is not None for _ in range(150))

    assert alarms <= 13  # 7.5 are allowed at 5 %; more than 13 would have a chance of 2 %


def test_false_alarms_come_no_more_often_than_the_setting():
    draw = random.Random(5)

    runs = [looks_until_alarm(EDetector(0.9, average_run_length=40), draw, 0.9) for _ in range(60)]

    assert fmean(runs) >= 40
    assert sum(run <= 4 for run in runs) <= 10  # at most a tenth, 6; more than 10 would have a chance of 4 %


def test_the_promise_also_holds_with_a_look_at_each_observation():
    draw = random.Random(6)
    runs = []
    for _ in range(40):
        detector = EDetector(0.9, average_run_length=20)
        while not detector.alarm:
            detector.start_look()
            for _ in range(10):
                if detector.add(draw.random() < 0.9):
                    break
        runs.append(detector.looks)

    assert fmean(runs) >= 20


def test_a_change_is_found_as_soon_after_a_year_of_quiet():
    draw = random.Random(7)
    delays = {0: [], 365: []}
    for quiet, found in delays.items():
        for _ in range(11):
            detector = EDetector(0.9, average_run_length=3_650, alternative="less")
            for _ in range(quiet):
                detector.start_look()
                detector.add_mean(passed_share(draw, 100, 0.9), 100)
            detector = detector if not detector.alarm else EDetector(0.9, average_run_length=3_650)
            found.append(looks_until_alarm(detector, draw, 0.8, n=100))

    assert median(delays[0]) <= 6
    assert median(delays[365]) <= 6


def test_one_process_alone_loses_its_capital_while_nothing_happens():
    draw = random.Random(8)
    test = EProcess(0.9, alternative="less")
    for _ in range(90):
        test.add_mean(passed_share(draw, 100, 0.9), 100)

    assert test.e_value < 0.2


@BOTH
@pytest.mark.parametrize("value", [0.8, 0.8 + 1e-13])
def test_a_system_that_never_varies_never_alarms(make, value):
    test = make()
    for _ in range(500):
        if isinstance(test, EDetector):
            test.start_look()
        test.add(value)

    assert test.p == pytest.approx(1.0) if isinstance(test, EProcess) else not test.alarm
    assert test.n == 500


def test_looks_without_observations_or_weight_do_not_count():
    detector = EDetector(0.8, average_run_length=5)
    for _ in range(20):
        detector.start_look()
        detector.add_mean(math.nan, 0)
        detector.add(0.0, weight=0)

    assert (detector.looks, detector.evidence, detector.alarm) == (0, 0.0, False)
    detector.add(0.0)
    detector.add(0.0)
    assert detector.looks == 1


def test_a_reset_forgets_the_alarm():
    detector = EDetector(0.8, average_run_length=5)
    fresh = detector.state()
    detector.add_mean(0.0, 50)
    assert detector.alarm
    detector.add_mean(1.0, 5_000)
    assert detector.alarm  # also once the evidence is gone

    detector.reset()

    assert detector.state() == fresh


# Its state


@BOTH
@given(values=st.lists(st.floats(0, 1), max_size=12), cut=st.integers(0, 12))
def test_a_stored_test_goes_on_exactly_where_it_was(make, values, cut):
    whole, first = make(), make()
    for value in values[:cut]:
        whole.add(value)
        first.add(value)
    second = type(first).from_state(json.loads(json.dumps(first.state(), allow_nan=False)))
    for test in (whole, second):
        if isinstance(test, EDetector):
            test.start_look()
        for value in values[cut:]:
            test.add(value)

    assert second.state() == whole.state()


@BOTH
def test_the_state_stays_small_and_its_settings_come_back(make):
    test = make(alternative="less", tolerance=0.01, largest_weight=2)
    for value in passes(random.Random(1), 3_000, 0.7):
        test.add(value)
    stored = json.dumps(test.state())

    assert len(stored) < 1_000
    assert type(test).from_state(json.loads(stored)).state() == test.state()


@BOTH
def test_millions_of_observations_do_not_overflow(make):
    test = make()
    test.add_mean(0.8, 10**9)
    test.add_mean(0.0, 10**9)
    after = type(test).from_state(json.loads(json.dumps(test.state(), allow_nan=False)))

    assert after.direction == "less"
    if isinstance(after, EProcess):
        assert (after.e_value, after.p) == (math.inf, pytest.approx(0, abs=1e-300))
        assert after.p > 0
    else:
        assert after.alarm
    after.add_mean(0.8, 10**12)
    assert math.isfinite(after.state()["log_peak"])


def altered(**changes):
    return lambda state: {**state, **changes}


DAMAGE = {
    "kind": (altered(kind="other"), "of kind 'other'"),
    "version": (altered(version=2), "version 2"),
    "no version": (altered(version=None), "version None"),
    "missing": (lambda state: {name: state[name] for name in state if name != "n"}, "lacks n"),
    "unknown": (altered(colour="red"), "colour is unknown"),
    "fewer players": (lambda state: {**state, "log_capital": state["log_capital"][1:]}, "list of 20 numbers"),
    "text for players": (altered(log_capital="x" * 20), "list of 20 numbers"),
    "text among players": (lambda state: {**state, "log_capital": ["x", *state["log_capital"][1:]]}, "'x'"),
    "nan": (lambda state: {**state, "log_capital": [math.nan, *state["log_capital"][1:]]}, "finite"),
    "negative n": (altered(n=-1), "n must be a whole number"),
    "n as text": (altered(n="3"), "n must be a whole number"),
    "n as a bool": (altered(n=True), "n must be a whole number"),
    "peak below the evidence": (altered(log_peak=0.0), "log_peak is below"),
    "target as text": (altered(target="0.8"), "target must be a number"),
    "target as a bool": (altered(target=True), "target must be a number"),
    "target out of range": (altered(target=1.5), "must lie between"),
    "alternative": (altered(alternative="sideways"), "alternative must be one of"),
    "alternative as a list": (altered(alternative=["less"]), "alternative must be one of"),
    "a huge number": (altered(target=10**400), "target"),
}


@BOTH
@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_state_is_refused(make, damage, message):
    test = make()
    for _ in range(5):
        test.add(0.0)

    with pytest.raises(ValueError, match=message):
        type(test).from_state(damage(test.state()))


@BOTH
@pytest.mark.parametrize("state", [None, "{}", [], 3])
def test_a_state_that_is_no_mapping_is_refused(make, state):
    with pytest.raises(ValueError, match="A state is a mapping"):
        type(make()).from_state(state)


def test_states_of_the_two_are_not_mixed_up():
    with pytest.raises(ValueError, match="of kind 'e-process', not 'e-detector'"):
        EDetector.from_state(EProcess(0.5).state())


@pytest.mark.parametrize("name", ["looks", "look_is_new", "average_run_length"])
def test_the_detectors_own_members_are_checked(name):
    with pytest.raises(ValueError, match=name):
        EDetector.from_state({**KINDS[1]().state(), name: "x"})


# What it refuses


@BOTH
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (math.nan, ValueError),
        (math.inf, ValueError),
        (-0.01, ValueError),
        (1.01, ValueError),
        (None, TypeError),
        ("0.5", TypeError),
        ([0.5], TypeError),
        (1j, TypeError),
    ],
)
def test_an_observation_of_no_use_is_refused_and_changes_nothing(make, value, error):
    test = make()
    test.add(0.3)
    before = test.state()

    with pytest.raises(error, match="An observation must"):
        test.add(value)
    with pytest.raises(error, match="An observation must"):
        test.add_mean(value, 3)

    assert test.state() == before


@BOTH
@pytest.mark.parametrize(
    ("weight", "error"),
    [
        (-1, ValueError),
        (2.5, ValueError),
        (math.nan, ValueError),
        (math.inf, ValueError),
        (None, TypeError),
        ("1", TypeError),
    ],
)
def test_a_weight_of_no_use_is_refused(make, weight, error):
    with pytest.raises(error, match="A weight must"):
        make(largest_weight=2).add(0.5, weight=weight)


@BOTH
@pytest.mark.parametrize(
    ("n", "error"),
    [(-1, ValueError), (10**20, ValueError), (1.5, TypeError), (True, TypeError), (None, TypeError)],
)
def test_a_count_of_no_use_is_refused(make, n, error):
    with pytest.raises(error, match="n must"):
        make().add_mean(0.5, n)


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        ((0.0,), {}, "at neither end"),
        ((1.0,), {}, "at neither end"),
        ((1.2,), {}, "at neither end"),
        ((math.nan,), {}, "target must be a finite number"),
        ((0.5, 1, 0), {}, "must be greater than low"),
        ((0.5, 0, math.inf), {}, "high must be a finite number"),
        ((0.5, -1e308, 1e308), {}, "by a finite amount"),
        ((0.9,), {"tolerance": 0.1}, "with its tolerance"),
        ((0.9,), {"tolerance": -0.1}, "tolerance must be 0 or more"),
        ((0.9,), {"largest_weight": 0}, "largest_weight must be greater than 0"),
        ((0.9,), {"alternative": "down"}, "alternative must be one of two-sided, less, greater"),
    ],
)
def test_settings_of_no_use_are_refused(arguments, settings, message):
    with pytest.raises(ValueError, match=message):
        EProcess(*arguments, **settings)


def test_a_tolerance_counts_on_the_side_that_is_tested_only():
    assert EProcess(0.95, alternative="less", tolerance=0.05).p == 1.0


@pytest.mark.parametrize("length", [1, 0, -5, math.nan])
def test_a_run_length_of_no_use_is_refused(length):
    with pytest.raises(ValueError, match="average_run_length must be"):
        EDetector(0.5, average_run_length=length)


def test_other_numbers_count_as_floats():
    plain, exact = EProcess(0.25), EProcess(Fraction(1, 4))
    plain.add(0.5)
    exact.add(Fraction(1, 2))

    assert exact.state() == plain.state()
    assert type(exact.state()["target"]) is float


class Verdict:
    """A truth value or number of another library, such as numpy's."""

    def __init__(self, value):
        self.value = value

    def __float__(self):
        return float(self.value)

    def __index__(self):
        return int(self.value)


@pytest.mark.parametrize("make", [lambda: EProcess(0.9), lambda: EDetector(0.9, average_run_length=100)])
def test_numbers_of_other_libraries_are_numbers(make):
    ours, others = make(), make()
    ours.add(1)
    ours.add_mean(0.5, 4)
    others.add(Verdict(True))
    others.add_mean(Verdict(0.5), Verdict(4))
    assert json.loads(json.dumps(others.state())) == ours.state()


@pytest.mark.parametrize(("mean", "end"), [(1.0000000000000002, 1.0), (-1e-17, 0.0)])
def test_a_mean_that_rounding_puts_out_of_the_range_is_at_its_end(mean, end):
    found, exact = EProcess(0.9), EProcess(0.9)
    assert found.add_mean(mean, 10) == exact.add_mean(end, 10)


def test_a_process_that_lost_everything_is_a_damaged_one():
    state = EProcess(0.9).state()
    state["log_capital"] = [None] * len(state["log_capital"])
    with pytest.raises(ValueError, match="log_capital must be numbers"):
        EProcess.from_state(state)
