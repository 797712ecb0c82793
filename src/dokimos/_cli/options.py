"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult
    from dokimos.judges._budget import Budget

F = TypeVar("F", bound=Callable[..., Any])


def output_option(command: F) -> F:
    return click.option(
        "-o", "--output", "outputs", multiple=True, metavar="FILE", type=click.Path(dir_okay=False),
        help="Write a report: .json .html .md .csv .junit.xml. Repeatable.",
    )(command)  # fmt: skip


def evaluator_option(required: bool) -> Callable[[F], F]:
    return click.option(
        "-e", "--evaluator", "specs", multiple=True, required=required, metavar="EVALUATOR",
        shell_complete=complete_evaluators,
        help="name, name:key=value,... or '{\"type\": name, ...}'. Repeatable; see 'dokimos evaluators'.",
    )  # fmt: skip


def fail_under_option(command: F) -> F:
    return click.option(
        "--fail-under", "fail_under", multiple=True, metavar="SHARE|NAME=SCORE",
        help="Exit with 1 below this pass rate, or below this mean score of an evaluator. Repeatable.",
    )(command)  # fmt: skip


def allow_errors_option(command: F) -> F:
    return click.option(
        "--allow-errors", "allow_errors", metavar="N|SHARE",
        help="Let so many items error, and so many results of a metric: a number, or a share such as 0.2.",
    )(command)  # fmt: skip


def volume_options(command: F) -> F:
    command = click.option("-v", "--verbose", is_flag=True, help="Show every item that did not pass.")(
        command
    )
    return click.option("-q", "--quiet", is_flag=True, help="Print only the verdict.")(command)


def call_options(command: F) -> F:
    """Options on what calls of models and evaluators may take, and where replies of judges come from."""
    for option in reversed((
        click.option(
            "--evaluator-timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
            help="Abandon an evaluator after this long on one item.",
        ),
        click.option(
            "--budget-usd", type=click.FloatRange(min=0), metavar="USD",
            help="Stop before the calls of task and judges cost more.",
        ),
        click.option(
            "--max-tokens", type=click.IntRange(min=0), metavar="N",
            help="Stop before the calls of task and judges take more tokens.",
        ),
        click.option(
            "--max-calls", type=click.IntRange(min=0), metavar="N",
            help="Stop before more calls are made of task and judges.",
        ),
        click.option(
            "--record", metavar="CASSETTE", type=click.Path(dir_okay=False),
            help="Ask the judges and keep their replies in this file.",
        ),
        click.option(
            "--replay", metavar="CASSETTE", type=click.Path(dir_okay=False),
            help="Take the judges' replies from this file; never ask one.",
        ),
        click.option(
            "--cache", is_flag=True, help="Take replies of judges from earlier runs; see 'dokimos cache'."
        ),
    )):  # fmt: skip
        command = option(command)
    return command


def endpoint_options(command: F) -> F:
    """Options on endpoints that do not answer."""
    for option in reversed((
        click.option(
            "--wait-for-endpoint", type=click.FloatRange(min=0), metavar="SECONDS",
            help="Wait this long for endpoints that do not answer yet, such as services that are starting.",
        ),
        click.option(
            "--patience", type=click.FloatRange(min=0), metavar="SECONDS",
            help="How long an endpoint may go without one success until it counts as down.  [default: 120]",
        ),
    )):  # fmt: skip
        command = option(command)
    return command


def call_keywords(values: Mapping[str, Any], budget: Budget | None = None) -> dict[str, Any]:
    """Return the options of a run that were asked for; limits go on top of an earlier budget."""
    from dokimos.errors import ConfigurationError

    options: dict[str, Any] = {}
    switches = {"max_cost_usd": "budget_usd", "max_tokens": "max_tokens", "max_calls": "max_calls"}
    limits = {name: values.get(switch) for name, switch in switches.items()}
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    if limits:
        options["budget"] = _budget(budget, limits)
    if values.get("record") and values.get("replay"):
        raise ConfigurationError("Give --record or --replay, not both.")
    for mode in ("record", "replay"):
        if values.get(mode):
            options |= {"cassette": values[mode], "cassette_mode": mode}
    if values.get("cache"):
        options["cache"] = True
    if values.get("evaluator_timeout") is not None:
        options["evaluator_timeout"] = values["evaluator_timeout"]
    return options


def _budget(budget: Budget | None, limits: Mapping[str, Any]) -> Budget:
    from dokimos.judges._budget import Budget

    return Budget(**limits) if budget is None else replace(budget, **limits)


def run_dir_option(command: F) -> F:
    return click.option(
        "--run-dir", envvar="DOKIMOS_RUN_DIR", metavar="DIR", type=click.Path(file_okay=False),
        help="The folder that holds the runs.  [default: .dokimos/runs]",
    )(command)  # fmt: skip


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete run ids, the newest first."""
    from dokimos.experiment._run_folders import list_run_folders, runs_root

    folders = list_run_folders(runs_root(ctx.params.get("run_dir")))
    return [folder.name for folder in reversed(folders) if folder.name.startswith(incomplete)]


def complete_evaluators(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete registry names."""
    from dokimos.evaluators.registry import BUILT_IN

    # Without plugins, which would be imported at every press of the tab key.
    return [name for name in BUILT_IN if name.startswith(incomplete)]


def check_outputs(outputs: Sequence[str]) -> None:
    """Refuse a report that could not be written before anything is run."""
    from dokimos.exporters._base import exporter_for

    for output in outputs:
        exporter_for(Path(output))
        check_writable(Path(output))


def check_writable(path: Path) -> None:
    """Raise `ConfigurationError` where nothing can be written at this place."""
    from dokimos.errors import ConfigurationError

    if os.path.exists(path) and not os.path.isfile(path):
        return  # such as a pipe
    # The nearest folder that exists: the others will be created.
    parent = next(parent for parent in path.absolute().parents if os.path.exists(parent))
    if not parent.is_dir():
        raise ConfigurationError(f"Cannot write {path}: {parent} is not a folder.")
    if not os.access(parent, os.W_OK):
        raise ConfigurationError(f"Cannot write {path}: nothing can be written in {parent}.")


def check_volume(quiet: bool, verbose: bool) -> None:
    """Refuse both at once."""
    if quiet and verbose:
        raise click.UsageError("Give -q or -v, not both.")


def write_outputs(result: ExperimentResult, outputs: Sequence[str]) -> list[Path]:
    from dokimos.exporters._base import export

    return [export(result, output) for output in outputs]


def load_result_argument(argument: str, run_dir: str | None = None) -> ExperimentResult:
    """Read a result given as a run id, a run folder or a JSON export."""
    from dokimos.experiment._run_folders import find_run, runs_root
    from dokimos.experiment._run_loading import load_run

    if Path(argument).is_file():
        from dokimos.exporters._json import load_result

        return load_result(Path(argument))
    return load_run(find_run(argument, runs_root(run_dir)))
