"""`dokimos cache`: replies of judges that are kept for other runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from dokimos._cli.echo import echo

if TYPE_CHECKING:
    from dokimos.judges._cache import ReplyCache

T = TypeVar("T")

file_option = click.option(
    "--file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="The cache to look at.  [default: .dokimos/cache/judges.sqlite]",
)


@click.group()
def cache() -> None:
    """Look at the replies of judges that runs with --cache keep, or delete them."""


@cache.command()
@file_option
def show(file: str | None) -> int:
    """Say how much is in the cache, and what it has saved."""
    from dokimos._core.number_format import usd

    path = _path(file)
    # Opening a cache creates its file, which a command that only looks must not do.
    if not path.exists():
        echo(f"There is no cache {path}; runs with --cache create it.")
        return 0
    state = _with_cache(path, lambda cache: cache.state())
    size = f"{state.size_bytes / 1e6:.1f} of {state.limit_bytes / 1e6:g} MB"
    echo(f"{path}: {state.replies:,} replies, {size}")
    echo(f"answered {state.hits:,} calls, which saved {usd(state.saved_usd)} where the price is known")
    for judge, count in state.judges:
        echo(f"{count:>9,}  {judge}")
    return 0


@cache.command()
@file_option
def clear(file: str | None) -> int:
    """Delete all replies in the cache."""
    path = _path(file)
    deleted = _with_cache(path, lambda cache: cache.clear()) if path.exists() else 0
    echo(f"Deleted {deleted:,} replies in {path}.")
    return 0


def _path(file: str | None) -> Path:
    from dokimos.judges._cache import default_cache_path

    return default_cache_path() if file is None else Path(file)


def _with_cache(path: Path, work: Callable[[ReplyCache], T]) -> T:
    import sqlite3

    from dokimos.errors import ConfigurationError
    from dokimos.judges._cache import ReplyCache

    cache = ReplyCache(path)
    try:
        return work(cache)
    except sqlite3.Error as error:
        raise ConfigurationError(f"{path} cannot be read as a cache ({error}); delete the file.") from error
    finally:
        cache.close()
