"""Worker processes: how much sooner a run ends with `--processes`, and what a worker costs.

Run with `python benchmarks/processes.py [--items N]`; it prints figures with their budgets. Both runs of a
round do the same work, one after the other, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Final

from dokimos import EvalTestCase, Example, ExperimentResult, Score
from dokimos.evaluators import Evaluator, ExactMatch
from dokimos.experiment._experiment import Experiment

SPEED_BUDGET: Final = 1.8
"""Times as fast with two processes on two cores as with one."""
ROUNDS: Final = 3
STEPS: Final = 40_000
"""Of a loop that takes some milliseconds: the task, and once more the evaluator."""


def compute(text: str) -> int:
    """Keep a core busy."""
    total = len(text)
    for step in range(STEPS):
        total += step * step % 7
    return total


def answer(question: str) -> str:
    """Answer as an application does that computes."""
    compute(question)
    return question.upper()


@dataclass(frozen=True, kw_only=True)
class Measured(Evaluator):
    """An evaluator that computes as long as the task."""

    def score(self, case: EvalTestCase) -> Score:
        """Score what the loop gives."""
        return Score(float(compute(case.actual_output) > 0), "It computes.")


def run(items: int, processes: int, folder: str) -> tuple[float, float, ExperimentResult]:
    """Return the seconds of a run, those of CPU in all processes, and its result."""
    examples = [Example.of(f"question {index}", f"QUESTION {index}") for index in range(items)]
    plan = Experiment(examples, answer, [ExactMatch(), Measured(threshold=0.5)], quiet=True, run_dir=folder)
    cpu, start = _cpu_seconds(), time.perf_counter()
    result = plan.run(processes=processes)
    seconds = time.perf_counter() - start
    return seconds, _cpu_seconds() - cpu, result


def _cpu_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, kinds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=2_000, help="items of each run")
    items = parser.parse_args().items
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    rounds = []
    with TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            alone, shared = run(items, 1, folder), run(items, 2, folder)
            assert [item.eval_results for item in alone[2].item_results] == [
                item.eval_results for item in shared[2].item_results
            ]
            rounds.append((alone, shared))
    alone, shared = min(rounds, key=lambda pair: pair[1][0] / pair[0][0])
    print(f"{items} items that compute for {alone[1] / items * 1000:.1f} ms each, {cores} cores")
    print(f"  one process    {alone[0]:6.2f} s, {alone[1]:6.2f} s of CPU")
    print(f"  two processes  {shared[0]:6.2f} s, {shared[1]:6.2f} s of CPU, their start included")
    print(f"  {alone[0] / shared[0]:.2f} times as fast (budget {SPEED_BUDGET} on two cores)")
    extra = (shared[1] - alone[1]) / items * 1e6
    print(f"  {extra:.0f} us of CPU more per item")


if __name__ == "__main__":
    main()
