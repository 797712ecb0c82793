"""`dokimos resume`: start the same run again; what is done is not repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from dokimos._cli.executors import EXECUTOR_OPTIONS, executor_options
from dokimos._cli.options import (
    allow_errors_option,
    call_options,
    complete_runs,
    endpoint_options,
    fail_under_option,
    output_option,
    run_dir_option,
    volume_options,
)


@click.command()
@click.argument("run", shell_complete=complete_runs)
@output_option
@click.option("-j", "--parallelism", type=click.IntRange(min=1), help="Items at once, instead of as before.")
@executor_options
@endpoint_options
@allow_errors_option
@call_options
@click.option("--retry-errors", is_flag=True, help="Repeat what errored.")
@click.option("--force", is_flag=True, help="Continue although data or configuration changed.")
@run_dir_option
@fail_under_option
@volume_options
def resume(
    run: str,
    outputs: Sequence[str],
    parallelism: int | None,
    retry_errors: bool,
    force: bool,
    run_dir: str | None,
    fail_under: Sequence[str],
    quiet: bool,
    verbose: bool,
    wait_for_endpoint: float | None,
    patience: float | None,
    **options: Any,
) -> int:
    """Continue a run that was cut short ('latest' for the last one).

    The target of the run is imported again; tasks that had returned are not called again.
    """
    from dokimos._cli.run_settings import RunSettings
    from dokimos._cli.target_run import execute_target
    from dokimos.errors import ConfigurationError
    from dokimos.experiment._run_folders import find_run, runs_root
    from dokimos.experiment._run_manifest import read_manifest

    folder = find_run(run, runs_root(run_dir))
    launch = read_manifest(folder).get("launch")
    if launch is None:
        raise ConfigurationError(
            f"Run {folder.name} was started from Python, so only Python knows its task: "
            f"call experiment.run(resume={folder.name!r})."
        )
    numbers = {
        "parallelism": parallelism,
        "wait_for_endpoint": wait_for_endpoint,
        "patience": patience,
    }
    settings = _merge_settings(launch["settings"], {**numbers, **options})
    extra: dict[str, Any] = {"resume": str(folder), "run_dir": str(folder.parent)}
    extra |= {"retry_errors": retry_errors, "force": force, "quiet": quiet}
    return execute_target(
        launch["target"],
        RunSettings(**settings, extra=extra),
        outputs=outputs,
        fail_under=fail_under,
        quiet=quiet,
        verbose=verbose,
    )


def _merge_settings(stored: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run under the options that were given now."""
    from dokimos._cli.run_settings import RunSettings

    known = RunSettings.__dataclass_fields__
    # A run of another version may have settings that this one does not know.
    settings = {name: value for name, value in stored.items() if name in known}
    # By identity: 0 equals False, and `--max-calls 0` is a limit.
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    if "on" in given or "processes" in given:
        # All of them, so that what is given now replaces what was said before: they exclude each other.
        settings |= dict.fromkeys(EXECUTOR_OPTIONS)
    settings |= given
    if options["record"] or options["replay"]:
        # Both, so that the one that is not given now replaces that of the run: they exclude each other.
        settings |= {"record": options["record"], "replay": options["replay"]}
    return settings
