"""Simulates the optimizer: how often it accepts anything where nothing is better, and finds what is better.

Whole searches are simulated with the real loop, study, levels and test; only the application is chance. Run
with `--searches 600` for the figures of the documentation. It ends with code 1 where significantly more than
alpha of the searches accept anything although nothing is better.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from dokimos.optimizer._objective import Measured, Objective
from dokimos.optimizer._search import Search
from dokimos.optimizer._space import NumericSpace
from dokimos.optimizer._suite_bench import split_cases
from dokimos.optimizer._trial import Candidate, Found, Rewrite
from dokimos.stats._intervals import clopper_pearson_interval
from dokimos.suites._optimizer_schema import OptimizerBlock

OBJECTIVE = Objective(weights={"score": 1.0}, parts={}, planned={})
NUMERIC = {"numeric": [{"path": "model.temperature", "type": "float", "range": [0, 1]}]}
BOTH = {**NUMERIC, "textual": [{"path": "instructions.inline"}]}
START = Candidate(numbers={"model.temperature": 0.9}, texts={"instructions.inline": "text 0"})

Chance = Callable[[random.Random, str, Candidate], float]
"""The score of one run of a case by a candidate."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """An application made of chance, and how its search is set up."""

    name: str
    chance: Chance
    cases: int = 60
    repeats: int = 1
    axes: dict[str, list[dict[str, object]]]
    is_better: Callable[[Candidate], bool] = lambda candidate: False
    """Whether a candidate really is better; None is, where nothing matters."""


def own(case: str, what: object = "") -> random.Random:
    """Return chance that belongs to a case, and to a candidate."""
    return random.Random(f"{case}:{what}")


def verdicts(draw: random.Random, case: str, candidate: Candidate) -> float:
    """A model whose verdict on a case is a matter of chance; nothing that is tuned matters."""
    return float(draw.random() < own(case).betavariate(1.5, 1))


def scores(draw: random.Random, case: str, candidate: Candidate) -> float:
    """Graded scores that scatter around what a case is worth."""
    return min(1.0, max(0.0, own(case).gauss(0.6, 0.2) + draw.gauss(0, 0.15)))


def reshuffled(draw: random.Random, case: str, candidate: Candidate) -> float:
    """Each candidate solves other cases, always the same ones, and none solves more of them."""
    return float(own(case, candidate).random() < 0.6)


def colder(draw: random.Random, case: str, candidate: Candidate) -> float:
    """Verdicts that are right 25 points more often where the temperature is low."""
    rate = own(case).betavariate(2, 2) * 0.5 + 0.25 + (0.25 if is_colder(candidate) else 0.0)
    return float(draw.random() < min(1.0, rate))


def is_colder(candidate: Candidate) -> bool:
    return bool(candidate.numbers["model.temperature"] < 0.5)


def reworded(draw: random.Random, case: str, candidate: Candidate) -> float:
    """Scores that are 0.1 higher with the second text."""
    better = 0.1 if is_reworded(candidate) else 0.0
    return min(1.0, max(0.0, own(case).gauss(0.6, 0.15) + better + draw.gauss(0, 0.15)))


def is_reworded(candidate: Candidate) -> bool:
    return candidate.texts["instructions.inline"] == "text 2"


UNCHANGED = [
    Design(name="verdicts by chance, numbers", chance=verdicts, axes=NUMERIC),
    Design(name="verdicts by chance, numbers and texts", chance=verdicts, axes=BOTH),
    Design(name="verdicts by chance, 3 repeats", chance=verdicts, repeats=3, axes=BOTH),
    Design(name="scores by chance, 24 cases", chance=scores, cases=24, axes=BOTH),
    Design(name="other cases solved, not more", chance=reshuffled, axes=BOTH),
]
PLANTED = [
    Design(name="25 points at low temperature, 100 cases", chance=colder, cases=100, axes=NUMERIC,
           is_better=is_colder),
    Design(name="the same, 200 cases", chance=colder, cases=200, axes=NUMERIC, is_better=is_colder),
    Design(name="the same, 100 cases, 3 repeats", chance=colder, cases=100, repeats=3, axes=NUMERIC,
           is_better=is_colder),
    Design(name="0.1 by a text, 60 cases", chance=reworded, axes=BOTH, is_better=is_reworded),
]  # fmt: skip


class ChanceBench:
    """Runs candidates by chance, anew each time."""

    def __init__(self, design: Design, seed: int) -> None:
        self._design = design
        self._draw = random.Random(f"runs:{seed}")
        cases = [f"{seed}/{number}" for number in range(design.cases)]
        self._splits = split_cases(cases, 0.5, seed)

    async def run(self, trial: int, candidate: Candidate, split: str, *, at_once: int = 1) -> Measured:
        found = {
            case: {
                "score": [
                    self._design.chance(self._draw, case, candidate) for _ in range(self._design.repeats)
                ]
            }
            for case in self._splits[split]
        }
        return Measured(scores=found, loss=OBJECTIVE.loss(found), cases=len(found))


class CountingWriter:
    """Proposes `text 1`, `text 2` and so on."""

    async def rewrite(
        self, trial: int, axis: str, source: object, attempts: object, *, at_once: int = 1
    ) -> Rewrite:
        self.count = getattr(self, "count", 0) + 1
        return Rewrite(text=f"text {self.count}")


def searched(design: Design, seed: int) -> Found:
    """Carry out one search."""
    block = OptimizerBlock.model_validate(
        {"loss": {"score": 1}, "axes": design.axes, "repeats": design.repeats, "seed": seed}
    )
    search = Search(
        block,
        OBJECTIVE,
        ChanceBench(design, seed),
        space=NumericSpace(block.axes.numeric, seed=seed),
        writer=CountingWriter() if block.axes.textual else None,
    )
    return asyncio.run(search.run(START))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--searches", type=int, default=40, help="searches of each design")
    count = parser.parse_args().searches
    broken = False
    print(f"Nothing is better; accepted in at most 5 % of {count:,} searches\n")
    for design in UNCHANGED:
        start = time.process_time()
        accepted = sum(searched(design, seed).has_improved for seed in range(count))
        interval = clopper_pearson_interval(accepted, count)
        is_broken = interval.low > 0.05
        broken |= is_broken
        print(
            f"  {design.name:40} {accepted / count:6.1%}  (95 %: {interval.low:.1%} to {interval.high:.1%})"
            f"{'  (!)' if is_broken else ''}  {(time.process_time() - start) / count * 1000:.0f} ms a search"
        )
    print("\nSomething is better; how often it is found, and how often anything else is accepted\n")
    for design in PLANTED:
        found = [searched(design, seed) for seed in range(count)]
        power = sum(one.has_improved and design.is_better(one.best.candidate) for one in found) / count
        wrong = sum(one.has_improved and not design.is_better(one.best.candidate) for one in found) / count
        print(f"  {design.name:40} {power:6.1%}  {wrong:6.1%}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
