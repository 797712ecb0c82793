"""`dokimos view` and `dokimos test view`: the stored runs in the browser, live or as one page."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeVar

import click

from dokimos._cli.echo import echo
from dokimos._cli.options import complete_runs, run_dir_option

F = TypeVar("F", bound=Callable[..., object])
_PACKAGES: Final = ("fastapi", "sqlalchemy", "uvicorn")
"""What the extra `server` brings, as far as a view needs it."""
_HINT: Final = 'Live pages, with runs that are going on and comparisons, need: pip install "dokimos[server]"'


def _view_options(command: F) -> F:
    for option in reversed((
        run_dir_option,
        click.option(
            "-p", "--port", type=click.IntRange(0, 65535),
            help="The port; 0 lets the system choose one.  [default: 8765, or a free one]",
        ),
        click.option(
            "--static", is_flag=True, help="Write one page that needs no server, to keep or to send."
        ),
        click.option(
            "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False),
            help="Where that page is written; implies --static.  [default: dashboard.html beside the runs]",
        ),
        click.option("--no-browser", is_flag=True, help="Open no browser."),
    )):  # fmt: skip
        command = option(command)
    return command


@click.command()
@click.argument("results", nargs=-1, shell_complete=complete_runs)
@_view_options
def view(
    results: Sequence[str],
    run_dir: str | None,
    port: int | None,
    static: bool,
    output: str | None,
    no_browser: bool,
) -> int:
    """Show the runs of this machine in the browser.

    Runs that are going on appear and grow by themselves. RESULTS are run ids (or 'latest'), which the browser
    is opened at, or run folders and JSON reports from elsewhere, which are shown too. Nothing has to be
    configured: the pages are for this machine alone (127.0.0.1, without a key), and what they are made of is
    read from the run folders into a database beside them, which may be deleted. Ctrl-C ends it.

    Without the extra `server`, one static page is written and opened instead.

    \b
    dokimos view
    dokimos view latest
    dokimos view results/main.json results/branch.json
    dokimos view --static -o out/runs.html
    """
    is_page = static or output is not None
    if is_page or not _can_serve():
        return _write_page(results, run_dir, output, no_browser=no_browser, needs_hint=not is_page)
    from dokimos._cli.live_view import serve_view

    return serve_view(results, run_dir, port, no_browser=no_browser)


@click.command("view")
@click.argument("suite", required=False, type=click.Path(dir_okay=False, exists=True))
@_view_options
def view_suite(
    suite: str | None,
    run_dir: str | None,
    port: int | None,
    static: bool,
    output: str | None,
    no_browser: bool,
) -> int:
    """Show the stored runs of suites in the browser.

    This is `dokimos view`, which a SUITE file opens at the last run of that suite. With --static it is one
    page that loads nothing, of that suite's runs alone: how they developed, what is in each, and how two or
    three differ. That page is also written where a CI system sets CI, and without the extra `server`.

    \b
    dokimos test view
    dokimos test view agent.yaml
    dokimos test view agent.yaml -o out/runs.html --no-browser
    """
    name = None if suite is None else _name_of(suite)
    is_page = static or output is not None or _is_in_ci()
    if is_page or not _can_serve():
        return _write_page((), run_dir, output, name=name, no_browser=no_browser, needs_hint=not is_page)
    from dokimos._cli.live_view import serve_view

    return serve_view(_last_run(name, run_dir), run_dir, port, no_browser=no_browser)


def _can_serve() -> bool:
    return all(find_spec(name) is not None for name in _PACKAGES)


def _is_in_ci() -> bool:
    """Whether nobody is there to look: a server would keep the build waiting."""
    return bool(os.environ.get("CI")) and not sys.stdout.isatty()


def _write_page(
    results: Sequence[str],
    run_dir: str | None,
    output: str | None,
    *,
    name: str | None = None,
    no_browser: bool,
    needs_hint: bool,
) -> int:
    from dokimos._cli.options import check_writable
    from dokimos._dashboard.page import Collection
    from dokimos.experiment._run_folders import find_run, list_run_folders, runs_root
    from dokimos.exporters._base import write_report

    root = runs_root(run_dir)
    path = Path(output) if output is not None else root.parent / "dashboard.html"
    check_writable(path)
    for result in results:
        if Path(result).is_file():
            raise click.UsageError(
                f"{result} is not a run folder; `dokimos export {result} -o FILE.html` makes a page of it."
            )
    collected = Collection(name)
    for folder in [find_run(result, root) for result in results] or list_run_folders(root):
        collected.add(folder)
    written = write_report(path, collected.page())
    echo(f"wrote {written}")
    if needs_hint:
        echo(_HINT)
    if not no_browser and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(written.resolve().as_uri())
    return 0


def _last_run(name: str | None, run_dir: str | None) -> list[str]:
    """Return the newest run of a name, by its folder."""
    from dokimos.errors import JournalError
    from dokimos.experiment._run_folders import list_run_folders, runs_root
    from dokimos.experiment._run_manifest import read_manifest

    for folder in reversed(list_run_folders(runs_root(run_dir)) if name is not None else ()):
        try:
            if read_manifest(folder).get("name") == name:
                return [str(folder)]
        except JournalError:
            continue
    return []


def _name_of(suite: str) -> str:
    """Return the name that a suite file gives its runs."""
    from dokimos.errors import ConfigurationError
    from dokimos.suites._document import read_yaml
    from dokimos.suites._environment import build_lookup

    document = read_yaml(Path(suite), build_lookup(Path(suite).resolve().parent))
    name = document.value.get("name") if isinstance(document.value, dict) else None
    if not isinstance(name, str):
        raise ConfigurationError(f"{suite} has no name, so its runs cannot be told from others.")
    return name
