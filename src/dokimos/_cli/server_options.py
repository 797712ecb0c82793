"""The dokimos server that commands talk to: named by options, else by the environment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from dokimos._cli.echo import echo

if TYPE_CHECKING:
    from dokimos._cli.run_settings import RunSettings
    from dokimos.client._reporter import ServerReporter
    from dokimos.experiment._experiment import Experiment

F = TypeVar("F", bound=Callable[..., Any])

SERVER_URL: Final = "DOKIMOS_SERVER_URL"
PROJECT_NAME: Final = "DOKIMOS_PROJECT_NAME"
SPOOL: Final = ".dokimos/spool"
"""Where commands keep what could not be sent, unless given."""


def report_options(command: F) -> F:
    """Options on the server that a run is reported to."""
    for option in reversed((
        click.option(
            "--server", metavar="URL",
            help=f"Report the run to this dokimos server.  [default: {SERVER_URL}, where {PROJECT_NAME} is "
            "set too]",
        ),
        click.option(
            "--project", metavar="NAME", help=f"The project on the server.  [default: {PROJECT_NAME}]"
        ),
        click.option("--no-server", is_flag=True, help="Report to no server, whatever the environment says."),
    )):  # fmt: skip
        command = option(command)
    return command


def server_option(command: F) -> F:
    return click.option(
        "--server", metavar="URL", envvar=SERVER_URL, help=f"The dokimos server.  [default: {SERVER_URL}]"
    )(command)


def project_option(command: F) -> F:
    return click.option(
        "--project", metavar="NAME", envvar=PROJECT_NAME, help=f"The project.  [default: {PROJECT_NAME}]"
    )(command)


def check_report_options(server: str | None, project: str | None, no_server: bool) -> None:
    """Refuse options that exclude each other."""
    if no_server and (server or project):
        raise click.UsageError("--no-server reports to no server: leave out --server and --project.")


def add_server_reporter(experiment: Experiment, settings: RunSettings) -> Experiment:
    """Add a reporter to the server that the settings or the environment name, and say so.

    Raises:
        ConfigurationError: where only one of server and project is named by an option.
    """
    from dataclasses import replace

    from dokimos.client._reporter import ServerReporter

    reporter = None if settings.extra.get("is_sample") else _make_reporter(settings)
    if reporter is None or any(isinstance(one, ServerReporter) for one in experiment.reporters):
        return experiment
    # Always said: where data leaves this machine, the user must see it.
    echo(f"Reporting to {reporter.server_url}, project {reporter.project_name!r}.", err=True)
    return replace(experiment, reporters=[*experiment.reporters, reporter])


def _make_reporter(settings: RunSettings) -> ServerReporter | None:
    from dokimos.client._reporter import ServerReporter
    from dokimos.errors import ConfigurationError

    if settings.no_server:
        return None
    server = settings.server or os.environ.get(SERVER_URL)
    project = settings.project or os.environ.get(PROJECT_NAME)
    if not server or not project:
        if not settings.server and not settings.project:
            return None  # DOKIMOS_SERVER_URL alone is for data sets
        missing = f"--server or {SERVER_URL}" if not server else f"--project or {PROJECT_NAME}"
        raise ConfigurationError(f"A run is reported to a project of a server; name it with {missing}.")
    return ServerReporter(server_url=server, project_name=project, spool_directory=SPOOL)


def require_server(server: str | None) -> str:
    """Return the URL of the server. Raises `UsageError` where none is named."""
    if not server:
        raise click.UsageError(f"Name the server with --server URL or {SERVER_URL}.")
    return server


@contextlib.contextmanager
def using_server(server: str | None) -> Iterator[str]:
    """Let everything inside, such as `dataset://`, use this server."""
    url = require_server(server)
    before = os.environ.get(SERVER_URL)
    os.environ[SERVER_URL] = url
    try:
        yield url
    finally:
        if before is None:
            del os.environ[SERVER_URL]
        else:
            os.environ[SERVER_URL] = before
