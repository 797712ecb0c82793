"""`dokimos datasets`: data sets on a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dokimos._cli.echo import echo
from dokimos._cli.server_options import server_option, using_server
from dokimos._core.text import pluralize
from dokimos.errors import DatasetError

if TYPE_CHECKING:
    from dokimos.datasets._dataset import Dataset

_MAX_LISTED_CHANGES: Final = 20
_KEY: Final = 80


@click.group()
def datasets() -> None:
    """Push, pull, list and compare data sets of a server.

    The key is read from DOKIMOS_API_KEY. In Python and in suites, name a version as dataset://NAME@3.
    """


@datasets.command()
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@click.option("--name", help="What the data set is called on the server.  [default: its own name]")
@click.option("--description", metavar="TEXT", help="What is new in this version.")
@server_option
def push(file: str, name: str | None, description: str | None, server: str | None) -> int:
    """Send a data file as the next version of a data set.

    Where the items are those of the latest version, there is no new one.
    """
    from dokimos.client._datasets import push_dataset
    from dokimos.datasets._dataset import Dataset

    with using_server(server) as url:
        pushed = push_dataset(Dataset.load(file), name=name, description=description, server_url=url)
    news = "" if pushed.is_new else ", unchanged"
    echo(f"dataset://{pushed.name}@{pushed.version}   {pluralize(pushed.item_count, 'item')}{news}")
    return 0


@datasets.command()
@click.argument("dataset", metavar="NAME[@VERSION]")
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False),
    help="Where to: .jsonl .json .csv .tsv .parquet.  [default: NAME.jsonl]",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@server_option
def pull(dataset: str, output: str | None, force: bool, server: str | None) -> int:
    """Write a version of a data set to a file.

    Without a version, it is the latest one.
    """
    uri = _uri(dataset)
    path = Path(output or f"{_file_name(uri)}.jsonl")
    if path.exists() and not force:
        raise click.UsageError(f"{path} exists; give --force to replace it, or another name with -o.")
    with using_server(server):
        pulled = _load(uri)
    pulled.save(path)
    version = "" if pulled.source is None else f"@{pulled.source.version}"
    echo(f"wrote {path}   {pulled.name}{version}, {pluralize(len(pulled), 'item')}")
    return 0


@datasets.command("list")
@server_option
def list_(server: str | None) -> int:
    """List the data sets of the server."""
    from dokimos.client._datasets import list_datasets

    with using_server(server) as url:
        found = list_datasets(url)
    if not found:
        echo("There are no data sets on the server yet; dokimos datasets push FILE adds one.")
        return 0
    width = min(max(len(one.name) for one in found), _KEY)
    for one in found:
        version = "no version" if one.latest_version is None else f"@{one.latest_version}"
        echo(f"{one.name:{width}}  {version:>10}  {one.item_count:>9,} items  {one.description}".rstrip())
    return 0


@datasets.command()
@click.argument("before")
@click.argument("after")
@server_option
def diff(before: str, after: str, server: str | None) -> int:
    """Say what is different between two data sets.

    BEFORE and AFTER are each NAME@VERSION of the server, or a data file.

    Exit code: 0 where they are the same, 1 where they differ.
    """
    from dokimos.client._datasets import compare_datasets

    if Path(before).is_file() and Path(after).is_file():
        changes = compare_datasets(_load(before), _load(after))
    else:
        with using_server(server):
            changes = compare_datasets(_load(before), _load(after))
    for sign, keys in (("+", changes.added), ("-", changes.removed)):
        _show(sign, [_shorten(key) for key in keys])
    _show("~", [f"{_shorten(key)}: {', '.join(parts)}" for key, parts in changes.changed])
    echo(
        f"{len(changes.added):,} added, {len(changes.removed):,} removed, {len(changes.changed):,} changed, "
        f"{changes.unchanged_count:,} unchanged."
    )
    return 0 if changes.is_empty else 1


def _show(sign: str, lines: list[str]) -> None:
    for line in lines[:_MAX_LISTED_CHANGES]:
        echo(f"{sign} {line}")
    if len(lines) > _MAX_LISTED_CHANGES:
        echo(f"{sign} and {len(lines) - _MAX_LISTED_CHANGES:,} more")


def _shorten(key: str) -> str:
    from dokimos._core.text import shorten

    return shorten(" ".join(key.split()), _KEY)


def _load(argument: str) -> Dataset:
    from dokimos.datasets._dataset import Dataset

    if Path(argument).is_file():
        return Dataset.load(argument)
    try:
        return Dataset.load(_uri(argument))
    except DatasetError as error:
        if not Path(argument).suffix or "@" in argument:
            raise
        raise DatasetError(f"{error}; there is no file {argument!r} either") from error


def _uri(dataset: str) -> str:
    """Return `dataset://NAME@VERSION`, of the latest version unless one is named."""
    named = dataset if dataset.lower().startswith("dataset://") else f"dataset://{dataset}"
    return named if "@" in named else f"{named}@latest"


def _file_name(uri: str) -> str:
    from dokimos.gate._gate_environment import file_stem

    return file_stem(uri.removeprefix("dataset://").rpartition("@")[0])
