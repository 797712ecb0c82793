"""`dokimos test view`: the stored runs of suites as one page."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dokimos._cli.echo import echo
from dokimos._cli.options import run_dir_option


@click.command()
@click.argument("suite", required=False, type=click.Path(dir_okay=False, exists=True))
@run_dir_option
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False),
    help="Where the page is written.  [default: dashboard.html beside the runs]",
)  # fmt: skip
@click.option("--no-browser", is_flag=True, help="Only write the page.")
def view(suite: str | None, run_dir: str | None, output: str | None, no_browser: bool) -> int:
    """Show the stored runs on one page.

    It shows how they developed, what is in each, and how two or three differ. The page is one file that loads
    nothing. With a SUITE file it holds only that suite's runs.

    \b
    dokimos test view
    dokimos test view agent.yaml -o out/runs.html --no-browser
    """
    from dokimos._cli.options import check_writable
    from dokimos._dashboard.page import dashboard
    from dokimos.experiment._run_folders import runs_root
    from dokimos.exporters._base import write_report

    root = runs_root(run_dir)
    path = Path(output) if output is not None else root.parent / "dashboard.html"
    check_writable(path)
    written = write_report(path, dashboard(root, name=None if suite is None else _name_of(suite)))
    echo(f"wrote {written}")
    if not no_browser and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(written.resolve().as_uri())
    return 0


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
