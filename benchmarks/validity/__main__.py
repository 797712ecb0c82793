"""Proof by simulation: that the tests, intervals and guards do what they promise.

Run with `python benchmarks/validity` (about an hour), or with `--quick` for coarse figures
in a few minutes. It ends with code 1 if a promise is broken. `--write FILE` puts the tables into a page,
between two marked lines.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from coverage import coverage_table
from default_gate import broken_items_table, unchanged_systems_table
from false_alarms import guard_one_table
from few_labels import changed_labels_table, corrected_table, labels_alone_table
from few_scores import few_scores_table
from gates import gate_table
from monitoring import delay_table, detector_table, process_table
from online_samples import online_table
from plans import plan_table
from planted import power_table
from run_labels import agreement_table, needed_table, queue_table, run_rate_table
from stopping import dropped_table, unchanged_table
from tables import Table
from yearly_alarms import weighted_table, yearly_delay_table, yearly_table

BEGIN, END = "<!-- simulated: begin -->", "<!-- simulated: end -->"
PARTS: dict[str, tuple[Callable[[int], Table], int, int]] = {
    "guard1": (guard_one_table, 800, 60),
    "gate": (gate_table, 200, 20),
    "default-gate": (unchanged_systems_table, 100, 10),
    "broken-items": (broken_items_table, 50, 10),
    "power": (power_table, 4_000, 500),
    "plans": (plan_table, 1_000, 100),
    "coverage": (coverage_table, 4_000, 400),
    "scores": (few_scores_table, 2_000, 200),
    "labels": (corrected_table, 5_000, 100),
    "run-rates": (run_rate_table, 2_000, 60),
    "queue": (queue_table, 2_000, 100),
    "needed": (needed_table, 300, 20),
    "agreement": (agreement_table, 1_000, 60),
    "alone": (labels_alone_table, 5_000, 100),
    "changed": (changed_labels_table, 5_000, 50),
    "unchanged": (unchanged_table, 2_000, 200),
    "dropped": (dropped_table, 1_000, 100),
    "process": (process_table, 1_000, 60),
    "detector": (detector_table, 200, 30),
    "delays": (delay_table, 200, 20),
    "yearly": (yearly_table, 1_000, 60),
    "yearly-delays": (yearly_delay_table, 200, 20),
    "weighted": (weighted_table, 2_000, 200),
    "online": (online_table, 1_500, 100),
}
"""Each part with its repetitions, and those of a quick run."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    parser.add_argument("--only", choices=PARTS, action="append", help="a part to run; all unless given")
    parser.add_argument("--write", type=Path, help="the page that gets the tables")
    options = parser.parse_args()
    tables = []
    for name in options.only or PARTS:
        part, full, quick = PARTS[name]
        start = time.process_time()
        tables.append(part(quick if options.quick else full))
        print(tables[-1].to_markdown())
        print(f"({name}: {time.process_time() - start:.0f} s)\n", flush=True)
    if options.write:
        write(options.write, tables)
    broken = sum(table.broken for table in tables)
    print(
        "All promises hold." if not broken else f"{broken} designs break a promise; they are marked with (!)."
    )
    sys.exit(1 if broken else 0)


def write(page: Path, tables: Sequence[Table]) -> None:
    """Put the tables in the place of those with the same title, new ones behind them."""
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    simulated, after = rest.split(END)
    sections = {text.split("\n", 1)[0]: text.strip() for text in simulated.split("\n## ")[1:]}
    sections |= {table.title: table.to_markdown().removeprefix("## ").strip() for table in tables}
    text = "\n\n".join(f"## {section}" for section in sections.values())
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
