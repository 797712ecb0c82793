"""Objects of frameworks read by attribute or key: their classes cannot be imported here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

FrameworkObject: TypeAlias = Any
"""An object of a framework, whose class cannot be imported here: nothing checks which attributes are read."""


def get(thing: object, *names: str, default: object = None) -> Any:
    """Return the first of these attributes or keys that is present and not None.

    A bridge that reads everything with it takes objects of the framework and recordings of them alike.

    Example:
        >>> get({"tool_name": "look_up"}, "name", "tool_name")
        'look_up'
        >>> get(1 + 2j, "imag"), get(None, "name", default="unknown")
        (2.0, 'unknown')
    """
    for name in names:
        value = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
        if value is not None:
            return value
    return default


def to_plain(thing: object) -> Any:
    """Return objects of a provider as maps of their attributes, without those that are None."""
    if thing is None or isinstance(thing, str | int | float):
        return thing
    if isinstance(thing, list | tuple):
        return [to_plain(each) for each in thing]
    content = thing if isinstance(thing, Mapping) else getattr(thing, "__dict__", None)
    if content is None:
        return thing
    return {key: to_plain(value) for key, value in content.items() if value is not None}


def join_text(content: object) -> str:
    """Return the text in the content of a message: the text itself, or the parts that are text joined."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        return get(content, "text", default="") if not isinstance(content, Mapping) else _part_text(content)
    return "\n".join(text for text in map(_part_text, content) if text)


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    text = get(part, "text") if get(part, "type") in (None, "text", "output_text", "input_text") else None
    return text if isinstance(text, str) else ""
