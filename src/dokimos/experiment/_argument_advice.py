"""A sentence for an error that shows that a task expected something else than it was called with."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.text import format_list, plain_message
from dokimos._core.traceback_entries import shorten_path
from dokimos.experiment._task import NO_OUTPUT, unwrap
from dokimos.experiment._task_arguments import ArgumentForm, TaskArguments, format_header

_OF_EXAMPLES: Final = frozenset(name for name in dir(Example) if not name.startswith("_"))
_SUBSCRIPT: Final = ("indices must be integers", "is not subscriptable", "object is not a mapping")
"""What Python says where text or a number is used like a mapping of inputs."""


def argument_advice(
    error: BaseException, task: object, arguments: TaskArguments, example: Example
) -> str | None:
    """Say what the task was called with, and how to change that, where its error looks like a wrong guess.

    Of a task that returned None it says where its function is.
    """
    if isinstance(error, TypeError) and error.args == (NO_OUTPUT,):
        return _advice_on_return(task)
    match arguments.form:
        case ArgumentForm.EXAMPLE:
            return _advice_on_example(error, task)
        case ArgumentForm.SINGLE_VALUE | ArgumentForm.INPUT_KEY:
            return _advice_on_value(error, task, arguments, example.inputs.get(arguments.key))
        case ArgumentForm.MAPPING:
            return _advice_on_mapping(error, task, example.inputs)
    return None


def _advice_on_return(task: object) -> str | None:
    """Ask whether the task's function lacks a return, None where its place is not known."""
    inner = unwrap(task)
    function = inner if inspect.isroutine(inner) else getattr(type(inner), "__call__", None)  # noqa: B004 - the method itself is looked at
    code = getattr(inspect.unwrap(function) if function else None, "__code__", None)
    if code is None:
        return None
    location = f"{shorten_path(code.co_filename, os.getcwd())}:{code.co_firstlineno}"
    return f"Does {code.co_name} ({location}) lack a return?"


def _advice_on_example(error: BaseException, task: object) -> str | None:
    used = isinstance(error, AttributeError) and isinstance(error.obj, Example)
    if not used and not _is_type_error_of(error, "Example"):
        return None
    return (
        "The task was called with the whole example; to be called with its input, write "
        f"{format_header(task, 'question')}, or mark it with takes_input."
    )


def _advice_on_value(
    error: BaseException, task: object, arguments: TaskArguments, value: object
) -> str | None:
    kind = type(value).__name__
    # `is`: an error about any other object than the argument is the task's own bug.
    as_example = isinstance(error, AttributeError) and error.obj is value and error.name in _OF_EXAMPLES
    as_mapping = isinstance(error, TypeError) and any(sign in plain_message(error) for sign in _SUBSCRIPT)
    if not as_example and not (as_mapping and not isinstance(value, Mapping)):
        return None
    return (
        f"The task was called with the value under {arguments.key!r} (type {kind}); to be called with the "
        f"whole example, write {format_header(task, 'example: Example')}, or mark it with takes_example."
    )


def _advice_on_mapping(error: BaseException, task: object, inputs: Mapping[str, Any]) -> str | None:
    used = isinstance(error, AttributeError) and error.obj is inputs
    if not used and not _is_type_error_of(error, type(inputs).__name__):
        return None
    keys = [key for key in inputs if str(key).isidentifier()]
    return (
        f"The task was called with a mapping of the inputs {format_list(list(inputs))}; name its parameters "
        f"after them, {format_header(task, ', '.join(keys[:3]))}, or take the whole example, "
        f"{format_header(task, 'example: Example')}."
    )


def _is_type_error_of(error: BaseException, kind: str) -> bool:
    """Say whether a TypeError names a type, as in "'Example' object is not subscriptable"."""
    signs = (f"'{kind}'", f'"{kind}"', f"type {kind} ")
    return isinstance(error, TypeError) and any(sign in plain_message(error) for sign in signs)
