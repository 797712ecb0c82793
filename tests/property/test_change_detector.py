"""However observations are cut into batches, and wherever the state is stored, the detector is the same."""

import json

from hypothesis import given
from hypothesis import strategies as st

from dokimos.stats import ChangeDetector

OBSERVATIONS = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 4), st.floats(0, 1e6)),
    min_size=1,
    max_size=40,
)
ALTERNATIVES = st.sampled_from(("two-sided", "less", "greater"))


def store(detector):
    return ChangeDetector.from_state(json.loads(json.dumps(detector.state(), allow_nan=False)))


@given(observations=OBSERVATIONS, cuts=st.sets(st.integers(0, 40)), alternative=ALTERNATIVES)
def test_any_replicas_in_turn_are_one_detector(observations, cuts, alternative):
    one = ChangeDetector(0.5, alternative=alternative, largest_weight=4, false_alarms_per_year=300)
    others = store(one)
    for place, (value, weight, at) in enumerate(observations):
        if place in cuts:
            others = store(others)
        assert others.add(value, weight, at=at) == one.add(value, weight, at=at)

    assert json.dumps(others.state()) == json.dumps(one.state())


@given(observations=OBSERVATIONS, cut=st.integers(0, 40))
def test_batches_are_the_same_as_each_by_itself(observations, cut):
    values, weights, _ = zip(*observations, strict=True)
    each, batches = (
        ChangeDetector.from_baseline([0.0, 1.0, 0.5] * 20, largest_weight=4, observations_per_day=10)
        for _ in range(2)
    )
    alarms = [each.add(value, weight) for value, weight in zip(values, weights, strict=True)]
    found = [
        batches.add_many(values[:cut], weights[:cut]),
        batches.add_many(values[cut:], weights[cut:]),
    ]

    assert json.dumps(batches.state()) == json.dumps(each.state())
    assert [alarm for alarm in found if alarm] == [alarm for alarm in alarms if alarm]
