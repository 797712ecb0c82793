"""Restore the text of YAML scalars, such as `1.10`, where an evaluator's parameter is a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dokimos.errors import ConfigurationError


def restore_written_text(
    name: str, params: Mapping[str, Any], source: Callable[[str], str | None]
) -> dict[str, Any]:
    """Return parameters in which a number becomes the text as written, where its field takes a text.

    Args:
        name: The evaluator's name in the registry.
        params: Its parameters as they were read.
        source: Gives a number as it is written, by the name of its parameter; None where it is unknown.
    """
    from dokimos.evaluators.registry import find

    kind = find(name)
    return {key: _restore_text(kind, key, value, source(key)) for key, value in params.items()}


def _restore_text(kind: Any, key: str, value: Any, source: str | None) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if source is None or not is_number or key not in kind.__dataclass_fields__:
        return value
    # Only where the text fits and the number does not: a limit of 1.10 stays a number.
    wants_text = _accepts(kind, key, source) and not _accepts(kind, key, value)
    return source if wants_text else value


def _accepts(kind: object, key: str, value: object) -> bool:
    from dokimos.evaluators._parameters import validate_parameter

    try:
        validate_parameter(kind, key, value, path=key)
    except ConfigurationError:
        return False
    return True
