"""Long texts that stand once in a JSON document, and references in the other places.

`{"$text": PATH}` is the text at PATH, a list of keys and positions from the root of the document, and
`{"$json": PATH}` the value that the text there is the JSON of. An object of the user's own that looks like a
reference stands inside `{"$plain": ...}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from dokimos.core.jsonable import JsonValue, compact_json

LONG: Final = 200
"""Shorter texts, in characters, are repeated: references would save little and be hard to read."""

_TEXT, _JSON, _PLAIN = "$text", "$json", "$plain"
_MARKS: Final = frozenset((_TEXT, _JSON, _PLAIN))
_SHOWN: Final = frozenset(("inputs", "expectedOutputs", "actualOutputs"))
"""Maps of which the report shows one value, or the whole, as text."""

_Path = tuple[Any, ...]


def share_texts(document: dict[str, JsonValue], member: str) -> bool:
    """Replace the texts in a member of the document that stand elsewhere too; say whether there were any."""
    sharing = _Sharing()
    sharing.learn({key: content for key, content in document.items() if key != member}, ())
    shared = sharing.tree(document[member], (member,))
    if sharing.count:
        document[member] = shared
    return sharing.count > 0


def join_texts(document: dict[str, JsonValue], member: str) -> JsonValue:
    """Return the member with what its references stand for.

    Raises:
        ValueError: for a reference to something that is not there.
    """
    try:
        return _Joining(document).tree(document[member])
    except (AttributeError, LookupError, TypeError) as cause:
        raise ValueError("It refers to something that is not there.") from cause


def is_long(text: str | None) -> bool:
    """Whether a text is one that stands once."""
    return text is not None and len(text) >= LONG


class _Sharing:
    def __init__(self) -> None:
        self.count = 0
        self._places: dict[str, _Path] = {}
        self._any_json = False

    def learn(self, value: JsonValue, path: _Path) -> None:
        """Remember where the long texts in a value are."""
        if type(value) is str:
            self._places.setdefault(value, path)
            self._any_json |= value[0] in "[{"
            return
        for key, content in _entries(value):
            if _may_hold(content):
                self.learn(content, (*path, key))

    def tree(self, value: JsonValue, path: _Path, shown: int = 0) -> JsonValue:
        """Return the value with references; `shown` says how many levels down the report shows it as text."""
        if type(value) is str:
            first = self._places.setdefault(value, path)
            return value if first is path else self._reference(_TEXT, first)
        if shown and self._any_json and (written := self._places.get(compact_json(value))):
            return self._reference(_JSON, written)
        if isinstance(value, list):
            return [
                self.tree(item, (*path, place)) if _may_hold(item) else item
                for place, item in enumerate(value)
            ]
        marked = _is_marked(value)
        if marked:
            path = (*path, _PLAIN)
        found = {
            key: self.tree(item, (*path, key), 2 if key in _SHOWN else shown and shown - 1)
            if _may_hold(item)
            else item
            for key, item in value.items()
        }
        return {_PLAIN: found} if marked else found

    def _reference(self, mark: str, place: _Path) -> JsonValue:
        self.count += 1
        return {mark: list(place)}


class _Joining:
    def __init__(self, document: JsonValue) -> None:
        self._document = document
        self._parsed: dict[str, JsonValue] = {}

    def tree(self, value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [self.tree(item) for item in value]
        if not isinstance(value, dict):
            return value
        if not _is_marked(value):
            return {key: self.tree(item) for key, item in value.items()}
        ((mark, content),) = value.items()
        if mark == _PLAIN:
            return {key: self.tree(item) for key, item in content.items()}
        text = self._text_at(content)
        return text if mark == _TEXT else self._value_of(text)

    def _text_at(self, path: JsonValue) -> str:
        found = self._document
        for key in path:
            found = found[key]
        if not isinstance(found, str):
            raise TypeError("Only texts are referred to.")
        return found

    def _value_of(self, text: str) -> JsonValue:
        if text not in self._parsed:
            self._parsed[text] = json.loads(text)
        return self._parsed[text]


def _may_hold(value: JsonValue) -> bool:
    """Whether the value is a long text or may have one inside."""
    kind = type(value)
    return len(value) >= LONG if kind is str else kind is dict or kind is list


def _is_marked(value: dict[str, JsonValue]) -> bool:
    return len(value) == 1 and not _MARKS.isdisjoint(value)


def _entries(value: JsonValue) -> Iterator[tuple[Any, JsonValue]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)
