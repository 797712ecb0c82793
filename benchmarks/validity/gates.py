"""How often the gate itself fails a system that did not change, by how noisy its judges are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from false_alarms import ALPHA, ITERATIONS, THRESHOLD, guard_one
from systems import SPREAD, Design, Scores, unchanged
from tables import Row, Table, percent, rate_error

from dokimos.comparison._snapshot import EvaluatorFacts, ItemSnapshot, Snapshot
from dokimos.gate._decision import Decision, Guard, decide
from dokimos.gate._gate_config import GateConfig, Severity

NOISES = (0.02, 0.05, 0.1, 0.2)
SIZES = (20, 100)
EVALUATORS = 3


@dataclass
class Fails:
    """How often each guard fired."""

    regression: int = 0
    severity: int = 0
    confirmed: int = 0
    calibrated: int = 0


def gate_table(repetitions: int) -> Table:
    rows = []
    for noise, repeats, n in product(NOISES, (1, 3), SIZES):
        fails = failures(n, repeats, noise, repetitions)
        shares = [
            count / repetitions
            for count in (fails.regression, fails.severity, fails.confirmed, fails.calibrated)
        ]
        slack = 3 * rate_error(ALPHA, repetitions)
        holds = max(shares[0], shares[3]) <= ALPHA + slack
        rows.append(Row((f"{noise:.2f}", str(repeats), str(n), *map(percent, shares)), holds))
    return Table(
        "False alarms by severity",
        f"How often the gate fails although the system did not change, in {repetitions:,} comparisons "
        f"of {EVALUATORS} evaluators with continuous scores, by the standard deviation of a score from "
        "run to run (noise). Guard 1 and the calibrated gate as a whole should fail in at most 5 %. "
        "Guard 2 alone has no such limit: any item that drops by more than 0.15 makes it fail; when "
        "confirmed, all repeats of the item have to. Each comparison runs the code of the gate "
        "itself. Its decision on guard 1 is checked against the simulation above.",
        ("noise", "repeats", "n", "guard 1", "guard 2", "guard 2, confirmed", "calibrated gate"),
        tuple(rows),
    )


def failures(n: int, repeats: int, noise: float, repetitions: int) -> Fails:
    design = Design(n, "continuous", repeats, EVALUATORS, sharing=0.5, noise=noise / SPREAD)
    draw = np.random.default_rng([n, repeats, round(100 * noise)])
    fails = Fails()
    for seed in range(repetitions):
        scores = unchanged(design, draw)
        sides = snapshot(scores[0]), snapshot(scores[1])
        plain, confirmed, calibrated = (
            decide(*sides, config(severity, seed)) for severity in ("any", "confirmed", "calibrated")
        )
        if fired(plain, Guard.REGRESSION) != guard_one(*scores, seed)[1]:
            raise AssertionError(f"The gate and the simulation disagree at n = {n}, seed {seed}.")
        fails.regression += fired(plain, Guard.REGRESSION)
        fails.severity += fired(plain, Guard.SEVERITY)
        fails.confirmed += fired(confirmed, Guard.SEVERITY)
        fails.calibrated += calibrated.is_failing
    return fails


def config(severity: Severity, seed: int) -> GateConfig:
    return GateConfig(alpha=ALPHA, severity=severity, seed=seed, permutation_iterations=ITERATIONS)


def fired(decision: Decision, guard: Guard) -> bool:
    return any(one.guard is guard for one in decision.findings)


def snapshot(scores: Scores) -> Snapshot:
    """Return scores, by evaluator, item and repeat, as one side of a comparison."""
    names = [f"evaluator {number}" for number in range(len(scores))]
    rows = np.moveaxis(scores, 0, 1).tolist()
    return Snapshot(
        items=tuple(
            item(index, dict(zip(names, map(tuple, row), strict=True))) for index, row in enumerate(rows)
        ),
        evaluators={
            name: EvaluatorFacts(name=name, deterministic=False, threshold=THRESHOLD) for name in names
        },
        runs=scores.shape[2],
    )


def item(index: int, scores: dict[str, tuple[float, ...]]) -> ItemSnapshot:
    verdicts = tuple(min(repeat) >= THRESHOLD for repeat in zip(*scores.values(), strict=True))
    return ItemSnapshot(index=index, verdicts=verdicts, scores=scores)
