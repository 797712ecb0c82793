"""Scoring: microseconds of CPU that one more evaluator adds to an item, beside a bare call of its `score`.

Run with `python benchmarks/scoring.py`; it prints figures with their budgets.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.test_case import EvalTestCase
from dokimos.datasets._dataset import Dataset
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment

ITEMS: Final = 1000
FEW, MANY = 4, 24
ROUNDS: Final = 12
BUDGETS: Final = {"sync, built in": (2.3, 3.0), "async, own": (3.2, 3.8)}
"""Microseconds without the journal, and with it."""
CASE: Final = EvalTestCase.of("question", "answer", "answer")


@dataclass(frozen=True, kw_only=True)
class Immediate(Evaluator):
    """An async evaluator that does not wait, such as one that looks into a cache."""

    threshold: float | None = 0.5

    async def score(self, case: EvalTestCase) -> float:
        return float(case.actual_output is not None)


KINDS: Final[dict[str, type[Evaluator]]] = {"sync, built in": ExactMatch, "async, own": Immediate}


async def answer(question: str) -> str:
    return question


def run_cpu(kind: type[Evaluator], count: int, *, journal: bool) -> float:
    """Return CPU seconds of a run with so many evaluators."""
    evaluators = [kind(name=f"evaluator {index}") for index in range(count)]
    data = Dataset([Example.of(f"question {i}", f"question {i}") for i in range(ITEMS)])
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        result = Experiment(data, answer, evaluators, parallelism=32, progress=False).run(
            journal=journal, run_dir=folder
        )
        spent = time.process_time() - start
    if result.pass_count != ITEMS:
        raise SystemExit(f"{result.pass_count} of {ITEMS} items passed; the figures mean nothing.")
    return spent


def score_cost(kind: type[Evaluator], *, journal: bool) -> float:
    """Return the microseconds that one more evaluator takes for an item."""
    # In turns, so that a time in which others use the cores falls on both.
    rounds = [[run_cpu(kind, count, journal=journal) for count in (FEW, MANY)] for _ in range(ROUNDS)]
    few, many = (min(round_[place] for round_ in rounds) for place in (0, 1))
    return (many - few) / (MANY - FEW) / ITEMS * 1e6


def bare_cost(kind: type[Evaluator]) -> float:
    """Return the microseconds of a bare call of `score`."""
    return min(asyncio.run(_call_scores(kind())) for _ in range(ROUNDS)) / ITEMS * 1e6


async def _call_scores(evaluator: Evaluator) -> float:
    start = time.process_time()
    for _ in range(ITEMS):
        outcome: Any = evaluator.score(CASE)
        if isinstance(outcome, Coroutine):
            await outcome
    return time.process_time() - start


def main() -> None:
    for label, kind in KINDS.items():
        bare = bare_cost(kind)
        off, on = (score_cost(kind, journal=journal) for journal in (False, True))
        budget_off, budget_on = BUDGETS[label]
        print(
            f"{label:<15} {off:5.1f} us a score without the journal (budget {budget_off}), "
            f"{on:5.1f} us with it (budget {budget_on}); bare call {bare:.1f} us"
        )


if __name__ == "__main__":
    main()
