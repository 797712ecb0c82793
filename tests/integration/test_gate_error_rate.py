"""Whole gates on a system in which nothing changed, many times: they fire no more often than they say."""

import random

import pytest

from dokimos.comparison import Snapshot
from dokimos.comparison._snapshot import EvaluatorFacts, ItemSnapshot
from dokimos.gate import GateConfig
from dokimos.gate._decision import decide


def draw_runs(draw, chances, *, repeats, evaluators):
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
        sides = [draw_runs(draw, chances, repeats=side, evaluators=evaluators) for side in repeats]
        fired += decide(*sides, config).is_failing
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


def system(draw, *, items, metrics, noisy, together=False):
    """A function that runs one system so many times: its noisy items pass with a chance of their own."""
    chances = [draw.random() if place < noisy else 1.0 for place in range(items)]

    def run(repeats):
        found = []
        for index, chance in enumerate(chances):
            rows = [[float(draw.random() < chance) for _ in range(repeats)] for _ in range(metrics)]
            scores = {f"E{k}": tuple(rows[0 if together else k]) for k in range(metrics)}
            verdicts = tuple(all(repeat) for repeat in zip(*scores.values(), strict=True))
            found.append(ItemSnapshot(index=index, scores=scores, verdicts=verdicts))
        facts = {f"E{k}": EvaluatorFacts(name=f"E{k}", deterministic=together) for k in range(metrics)}
        return Snapshot(items=tuple(found), evaluators=facts, runs=repeats)

    return run


HARD_SYSTEMS = {
    "a judge that is unsure of one item": {"items": 12, "metrics": 3, "noisy": 1},
    "a judge that is unsure of a few items": {"items": 20, "metrics": 3, "noisy": 3},
    "twenty metrics of an application that varies": {"items": 8, "metrics": 20, "noisy": 8, "together": True},
    "an application that varies on one item": {"items": 10, "metrics": 3, "noisy": 1, "together": True},
}


@pytest.mark.parametrize("repeats", [1, 3, 5])
@pytest.mark.parametrize("design", HARD_SYSTEMS.values(), ids=HARD_SYSTEMS)
def test_the_default_gate_holds_its_rate_where_few_items_vary_or_all_together(design, repeats):
    draw, pairs, failed = random.Random(3), 60, 0
    config = GateConfig(permutation_iterations=199)
    for _ in range(pairs):
        run = system(draw, **design)
        failed += decide(run(repeats), run(repeats), config).is_failing

    assert failed / pairs <= 0.05 + 3 * (0.05 * 0.95 / pairs) ** 0.5
