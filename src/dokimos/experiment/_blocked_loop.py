"""Calls that hold up the event loop: how long they may, and the end of a command that cannot go on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NoReturn

from dokimos._runtime.terminal_text import print_line
from dokimos.evaluators import _base as base
from dokimos.experiment import _task_calls as task_calls
from dokimos.experiment._task import task_attribute

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult
    from dokimos.experiment._experiment import Experiment
    from dokimos.experiment._run_options import RunOptions

EXIT_BLOCKED: Final = 3
"""The status of a command whose run broke, as the command line has it."""


class LoopBlockedError(RuntimeError):
    """Why a run cannot go on: something holds up its event loop and does not let go."""


def block_limits(plan: Experiment, options: RunOptions) -> dict[str, float]:
    """Return, for those of our files that call users' code, how long that may hold up the event loop."""
    reply = options.timeout
    if reply is None:
        reply = task_attribute(plan.task, "time_limit")
    limits = {task_calls.__file__: reply, base.__file__: options.evaluator_timeout}
    return {file: seconds for file, seconds in limits.items() if seconds is not None}


def end_process(result: ExperimentResult, how_to_resume: str) -> NoReturn:
    """End a command whose main thread never comes back; what the run has done is in its journal."""
    message = f"Error: {result.warnings[0].rstrip('.')}. {how_to_resume}".rstrip()
    print_line(message)
    # The watching thread calls this, and sys.exit would end only that thread.
    os._exit(EXIT_BLOCKED)
