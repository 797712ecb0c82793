import importlib
import json
import math
import random
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.stats import ChangeDetector, split_false_alarms
from dokimos.stats._baseline_bars import _unlikelihood, baseline_bars
from dokimos.stats._change_players import Bar, Side, Start
from dokimos.stats._joining import DAYS_PER_YEAR, SECONDS_PER_DAY, JoiningClock
from dokimos.stats._weighted_mean import NO_SUMS

TENTHS = st.integers(0, 10).map(lambda tenths: tenths / 10)
MONTH = [n % 10 != 0 for n in range(3_000)]


def known(**settings):
    return ChangeDetector(0.8, **{"observations_per_day": 50, **settings})


def baseline(**settings):
    return ChangeDetector.from_baseline(
        [n % 5 != 0 for n in range(300)], **{"observations_per_day": 50, **settings}
    )


BOTH = pytest.mark.parametrize("make", [known, baseline], ids=["known", "baseline"])


def verdicts(draw, n, rate):
    return [draw.random() < rate for _ in range(n)]


# The game


@given(st.lists(TENTHS, max_size=5), st.floats(0.05, 0.95))
def test_what_players_own_grows_only_by_what_they_bring(history, bound):
    side = Side([Bar(bound, 1.0)])
    here = Start(0, 0.0, NO_SUMS)
    for value in history:
        side.play(value, 0.7, 0.01, here)
    before, hit, missed = side.evidence, deepcopy(side), deepcopy(side)
    hit.play(1.0, 0.7, 0.01, here)
    missed.play(0.0, 0.7, 0.01, here)

    assert bound * hit.evidence + (1 - bound) * missed.evidence == pytest.approx(before + 0.01)


def test_no_day_brings_more_than_its_share():
    clock = JoiningClock(2.0, None)
    for day, count in enumerate((5, 3_000, 0, 40, 20_000)):
        brought = sum(clock.join(day * SECONDS_PER_DAY + n) for n in range(count))
        assert brought <= 2.0 / DAYS_PER_YEAR
        assert count < 100 or brought >= 0.9 * 2.0 / DAYS_PER_YEAR


def test_a_usual_day_brings_half_of_its_share_evenly():
    clock = JoiningClock(1.0, None)
    days = [[clock.join(day * SECONDS_PER_DAY + n) for n in range(500)] for day in range(10)]

    assert sum(days[-1]) == pytest.approx(0.5 / DAYS_PER_YEAR, rel=0.01)
    assert days[-1][0] < 4.1 * days[-1][-1]


@pytest.mark.parametrize("m", [0.25, 0.3, 0.4, 0.9])
def test_a_baseline_is_no_evidence_on_average_against_its_own_mean(m):
    """Of all baselines of eight verdicts, each with its probability, F(true mean) is 1 at most on average."""
    total = 0.0
    for outcome in range(2**8):
        shares = [float(outcome >> place & 1) for place in range(8)]
        passed = sum(shares)
        total += m**passed * (1 - m) ** (8 - passed) * _unlikelihood(m, shares, [1.0] * 8)

    assert total == pytest.approx(1.0)


@given(st.lists(TENTHS, min_size=2, max_size=30))
def test_a_baseline_is_more_evidence_against_means_further_away(shares):
    bars = baseline_bars(shares, [1.0] * len(shares), tolerance=0.0)

    assert [bar.share for bar in bars] == sorted(bar.share for bar in bars)
    assert all(near.factor <= far.factor + 1e-9 for near, far in pairwise(bars[1:]))
    assert bars[-1].share == 1.0 or bars[-1].factor > bars[0].factor


# Its alarms


def test_a_drop_is_found_and_described():
    draw = random.Random(1)
    detector = ChangeDetector(0.9, alternative="less", observations_per_day=500)
    assert detector.add_many(verdicts(draw, 5_000, 0.9)) is None

    alarm = detector.add_many(verdicts(draw, 2_000, 0.8))

    assert alarm is detector.alarm
    assert (alarm.direction, alarm.reference) == ("less", 0.9)
    assert alarm.evidence >= alarm.needed == DAYS_PER_YEAR
    assert 4_900 < alarm.since_n < alarm.n < 5_600
    assert alarm.at == (alarm.n - 1) * SECONDS_PER_DAY / 500
    assert alarm.before.interval.low < 0.9 < alarm.before.interval.high
    assert alarm.after.interval.low < 0.8 < alarm.after.interval.high
    assert detector.mean_since_alarm.interval.low < 0.8 < detector.mean_since_alarm.interval.high


@pytest.mark.parametrize(("value", "direction"), [(1.0, "less"), (5.0, "greater")])
def test_both_sides_are_watched_in_units_of_the_values(value, direction):
    detector = ChangeDetector(3.0, 1, 5, observations_per_day=10)
    detector.add_many([2.0, 4.0] * 50)

    alarm = detector.add_many([value] * 40)

    assert alarm.direction == direction
    assert alarm.after.value == pytest.approx(value, abs=0.2)
    assert alarm.before.value == pytest.approx(3.0, abs=0.1)


@BOTH
def test_one_side_does_not_see_the_other(make):
    detector = make(alternative="greater")
    assert detector.add_many([0.0] * 500) is None


def test_a_drop_below_a_baseline_is_found_but_not_its_own_uncertainty():
    few = ChangeDetector.from_baseline(MONTH[:200], alternative="less", observations_per_day=100)
    many = ChangeDetector.from_baseline(MONTH, alternative="less", observations_per_day=100)
    dropped = [
        n % 20 not in (0, 7, 13) for n in range(4_000)
    ]  # 85 %, which 200 verdicts do not tell from 90 %

    assert many.reference == pytest.approx(0.9)
    assert few.add_many(dropped) is None
    assert many.add_many(dropped).direction == "less"


def test_a_tolerated_drop_is_not_found():
    dropped = [n % 8 != 0 for n in range(20_000)]  # 87.5 % pass
    for make in (
        lambda **more: ChangeDetector(0.9, observations_per_day=100, **more),
        lambda **more: ChangeDetector.from_baseline(MONTH * 5, observations_per_day=100, **more),
    ):
        assert make().add_many(dropped) is not None
        assert make(tolerance=0.04).add_many(dropped) is None


def test_weights_make_the_mean_that_of_all_traces():
    """Long traces fail, are a sixth and all scored; of the others, which pass, a fifth is scored."""
    traces = [(0.0, 1.0), (1.0, 5.0)] * 1_000
    watched = ChangeDetector(5 / 6, largest_weight=5, observations_per_day=50)
    unweighted = ChangeDetector(5 / 6, observations_per_day=50)

    assert watched.add_many(*zip(*traces, strict=True)) is None
    assert unweighted.add_many(value for value, _ in traces).direction == "less"
    assert watched.mean.value == pytest.approx(5 / 6)


@BOTH
def test_while_an_alarm_stands_nothing_else_is_raised_until_a_restart(make):
    detector = make()
    alarm = detector.add_many([0.0] * 100)
    assert detector.add_many([0.0] * 100) is None
    assert detector.alarm is alarm
    assert detector.mean_since_alarm.value == 0.0

    detector.restart()

    assert (detector.alarm, detector.mean, detector.evidence, detector.n) == (None, None, 0.0, 200)
    assert detector.add_many([0.0] * 100).since_n > 200


def test_a_system_that_never_varies_never_alarms():
    detector = known(false_alarms_per_year=300)
    assert detector.add_many([0.8] * 50_000) is None
    assert detector.evidence == 0.0


def test_false_alarms_are_as_rare_as_the_setting():
    draw = random.Random(4)
    alarms = 0
    for _ in range(40):
        detector = ChangeDetector(0.8, false_alarms_per_year=73.05, observations_per_day=20)  # 0.2 a day
        for _ in range(20 * 20):
            if detector.add(draw.random() < 0.8):
                alarms += 1
                detector.restart()

    assert alarms <= 40 * 20 * 0.2  # expected at most 160
    assert alarms >= 10  # and not for want of looking


def test_a_change_is_found_as_soon_after_a_year():
    delays = []
    for quiet in (0, 365):
        draw, found = random.Random(9), []
        for _ in range(7):
            detector = ChangeDetector(0.9, alternative="less", observations_per_day=40)
            for passed in verdicts(draw, 40 * quiet, 0.9):
                if detector.add(passed):
                    detector.restart()
            before = detector.n
            while not detector.add(draw.random() < 0.7):
                pass
            found.append(detector.n - before)
        delays.append(fmean(found))

    assert delays[1] < 1.5 * delays[0] + 20


def test_the_setting_can_change_when_rules_come_and_go():
    detector = known(false_alarms_per_year=1.0)
    detector.add_many([0.0, 1.0] * 5)
    before = detector.evidence / detector.needed
    detector.set_false_alarms_per_year(0.05)

    assert detector.false_alarms_per_year == 0.05
    assert detector.needed == pytest.approx(DAYS_PER_YEAR / 0.05)
    assert detector.evidence / detector.needed == pytest.approx(before)
    assert sum(split_false_alarms(1.0, dict.fromkeys("abc", 1.0)).values()) == pytest.approx(1.0)


# Its clock


def test_the_time_is_the_callers_and_never_runs_back():
    detector = ChangeDetector(0.8)
    for at in (5 * SECONDS_PER_DAY, 3.0, 5 * SECONDS_PER_DAY + 7):
        detector.add(0.0, at=at)

    state = detector.state()
    assert (state["time"], state["today"], state["days"]) == (5 * SECONDS_PER_DAY + 7, 3, 0)


@pytest.mark.parametrize(
    ("at", "error", "message"),
    [
        (None, ValueError, "needs its time"),
        (math.nan, ValueError, "at must be a finite"),
        (1e300, ValueError, "in seconds"),
        ("now", TypeError, "at must be a number"),
    ],
)
def test_a_time_of_no_use_is_refused_and_changes_nothing(at, error, message):
    detector = ChangeDetector(0.8)
    detector.add(0.0, at=0.0)
    before = detector.state()

    with pytest.raises(error, match=message):
        detector.add(0.0, at=at)
    with pytest.raises(error, match=message):
        detector.add_many([0.0], at=at)

    assert detector.state() == before


# Its state


@BOTH
@given(values=st.lists(st.floats(0, 1), max_size=12), cut=st.integers(0, 12))
def test_one_by_one_with_stores_between_is_all_at_once_to_the_byte(make, values, cut):
    whole, stored = make(largest_weight=3), make(largest_weight=3)
    weights = [1 + place % 3 for place in range(len(values))]
    whole.add_many(values[:cut], weights[:cut])
    whole.add_many(values[cut:], weights[cut:])
    for value, weight in zip(values, weights, strict=True):
        stored = ChangeDetector.from_state(json.loads(json.dumps(stored.state(), allow_nan=False)))
        stored.add(value, weight)

    assert json.dumps(stored.state()) == json.dumps(whole.state())


def test_a_stored_alarm_and_its_time_come_back():
    detector = ChangeDetector.from_baseline(MONTH)
    detector.add_many([0.0] * 300, at=86_400.0 * 20_000)
    detector.add_many([0.0] * 3, at=86_400.0 * 20_001)
    again = ChangeDetector.from_state(json.loads(json.dumps(detector.state(), allow_nan=False)))

    assert again.alarm == detector.alarm
    assert again.state() == detector.state()
    assert again.mean_since_alarm == detector.mean_since_alarm


@BOTH
def test_the_state_stays_small(make):
    detector = make(false_alarms_per_year=0.01)
    detector.add_many(verdicts(random.Random(2), 5_000, 0.8))

    assert len(json.dumps(detector.state())) < 6_000


def test_hundreds_of_millions_of_observations_do_not_overflow():
    side = Side([Bar(1e-9, 1e-300), Bar(0.5, 1e-300)])
    for _ in range(3_000):
        side.play(1.0, 1.0, 0.1, Start(0, 0.0, NO_SUMS))
    assert all(math.isfinite(owned) for owned in [*side.capital[0], *side.recent])
    for _ in range(30_000):
        side.play(0.0, 1.0, 1e-12, Start(0, 0.0, NO_SUMS))
    assert all(0 < owned < 1e200 for owned in side.capital[1][:-5])  # never stuck, and never nothing


def altered(**changes):
    return lambda state: {**state, **changes}


def altered_side(**changes):
    return lambda state: {**state, "sides": {"less": {**state["sides"]["less"], **changes}}}


DAMAGE = {
    "kind": (altered(kind="e-detector"), "of kind 'e-detector'"),
    "version": (altered(version=2), "version 2"),
    "missing": (lambda state: {name: state[name] for name in state if name != "sums"}, "lacks sums"),
    "unknown": (altered(colour="red"), "colour is unknown"),
    "alternative": (altered(alternative="down"), "alternative must not be"),
    "sides": (altered(sides={}), "sides lacks less"),
    "sides as text": (altered(sides="less"), "sides must be a mapping"),
    "fewer sums": (altered(sums=[1, 2]), "sums must be a list of 6 numbers"),
    "half an observation": (altered(sums=[0.5, 0, 0, 0, 0, 0]), "sums must have a whole number"),
    "setting": (altered(false_alarms_per_year=0), "false_alarms_per_year must be"),
    "usual": (altered(usual=0), "usual must be greater than 0"),
    "nan": (altered(reference=math.nan), "finite"),
    "alarm": (altered(alarm={}), "alarm lacks"),
    "bars": (altered_side(bars=[[0.0, 1.0]]), "bars must be pairs"),
    "no bars": (altered_side(bars=[], capital=[]), "bars must be pairs"),
    "negative capital": (altered_side(recent=[-1.0] * 10), "capital must be numbers"),
    "fewer players": (altered_side(recent=[1.0]), "capital must be a list of 10 numbers"),
    "fewer lists": (altered_side(capital=[]), "capital must be a list for each"),
    "place": (altered_side(start_of=[9] * 10), "start_of must be places"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_state_is_refused(damage, message):
    detector = known(alternative="less")
    detector.add_many([0.0, 1.0, 1.0])

    with pytest.raises(ValueError, match=message):
        ChangeDetector.from_state(damage(detector.state()))


def test_a_damaged_alarm_is_refused():
    detector = known(alternative="less")
    detector.add_many([0.0] * 90)
    state = detector.state()

    with pytest.raises(ValueError, match="direction must not be"):
        ChangeDetector.from_state({**state, "alarm": {**state["alarm"], "direction": "up"}})
    with pytest.raises(ValueError, match="A state is a mapping"):
        ChangeDetector.from_state("{}")


# What it refuses


@BOTH
@pytest.mark.parametrize(
    ("value", "weight", "error"),
    [
        (math.nan, 1, ValueError),
        (1.01, 1, ValueError),
        (-0.01, 1, ValueError),
        ("0.5", 1, TypeError),
        (None, 1, TypeError),
        (0.5, -1, ValueError),
        (0.5, 2.5, ValueError),
        (0.5, math.nan, ValueError),
        (0.5, "1", TypeError),
    ],
)
def test_an_observation_of_no_use_is_refused_and_changes_nothing(make, value, weight, error):
    detector = make(largest_weight=2)
    detector.add(0.3)
    before = detector.state()

    with pytest.raises(error, match="must"):
        detector.add(value, weight)
    with pytest.raises(error, match="must"):
        detector.add_many([0.1, value], [1, weight])

    assert detector.state() == before


def test_weights_must_be_as_many_as_values():
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        known().add_many([0.1, 0.2], [1.0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"false_alarms_per_year": 0}, "false_alarms_per_year must be"),
        ({"false_alarms_per_year": 366}, "false_alarms_per_year must be"),
        ({"observations_per_day": 0}, "observations_per_day must be"),
        ({"alternative": "down"}, "alternative must be one of"),
        ({"largest_weight": 0}, "largest_weight must be"),
        ({"tolerance": -0.1}, "tolerance must be 0 or more"),
        ({"tolerance": 1.0}, "tolerance"),
    ],
)
@BOTH
def test_settings_of_no_use_are_refused(make, settings, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        ([1.0], None, "needs 2 values or more"),
        ([1.0, 0.0], [1.0], "2 values and 1 weights"),
        ([1.0, 0.0], [0.0, 0.0], "needs a weight above 0"),
        ([1.0, 2.0], None, "must be in 0"),
        ([1.0, 0.5], [1.0, 2.0], "A weight must be"),
    ],
)
def test_a_baseline_of_no_use_is_refused(values, weights, message):
    with pytest.raises(ValueError, match=message):
        ChangeDetector.from_baseline(values, weights=weights)


@pytest.mark.parametrize("values", [[1.0] * 50, [0.0] * 50, [0.5] * 50])
def test_a_baseline_without_spread_is_a_baseline(values):
    detector = ChangeDetector.from_baseline(values, observations_per_day=50)
    assert detector.add_many(values * 20) is None
    assert detector.add_many([1 - value if value != 0.5 else 1.0 for value in values] * 4) is not None


def test_the_simulated_detectors_are_those_of_the_library(monkeypatch):
    pytest.importorskip("numpy")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks" / "validity"))
    many_detectors = importlib.import_module("many_detectors")
    draw = random.Random(3)
    days = [[draw.random() < (0.8 if day < 9 else 0.4) for _ in range(30)] for day in range(14)]
    detector = ChangeDetector.from_baseline(MONTH, alternative="less", false_alarms_per_year=30)
    (side,) = detector._sides.values()
    many = many_detectors.ManyDetectors([side.bars], per_year=30)
    ours, theirs = [], []
    for day, values in enumerate(days):
        for place, value in enumerate(values):
            time = (day + place / 30) * SECONDS_PER_DAY
            ours.append(detector.add(value, at=time) is not None)
            theirs.append(bool(many.add(many_detectors.np.array([float(value)]), time)[0]))
            if ours[-1]:
                detector.restart()

    assert ours == theirs
    assert sum(ours) > 2
