"""`dokimos compare`: what changed between two results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dokimos._cli.collector import pause_collector
from dokimos._cli.echo import echo
from dokimos._cli.options import complete_runs, run_dir_option


def test_options(command: Any) -> Any:
    """Options on how changes are tested."""
    for option in reversed((
        click.option(
            "--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05,
            show_default=True, help="How often two runs of the same system may seem to differ.",
        ),
        click.option(
            "--correction", type=click.Choice(["westfall-young", "holm", "bh", "none"]),
            default="westfall-young", show_default=True, help="How the metrics share alpha.",
        ),
        click.option(
            "--pairing", type=click.Choice(["auto", "positional", "dataset_item_id"]), default="auto",
            show_default=True, help="How items are matched.",
        ),
    )):  # fmt: skip
        command = option(command)
    return command


@click.command()
@click.argument("baseline", shell_complete=complete_runs)
@click.argument("candidate", shell_complete=complete_runs)
@click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FILE", type=click.Path(dir_okay=False),
    help="Write the comparison: .html (item by item), .md or .json. Repeatable.",
)  # fmt: skip
@test_options
@run_dir_option
@click.option("-v", "--verbose", is_flag=True, help="Show every item that changed.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the verdict.")
@pause_collector()
def compare(
    baseline: str,
    candidate: str,
    outputs: Sequence[str],
    run_dir: str | None,
    verbose: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Compare CANDIDATE with BASELINE, item by item.

    Each is a run id (or its start, or 'latest'), a run folder or a JSON report; BASELINE may also be the
    baseline file of a gate. The exit code is 0 whatever changed: 'dokimos gate' is for CI.
    """
    from dokimos._cli.options import check_volume, check_writable
    from dokimos._cli.sides import load_side
    from dokimos.comparison._comparison_builder import compare_runs
    from dokimos.comparison._config import ComparisonConfig
    from dokimos.comparison._console import print_comparison
    from dokimos.comparison._reports import export_comparison, writer_for
    from dokimos.comparison._wording import verdict_text
    from dokimos.reporting._console import make_console

    check_volume(quiet, verbose)
    for output in outputs:
        writer_for(output)
        check_writable(Path(output))
    config = ComparisonConfig(**options)
    comparison = compare_runs(
        load_side(baseline, run_dir).snapshot, load_side(candidate, run_dir).snapshot, config=config
    )
    if quiet:
        echo(verdict_text(comparison))
    else:
        print_comparison(comparison, make_console(), verbose=verbose)
    written = [export_comparison(comparison, output) for output in outputs]
    if written and not quiet:
        echo(f"  reports  {' '.join(map(str, written))}")
    return 0
