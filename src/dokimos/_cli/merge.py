"""`dokimos merge`: the shards of a run as one result."""

from __future__ import annotations

from collections.abc import Sequence

import click

from dokimos._cli.collector import pause_collector
from dokimos._cli.options import (
    allow_errors_option,
    complete_runs,
    fail_under_option,
    output_option,
    run_dir_option,
    volume_options,
)


@click.command()
@click.argument("results", nargs=-1, required=True, shell_complete=complete_runs)
@output_option
@run_dir_option
@fail_under_option
@allow_errors_option
@volume_options
@pause_collector()
def merge(
    results: Sequence[str],
    outputs: Sequence[str],
    run_dir: str | None,
    fail_under: Sequence[str],
    allow_errors: str | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Join the shards of a run into one result.

    RESULTS are run ids, run folders or JSON reports, one for each shard.
    A missing or doubled item is an error.
    """
    from dokimos._cli.exit_codes import Criteria
    from dokimos._cli.options import check_outputs, check_volume, load_result_argument
    from dokimos._cli.presentation import Presentation
    from dokimos.experiment._merging import merge_results
    from dokimos.experiment._required_levels import parse_levels

    check_volume(quiet, verbose)
    check_outputs(outputs)
    levels = parse_levels(fail_under)
    merged = merge_results([load_result_argument(result, run_dir) for result in results])
    criteria = Criteria.of(levels, allow_errors, of_this_run=False)
    return Presentation(criteria=criteria, outputs=outputs, quiet=quiet, verbose=verbose).show(merged)
