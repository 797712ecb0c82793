"""Errors for settings that an evaluator does not have, and for required ones that are missing."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from difflib import get_close_matches
from typing import Any, Final

EXAMPLE: Final = "example"
"""Under this key, the metadata of a field say what could be given for it, as Python code."""


def is_required(parameter: Field[Any]) -> bool:
    """Return whether a field of an evaluator has no default."""
    return parameter.default is MISSING and parameter.default_factory is MISSING


def check_settings(kind: Any, positional: int, arguments: Mapping[str, Any]) -> None:
    """Raise `TypeError` for a setting that a class does not have, naming the nearest, or one that it lacks.

    Args:
        kind: The class of an evaluator, whose constructor decides.
        positional: How many settings are given by position.
        arguments: Those that are given by name.
    """
    declared = kind.__dataclass_fields__
    if arguments.keys() <= declared.keys() and all(
        name in arguments or not is_required(field) for name, field in declared.items()
    ):
        return  # without a look at the signature, which takes its time
    _, *parameters = inspect.signature(kind.__init__).parameters.values()
    settings = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if all(p.kind is not p.VAR_KEYWORD for p in parameters):
        _refuse_unknown(kind.__name__, arguments, settings)
    needed = {p.name for p in parameters[positional:] if p.default is p.empty and p.name in settings}
    missing = [f for f in fields(kind) if f.name in needed and f.name not in arguments]
    if missing:
        raise TypeError(f"{kind.__name__} needs {describe_missing(missing)}.")


def _refuse_unknown(owner: str, arguments: Iterable[str], settings: Sequence[str]) -> None:
    for setting in arguments:
        if setting not in settings:
            similar = get_close_matches(setting, settings, n=1)
            hint = f"Did you mean {similar[0]!r}?" if similar else f"It has: {', '.join(settings)}."
            raise TypeError(f"{owner} has no setting {setting!r}. {hint}")


def describe_missing(parameters: Iterable[Field[Any]]) -> str:
    """Name parameters that are missing: `'judge', such as judge='openai:gpt-5-mini'`."""
    return ", ".join(map(_describe_parameter, parameters))


def _describe_parameter(parameter: Field[Any]) -> str:
    example = parameter.metadata.get(EXAMPLE)
    such_as = "" if example is None else f", such as {parameter.name}={example}"
    return f"{parameter.name!r}{such_as}"
