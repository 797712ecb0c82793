"""How often the default gate fails an unchanged system, and whether it finds a broken item of a quiet one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

import numpy as np
from gates import item
from numpy.typing import NDArray
from systems import Scores
from tables import Row, Table, percent, rate_error

from dokimos.comparison._snapshot import EvaluatorFacts, Snapshot
from dokimos.gate._decision import Decision, decide
from dokimos.gate._gate_config import GateConfig
from dokimos.gate._item_guards import RERUNS
from dokimos.gate._severity import RerunScores

ALPHA = 0.05
ITERATIONS = 199
DROP = 0.5

Kind: TypeAlias = Literal["binary", "continuous"]
Source: TypeAlias = Literal["judge", "application"]
Noise: TypeAlias = Literal["all items", "few items", "one item", "uneven", "none"]


@dataclass(frozen=True)
class System:
    """A system whose scores vary from run to run, and how it is measured."""

    kind: Kind
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


@dataclass(frozen=True)
class Repeats:
    """How often both sides are run, and whether the gate can run items again."""

    baseline: int
    candidate: int
    rerun: bool = False

    @property
    def title(self) -> str:
        if self.rerun:
            return f"{self.baseline}, with rerun"
        return (
            str(self.baseline) if self.baseline == self.candidate else f"{self.baseline} and {self.candidate}"
        )


DESIGNS = (Repeats(1, 1), Repeats(1, 1, rerun=True), Repeats(3, 3), Repeats(5, 5))
SIZES = ((3, 20), (20, 20), (3, 200), (20, 200))
"""Metrics and items."""
HARD: tuple[Noise, ...] = ("few items", "one item", "uneven")
KINDS: tuple[Kind, ...] = ("binary", "continuous")
SOURCES: tuple[Source, ...] = ("judge", "application")


def unchanged_systems_table(repetitions: int) -> Table:
    systems = [
        *(System(kind, *size, source) for kind, source, size in product(KINDS, SOURCES, SIZES)),
        *(
            System(kind, metrics, 20, source, noise)
            for noise, kind, source, metrics in product(HARD, KINDS, SOURCES, (3, 20))
        ),
    ]
    failed = [_count_failures(system, repetitions) for system in systems]
    return Table(
        "False alarms of the default gate",
        'With severity="auto", the gate should fail in at most 5 % of the comparisons of an unchanged '
        "system. The last columns are the repeats on each side; with a rerun, suspicious items are "
        "run three times more. Noise of a judge is independent for each metric. Noise of an "
        "application makes all metrics of an item vary together, and evaluators are deterministic. "
        "Binary scores have pass rates around 80 %, continuous ones a standard deviation of 0.1 from "
        "run to run. Few items: 7 % of the items vary, the others never do. One item: only the first "
        "item varies. Uneven: the deviation differs between items by a factor of 2.7 up or down, and "
        f"often by more. {repetitions:,} comparisons each, with a standard error of "
        f"{percent(rate_error(ALPHA, repetitions))}.",
        ("scores", "noise of a", "varying", "metrics", "items", *(design.title for design in DESIGNS)),
        tuple(
            _unchanged_row(system, repetitions, counts)
            for system, counts in zip(systems, failed, strict=True)
        ),
        f"Overall, in {len(systems) * repetitions:,} comparisons for each design: "
        f"{', '.join(_pooled(failed, repetitions, place) for place in range(len(DESIGNS)))}.",
    )


def _unchanged_row(system: System, times: int, failed: Sequence[int]) -> Row:
    cells = (system.kind, system.source, system.noise, str(system.metrics), str(system.items))
    shares = [count / times for count in failed]
    holds = max(shares) <= ALPHA + 3 * rate_error(ALPHA, times)
    return Row((*cells, *map(percent, shares)), holds)


def _pooled(failed: Sequence[Sequence[int]], repetitions: int, place: int) -> str:
    share = sum(counts[place] for counts in failed) / (len(failed) * repetitions)
    return f"{percent(share)} ({DESIGNS[place].title})"


def _count_failures(system: System, repetitions: int) -> list[int]:
    return [false_fails(system, design, repetitions) for design in DESIGNS]


def false_fails(system: System, design: Repeats, repetitions: int) -> int:
    draw = np.random.default_rng(
        [system.items, system.metrics, design.baseline, design.rerun, len(system.noise), system.shared]
    )
    failed = 0
    for seed in range(repetitions):
        sampler = Sampler(system, draw)
        before, now = sampler.run(design.baseline), sampler.run(design.candidate)
        failed += gate(before, now, system, seed, sampler.run if design.rerun else None).is_failing
    return failed


def broken_items_table(repetitions: int) -> Table:
    """What the default gate finds: certain where a system is quiet or collapses, else as it comes."""
    designs = (*DESIGNS, Repeats(3, 1))
    promised = (False, True, True, True, False)
    quiet = [System("continuous", 3, items, source, "none") for items, source in product((20, 200), SOURCES)]
    rows = [
        *(_broken_row(system, 0.0, zip(designs, promised, strict=True), repetitions) for system in quiet),
        *(
            _broken_row(
                System("continuous", 3, 20), deviation, ((one, False) for one in designs), repetitions
            )
            for deviation in (0.02, 0.05, 0.1)
        ),
        *(_together_row(fallen, designs, repetitions) for fallen in (1, 2, 3, 5)),
        *(_collapse_row(items, designs, repetitions) for items in (5, 6, 7)),
    ]
    return Table(
        "Regressions that the default gate finds",
        "One of 3 metrics falls by 0.5 on one item, or all its scores fall from 1 to 0. If the system "
        "does not vary, three repeats on each side or a rerun always find the drop. If the verdict of "
        "another item flips at random, three or more items that fall from 1 to 0 in all repeats are "
        "always found with three repeats on each side, and two items with five. A total collapse is "
        "always found, even if the two other metrics vary. Other drops are not always found: with one "
        "repeat and no rerun, the gate lists the drop, and its verdict is INCONCLUSIVE. In the last "
        f"column the baseline has 3 repeats and the candidate 1. {repetitions:,} comparisons each.",
        ("system", "falls", "items", *(design.title for design in designs)),
        tuple(rows),
    )


def _broken_row(
    system: System, deviation: float, designs: Iterable[tuple[Repeats, bool]], repetitions: int
) -> Row:
    draw = np.random.default_rng([system.items, system.shared, round(100 * deviation)])
    shares, holds = [], True
    for design, promised in designs:
        found = 0
        for seed in range(repetitions):
            sampler = Sampler(system, draw)
            sampler.deviation = np.full(sampler.shape, deviation)
            sampler.level[0, 3] = max(DROP, sampler.level[0, 3])
            before = sampler.run(design.baseline)
            sampler.level[0, 3] -= DROP
            now = sampler.run(design.candidate)
            found += gate(before, now, system, seed, sampler.run if design.rerun else None).is_failing
        shares.append(found / repetitions)
        holds = holds and (found == repetitions or not promised)
    told = "quiet" if deviation == 0 else f"varies by {deviation:g}"
    return Row((f"{told}, {system.source}", "one item", str(system.items), *map(percent, shares)), holds)


def _together_row(fallen: int, designs: Sequence[Repeats], repetitions: int) -> Row:
    """Some items fall in all repeats, beside one item of each metric that flips."""
    system, draw = System("binary", 3, 20, noise="one item"), np.random.default_rng(fallen)
    shares, holds = [], True
    for design in designs:
        found = 0
        for seed in range(repetitions):
            sampler = Sampler(system, draw)
            sampler.level[:, 0] = 0.7
            before, now = sampler.run(design.baseline), sampler.run(design.candidate)
            before[0, 3 : 3 + fallen], now[0, 3 : 3 + fallen] = 1.0, 0.0
            again = sampler.run if design.rerun else None
            found += gate(before, now, system, seed, again).is_failing
        shares.append(found / repetitions)
        promised = min(design.baseline, design.candidate) >= 3 and fallen >= (
            3 if design.baseline == 3 else 2
        )
        holds = holds and (found == repetitions or not promised)
    items = "one item" if fallen == 1 else f"{fallen} items"
    return Row(("one item flips, judge", items, str(system.items), *map(percent, shares)), holds)


def _collapse_row(items: int, designs: Sequence[Repeats], repetitions: int) -> Row:
    system, draw = System("continuous", 3, items), np.random.default_rng(items)
    shares = []
    for design in designs:
        failed = 0
        for seed in range(repetitions):
            sampler = Sampler(system, draw)
            before, now = sampler.run(design.baseline), sampler.run(design.candidate)
            before[0], now[0] = 1.0, 0.0
            failed += gate(before, now, system, seed, None).is_failing
        shares.append(failed / repetitions)
    name = "varies by 0.1, judge"
    return Row((name, "all items", str(items), *map(percent, shares)), min(shares) == 1.0)
