"""Compare two stored runs of 10,000 items and 5 metrics: what it costs beside `compare_runs` alone.

    python -m benchmarks.server_comparison [--items 10000]

Prints CPU seconds of a comparison that nobody asked for before (in the process that compares, and in the
server), of `compare_runs` on the same two results in memory, and their ratio (budget 1.3); the time of a page
of the stored comparison (budget 50 ms); and the p95 of another request while a comparison runs beside that
without one (budget 1.5 times). The same beside a process that only computes shows what of that is the
machine: two processors that are threads of one core take from each other.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from dokimos import Evaluator, Example, ExperimentResult, Score, evaluate
from dokimos.comparison import compare_runs
from dokimos.server import ServerSettings
from dokimos.server._db.database import Database, open_database
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.comparisons.comparisons import ComparisonRequest, Comparisons
from dokimos.server._services.comparisons.gate_options import GateOptions
from dokimos.server._services.comparisons.stored_comparisons import read_cases
from dokimos.server._services.list_pages import ListPage
from dokimos.server._services.runs.item_pages import ITEM_ORDERS, ItemFilter, read_item_page
from dokimos.server._services.runs.items import add_items
from dokimos.server._services.runs.new_items import NewEvaluation, NewItem
from dokimos.server._services.runs.runs import NewRun, RunStatus, change_status, create_run, find_run
from dokimos.server._workers.comparison_process import ComparisonProcess

METRICS = 5
REPEATS = 3
ROUNDS = 6
COMPUTE = "import os; os.nice(19)\nwhile True: sum(range(10_000))"
"""What takes a processor as the process that compares does, and neither memory nor the database."""
THRESHOLD = 0.2


@dataclass(frozen=True, kw_only=True)
class StoredScore(Evaluator):
    """Gives the score that is stored for an item."""

    requires = ("actual_output",)
    scores: tuple[float, ...] = ()
    threshold: float | None = THRESHOLD

    def score(self, case):  # type: ignore[no-untyped-def] # as users write evaluators
        return Score(self.scores[int(case.actual_output)], "as stored")


Columns = Sequence[tuple[float, ...]]


def make_scores(items: int, seed: int) -> Columns:
    """Return the scores of each metric."""
    generate = random.Random(seed)
    return [tuple(round(generate.random(), 2) for _ in range(items)) for _ in range(METRICS)]


def make_result(columns: Columns) -> ExperimentResult:
    """Return the scores as a result of the library."""
    examples = [Example(inputs={"input": str(number)}) for number in range(len(columns[0]))]
    evaluators = [StoredScore(name=f"m{n}", scores=scores) for n, scores in enumerate(columns)]
    return evaluate(examples, lambda question: question, evaluators, quiet=True, journal=False)


def store_run(connection: Connection, columns: Columns) -> str:
    """Store the scores as a run of the server."""
    run = create_run(connection, SYSTEM, "benchmark", NewRun(experiment="qa"))
    items = [
        NewItem(
            input=f'{{"input":"question {number}"}}',
            actual_output='{"output":"answer"}',
            evaluations=[
                NewEvaluation(evaluator=f"m{n}", score=score, threshold=THRESHOLD, success=score >= THRESHOLD)
                for n, score in enumerate(scores)
            ],
        )
        for number, scores in enumerate(zip(*columns, strict=True))
    ]
    add_items(connection, SYSTEM, run, items)
    change_status(connection, SYSTEM, run, RunStatus.SUCCESS)
    return run


def cpu_of(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


async def measure_pages(database: Database, run: str, until: asyncio.Future[object]) -> list[float]:
    """Milliseconds of one page of items after the other, until something is done."""
    times, page = [], ListPage(ITEM_ORDERS.parse(None))
    while not until.done():
        start = time.perf_counter()
        await database.read(lambda c: read_item_page(c, run, ItemFilter(), page, offset=0, limit=50))
        times.append(1000 * (time.perf_counter() - start))
        await asyncio.sleep(0.005)
    return times


def p95(times: Sequence[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(times, n=20)[-1]


async def main(items: int) -> None:
    """Measure, and print the figures."""
    before, now = make_scores(items, 1), make_scores(items, 2)
    results = make_result(before), make_result(now)
    with tempfile.TemporaryDirectory() as folder:
        settings = ServerSettings(data_dir=Path(folder))
        database = open_database(settings)
        await database.open()
        process = ComparisonProcess(settings)
        engine = Comparisons(database, process)
        small = [await database.write(lambda c: store_run(c, make_scores(2, 3))) for _ in range(2)]
        runs = [await database.write(lambda c, its=its: store_run(c, its)) for its in (before, now)]
        experiment = (await database.read(lambda c: find_run(c, SYSTEM, runs[0]))).experiment_id

        def ask(pair: Sequence[str], seed: int) -> ComparisonRequest:
            return ComparisonRequest(
                experiment_id=experiment,
                baseline_id=pair[0],
                candidate_id=pair[1],
                options=GateOptions(seed=seed),
            )

        start = time.process_time()
        await engine.compare(SYSTEM, ask(small, 0))  # starts the process
        assert process.pid is not None
        print(f"start of the process {cpu_of(process.pid):.2f} CPU s")
        alone, cold = [], []
        for seed in range(REPEATS):
            start = time.process_time()
            compare_runs(*results)
            alone.append(time.process_time() - start)
            start, worker = time.process_time(), cpu_of(process.pid)
            await engine.compare(SYSTEM, ask(runs, seed))
            cold.append((cpu_of(process.pid) - worker, time.process_time() - start))
        ratios = [sum(both) / one for both, one in zip(cold, alone, strict=True)]
        print(f"compare_runs {min(alone):.2f} CPU s; cold {min(cold)[0]:.2f} + {min(cold)[1]:.2f} CPU s")
        print(f"ratio {statistics.median(ratios):.2f} (budget 1.3)")
        await _measure_warm(engine, database, ask(runs, 0), items)
        await _measure_others(engine, database, runs, [ask(runs, seed) for seed in range(100, 100 + ROUNDS)])
        await engine.close()
        await database.close()


async def _measure_warm(
    engine: Comparisons, database: Database, request: ComparisonRequest, items: int
) -> None:
    times = []
    for page in range(50):
        start = time.perf_counter()
        comparison = (await engine.compare(SYSTEM, request)).comparison
        assert comparison is not None
        first = page * items // 50
        await database.read(lambda c, i=comparison.id, f=first: read_cases(c, i, f, min(f + 20, items)))
        times.append(1000 * (time.perf_counter() - start))
    print(
        f"a page of the stored comparison: median {statistics.median(times):.1f} ms, p95 {p95(times):.1f} ms"
    )


async def _measure_others(
    engine: Comparisons, database: Database, runs: Sequence[str], requests: Sequence[ComparisonRequest]
) -> None:
    """Print the p95 of pages, in turns alone, beside a comparison and beside a process that only computes."""
    alone: list[float] = []
    beside: list[float] = []
    control: list[float] = []
    for request in requests:
        start = time.perf_counter()
        comparing: asyncio.Future[object] = asyncio.ensure_future(engine.compare(SYSTEM, request))
        beside += await measure_pages(database, runs[0], comparing)
        seconds = time.perf_counter() - start
        alone += await measure_pages(database, runs[0], _wait(seconds))
        computing = subprocess.Popen([sys.executable, "-c", COMPUTE])
        control += await measure_pages(database, runs[0], _wait(seconds))
        computing.kill()
        computing.wait()
    idle = p95(alone)
    for name, times in (("a comparison", beside), ("a process that only computes", control)):
        print(
            f"p95 of a page of items: {idle:.1f} ms alone, {p95(times):.1f} ms beside {name}: "
            f"{p95(times) / idle:.2f} times (budget 1.5); medians {statistics.median(alone):.1f} and "
            f"{statistics.median(times):.1f} ms, {len(times)} pages"
        )


def _wait(seconds: float) -> asyncio.Future[object]:
    return asyncio.ensure_future(asyncio.sleep(seconds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    asyncio.run(main(parser.parse_args().items))
