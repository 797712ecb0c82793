"""Messages as spans hold them: structures or JSON text, told again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dokimos.core import told
from dokimos.core.json_object import structured
from dokimos.core.jsonable import text_form
from dokimos.core.message_parts import is_part
from dokimos.core.messages import read_recorded
from dokimos.core.told import ToldMessage
from dokimos.traces.attributes import FlatMemory


@dataclass(slots=True)
class History:
    """What was read last: what the spans of a trace tell again and again is read only once."""

    told: list[Any] = field(default_factory=list)
    found: list[list[ToldMessage]] = field(default_factory=list)
    flat: FlatMemory = field(default_factory=FlatMemory)

    def read(self, told: list[Any], role: str) -> list[ToldMessage]:
        """Read messages, of which the first may be known."""
        known = len(self.told)
        if told[:known] != self.told:
            self.found, known = [], 0
        self.found += [read_recorded(structured(element), role) for element in told[known:]]
        self.told = told
        return [message for found in self.found for message in found]


def parse_messages(
    value: Any, role: str = "user", *, choices: bool = False, history: History | None = None
) -> tuple[ToldMessage, ...]:
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
        found = [ToldMessage(role, value)]  # JSON that somebody said
    return tuple(found) if choices else _joined(found)


def text_of(value: Any) -> str:
    """Return the text in a value that may be text, a message, or a list of parts."""
    return "\n".join(message.text for message in parse_messages(value) if message.text)


def result_text(value: Any) -> str | None:
    """Return what a tool returned as text; a structure, also one told as JSON text, as compact JSON."""
    return text_form(structured(told.result_text(structured(value))))


def _are_messages(content: Any) -> bool:
    """Say whether these are messages that tell nothing, as where their content was not captured."""
    messages = content if isinstance(content, list) else [content]
    return all(isinstance(each, dict) and "role" in each for each in messages)


def _joined(messages: Sequence[ToldMessage]) -> tuple[ToldMessage, ...]:
    joined: list[ToldMessage] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last is not None and last.role == message.role == "assistant":
            texts = [text for text in (last.text, message.text) if text]
            joined[-1] = ToldMessage(
                "assistant",
                "\n".join(texts),
                last.calls + message.calls,
                reasoning=last.reasoning + message.reasoning,
            )
        else:
            joined.append(message)
    return tuple(joined)
