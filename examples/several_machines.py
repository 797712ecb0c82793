"""One run, wherever its work is done: in this process, in others, or on a Ray cluster.

Run with `python examples/several_machines.py`. Where the extra `ray` is installed, it starts a cluster on
this machine; the variable RAY_ADDRESS names another one to join, such as ray://head:10001.
"""

import importlib.util
import os

from dokimos import Dataset, Example, Executor, Experiment, LocalExecutor, ProcessExecutor, RayExecutor
from dokimos.evaluators import ExactMatch

DATASET = Dataset(
    [Example.of(f"{n} * {n + 1}", str(n * (n + 1))) for n in range(200)],
    name="products",
)


def calculate(question: str) -> str:
    """Work out a product, by adding up: an application that keeps a core busy."""
    count, _, number = question.partition(" * ")
    return str(sum(int(number) for _ in range(int(count))))


def executors() -> dict[str, Executor]:
    """Return where this machine can run it."""
    known: dict[str, Executor] = {"this process": LocalExecutor(), "two processes": ProcessExecutor(2)}
    if importlib.util.find_spec("ray") is not None:
        known["Ray"] = RayExecutor(address=os.environ.get("RAY_ADDRESS", "local"), num_workers=2)
    return known


if __name__ == "__main__":  # workers import this file
    plan = Experiment(DATASET, calculate, [ExactMatch()], quiet=True, journal=False)
    for name, executor in executors().items():
        result = plan.run(executor=executor)
        print(f"{name:<15} {result.summary.passed} of {result.summary.total} passed")
