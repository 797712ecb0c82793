"""Messages as spans hold them: structures or JSON text, told again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dokimos.core.json_object import structured
from dokimos.core.jsonable import text_form
from dokimos.messages import neutral
from dokimos.messages.neutral import NeutralMessage
from dokimos.messages.parsing import read_recorded
from dokimos.messages.parts import is_part
from dokimos.traces.attributes import FlatMemory


@dataclass(slots=True)
class History:
    """What was read last: what the spans of a trace tell again and again is read only once."""

    neutral: list[Any] = field(default_factory=list)
    found: list[list[NeutralMessage]] = field(default_factory=list)
    flat: FlatMemory = field(default_factory=FlatMemory)

    def read(self, neutral: list[Any], role: str) -> list[NeutralMessage]:
        """Read messages, of which the first may be known."""
        known = len(self.neutral)
        if neutral[:known] != self.neutral:
            self.found, known = [], 0
        self.found += [read_recorded(structured(element), role) for element in neutral[known:]]
        self.neutral = neutral
        return [message for found in self.found for message in found]


def parse_messages(
    value: Any, role: str = "user", *, choices: bool = False, history: History | None = None
) -> tuple[NeutralMessage, ...]:
    """Read messages: JSON text or structures, a list or one alone; plain text is a message of `role`.

    What the assistant says and calls in one go is one message, however many it was told in, unless they are
    `choices` between answers. What cannot be understood is left out; nothing raises. `history` serves one
    role only.
    """
    content = structured(value)
    if history is not None and content and type(content) is list and not is_part(content[0]):
        found = history.read(content, role)
    else:
        found = read_recorded(content, role)
    if not found and content and isinstance(value, str) and value.strip() and not _are_messages(content):
        found = [NeutralMessage(role, value)]  # JSON that somebody said
    return tuple(found) if choices else _joined(found)


def text_of(value: Any) -> str:
    """Return the text in a value that may be text, a message, or a list of parts."""
    return "\n".join(message.text for message in parse_messages(value) if message.text)


def result_text(value: Any) -> str | None:
    """Return what a tool returned as text; a structure, also one told as JSON text, as compact JSON."""
    return text_form(structured(neutral.result_text(structured(value))))


def _are_messages(content: Any) -> bool:
    """Say whether these are messages that tell nothing, as where their content was not captured."""
    messages = content if isinstance(content, list) else [content]
    return all(isinstance(each, dict) and "role" in each for each in messages)


def _joined(messages: Sequence[NeutralMessage]) -> tuple[NeutralMessage, ...]:
    joined: list[NeutralMessage] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last is not None and last.role == message.role == "assistant":
            texts = [text for text in (last.text, message.text) if text]
            joined[-1] = NeutralMessage(
                "assistant",
                "\n".join(texts),
                last.calls + message.calls,
                reasoning=last.reasoning + message.reasoning,
            )
        else:
            joined.append(message)
    return tuple(joined)
