"""Checks of arguments, in one wording: which argument, what it must be, what it was."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeGuard

from dokimos.errors import ConfigurationError


def is_count(value: object) -> TypeGuard[int]:
    """Say whether this is a whole number; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[int | float]:
    """Say whether this is a number; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def require_positive(name: str, number: object) -> int:
    """Return a whole number of at least 1. Raises `ConfigurationError`."""
    if not is_count(number) or number < 1:
        raise ConfigurationError(f"{name} must be a whole number of at least 1, not {number!r:.80}.")
    return number


def require_text(name: str, value: object) -> str:
    """Return a text. Raises `ConfigurationError`."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be text, not {value!r:.80}.")
    return value


def require_mapping(name: str, value: object) -> dict[str, Any]:
    """Return a copy of a mapping, an empty one for None. Raises `ConfigurationError`."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{name} must be a mapping such as {{'model': 'small'}}, not {value!r:.80}.")
    return dict(value)


def require_flag(name: str, value: object, *, or_none: bool = False) -> None:
    """Raise `ConfigurationError` unless this is True or False, or None where that is allowed."""
    if not isinstance(value, bool) and not (or_none and value is None):
        choice = "True, False or None" if or_none else "True or False"
        raise ConfigurationError(f"{name} must be {choice}, not {value!r:.80}.")


def require_path(name: str, value: object, what: str, *, or_none: bool = True) -> None:
    """Raise `ConfigurationError` unless this is a path that is not empty, or None where that is allowed."""
    if (or_none and value is None) or (isinstance(value, str | os.PathLike) and str(value)):
        return
    raise ConfigurationError(f"{name} must be {what}, not {value!r:.80}.")
