"""Whole gates on a system in which nothing changed, many times: they fire no more often than they say."""

import random

import pytest

from dokimos.comparison import Snapshot
from dokimos.comparison.snapshot import EvaluatorFacts, ItemSnapshot
from dokimos.gate import GateConfig
from dokimos.gate.decision import decide


def runs_of(draw, chances, *, repeats, evaluators):
    """One side: each item passes each evaluator with its own chance."""
    items = []
    for index, chance in enumerate(chances):
        scores = {
            f"E{k}": tuple(float(draw.random() < chance) for _ in range(repeats)) for k in range(evaluators)
        }
        passed = tuple(all(repeat) for repeat in zip(*scores.values(), strict=True))
        items.append(ItemSnapshot(index=index, scores=scores, verdicts=passed))
    facts = {f"E{k}": EvaluatorFacts(name=f"E{k}", deterministic=False) for k in range(evaluators)}
    return Snapshot(items=tuple(items), evaluators=facts, runs=repeats)


def false_alarms(config, *, pairs, items, repeats, evaluators, spread=(3, 1)):
    draw, fired = random.Random(11), 0
    for _ in range(pairs):
        chances = [draw.betavariate(*spread) for _ in range(items)]
        sides = [runs_of(draw, chances, repeats=side, evaluators=evaluators) for side in repeats]
        fired += decide(*sides, config).failed
    return fired / pairs


@pytest.mark.parametrize(
    ("config", "design"),
    [
        (GateConfig(alpha=0.2, severity="off"), {"items": 20, "repeats": (1, 1), "evaluators": 4}),
        (GateConfig(alpha=0.2, severity="off"), {"items": 15, "repeats": (3, 3), "evaluators": 2}),
        (
            GateConfig(alpha=0.2, severity="off"),
            {"items": 30, "repeats": (1, 6), "evaluators": 1, "spread": (60, 2)},
        ),
        (GateConfig(alpha=0.2), {"items": 20, "repeats": (1, 1), "evaluators": 3}),
        (GateConfig(alpha=0.2), {"items": 20, "repeats": (3, 3), "evaluators": 3}),
        (GateConfig(alpha=0.2), {"items": 20, "repeats": (3, 1), "evaluators": 3}),
        (GateConfig(alpha=0.2), {"items": 20, "repeats": (5, 5), "evaluators": 1, "spread": (1, 1)}),
        (GateConfig.calibrated(0.2), {"items": 4, "repeats": (6, 6), "evaluators": 1}),
        (GateConfig.calibrated(0.2), {"items": 20, "repeats": (1, 1), "evaluators": 3}),
    ],
    ids=[
        "one run",
        "three runs",
        "one run and six",
        "default, one run",
        "default, three runs",
        "default, three runs and one",
        "default, five runs",
        "calibrated, many runs",
        "calibrated, one run",
    ],
)
def test_a_gate_fails_an_unchanged_system_at_most_as_often_as_it_says(config, design):
    pairs = 250

    rate = false_alarms(config, pairs=pairs, **design)

    assert rate <= 0.2 + 3 * (0.2 * 0.8 / pairs) ** 0.5


def test_the_documented_guard_2_fires_on_noise_alone():
    config = GateConfig(severity="any")

    assert false_alarms(config, pairs=30, items=20, repeats=(1, 1), evaluators=2) > 0.9
