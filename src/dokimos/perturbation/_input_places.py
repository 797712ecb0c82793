"""Where the inputs of an example hold what the user says, and the inputs with another text there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dokimos._core.keys import INPUT, QUERY


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A text in the inputs of an example."""

    text: str
    put: Callable[[str], dict[str, Any]]
    """Returns the inputs with another text in this place."""


def find_text(inputs: Mapping[str, Any]) -> TextPlace | None:
    """Return where the user's text is: the input, or of messages the user's last one; None where none is."""
    for key in (INPUT, QUERY, *inputs):
        place = _text_of(inputs, key)
        if place is not None:
            return place
    return None


def _text_of(inputs: Mapping[str, Any], key: str) -> TextPlace | None:
    value = inputs.get(key)
    if isinstance(value, str) and value.strip():
        return TextPlace(value, lambda text: {**inputs, key: text})
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return _last_user_text(inputs, key, value)
    return None


def _last_user_text(inputs: Mapping[str, Any], key: str, messages: Sequence[Any]) -> TextPlace | None:
    users = [i for i, one in enumerate(messages) if isinstance(one, Mapping) and one.get("role") == "user"]
    content = messages[users[-1]].get("content") if users else None
    if not isinstance(content, str) or not content.strip():
        return None
    return TextPlace(content, lambda text: {**inputs, key: _with_content(messages, users[-1], text)})


def _with_content(messages: Sequence[Any], index: int, text: str) -> list[Any]:
    changed = list(messages)
    changed[index] = {**messages[index], "content": text}
    return changed
