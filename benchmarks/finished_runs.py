"""What reads finished runs: merging, resuming, comparing and reports, beside parsing the same JSON alone.

Run with `python benchmarks/finished_runs.py [--items N] [row ...]`. Each row runs in a process of its own and
is printed with the CPU time and the peak memory that it adds, and the CPU time of its yardstick in the same
process: `json.loads` of each line of the journal, or `json.load` of the report.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from dokimos._cli.collector import pause_collector
from dokimos._cli.main import run_command
from dokimos._core.example import Example
from dokimos._core.results import ExperimentResult
from dokimos.comparison._comparison_builder import compare_runs
from dokimos.comparison._snapshot import Snapshot
from dokimos.datasets._dataset import Dataset
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._merging import merge_results
from dokimos.experiment._run_loading import load_run
from dokimos.exporters._base import export
from dokimos.exporters._json import load_result

SHARDS: Final = 4
EVALUATORS: Final = 5
DONE: Final = 0.95
"""The share of a run that is done when it is resumed."""
FILLER: Final = "lorem ipsum dolor sit amet " * 5


async def answer(example: Example) -> Any:
    return example.inputs["input"]


def experiment(count: int, evaluators: int = EVALUATORS) -> Experiment:
    rows = [Example.of(text, text, id=text[:12]) for i in range(count) if (text := f"{i:<12}{FILLER}")]
    matches = [ExactMatch(name=f"Exact Match {number}") for number in range(evaluators)]
    return Experiment(Dataset(rows, "rows"), answer, matches, parallelism=32, progress=False)


def merge(count: int, folder: Path) -> Iterator[Callable[[], Any]]:
    plan = experiment(count)
    for number in range(SHARDS):
        plan.run(run_dir=folder, shard=(number + 1, SHARDS))
    runs = sorted(folder.iterdir())
    yield lambda: [parse_lines(run) for run in runs]
    yield lambda: merge_results([load_run(run) for run in runs]).summary  # which is computed when asked for


def resume(count: int, folder: Path, *, keep_results: bool) -> Iterator[Callable[[], Any]]:
    plan = experiment(count, 1)
    run = cut_off(Path(folder, str(plan.run(run_dir=folder).run_id)), count)
    yield lambda: parse_lines(run)
    yield lambda: plan.run(run_dir=folder, resume=run.name, keep_results=keep_results)


def resume_command(count: int, folder: Path) -> Iterator[Callable[[], Any]]:
    """The command line, which makes the data itself and prints the result."""
    target = Path(folder, "evals.py")
    target.write_text(f"from finished_runs import experiment\n\nplan = experiment({count}, 1)\n")
    options = ["-q", "--run-dir", str(folder / "runs")]
    # In a process of its own, so that this one has not got the memory yet that resuming takes.
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "dokimos", "run", f"{target}:plan", *options]
    subprocess.run(command, env=paths, stdout=subprocess.DEVNULL, check=True)
    run = cut_off(next((folder / "runs").iterdir()), count)

    def resume_run() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            run_command(["resume", run.name, *options])

    yield lambda: parse_lines(run)
    yield resume_run


def cut_off(run: Path, count: int) -> Path:
    """Shorten the journal of a run to the share that is done when it is resumed."""
    with (run / "journal.jsonl").open("r+b") as journal:
        for _ in range(int(count * 2 * DONE)):  # a line of the task and one of the evaluators for each item
            journal.readline()
        journal.truncate(journal.tell())
    return run


def compare(count: int, folder: Path) -> Iterator[Callable[[], Any]]:
    result = run_without_journal(count, 1)
    report = export(result, folder / "report.json")
    yield lambda: parse_report(report)
    yield lambda: compare_runs(Snapshot.of(result), Snapshot.of(result))


def json_report(count: int, folder: Path) -> Iterator[Callable[[], Any]]:
    result = run_without_journal(count)
    report = export(result, folder / "report.json")
    print(f"{report.stat().st_size / 1e6:.0f} MB of file")
    tree = json.loads(report.read_bytes())
    yield lambda: json.dumps(tree, ensure_ascii=False)
    yield lambda: export(result, folder / "report.json")


def loading(count: int, folder: Path) -> Iterator[Callable[[], Any]]:
    report = export(run_without_journal(count), folder / "report.json")
    yield lambda: parse_report(report)
    yield lambda: load_result(report)


def html_report(count: int, folder: Path) -> Iterator[Callable[[], Any]]:
    result = run_without_journal(count)
    report = export(result, folder / "report.json")
    yield lambda: parse_report(report)
    yield lambda: export(result, folder / "report.html")


def run_without_journal(count: int, evaluators: int = EVALUATORS) -> ExperimentResult:
    return experiment(count, evaluators).run(journal=False)


def parse_lines(run: Path) -> None:
    with (run / "journal.jsonl").open("rb") as file:
        for line in file:
            json.loads(line)


def parse_report(report: Path) -> None:
    json.loads(report.read_bytes())


ROWS: Final = {
    "merge": (merge, 100_000, f"merge of {SHARDS} shards, {EVALUATORS} evaluators"),
    "resume": (partial(resume, keep_results=False), 200_000, f"resume of a run, {DONE:.0%} done, totals"),
    "resume-whole": (partial(resume, keep_results=True), 200_000, "the same, as by default: with its items"),
    "resume-command": (resume_command, 200_000, "the same by the command, with its start"),
    "compare": (compare, 100_000, "comparison of two runs"),
    "json": (json_report, 100_000, f"JSON report, {EVALUATORS} evaluators"),
    "load": (loading, 10_000, f"load_result, {EVALUATORS} evaluators"),
    "html": (html_report, 10_000, f"HTML report, {EVALUATORS} evaluators"),
}
"""Of each row: what makes its data and yields the yardstick and the work, the items, and what it is."""


def measure(row: str, count: int, *, has_collector: bool) -> None:
    prepare, _, title = ROWS[row]
    # The commands that read finished runs do without the collector; a run that is resumed does not.
    paused = contextlib.nullcontext() if has_collector or row.startswith("resume") else pause_collector()
    with tempfile.TemporaryDirectory() as folder, paused:
        steps = prepare(count, Path(folder))
        with contextlib.redirect_stdout(io.StringIO()) as facts:
            bare = min_cpu(next(steps), 3)
            work = next(steps)
        gc.collect()
        before = peak_megabytes(reset=True)
        spent = min_cpu(work, 1 if row.startswith("resume") else 3)
        more = peak_megabytes() - before
        print(
            f"{title:<40} {count:>9,} items  {spent:.2f} s of CPU, +{more:.0f} MB "
            f"(bare JSON {bare:.2f} s, x{spent / bare:.1f}) {facts.getvalue().strip()}"
        )


def min_cpu(work: Callable[[], Any], rounds: int) -> float:
    spent = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


def peak_megabytes(*, reset: bool = False) -> float:
    """Return the peak memory of this process, on Linux since it was reset; 0 elsewhere."""
    with contextlib.suppress(OSError):
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
    return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", choices=[[], *ROWS], default=[])
    parser.add_argument("--items", type=int, help="of each row; by default as many as the budgets are for")
    parser.add_argument("--collector", action="store_true", help="leave the garbage collector on")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for row in arguments.rows or ROWS:
        count = arguments.items or ROWS[row][1]
        if arguments.alone:
            measure(row, count, has_collector=arguments.collector)
        else:
            options = ["--items", str(count), "--alone", *(["--collector"] if arguments.collector else [])]
            subprocess.run([sys.executable, __file__, row, *options], check=True)


if __name__ == "__main__":
    main()
