"""How a run that was started from Python shows its result, or logs that it failed."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from dokimos._core.endings import describe_failure
from dokimos._runtime.terminal_text import escape_control_characters, print_line
from dokimos.reporting._notebook import notebook, show

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult

_log = logging.getLogger("dokimos")


def announce_result(result: ExperimentResult) -> None:
    """Show a result on a terminal or in a notebook; say everywhere that a run broke or found nothing out.

    That goes to standard error and to the logger `dokimos`. It is no Python warning, which would become an
    exception under `-W error`, and a run that is paid for would be lost.
    """
    for announce in (_log_failure, _show):
        try:
            announce(result)
        except Exception as error:  # whatever replaces an output: the result must not be lost by it
            _log.debug("The end of a run could not be shown: %r", error)


def warn_that_loop_waits() -> None:
    """Say, once in a process, that the event loop that is running stands still while a run goes on."""
    if _Announced.loop_waits:
        return
    _Announced.loop_waits = True
    print_line(
        "An event loop is running here, and is blocked until this run has ended. To keep it free: "
        "await evaluate_async(...), or await experiment.run_async()."
    )


class _Announced:
    """What is printed only once in a process."""

    loop_waits = False


def _log_failure(result: ExperimentResult) -> None:
    problem = describe_failure(result)
    if problem is None:
        return
    if _log.hasHandlers():  # without one, Python would write the line once more
        _log.error(escape_control_characters(problem))
    if not _shows_on_terminal() or not sys.stderr.isatty():  # there the result itself says it
        print_line(problem)


def _shows_on_terminal() -> bool:
    return notebook() is None and sys.stdout is not None and sys.stdout.isatty()


def _show(result: ExperimentResult) -> None:
    if notebook() is not None:
        show(result)
    elif _shows_on_terminal():
        result.print()
