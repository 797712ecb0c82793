"""How often the default gate fails an unchanged system, and whether it finds a broken item of a quiet one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from gates import item
from numpy.typing import NDArray
from systems import Scores

from dokimos.comparison.snapshot import EvaluatorFacts, Snapshot
from dokimos.gate.config import GateConfig
from dokimos.gate.decision import Decision, decide
from dokimos.gate.item_guards import RERUNS
from dokimos.gate.severity import RerunScores

ALPHA = 0.05
ITERATIONS = 199
DROP = 0.5

Source: TypeAlias = Literal["judge", "application"]
Noise: TypeAlias = Literal["all items", "few items", "one item", "uneven", "none"]


@dataclass(frozen=True)
class System:
    """A system whose scores vary from run to run, and how it is measured."""

    kind: Literal["binary", "continuous"]
    metrics: int
    items: int
    source: Source = "judge"
    """A judge varies for each metric by itself; an application varies for all metrics of an item together."""
    noise: Noise = "all items"

    @property
    def shared(self) -> bool:
        return self.source == "application"


class Sampler:
    """Draws runs of one system."""

    def __init__(self, system: System, draw: np.random.Generator) -> None:
        self.system, self.draw = system, draw
        self.shape = (system.metrics, system.items)
        own = (1, system.items) if system.shared else self.shape
        noisy = np.broadcast_to(_noisy_items(system, own, draw), self.shape)
        if system.kind == "binary":
            rates = np.broadcast_to(draw.beta(4, 1, own), self.shape)
            fixed = (draw.random(self.shape) < 0.9).astype(float)
            self.level = np.where(noisy, rates, fixed)
            self.deviation = np.zeros(self.shape)
        else:
            self.level = draw.uniform(0.4, 1.0, self.shape)
            sizes = np.full(own, 0.1) * (np.exp(draw.normal(0, 1, own)) if system.noise == "uneven" else 1)
            self.deviation = np.where(noisy, sizes, 0.0)

    def run(self, repeats: int) -> Scores:
        count = (1 if self.system.shared else self.system.metrics, self.system.items, repeats)
        if self.system.kind == "binary":
            return (self.draw.random(count) < self.level[..., None]).astype(float)
        noise = self.draw.normal(size=count)
        if self.system.shared:  # what the metrics have in common is nearly all of their noise
            noise = 0.9 * noise + 0.44 * self.draw.normal(size=(*self.shape, repeats))
        return np.clip(np.round(self.level[..., None] + self.deviation[..., None] * noise, 2), 0.0, 1.0)

    def broken(self, metric: int, place: int) -> None:
        """Let one item fall by half of the scale, from the top of it."""
        self.level[metric, place] = max(0.0, self.level[metric, place] - DROP)


def _noisy_items(
    system: System, shape: tuple[int, int], draw: np.random.Generator
) -> NDArray[np.bool_] | bool:
    if system.noise == "few items":
        return draw.random(shape) < 0.07
    if system.noise == "one item":
        return np.arange(shape[1])[None, :] == 0
    return system.noise != "none"


def snapshot(scores: Scores, *, deterministic: bool) -> Snapshot:
    """Return scores, by metric, item and repeat, as one side of a comparison."""
    names = [f"metric {number}" for number in range(len(scores))]
    rows = np.moveaxis(scores, 0, 1).tolist()
    return Snapshot(
        items=tuple(
            item(index, dict(zip(names, map(tuple, row), strict=True))) for index, row in enumerate(rows)
        ),
        evaluators={name: EvaluatorFacts(name=name, deterministic=deterministic) for name in names},
        runs=scores.shape[2],
    )


def gate(
    before: Scores, now: Scores, system: System, seed: int, again: Callable[[int], Scores] | None
) -> Decision:
    """Decide by the gate's own code; `again` runs the candidate so often again."""
    config = GateConfig(alpha=ALPHA, seed=seed, permutation_iterations=ITERATIONS)
    sides = [snapshot(side, deterministic=system.shared) for side in (before, now)]
    first = decide(*sides, config)
    if again is None or not first.rests_on_drops:
        return first
    fresh = again(RERUNS)
    reruns = {
        (drop.key, drop.evaluator): RerunScores(
            RERUNS, tuple(fresh[int(drop.evaluator.split()[1]), int(drop.key.split("-")[1])].tolist())
        )
        for drop in (*first.drops, *first.unclear)
    }
    return decide(*sides, config, reruns=reruns)


def false_fails(system: System, repeats: tuple[int, int], rerun: bool, repetitions: int) -> float:
    draw = np.random.default_rng([system.items, system.metrics, *repeats, len(system.noise), system.shared])
    failed = 0
    for seed in range(repetitions):
        sampler = Sampler(system, draw)
        before, now = sampler.run(repeats[0]), sampler.run(repeats[1])
        failed += gate(before, now, system, seed, sampler.run if rerun else None).failed
    return failed / repetitions
