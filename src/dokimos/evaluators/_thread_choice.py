"""In which thread an evaluator scores: that of the run, a worker thread, or one of its own."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from dokimos.errors import ConfigurationError
from dokimos.evaluators._traits import is_built_in

if TYPE_CHECKING:
    from dokimos.evaluators._base import Evaluator


def choose_thread(evaluator: Evaluator) -> None:
    """Set the traits of an evaluator that follow from its settings.

    Built-in evaluators run in the thread of the run and on the case itself, until they call a function of
    the user.

    Raises:
        ConfigurationError: The settings contradict each other.
    """
    if calls_users_code(evaluator):
        object.__setattr__(evaluator, "gets_copies", True)
        if not evaluator.blocking and not evaluator.stays_in_thread():
            object.__setattr__(evaluator, "blocking", True)
    check_thread(evaluator)


def check_thread(evaluator: Evaluator) -> None:
    """Raise `ConfigurationError` where `serial` asks for a thread that other settings rule out."""
    if evaluator.serial and not evaluator.blocking:
        raise ConfigurationError(
            f"{evaluator.name}: blocking=False keeps it in the thread of the run, serial=True gives it a "
            "thread of its own; choose one of them."
        )
    if evaluator.serial and evaluator.is_async:
        raise ConfigurationError(
            f"{evaluator.name} is async and runs on the event loop; serial=True is for sync evaluators."
        )


def calls_users_code(evaluator: Evaluator) -> bool:
    """Return whether a setting is a function of the user."""
    values = (getattr(evaluator, f.name) for f in fields(evaluator))
    return any(callable(value) and not isinstance(value, type) and not is_built_in(value) for value in values)
