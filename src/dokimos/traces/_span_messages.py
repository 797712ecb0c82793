"""Parses the messages of spans: structures or JSON text, which later spans repeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from dokimos._core.json_object import parse_if_container
from dokimos._core.jsonable import text_form
from dokimos._messages import neutral
from dokimos._messages.neutral import NeutralMessage
from dokimos._messages.parsing import parse_recorded_messages
from dokimos._messages.parts import is_part
from dokimos.traces._attributes import UnflattenCache

_JSON_SPACE: Final = " \t\r\n"
_NOT_USERS: Final = frozenset({"assistant", "system", "tool"})
"""Roles of messages in which no user says anything."""


class MessageCache:
    """Caches the messages parsed last: what the spans of a trace repeat is parsed only once."""

    __slots__ = (
        "_elements",
        "_head",
        "_instructions",
        "_joined",
        "_parsed",
        "_searched",
        "_user_text",
        "flat",
    )

    def __init__(self) -> None:
        self._head = ""
        """The JSON text that the elements were in, without its closing bracket."""
        self._elements: list[Any] = []
        self._parsed = 0
        """How many of the elements are parsed."""
        self._joined: list[NeutralMessage] = []
        """The messages in these."""
        self._searched = 0
        """In how many of them the last text of a user was looked for."""
        self._user_text: str | None = None
        self._instructions: tuple[object, str] = (None, "")
        self.flat: UnflattenCache = UnflattenCache()

    def load(self, value: object) -> Any:
        """Parse JSON text as `parse_if_container` does; of a text that continues the last, only its rest."""
        if type(value) is not str:
            return value
        head = self._head
        if head and value.startswith(head):
            rest = value[len(head) :].strip(_JSON_SPACE)
            if rest == "]":
                return self._elements
            added = parse_if_container(f"[{rest[1:]}") if rest[:1] == "," else None
            if added and type(added) is list:
                self._head, self._elements = value.rstrip(_JSON_SPACE)[:-1], [*self._elements, *added]
                return self._elements
        content = parse_if_container(value)
        return self._keep(value, content) if content and type(content) is list else content

    def _keep(self, text: str, elements: list[Any]) -> list[Any]:
        self._forget_unless_repeated(elements)
        self._head, self._elements = text.rstrip(_JSON_SPACE)[:-1], elements
        return elements

    def parse(self, elements: list[Any], role: str) -> list[NeutralMessage]:
        """Parse messages, of which the first may be in the cache; those of one turn are joined."""
        if elements is not self._elements:
            self._forget_unless_repeated(elements)
            self._head, self._elements = "", elements
        for element in elements[self._parsed :]:
            content = element if type(element) is dict else parse_if_container(element)
            for message in parse_recorded_messages(content, role):
                _add_turn(self._joined, message)
        self._parsed = len(elements)
        return self._joined

    def find_user_text(self, value: object) -> str | None:
        """Return the last text of a user in messages that are JSON text, None where `parse` has to be asked.

        What others say is not parsed: as an answer, it was when they said it.
        """
        elements = self.load(value) if type(value) is str else None
        if not elements or elements is not self._elements or is_part(elements[0]):
            return None
        for element in elements[self._searched :]:
            role = element.get("role") if type(element) is dict else None
            if type(role) is str and role in _NOT_USERS and "message" not in element:
                continue
            content = element if type(element) is dict else parse_if_container(element)
            for message in parse_recorded_messages(content, "user"):
                if message.role == "user" and message.text:
                    self._user_text = message.text
        self._searched = len(elements)
        return self._user_text

    def _forget_unless_repeated(self, elements: list[Any]) -> None:
        if elements[: len(self._elements)] != self._elements:
            self._parsed, self._joined = 0, []
            self._searched, self._user_text = 0, None

    def join_text(self, value: object) -> str:
        """Return what `join_text` does; every call of a model repeats its instructions."""
        if type(value) is not str:
            return join_text(value)
        if value != self._instructions[0]:
            self._instructions = (value, join_text(value))
        return self._instructions[1]


def parse_messages(
    value: object, role: str = "user", *, choices: bool = False, cache: MessageCache | None = None
) -> tuple[NeutralMessage, ...]:
    """Parse messages: JSON text or structures, a list or one alone; plain text is a message of `role`.

    Consecutive messages of the assistant are joined to one, unless they are `choices` between answers.
    Anything that cannot be parsed is ignored; nothing raises. A `cache` serves one role only, and no choices.
    """
    content = parse_if_container(value) if cache is None else cache.load(value)
    if cache is not None and content and type(content) is list and not is_part(content[0]):
        messages = cache.parse(content, role)
        if messages:
            return tuple(messages)
    else:
        messages = parse_recorded_messages(content, role)
    if not messages and content and isinstance(value, str) and value.strip() and not _are_messages(content):
        messages = [NeutralMessage(role, value)]  # a text that happens to be JSON
    return tuple(messages) if choices else _join_turns(messages)


def join_text(value: object) -> str:
    """Return the text in a value that may be text, a message, or a list of parts."""
    return "\n".join(message.text for message in parse_messages(value) if message.text)


def render_result(value: object) -> str | None:
    """Return the result of a tool as text; a structure, also one that is JSON text, as compact JSON."""
    return text_form(parse_if_container(neutral.format_result(parse_if_container(value))))


def _are_messages(content: object) -> bool:
    """Say whether these are messages without content, as where it was not captured."""
    messages = content if isinstance(content, list) else [content]
    return all(isinstance(each, dict) and "role" in each for each in messages)


def _join_turns(messages: Sequence[NeutralMessage]) -> tuple[NeutralMessage, ...]:
    if len(messages) < 2:
        return tuple(messages)
    joined: list[NeutralMessage] = []
    for message in messages:
        _add_turn(joined, message)
    return tuple(joined)


def _add_turn(joined: list[NeutralMessage], message: NeutralMessage) -> None:
    last = joined[-1] if message.role == "assistant" and joined else None
    if last is None or last.role != "assistant":
        joined.append(message)
        return
    texts = [text for text in (last.text, message.text) if text]
    joined[-1] = NeutralMessage(
        "assistant",
        "\n".join(texts),
        last.calls + message.calls,
        reasoning=last.reasoning + message.reasoning,
    )
