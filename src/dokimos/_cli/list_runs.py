"""`dokimos list`: the runs kept here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from dokimos._cli.echo import echo
from dokimos._cli.options import run_dir_option

if TYPE_CHECKING:
    from dokimos.experiment._run_loading import RunListing
    from dokimos.reporting._tables import Table

KEPT: Final = 20


@click.command("list")
@click.option("--prune", is_flag=True, help="Delete all but the newest runs.")
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    help=f"With --prune: how many to keep.  [default: {KEPT}]",
)
@run_dir_option
def list_runs(prune: bool, keep: int | None, run_dir: str | None) -> int:
    """List the runs kept here, the newest last; delete old ones."""
    from dokimos.experiment import _run_loading as run_loading
    from dokimos.experiment._run_folders import runs_root

    if keep is not None and not prune:
        raise click.UsageError("--keep needs --prune.")
    root = runs_root(run_dir)
    listings = run_loading.list_runs(root)
    if prune:
        keep_count = KEPT if keep is None else keep
        old = [listing.folder for listing in listings[: max(0, len(listings) - keep_count)]]
        deleted = run_loading.prune_runs(old)
        echo(f"Deleted {len(deleted)} of {len(listings)} runs in {root}.")
        return 0
    if not listings:
        echo(f"There are no runs in {root}.")
        return 0
    from dokimos.reporting._console import make_console
    from dokimos.reporting._tables import print_table

    print_table(_table(listings), make_console())
    return 0


def _table(listings: Sequence[RunListing]) -> Table:
    from dokimos.reporting._tables import Column, Table

    columns = [
        Column("", left=True, whole=True),
        Column("", left=True),
        Column(""),
        Column("", left=True, rest=True),
    ]
    rows = [
        [
            listing.run_id,
            "unreadable" if listing.problem else listing.status or "unfinished",
            f"{listing.size_bytes / 1e6:.1f} MB",
            listing.name,
        ]
        for listing in listings
    ]
    return Table(columns, rows)
