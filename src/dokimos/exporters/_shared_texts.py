"""Deduplicate long texts of a JSON document: each occurs once, with references elsewhere.

`{"$text": PATH}` is the text at PATH, a list of keys and positions from the root of the document, and
`{"$json": PATH}` the value that the text there is the JSON of. An object of the user's own that looks like a
reference is wrapped in `{"$plain": ...}`.
"""

from __future__ import annotations

import json
from typing import Any, Final

from dokimos._core.jsonable import JsonValue, compact_json

SHARED_FROM_LENGTH: Final = 200
"""Shorter texts, in characters, are repeated: references would save little and be hard to read."""

_TEXT, _JSON, _PLAIN = "$text", "$json", "$plain"
_SHORT: Final = frozenset((float, int, bool, type(None)))
_MARKS: Final = frozenset((_TEXT, _JSON, _PLAIN))
LEVELS_AS_TEXT: Final = {"inputs": 2, "expectedOutputs": 2, "actualOutputs": 2}
"""Maps of which the report renders one value, or the whole, as text."""

_Path = tuple[Any, ...]


def join_texts(document: dict[str, JsonValue], member: str) -> JsonValue:
    """Return the member with what its references stand for.

    Raises:
        ValueError: for a reference that points to nothing.
    """
    try:
        return _Joining(document).tree(document[member])
    except (AttributeError, LookupError, TypeError) as cause:
        raise ValueError("A reference in it points to nothing.") from cause


def is_long(text: str | None) -> bool:
    """Return whether a text is long enough to be deduplicated."""
    return text is not None and len(text) >= SHARED_FROM_LENGTH


class TextSharing:
    """Replaces texts of one member of a document by references, while the document is written.

    `learn` is called with all that comes before that member, in the order of the document, and then `tree`
    with each part of the member.
    """

    def __init__(self) -> None:
        self.count = 0
        """How many references there are."""
        self.has_wrapped = False
        """Whether an object of the user's own was wrapped: without any reference, none may be."""
        self._paths: dict[str, _Path] = {}
        self._any_json = False

    def learn(self, value: JsonValue, path: _Path) -> None:
        """Remember where the long texts in a value are."""
        if isinstance(value, str):
            if len(value) >= SHARED_FROM_LENGTH:
                self._paths.setdefault(str.__str__(value), path)
                self._any_json |= value[0] in "[{"
            return
        for key, content in value.items() if isinstance(value, dict) else enumerate(value):
            kind = type(content)
            # Short texts and numbers are most of a report, and need no path.
            if len(content) >= SHARED_FROM_LENGTH if kind is str else kind not in _SHORT:
                self.learn(content, (*path, key))

    def may_change(self, json_text: str) -> bool:
        """Say whether `tree` may give something else than the value of a JSON text; no is certain."""
        # To find a single character first takes a twentieth of the time, and most texts have none of these.
        if "$" in json_text and '{"$' in json_text:
            return True
        if self._any_json and len(json_text) >= SHARED_FROM_LENGTH:
            return True
        # Without the quotes in texts, a long one is a long stretch without any.
        unquoted = json_text.replace('\\"', "  ") if "\\" in json_text else json_text
        start, last = 0, len(unquoted) - SHARED_FROM_LENGTH
        while start <= last:
            quote = unquoted.rfind('"', start, start + SHARED_FROM_LENGTH)
            if quote < 0:
                return True
            start = quote + 1
        return False

    def tree(self, value: JsonValue, path: _Path, text_levels: int = 0) -> JsonValue:
        """Return the value with references; `text_levels` counts the levels rendered as text."""
        if type(value) is str:
            return self._text(value, path)
        # The report renders maps as JSON text; then the text is in the document, and the map need not be.
        if text_levels and self._any_json and (written := self._paths.get(compact_json(value))):
            return self._reference(_JSON, written)
        if isinstance(value, list):
            return [
                self.tree(item, (*path, index)) if may_hold(item) else item
                for index, item in enumerate(value)
            ]
        marked = _is_marked(value)
        if marked:
            self.has_wrapped = True
            path = (*path, _PLAIN)
        below = max(0, text_levels - 1)
        shared = {
            key: self.tree(item, (*path, key), LEVELS_AS_TEXT.get(key, below)) if may_hold(item) else item
            for key, item in value.items()
        }
        return {_PLAIN: shared} if marked else shared

    def _text(self, text: str, path: _Path) -> JsonValue:
        # `is`, not ==: this very path object is stored only if the text is met here for the first time.
        first = self._paths.setdefault(text, path)
        return text if first is path else self._reference(_TEXT, first)

    def _reference(self, mark: str, path: _Path) -> JsonValue:
        self.count += 1
        return {mark: list(path)}


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
        value = self._document
        for key in path:
            value = value[key]
        if not isinstance(value, str):
            raise TypeError("A reference must point to a text.")
        return value

    def _value_of(self, text: str) -> JsonValue:
        if text not in self._parsed:
            self._parsed[text] = json.loads(text)
        return self._parsed[text]


def may_hold(value: JsonValue) -> bool:
    """Return whether the value is a long text or may contain one."""
    kind = type(value)
    return len(value) >= SHARED_FROM_LENGTH if kind is str else kind is dict or kind is list


def _is_marked(value: dict[str, JsonValue]) -> bool:
    return len(value) == 1 and not _MARKS.isdisjoint(value)
