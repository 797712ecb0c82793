"""Runs on Ray: how they compare with worker processes, and what an item costs in messages.

Run with `python benchmarks/ray_runs.py [--items N]` where the extra `ray` and psutil are installed; it prints
figures with their budgets. The start of the cluster is told apart: this program starts it. So is that of the
workers: what items take is the difference between long and short runs. Rounds are interleaved, and the lowest
of each counts. CPU is that of this process and those below it, Ray's own included. On a machine that does
something else as well, four workers get more of it than two: there, the CPU says more than the seconds do.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
import time
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

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
CPU_BUDGET: Final = 0.4
"""Milliseconds of CPU per item over those of a run in one process, all processes together."""
MOST_CHEAP: Final = 2_000
"""So many items that do nothing, and eleven times as many, whatever the number of those that compute."""
LOOK_SECONDS: Final = 0.2
"""A process that ends has used some more since it was last looked at, as much in long as in short runs."""
EXECUTORS: Final[dict[str, Executor]] = {
    "one process": LocalExecutor(),
    "two processes": ProcessExecutor(2),
    "four workers on Ray": RayExecutor(num_workers=4),
}


def echo(question: str) -> str:
    """Answer at once, so that what is measured is everything else."""
    return question.upper()


class ProcessTree:
    """Adds up the CPU of this process and those below it, of which some end before anybody asks."""

    def __init__(self) -> None:
        self._root = psutil.Process()
        self._seconds: dict[tuple[int, float], float] = {}
        self._own = 0.0
        """What looking costs itself."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._look()
            self._own = time.thread_time()
            time.sleep(LOOK_SECONDS)

    def _look(self) -> None:
        for process in (self._root, *self._root.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                self._seconds[process.pid, process.create_time()] = times.user + times.system

    def cpu_seconds(self) -> float:
        """Return the CPU until now, without what looking has cost."""
        time.sleep(2 * LOOK_SECONDS)
        return sum(list(self._seconds.values())) - self._own


class Cost(NamedTuple):
    """What a run took."""

    seconds: float
    cpu: float

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.seconds - other.seconds, self.cpu - other.cpu)


def run(plan: Experiment[str, str], executor: Executor, tree: ProcessTree) -> tuple[Cost, ExperimentResult]:
    """Return what a run took, in all processes, and its result."""
    cpu, start = tree.cpu_seconds(), time.perf_counter()
    result = plan.run(executor=executor)
    seconds = time.perf_counter() - start
    return Cost(seconds, tree.cpu_seconds() - cpu), result


def compare(
    plans: dict[int, Experiment[str, str]], names: list[str], tree: ProcessTree
) -> dict[tuple[str, int], Cost]:
    """Print and return the lowest of some rounds for each executor and number of items."""
    rounds: dict[tuple[str, int], list[Cost]] = {(name, count): [] for name in names for count in plans}
    for _ in range(ROUNDS):
        for count, plan in plans.items():
            results = []
            for name in names:
                cost, result = run(plan, EXECUTORS[name], tree)
                rounds[name, count].append(cost)
                results.append([item.eval_results for item in result.item_results])
            assert all(each == results[0] for each in results)
    best = {
        key: Cost(min(each.seconds for each in costs), min(each.cpu for each in costs))
        for key, costs in rounds.items()
    }
    for (name, count), cost in best.items():
        print(f"  {name:<20} {count:>6} items {cost.seconds:6.2f} s, {cost.cpu:6.2f} s of CPU")
    return best


def compare_computing(items: int, folder: str, tree: ProcessTree) -> None:
    """Print how fast items are done that compute, beside two worker processes."""
    print("Items that compute")
    short = items // 2  # which lasts until all workers have started
    plans = {
        count: Experiment(
            questions(count), answer, [ExactMatch(), Measured(threshold=0.5)], quiet=True, run_dir=folder
        )
        for count in (short, items)
    }
    best = compare(plans, ["two processes", "four workers on Ray"], tree)
    two, four = best["two processes", items], best["four workers on Ray", items]
    print(f"  {two.seconds / four.seconds:.2f} of the speed of two processes, the start of workers included")
    two, four = two - best["two processes", short], four - best["four workers on Ray", short]
    print(f"  {two.seconds / four.seconds:.2f} of their speed without it (budget {SPEED_BUDGET})")
    print(f"  {two.cpu / four.cpu:.2f} of their items for each second of CPU without it")


def compare_cheap(items: int, folder: str, tree: ProcessTree) -> None:
    """Print what an item costs that does nothing, beside a run in one process."""
    print("Items that do nothing")
    counts = (items, 11 * items)
    plans = {
        count: Experiment(questions(count), echo, [ExactMatch()], quiet=True, run_dir=folder)
        for count in counts
    }
    names = ["one process", "four workers on Ray"]
    best = compare(plans, names, tree)
    one, four = (best[name, counts[1]] - best[name, counts[0]] for name in names)
    extra = (four.cpu - one.cpu) / (10 * items) * 1000
    print(f"  {extra:.2f} ms of CPU more per item, all processes together (budget {CPU_BUDGET})")


def questions(count: int) -> list[Example[str, str]]:
    return [Example.of(f"question {index}", f"QUESTION {index}") for index in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=4_000, help="items of a run that computes")
    items = parser.parse_args().items
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's is 15, with which its workers get little of a machine that does something else as well.
    os.environ.setdefault("RAY_worker_niceness", "0")
    start = time.perf_counter()
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    print(f"start of the cluster: {time.perf_counter() - start:.1f} s")
    tree = ProcessTree()
    with TemporaryDirectory() as folder:
        compare_computing(items, folder, tree)
        compare_cheap(min(items, MOST_CHEAP), folder, tree)
    ray.shutdown()


if __name__ == "__main__":
    main()
