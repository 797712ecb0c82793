"""The runner: CPU beside a bare asyncio loop, bytes per result, wall over ideal, memory of long runs.

Run with `python benchmarks/runner.py [--rows N]`; it prints figures with their budgets.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.results import ExperimentResult
from dokimos.datasets._answer_replay import recorded_task
from dokimos.datasets._dataset import Dataset
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment

PARALLELISM: Final = 32
CPU_BUDGET: Final = {False: 0.02, True: 0.035}
BYTES_BUDGET: Final = 1500
WALL_BUDGET: Final = 1.10
PEAK_BUDGET: Final = 1.2
ROUNDS: Final = 3
SLEEP: Final = 0.05


def examples(count: int) -> Dataset:
    """Make examples whose task returns what is expected."""
    return Dataset([Example.of(f"question {i}", f"question {i}") for i in range(count)])


async def answer(example: Example) -> Any:
    return example.inputs["input"]


async def answer_slowly(example: Example) -> Any:
    await asyncio.sleep(SLEEP)
    return example.inputs["input"]


def answer_slowly_in_a_thread(example: Example) -> Any:
    time.sleep(SLEEP)
    return example.inputs["input"]


async def _bare(data: Dataset) -> list[Any]:
    """One asyncio task for each item and nothing else."""
    limit = asyncio.Semaphore(PARALLELISM)

    async def one(example: Example) -> Any:
        async with limit:
            return await answer(example)

    return await asyncio.gather(*(asyncio.create_task(one(example)) for example in data))


def bare_cpu(data: Dataset) -> float:
    """Return CPU seconds per 1,000 items of a bare loop."""
    start = time.process_time()
    asyncio.run(_bare(data))
    return (time.process_time() - start) / len(data) * 1000


def run_cpu(data: Dataset, *, journal: bool, task: Any = answer) -> float:
    """Return CPU seconds per 1,000 items of an experiment."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        result = experiment(data, task, PARALLELISM).run(journal=journal, run_dir=folder)
        spent = time.process_time() - start
    expect_all_passed(result, len(data))
    return spent / len(data) * 1000


def experiment(data: Dataset, task: Any, parallelism: int) -> Experiment:
    return Experiment(data, task, [ExactMatch()], parallelism=parallelism, progress=False)


def expect_all_passed(result: ExperimentResult, count: int) -> None:
    if result.pass_count != count:
        raise SystemExit(f"{result.pass_count} of {count} items passed; the figures mean nothing.")


def print_cpu(count: int) -> None:
    data = examples(count)
    bare = min(bare_cpu(data) for _ in range(ROUNDS))
    for journal in (False, True):
        spent = min(run_cpu(data, journal=journal) for _ in range(ROUNDS))
        budget = CPU_BUDGET[journal]
        print(
            f"{count:>7,} items, journal {'on ' if journal else 'off'}  {spent:.4f} s of CPU per 1,000 "
            f"(budget {budget}; bare loop {bare:.4f}, x{spent / bare:.1f})"
        )


def print_recorded(count: int) -> None:
    answers = Dataset(
        [replace(example, actual_outputs=example.expected_outputs) for example in examples(count)]
    )
    for journal in (False, True):
        spent = min(run_cpu(answers, journal=journal, task=recorded_task()) for _ in range(ROUNDS))
        print(
            f"{count:>7,} recorded answers, journal {'on ' if journal else 'off'}  {spent:.4f} s of CPU "
            f"per 1,000 (budget {CPU_BUDGET[journal]})"
        )


def print_bytes(count: int) -> None:
    data = examples(count)
    experiment(examples(10), answer, 1).run(journal=False)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    result = experiment(data, answer, PARALLELISM).run(journal=False)
    gc.collect()
    kept = (tracemalloc.get_traced_memory()[0] - before) / count
    tracemalloc.stop()
    expect_all_passed(result, count)
    print(f"{kept:,.0f} bytes per kept result (budget {BYTES_BUDGET}, x{kept / BYTES_BUDGET:.2f} of it)")


def print_wall(task: Any, label: str, count: int = 2000, parallelism: int = 100) -> None:
    data = examples(count)
    ideal = count * SLEEP / parallelism
    ratio = min(_wall(data, task, parallelism) for _ in range(ROUNDS)) / ideal
    what = f"{count:,} items of 50 ms at parallelism {parallelism}, {label}"
    print(f"{what:<50} x{ratio:.3f} of the ideal wall time (budget {WALL_BUDGET})")


def print_wide(count: int = 2000, parallelism: int = 1000) -> None:
    """Print what starting very many threads costs, beside a bare pool of as many."""
    data = examples(count)
    ideal = count * SLEEP / parallelism
    rounds = [
        (_wall(data, answer_slowly_in_a_thread, parallelism), _bare_pool(count, parallelism))
        for _ in range(ROUNDS)
    ]
    ours, bare = (min(column) / ideal for column in zip(*rounds, strict=True))
    print(
        f"{count:,} sync items of 50 ms at parallelism {parallelism:,}: x{ours:.2f} of the ideal wall time "
        f"(bare pool x{bare:.2f})"
    )


def _bare_pool(count: int, parallelism: int) -> float:
    start = time.perf_counter()
    with ThreadPoolExecutor(parallelism) as pool:
        list(pool.map(lambda _: time.sleep(SLEEP), range(count)))
    return time.perf_counter() - start


def _wall(data: Dataset, task: Any, parallelism: int) -> float:
    start = time.perf_counter()
    expect_all_passed(experiment(data, task, parallelism).run(journal=False), len(data))
    return time.perf_counter() - start


def write_rows(path: Path, rows: int) -> None:
    filler = "lorem ipsum dolor sit amet " * 5
    with path.open("w", encoding="utf-8") as file:
        for row in range(rows):
            file.write(json.dumps({"input": f"{row} {filler}", "expectedOutput": f"{row} {filler}"}) + "\n")


def print_peak(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        small, large = (peak_of(Path(folder) / "rows.jsonl", count) for count in (10_000, rows))
    print(
        f"peak memory, {rows:,} rows of JSONL with keep_results=False: {large / 1024:.0f} MB, "
        f"x{large / small:.3f} of that of 10,000 rows (budget {PEAK_BUDGET})"
    )


def peak_of(path: Path, rows: int) -> int:
    """Return the peak resident kilobytes of a process of its own."""
    write_rows(path, rows)
    command = [sys.executable, __file__, "--stream", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


def stream(path: str) -> None:
    data = Dataset.stream(path)
    plan = Experiment(data, answer, [ExactMatch()], parallelism=PARALLELISM, progress=False)
    with tempfile.TemporaryDirectory() as folder:
        result = plan.run(keep_results=False, run_dir=folder)
    expect_all_passed(result, result.total_count)
    print(peak_kilobytes())


def peak_kilobytes() -> int:
    """Return this process's peak; getrusage would tell that of the parent, where that was larger."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(status.read_text().partition("VmHWM:")[2].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the long JSONL file")
    parser.add_argument("--stream", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stream:
        stream(arguments.stream)
        return
    print_cpu(10_000)
    print_cpu(100_000)
    print_recorded(10_000)
    print_bytes(20_000)
    print_wall(answer_slowly, "async")
    print_wall(answer_slowly_in_a_thread, "sync")
    print_wide()
    print_peak(arguments.rows)


if __name__ == "__main__":
    main()
