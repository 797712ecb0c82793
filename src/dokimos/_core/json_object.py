"""JSON text, as models and spans write it: read fast, and without raising."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

_parser: Callable[[str], Any] | None = None


def parse_object(text: str) -> dict[str, Any] | None:
    """Return the object that a JSON text holds, {} for blank text, None for anything else."""
    try:
        value = (_parser or _load_parser())(text)
    except (ValueError, TypeError):
        value = _parse_surrogates(text, None) if text.strip() else {}
    return value if type(value) is dict else None


def parse_if_container(value: object) -> Any:
    """Parse JSON text of a map or a list; return anything else as it is."""
    if type(value) is not str or value.lstrip()[:1] not in ("{", "["):
        return value
    return parse_if_json(value)


def parse_if_json(value: object) -> Any:
    """Parse JSON text of any kind (a map, a list, a quoted text, a number); return anything else as it is."""
    if type(value) is not str:
        return value
    try:
        return (_parser or _load_parser())(value)
    except (ValueError, TypeError) as error:
        return _parse_surrogates(value, value) if _has_half_pairs(error) else value


def _load_parser() -> Callable[[str], Any]:
    """Load the parser that pydantic brings, which is three times as fast as the standard library's."""
    global _parser
    from pydantic_core import from_json

    _parser = from_json
    return from_json


def _has_half_pairs(error: Exception) -> bool:
    """Say whether the fast parser refused halves of surrogate pairs, escaped or not."""
    return isinstance(error, TypeError) or "hex escape" in str(error)


def _parse_surrogates(text: str, otherwise: object) -> Any:
    """Parse what the fast parser refuses for a half of a surrogate pair; return `otherwise` if not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return otherwise
