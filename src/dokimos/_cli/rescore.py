"""`dokimos rescore`: other evaluators for outputs that are already there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from dokimos._cli.executors import EXECUTOR_OPTIONS, executor_changes, executor_options
from dokimos._cli.options import (
    allow_errors_option,
    call_options,
    complete_runs,
    evaluator_option,
    fail_under_option,
    output_option,
    run_dir_option,
    volume_options,
)


@click.command()
@click.argument("result", shell_complete=complete_runs)
@evaluator_option(required=True)
@output_option
@click.option(
    "-j", "--parallelism", type=click.IntRange(min=1), default=8, show_default=True, help="Items at once."
)
@executor_options
@allow_errors_option
@call_options
@run_dir_option
@fail_under_option
@volume_options
def rescore(
    result: str,
    specs: Sequence[str],
    outputs: Sequence[str],
    parallelism: int,
    run_dir: str | None,
    fail_under: Sequence[str],
    allow_errors: str | None,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> int:
    """Score the outputs of a result again, without calling the task.

    RESULT is a run id (or its start, or 'latest'), a run folder or a JSON report; it is not changed.
    """
    from dokimos._cli.exit_codes import Criteria
    from dokimos._cli.options import call_keywords, check_outputs, check_volume, load_result_argument
    from dokimos._cli.presentation import Presentation
    from dokimos._cli.run_settings import RunSettings
    from dokimos._cli.specs import build_evaluators
    from dokimos._core.results import RunStatus
    from dokimos.experiment._experiment import Experiment
    from dokimos.experiment._required_levels import parse_levels

    check_volume(quiet, verbose)
    check_outputs(outputs)
    levels = parse_levels(fail_under)
    evaluators = build_evaluators(specs)
    stored = load_result_argument(result, run_dir)
    where = executor_changes(RunSettings(**{name: options.pop(name) for name in EXECUTOR_OPTIONS}))
    scored = Experiment.rescore(
        stored, evaluators, parallelism=parallelism, **call_keywords(options), **where
    )
    # A status that the stored run had already says nothing about this command.
    ended_here = scored.status is RunStatus.BROKEN or scored.status is not stored.status
    criteria = Criteria.of(levels, allow_errors, of_this_run=ended_here)
    return Presentation(criteria=criteria, outputs=outputs, quiet=quiet, verbose=verbose).show(scored)
