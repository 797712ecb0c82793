"""Iterate a large file through `Dataset.stream`; compare with a bare loop of `json.loads` or `csv.reader`.

    python benchmarks/dataset_iteration.py [--rows 1000000]

Prints the CPU time of both in this process, their ratio, and by how much the peak memory grew. The two take
turns every few thousand rows, so that what else the machine does meets both.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from dokimos import Dataset

SLICE = 5_000
RATIOS = {"plain": 1.5, "snake case": 1.5, "metrics": 2.0, "csv": 2.5, "csv with quotes": 3.1}
"""At most, by what the rows are like."""
_TEXT = (
    "the library opens at nine and closes at seven from monday to friday while readers return books late "
    "or renew a loan online unless another reader has reserved it"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    for shape, most in RATIOS.items():
        print_ratio(shape, rows, most)


def print_ratio(shape: str, rows: int, most: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("rows.csv" if shape.startswith("csv") else "rows.jsonl")
        write_rows(path, rows, shape)
        print(f"{shape}: {rows:,} rows, {path.stat().st_size / 1e6:.0f} MB")
        before = peak_mb()
        bare, ours = in_turns(path)
        yardstick = "csv.reader loop" if shape.startswith("csv") else "json.loads loop"
        print(f"{yardstick:<17} {bare:7.2f} s CPU")
        print(f"Dataset.stream    {ours:7.2f} s CPU")
        print(f"ratio             {ours / bare:7.2f}    (target: at most {most})")
        print(f"memory growth     {peak_mb() - before:7.1f} MB (target: at most 50)")


def write_rows(path: Path, rows: int, shape: str = "plain") -> None:
    words = _TEXT.split()
    choose = random.Random(7).choices
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        if shape.startswith("csv"):
            table.writerow(["id", "input", "expectedOutput", "category", "difficulty", "weight"])
        for index in range(rows):
            row: dict[str, Any] = {
                "id": f"question-{index}",
                "input": " ".join(choose(words, k=24)),
                "expectedOutput": " ".join(choose(words, k=20)),
                "metadata": {"category": f"topic-{index % 7}", "difficulty": index % 5, "weight": 0.5},
            }
            if shape == "csv with quotes":
                row["expectedOutput"] = row["expectedOutput"].replace(" the ", ' "the", ')
            if shape.startswith("csv"):
                table.writerow([*list(row.values())[:3], *row["metadata"].values()])
                continue
            if shape == "snake case":
                row["expected_output"] = row.pop("expectedOutput")
            if shape == "metrics":
                row["actualOutput"] = " ".join(choose(words, k=10))
                row["metrics"] = {"tokensIn": 120, "tokensOut": 30, "costUsd": 0.002, "latencyMs": 512.5}
            file.write(json.dumps(row) + "\n")


def in_turns(path: Path) -> tuple[float, float]:
    """Return the CPU seconds of the bare loop and of the stream over the same file."""
    stream = Dataset.stream(path)
    bare = ours = 0.0
    with path.open(encoding="utf-8", newline="") as file:
        examples, rows = iter(stream), read_bare(file, path.suffix)
        more = True
        while more:
            start = time.process_time()
            for _ in islice(rows, SLICE):
                pass
            turn = time.process_time()
            more = False
            for _ in islice(examples, SLICE):
                more = True
            bare += turn - start
            ours += time.process_time() - turn
    assert stream.fingerprint
    assert stream.duplicate_ids == 0
    return bare, ours


def read_bare(file: IO[str], suffix: str) -> Iterator[Any]:
    """Return the rows of a file as the parser alone gives them."""
    return csv.reader(file) if suffix == ".csv" else map(json.loads, file)


def peak_mb() -> float:
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    main()
