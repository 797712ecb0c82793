"""Checks of an evaluator's parameters, for its `__post_init__`; each error names class and parameter."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from dokimos._core.text import quote
from dokimos.errors import ConfigurationError


def check_option(owner: object, field: str, value: object, options: Collection[str]) -> None:
    """Raise `ConfigurationError` unless `value` is one of `options`."""
    if value not in options:
        allowed = ", ".join(repr(option) for option in options)
        raise _wrong(owner, field, value, f"one of {allowed}")


def check_not_negative(owner: object, field: str, value: Any) -> None:
    """Raise `ConfigurationError` unless `value` is a finite number of at least 0."""
    if not _is_number(value) or not math.isfinite(value) or value < 0:
        raise _wrong(owner, field, value, "a number of at least 0")


def check_whole(owner: object, field: str, value: object, *, least: int) -> None:
    """Raise `ConfigurationError` unless `value` is a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise _wrong(owner, field, value, f"a whole number of at least {least}")


def check_text(owner: object, field: str, value: object) -> None:
    """Raise `ConfigurationError` unless `value` is a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise _wrong(owner, field, value, "a string that is not empty")


def check_list(owner: object, field: str, value: object, of: str) -> None:
    """Raise `ConfigurationError` unless `value` is a collection other than a text or a mapping."""
    if not is_list(value):
        raise _wrong(owner, field, value, f"a list of {of}")


def check_mapping(owner: object, field: str, value: object, example: str) -> None:
    """Raise `ConfigurationError` unless `value` is a mapping."""
    if not isinstance(value, Mapping):
        raise _wrong(owner, field, value, f"a mapping such as {example}")


def is_list(value: object) -> bool:
    """Return whether this is a collection other than a text or a mapping."""
    return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong(owner: object, field: str, value: object, requirement: str) -> ConfigurationError:
    name = getattr(owner, "name", None) or type(owner).__name__
    setting = field.partition("[")[0]
    return ConfigurationError(f"{name}: {field} must be {requirement}, not {quote(value)}.", setting=setting)
