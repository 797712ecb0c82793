"""`dokimos show`: a result, or one of its items whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dokimos._cli.collector import pause_collector
from dokimos._cli.echo import echo
from dokimos._cli.options import complete_runs, fail_under_option, run_dir_option, volume_options

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult


@click.command()
@click.argument("result", shell_complete=complete_runs)
@click.option("--item", metavar="ID|INDEX", help="Show this item whole.")
@click.option("--json", "as_json", is_flag=True, help="With --item: as JSON.")
@run_dir_option
@fail_under_option
@volume_options
@pause_collector()
def show(
    result: str,
    item: str | None,
    as_json: bool,
    run_dir: str | None,
    fail_under: Sequence[str],
    quiet: bool,
    verbose: bool,
) -> int:
    """Show a result, or one of its items.

    RESULT is a run id (or its start, or 'latest'), a run folder or a JSON report.
    """
    from dokimos._cli.exit_codes import Criteria
    from dokimos._cli.options import check_volume, load_result_argument
    from dokimos._cli.presentation import Presentation
    from dokimos.experiment._required_levels import parse_levels

    if item is not None and (fail_under or quiet or verbose):
        raise click.UsageError("--item shows one item; --fail-under, -q and -v are about the whole result.")
    if as_json and item is None:
        raise click.UsageError("--json needs --item; `dokimos export` writes a whole result as JSON.")
    check_volume(quiet, verbose)
    loaded = load_result_argument(result, run_dir)
    if item is not None:
        _show_item(loaded, item, as_json=as_json)
        return 0
    criteria = Criteria.of(parse_levels(fail_under), None, of_this_run=False)
    presentation = Presentation(criteria=criteria, quiet=quiet, verbose=verbose)
    if fail_under:
        return presentation.show(loaded)
    presentation.print(loaded)
    return 0


def _show_item(result: ExperimentResult, key: str, *, as_json: bool) -> None:
    from dokimos._core.wire import to_json
    from dokimos.errors import ConfigurationError
    from dokimos.reporting._views import item_details

    items = [
        (run.index, item)
        for run in result.runs
        for item in run.item_results
        if key in (item.key, str(item.index))
    ]
    if not items:
        raise ConfigurationError(f"The result has no item {key!r}; {_describe_items(result)}.")
    for number, (run_index, item) in enumerate(items):
        if as_json:
            echo(to_json(item, indent=2))
        else:
            run = run_index if result.run_count > 1 else None
            echo(f"{chr(10) if number else ''}{item_details(item, run=run)}")


def _describe_items(result: ExperimentResult) -> str:
    keys = [item.key for item in result.item_results[:5]]
    which = "items" if len(keys) == len(result.item_results) else "first items"
    return f"its {which} are {', '.join(keys)}" if keys else "it kept no items"
