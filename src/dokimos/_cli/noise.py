"""`dokimos noise`: how often a gate would fire on a system in which nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dokimos._cli.options import (
    call_options,
    complete_runs,
    evaluator_option,
    run_dir_option,
)

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult
    from dokimos.gate._noise_report import NoiseReport


@click.command()
@click.argument("target", shell_complete=complete_runs)
@click.option("-k", "--runs", type=click.IntRange(min=2), default=5, show_default=True, help="Runs to make.")
@evaluator_option(required=False)
@click.option("-j", "--parallelism", type=click.IntRange(min=1), help="Items at once.")
@click.option("-n", "--limit", type=click.IntRange(min=1), help="Only the first N items.")
@click.option(
    "--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05, show_default=True,
    help="How often a guard may fire although nothing changed.",
)  # fmt: skip
@click.option(
    "--severity-margin", type=click.FloatRange(0, 1), default=0.15, show_default=True,
    help="The margin of guard 2 to try.",
)  # fmt: skip
@click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False), help="Write it as .json.")
@call_options
@run_dir_option
def noise(
    target: str,
    specs: Sequence[str],
    alpha: float,
    severity_margin: float,
    output: str | None,
    run_dir: str | None,
    **settings: Any,
) -> int:
    """Run an unchanged system several times and say what a gate would make of it.

    TARGET is an experiment as in 'dokimos run', or a result of two runs or more, of which nothing is run.
    """
    from dokimos.gate._gate_config import GateConfig
    from dokimos.gate._noise_report import noise as measure

    _check_output(output)
    config = GateConfig(alpha=alpha, severity_margin=severity_margin)
    result = _result(target, specs, run_dir, settings)
    report = measure(result, config=config)
    if output is not None:
        _write(report, output)
    report.print()
    return 0


def _check_output(output: str | None) -> None:
    from pathlib import Path

    from dokimos._cli.options import check_writable

    if output is not None and not output.lower().endswith(".json"):
        raise click.UsageError(f"-o {output}: the noise is written as .json.")
    if output is not None:
        check_writable(Path(output))


def _result(
    target: str, specs: Sequence[str], run_dir: str | None, settings: dict[str, Any]
) -> ExperimentResult:
    from dokimos._cli.options import load_result_argument
    from dokimos._cli.run_settings import RunSettings
    from dokimos._cli.target_experiment import run_target
    from dokimos._cli.targets import parse_target
    from dokimos._core.results import RunStatus
    from dokimos.errors import EndpointDownError

    if parse_target(target) is not None:
        result = run_target(target, RunSettings(specs=specs, extra={"run_dir": run_dir}, **settings))
        if result.status is RunStatus.ENDPOINT_DOWN:
            down = EndpointDownError(result.warnings[0])
            down.result = result
            raise down
        return result
    if specs:
        raise click.UsageError("-e adds evaluators to an experiment; a result has its scores already.")
    return load_result_argument(target, run_dir)


def _write(report: NoiseReport, output: str) -> None:
    import json
    from pathlib import Path

    from dokimos.exporters._base import write_report

    write_report(Path(output), json.dumps(report.tree(), indent=2) + "\n")
