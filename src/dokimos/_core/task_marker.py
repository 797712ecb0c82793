"""Decorators that say what a task takes: the whole example, or its input."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

TaskArgument: TypeAlias = Literal["example", "input"]

_ATTRIBUTE: Final = "__dokimos_takes__"


@dataclass(frozen=True, eq=False, slots=True)
class _Mark:
    """Compared by identity: `functools.wraps` copies it, and a copy says nothing of the wrapper."""

    taken: TaskArgument


def takes_example(task: F) -> F:
    """Mark a task that is called with the whole `Example`, whatever its parameters are called.

    A decorator of functions, methods and classes whose objects are tasks; it returns what it is given, or a
    partial of it where nothing can be written on that, as on built-in functions and bound methods::

        @takes_example
        def answer(row):
            return app.ask(row.input, user=row.metadata["user"])

    A parameter that is annotated with `Example`, or called `example`, says the same.

    Example:
        >>> @takes_example
        ... def task(row):
        ...     return row.expected_output
        >>> evaluate([Example.of("a", "A")], task, [ExactMatch()], quiet=True, journal=False).pass_rate
        1.0
    """
    return _mark(task, "example")


def takes_input(task: F) -> F:
    """Mark a task that is called with the input, even where a parameter is called `example`.

    Like `takes_example` it is a decorator, and returns what it is given or a partial of it. A task that says
    nothing is called with the input, too::

        @takes_input
        def shout(example):
            return example.upper()

    Example:
        >>> @takes_input
        ... def task(example):
        ...     return example.upper()
        >>> evaluate([Example.of("a", "A")], task, [ExactMatch()], quiet=True, journal=False).pass_rate
        1.0
    """
    return _mark(task, "input")


def find_mark(task: object) -> TaskArgument | None:
    """Return what a task says that it takes, itself or as the function inside a partial; None for nothing."""
    while True:
        mark = getattr(task, _ATTRIBUTE, None)
        if isinstance(mark, _Mark) and not _is_copied(task, mark):
            return mark.taken
        if isinstance(task, functools.partial):
            task = task.func
            continue
        call = getattr(type(task), "__call__", None)  # noqa: B004 - it may be marked
        mark = getattr(call, _ATTRIBUTE, None)
        return mark.taken if isinstance(mark, _Mark) else None


def _mark(task: F, taken: TaskArgument) -> F:
    if not callable(task):
        raise TypeError(f"takes_{taken}() marks a task, which is a callable, not {task!r:.80}.")
    try:
        setattr(task, _ATTRIBUTE, _Mark(taken))
    except (AttributeError, TypeError):  # a built-in, a bound method, an object with slots or a frozen one
        partial = functools.partial(task)
        setattr(partial, _ATTRIBUTE, _Mark(taken))
        return cast("F", partial)
    return task


def _is_copied(task: object, mark: _Mark) -> bool:
    """Say whether a wrapper has the mark only because `functools.wraps` copies all attributes."""
    return getattr(getattr(task, "__wrapped__", None), _ATTRIBUTE, None) is mark
