"""Parameters of evaluators that were written as YAML scalars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dokimos.errors import ConfigurationError


def as_written(name: str, params: Mapping[str, Any], source: Callable[[str], str | None]) -> dict[str, Any]:
    """Return parameters in which a number is the text that was written where its field wants a text.

    Args:
        name: The evaluator's name in the registry.
        params: Its parameters as they were read.
        source: Gives a number as it is written, by the name of its parameter; None where it is unknown.
    """
    from dokimos.evaluators.registry import find

    kind = find(name)
    return {key: _as_wanted(kind, key, value, source(key)) for key, value in params.items()}


def _as_wanted(kind: Any, key: str, value: Any, source: str | None) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if source is None or not is_number or key not in kind.__dataclass_fields__:
        return value
    takes_text = _takes(kind, key, source) and not _takes(kind, key, value)
    return source if takes_text else value


def _takes(kind: Any, key: str, value: Any) -> bool:
    from dokimos.evaluators.parameters import validated

    try:
        validated(kind, key, value, path=key)
    except ConfigurationError:
        return False
    return True
