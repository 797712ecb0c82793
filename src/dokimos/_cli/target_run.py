"""A target run from the command line: an experiment in Python, recorded outputs, or a suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dokimos._cli.estimate import estimate_first
from dokimos._cli.loop import prepare_loop
from dokimos._cli.options import check_outputs, check_volume
from dokimos._cli.target_experiment import is_suite, run_target

if TYPE_CHECKING:
    from dokimos._cli.run_settings import RunSettings


def execute_target(
    target: str,
    settings: RunSettings,
    *,
    outputs: Sequence[str],
    fail_under: Sequence[str],
    quiet: bool,
    verbose: bool,
) -> int:
    """Run a target, present its result, and return the exit code; a run cut short is presented too."""
    if is_suite(target):
        from dokimos._cli.suite_run import execute_suite

        return execute_suite(
            target, settings, outputs=outputs, fail_under=fail_under, quiet=quiet, verbose=verbose
        )
    from dokimos._cli.exit_codes import Criteria
    from dokimos._cli.presentation import Presentation
    from dokimos._runtime.file_access import files_read
    from dokimos.errors import DokimosError, RunInterrupted
    from dokimos.experiment._required_levels import parse_levels

    # Before the target is imported: what it opens tells later runs whether anything has changed.
    files_read.start()
    check_volume(quiet, verbose)
    check_outputs(outputs)
    levels = parse_levels(fail_under)
    loop = prepare_loop(target, settings)
    if loop is None:
        return 0
    planned = estimate_first(target, loop.settings)
    if planned is None:
        return 0
    # A million items take a gigabyte, and to print a result takes those that did not pass.
    settings = planned.keep_items(all_of_them=bool(outputs) or loop.compares_items)
    criteria = Criteria.of(levels, settings.allow_errors)
    presentation = Presentation(
        outputs=outputs, criteria=criteria, quiet=quiet, verbose=verbose, stored=settings.has_journal
    )
    try:
        result = run_target(target, settings, levels)
    except (RunInterrupted, DokimosError) as cut_short:
        if cut_short.result is not None:
            presentation.print(cut_short.result)
            loop.print_changes(cut_short.result)
        raise
    try:
        return presentation.show(result)
    finally:
        loop.print_changes(result)
