"""Score right, perturbed and recorded function calls, and report what the evaluators catch.

python examples/bfcl/run.py                                  the package `bfcl-eval`, if it is installed
python examples/bfcl/run.py --wheel bfcl_eval-*.whl          ... or a wheel that was downloaded
python examples/bfcl/run.py                                  ... else the 70 rows of the quickstart
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bfcl import (
    CATEGORIES,
    LIVE_CATEGORIES,
    committed_rows,
    installed_data,
    load,
    recorded_calls,
    true_calls,
    wheel_data,
)
from perturbations import PERTURBATIONS

from dokimos import Dataset, Evaluator, Example, Experiment, ExperimentResult, ToolCall, export
from dokimos.evaluators import ToolCallValidity, ToolCorrectness, ToolEfficiency, ToolTrajectory

EVALUATORS: list[Evaluator] = [
    ToolCallValidity(strict=True),
    ToolCorrectness(match="names_and_args", arguments="exact"),
    ToolTrajectory(mode="strict", arguments="exact"),
    ToolEfficiency(),
]
NAMES = [evaluator.name for evaluator in EVALUATORS]

Answer = Callable[[Example], list[ToolCall]]


@dataclass(frozen=True)
class Fault:
    """A case of the data whose own answer does not pass."""

    category: str
    case: str
    reason: str


@dataclass(frozen=True)
class Caught:
    """How many cases with a seeded fault each evaluator failed."""

    fault: str
    meant: str
    total: int
    by_evaluator: dict[str, int]


def score(name: str, examples: Sequence[Example], answer: Answer) -> ExperimentResult:
    """Evaluate the calls that `answer` gives."""
    experiment = Experiment(
        Dataset(examples, name=name),
        lambda example: {"toolCalls": answer(example)},
        EVALUATORS,
        name=name,
        journal=False,
    )
    return experiment.run()


def faults_of(result: ExperimentResult) -> list[Fault]:
    """Return the cases in which a right answer did not get a full score for validity or correctness."""
    return [
        Fault(item.example.metadata["category"], item.key, found.reason)
        for item in result.item_results
        for found in item.eval_results
        if found.name in NAMES[:2] and found.score != 1
    ]


def caught(name: str, examples: Iterable[Example], seed: int) -> Caught:
    """Put one kind of fault into the calls of every case that has room for it, and count who notices."""
    perturb, meant = PERTURBATIONS[name]
    rng = random.Random(f"{seed}/{name}")
    spoilt = {example.id: (example, perturb(true_calls(example), example, rng)) for example in examples}
    cases = [example for example, calls in spoilt.values() if calls is not None]
    result = score(name, cases, lambda example: spoilt[example.id][1] or []) if cases else None
    items = result.item_results if result else ()
    failed = {n: sum(_fails(item, n) for item in items) for n in NAMES}
    return Caught(name, meant, len(cases), failed)


def _fails(item: object, name: str) -> bool:
    found = item.result(name)  # type: ignore[attr-defined]
    return found is not None and found.success is False


def report(
    right: ExperimentResult, faults: list[Fault], rows: list[Caught], recorded: ExperimentResult
) -> str:
    """Return the whole report as Markdown."""
    lines = ["# Function calls of the Berkeley data", "", "## Right answers", ""]
    lines += _right_table(right, faults)
    lines += ["", "## Cases in which the data is at fault", ""]
    lines += [f"- {fault.category} `{fault.case}`: {fault.reason}" for fault in faults] or ["None."]
    lines += [
        "",
        "## Seeded faults",
        "",
        "Share of the cases that each evaluator fails; *the one that is meant to*.",
        "",
    ]
    lines += _caught_table(rows)
    lines += ["", "## A small model's answers", ""]
    lines += [f"- {name}: {recorded.average_score(name):.3f}" for name in NAMES]
    return "\n".join(lines) + "\n"


def _right_table(right: ExperimentResult, faults: list[Fault]) -> list[str]:
    lines = ["| category | cases | validity | correctness | at fault |", "|---|---|---|---|---|"]
    for category, part in right.by("category").items():
        wrong = len({fault.case for fault in faults if fault.category == category})
        means = " | ".join(f"{part.average_score(name):.4f}" for name in NAMES[:2])
        lines.append(f"| {category} | {part.total_count} | {means} | {wrong} |")
    return lines


def _caught_table(rows: list[Caught]) -> list[str]:
    lines = [f"| fault | cases | {' | '.join(NAMES)} |", "|---|---|" + "---|" * len(NAMES)]
    for row in rows:
        cells = (_cell(row, name) for name in NAMES)
        lines.append(f"| {row.fault} | {row.total} | {' | '.join(cells)} |")
    return lines


def _cell(row: Caught, name: str) -> str:
    if not row.total:
        return "-"
    share = f"{row.by_evaluator[name] / row.total:.1%}"
    return f"*{share}*" if name == row.meant else share


def cases(wheel: str | None) -> list[Example]:
    """Return all cases of the package, else the rows of the quickstart."""
    read = wheel_data(wheel) if wheel else installed_data()
    if read is None:
        return list(committed_rows())
    return [example for category in (*CATEGORIES, *LIVE_CATEGORIES) for example in load(read, category)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Score function calls of the Berkeley data.")
    parser.add_argument("--wheel", help="a downloaded wheel of bfcl-eval")
    parser.add_argument("--seed", type=int, default=7, help="of the perturbations")
    parser.add_argument("--out", type=Path, default=Path("out") / "bfcl", help="the folder of the reports")
    options = parser.parse_args()
    examples = cases(options.wheel)
    right = score("right answers", examples, true_calls)
    faults = faults_of(right)
    at_fault = {fault.case for fault in faults}
    sound = [example for example in examples if example.id not in at_fault]
    rows = [caught(name, sound, options.seed) for name in PERTURBATIONS]
    recorded = score("recorded answers", list(committed_rows()), recorded_calls)
    text = report(right, faults, rows, recorded)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "report.md").write_text(text, encoding="utf-8")
    export(recorded, options.out / "recorded.html")
    print(text)
    print(f"  report  {(options.out / 'report.md').resolve()}")


if __name__ == "__main__":
    main()
