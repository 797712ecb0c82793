"""Replay recorded answers, so that they are scored without calling the application."""

from __future__ import annotations

from collections.abc import Callable

from dokimos._core.example import Example
from dokimos._core.task_marker import takes_example
from dokimos._core.task_result import TaskResult
from dokimos.errors import DatasetError


def recorded_task() -> Callable[[Example], TaskResult]:
    """Return a task that answers with the outputs, metrics and error that the example carries.

    It raises `DatasetError` for an example without recorded outputs.

    Example:
        >>> example = Example({"input": "1 + 1"}, {"output": "2"}, actual_outputs={"output": "2"})
        >>> evaluate([example], recorded_task(), [ExactMatch()], quiet=True, journal=False).pass_rate
        1.0
    """
    return read_recorded_answer


@takes_example
def read_recorded_answer(example: Example) -> TaskResult:
    """Return what was recorded for an example. Raises `DatasetError` if nothing was."""
    if example.actual_outputs is None and example.actual_error is None:
        raise DatasetError(_missing(example))
    return TaskResult(example.actual_outputs or {}, example.metrics, error=example.actual_error)


def _missing(example: Example) -> str:
    which = "This example" if example.id is None else f"The example {example.id!r}"
    message = (
        f"{which} has no recorded output. It belongs in actualOutput or actualOutputs (JSON, JSONL) or "
        "in the column actual_output (CSV); name another one with columns={'NAME': 'actual_output'}, or "
        "--columns NAME=actual_output on the command line."
    )
    if example.expected_outputs:
        message += " A column 'output' is read as the expected output, not as the recorded one."
    return message
