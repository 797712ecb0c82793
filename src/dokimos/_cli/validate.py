"""`dokimos validate`: read a data set to its end, or a suite, and say what is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dokimos._cli.echo import echo
from dokimos._core.text import pluralize

if TYPE_CHECKING:
    from dokimos.datasets._dataset import DatasetStream


@click.command()
@click.argument("dataset")
@click.option(
    "--columns",
    multiple=True,
    metavar="FROM=TO",
    help="Read a column as another, such as question=input. Repeatable.",
)
@click.option(
    "--import",
    "imports",
    is_flag=True,
    help="Import what a suite names: its application, its graders, its tools. That runs their modules.",
)
def validate(dataset: str, columns: Sequence[str], imports: bool) -> int:
    """Read a data set and say what is in it; the first thing wrong is named with its line.

    DATASET is a file (.json .jsonl .csv .parquet, also .gz), a URI, or - for standard input. Of a suite
    (.yaml .yml) everything that is wrong is named. Its code is looked for, and not run unless --import is
    given.
    """
    from dokimos._cli.specs import parse_columns
    from dokimos._cli.target_experiment import is_suite
    from dokimos.datasets._dataset import Dataset

    if is_suite(dataset):
        if columns:
            raise click.UsageError("--columns is for data files.")
        _say_suite(dataset, imports=imports)
        return 0
    if imports:
        raise click.UsageError("--import is for suites.")
    stream = Dataset.stream(dataset, columns=parse_columns(columns))
    _print_contents(stream)
    if stream.duplicate_ids:
        many, verb = stream.duplicate_ids, "has" if stream.duplicate_ids == 1 else "have"
        echo(f"Error: {pluralize(many, 'example')} {verb} an id that came before.", err=True)
        return 2
    return 0


def _print_contents(stream: DatasetStream) -> None:
    """Read a data set to its end, and say how many examples have what."""
    counts: Counter[str] = Counter()
    keys: Counter[str] = Counter()
    for example in stream:
        counts["examples"] += 1
        counts["with an id"] += example.id is not None
        counts["with an expected output"] += bool(example.expected_outputs)
        counts["with recorded outputs"] += example.actual_outputs is not None
        if example.actual_error is not None:
            counts["with a recorded error"] += 1
        keys.update(f"metadata.{key}" for key in example.metadata)
        keys.update(f"inputs.{key}" for key in example.inputs)
    echo(f"{stream.name}: {pluralize(counts.pop('examples', 0), 'example')}")
    for what, count in counts.items():
        echo(f"  {count:>8} {what}")
    for key, count in sorted(keys.items()):
        echo(f"  {count:>8} with {key}")
    # Known only now that the stream was read to its end.
    echo(f"  fingerprint {stream.fingerprint}")


def _say_suite(path: str, *, imports: bool) -> None:
    """Load a suite, and say what there is in it and what is odd about it."""
    from dokimos._runtime.static_imports import forbid_imports
    from dokimos.suites._environment import export_dotenv
    from dokimos.suites._loader import load_suite

    export_dotenv(Path(path).resolve().parent)
    with nullcontext() if imports else forbid_imports():
        suite = load_suite(path)
    turns = sum(len(case.turns) for case in suite.cases)
    cases = f"{pluralize(len(suite.cases), 'case')}, {pluralize(turns, 'turn')}"
    echo(f"{suite.name}: {cases}, of {suite.agent}")
    for warning in suite.warnings:
        echo(f"! {warning}", err=True)
