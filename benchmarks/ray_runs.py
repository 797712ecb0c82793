"""Runs on Ray: how they compare with worker processes, and what an item costs in messages.

Run with `python benchmarks/ray_runs.py [--items N]` where the extra `ray` and psutil are installed; it prints
figures with their budgets. The start of the cluster is told apart: this program starts it. Rounds are
interleaved. The CPU is that of the whole machine, so it has to do nothing else; what an item costs is the
difference between long and short runs, without the start of the workers.
"""

from __future__ import annotations

import argparse
import os
import time
from tempfile import TemporaryDirectory
from typing import Final

from processes import Measured, answer

from dokimos import Example, ExperimentResult, LocalExecutor, ProcessExecutor, RayExecutor
from dokimos.evaluators import ExactMatch
from dokimos.experiment._executor import Executor
from dokimos.experiment._experiment import Experiment

try:
    import psutil
    import ray
except ModuleNotFoundError as error:  # `make bench` goes through all
    print(f"{error.name} is not installed, so nothing is measured.")
    raise SystemExit(0) from None

ROUNDS: Final = 3
SPEED_BUDGET: Final = 0.9
"""Of the speed of two worker processes, with four workers on two cores."""
CPU_BUDGET: Final = 0.6
"""Milliseconds of CPU per item over those of a run in one process, all processes together."""
EXECUTORS: Final[dict[str, Executor]] = {
    "one process": LocalExecutor(),
    "two processes": ProcessExecutor(2),
    "four workers on Ray": RayExecutor(num_workers=4),
}


def echo(question: str) -> str:
    """Answer at once, so that what is measured is everything else."""
    return question.upper()


def run(plan: Experiment[str, str], executor: Executor) -> tuple[float, float, ExperimentResult]:
    """Return the seconds of a run, those of CPU in all processes, and its result."""
    cpu, start = _cpu_seconds(), time.perf_counter()
    result = plan.run(executor=executor)
    return time.perf_counter() - start, _cpu_seconds() - cpu, result


def _cpu_seconds() -> float:
    """Return what all processes of this machine have used: those of Ray come and go, and belong to nobody."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system)


def compare(title: str, plan: Experiment[str, str], names: list[str]) -> dict[str, tuple[float, float]]:
    """Print the best of some rounds for each executor, and return its seconds and those of CPU."""
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        results = []
        for name in names:
            seconds, cpu, result = run(plan, EXECUTORS[name])
            rounds[name].append((seconds, cpu))
            results.append([item.eval_results for item in result.item_results])
        assert all(each == results[0] for each in results)
    best = {name: min(each) for name, each in rounds.items()}
    print(title)
    for name, (seconds, cpu) in best.items():
        print(f"  {name:<20} {seconds:6.2f} s, {cpu:6.2f} s of CPU")
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=2_000, help="items of a run that computes")
    items = parser.parse_args().items
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    start = time.perf_counter()
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    print(f"start of the cluster: {time.perf_counter() - start:.1f} s")
    with TemporaryDirectory() as folder:
        examples = [Example.of(f"question {index}", f"QUESTION {index}") for index in range(items)]
        evaluators = [ExactMatch(), Measured(threshold=0.5)]
        computing = Experiment(examples, answer, evaluators, quiet=True, run_dir=folder)
        best = compare(f"{items} items that compute", computing, ["two processes", "four workers on Ray"])
        ratio = best["two processes"][0] / best["four workers on Ray"][0]
        print(f"  {ratio:.2f} of the speed of two processes (budget {SPEED_BUDGET})")
        slopes = []
        for name in ("one process", "four workers on Ray"):
            used = []
            for count in (items, 11 * items):
                short = [Example.of(f"question {index}", f"QUESTION {index}") for index in range(count)]
                cheap = Experiment(short, echo, [ExactMatch()], quiet=True, run_dir=folder)
                used.append(compare(f"{count} items that do nothing", cheap, [name])[name][1])
            slopes.append((used[1] - used[0]) / (10 * items) * 1000)
        extra = slopes[1] - slopes[0]
        print(f"  {extra:.2f} ms of CPU more per item, all processes together (budget {CPU_BUDGET})")
    ray.shutdown()


if __name__ == "__main__":
    main()
