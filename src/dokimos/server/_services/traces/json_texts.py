"""The texts of spans and log records in JSON, of whatever shape: what redaction rules look at."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial
from typing import Any, Final, TypeAlias

from dokimos.server._redaction_rules import RedactionRule

FindRule: TypeAlias = Callable[[object], RedactionRule | None]
"""Returns the rule that names the key of an attribute."""
_OWN_IDS: Final = frozenset(("traceId", "trace_id", "spanId", "span_id"))
"""Of a span or log record: they say which it is, and are kept whatever they are."""
_IDS: Final = _OWN_IDS | {"parentSpanId", "parent_span_id"}
_ID: Final = re.compile("[0-9A-Za-z+/=_.:-]{1,64}")
"""What the id of another span is: hexadecimal, base64, or a short name."""
_NUMBERS: Final = frozenset(
    (
        *("startTimeUnixNano", "start_time_unix_nano", "endTimeUnixNano", "end_time_unix_nano"),
        *("timeUnixNano", "time_unix_nano", "observedTimeUnixNano", "observed_time_unix_nano"),
        *("kind", "code", "flags", "severityNumber", "severity_number"),
        *("droppedAttributesCount", "dropped_attributes_count", "droppedEventsCount", "dropped_events_count"),
        *("droppedLinksCount", "dropped_links_count"),
    )
)
"""Fields of messages that hold times, numbers and names of OTLP, where they hold what they should."""
_TEXTS: Final = frozenset(
    (
        *("name", "message", "version", "traceState", "trace_state", "schemaUrl", "schema_url"),
        *("eventName", "event_name", "severityText", "severity_text"),
    )
)
"""Fields of messages that hold texts."""
_NAME: Final = re.compile(
    "(?:SPAN_KIND_|STATUS_CODE_)?"
    "(?:UNSPECIFIED|INTERNAL|SERVER|CLIENT|PRODUCER|CONSUMER|UNSET|OK|ERROR)"
    "|SEVERITY_NUMBER_[A-Z]{1,11}[0-9]?",
    re.IGNORECASE,
)
_STRINGS: Final = ("stringValue", "string_value")
_SCALARS: Final = ("intValue", "int_value", "doubleValue", "double_value", "boolValue", "bool_value")
_BYTES: Final = ("bytesValue", "bytes_value")
_ARRAYS: Final = ("arrayValue", "array_value")
_MAPS: Final = ("kvlistValue", "kvlist_value")


class TextSlots:
    """The texts of something, and where what takes their place goes."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.setters: list[Callable[[str], None]] = []
        self.is_changed = False
        """Whether one of them was replaced by another."""

    def add(self, text: str, put: Callable[[str], None]) -> None:
        """Add a text, and what puts another one in its place."""
        if text:
            self.texts.append(text)
            self.setters.append(put)

    def put(self, texts: Iterator[str]) -> None:
        """Take as many texts as there are, and put each into its place."""
        for old, put in zip(self.texts, self.setters, strict=True):
            new = next(texts)
            if new != old:
                put(new)
                self.is_changed = True


class _Kind(Enum):
    """What a part of the JSON stands for, which says what its names mean."""

    RECORD = auto()
    """A span or log record, which ids identify."""
    LINK = auto()
    """A link, which has the ids of another span, or a list of them."""
    MESSAGE = auto()
    """A resource, scope, event or status, or a list of them."""
    ATTRIBUTES = auto()
    """A list of keys and values. Some exporters send a map, whose names are keys then."""
    ATTRIBUTE = auto()
    VALUE = auto()
    """A map with the type of the value as its name."""
    PLAIN = auto()
    """Anything else: names of maps are keys."""


_PARTS: Final = {
    "attributes": _Kind.ATTRIBUTES,
    "body": _Kind.VALUE,
    "events": _Kind.MESSAGE,
    "links": _Kind.LINK,
    "status": _Kind.MESSAGE,
}
_MESSAGES: Final = (_Kind.RECORD, _Kind.LINK, _Kind.MESSAGE)
_FIELDS: Final = _IDS | _NUMBERS | _TEXTS | _PARTS.keys()
"""Names in a message that OTLP gives a meaning: any other may be the key of an attribute out of its place."""


class JsonTexts:
    """Finds the texts of a message of OTLP in JSON, and replaces the values of keys that rules name.

    Whatever is not the id, the number or the time that should be in its place is a text: it may be anything.
    """

    def __init__(self, slots: TextSlots, find_rule: FindRule, count: Callable[[RedactionRule], None]) -> None:
        self._slots = slots
        self._find_rule = find_rule
        self._count = count
        self._stack: list[tuple[_Kind, Any]] = []

    def collect(self, message: dict[str, Any], *, is_record: bool) -> None:
        """Add the texts of a message to the slots.

        Args:
            message: Which this changes: keys that rules name get other values.
            is_record: Whether it is a span or a log record.
        """
        visits: dict[_Kind, Callable[[dict[str, Any]], None]] = {
            **{each: partial(self._visit_message, each) for each in _MESSAGES},
            _Kind.ATTRIBUTES: self._visit_plain,
            _Kind.ATTRIBUTE: self._visit_attribute,
            _Kind.VALUE: self._visit_value,
            _Kind.PLAIN: self._visit_plain,
        }
        self._stack = [(_Kind.RECORD if is_record else _Kind.MESSAGE, message)]
        while self._stack:
            kind, node = self._stack.pop()
            if isinstance(node, dict):
                rule = None
                if "key" in node:
                    rule = self._remove_value(node, is_attribute=kind is _Kind.ATTRIBUTE)
                visits[kind](node)
                if rule is not None:  # afterwards, so that no pattern looks at the replacement
                    node["value"] = {"stringValue": rule.replacement}
                continue
            inner = _Kind.ATTRIBUTE if kind is _Kind.ATTRIBUTES else kind
            for place in range(len(node)):
                self._visit(inner, node, place)

    def _visit(self, kind: _Kind, node: Any, place: Any) -> None:
        value = node[place]
        if isinstance(value, str):
            self._slots.add(value, lambda new: node.__setitem__(place, new))
        elif isinstance(value, dict | list):
            self._stack.append((kind, value))

    def _visit_message(self, kind: _Kind, node: dict[str, Any]) -> None:
        for name, value in node.items():
            if name not in _FIELDS:
                self._visit_named(node, name)
            elif not (isinstance(value, str) and _is_in_place(kind, name, value)):
                self._visit(_PARTS.get(name, _Kind.PLAIN), node, name)

    def _visit_attribute(self, node: dict[str, Any]) -> None:
        for name, value in node.items():
            if name != "key" or not isinstance(value, str):
                self._visit(_Kind.VALUE if name == "value" else _Kind.PLAIN, node, name)

    def _remove_value(self, node: dict[str, Any], *, is_attribute: bool) -> RedactionRule | None:
        """Remove the value of a key that a rule names, also where no attribute should be; return the rule."""
        rule = self._find_rule(node["key"])
        if rule is None or ("value" not in node and (not is_attribute or len(node) == 1)):
            return None
        # All that stands beside the key of an attribute may be its value.
        for name in set(node) - {"key"} if is_attribute else {"value"}:
            del node[name]
        self._count(rule)
        return rule

    def _visit_value(self, node: dict[str, Any]) -> None:
        for name, value in node.items():
            if name in _BYTES and isinstance(value, str):
                self._visit_bytes(node, name)
            elif name in _ARRAYS and isinstance(value, dict):
                self._visit_values(_Kind.VALUE, value)
            elif name in _MAPS and isinstance(value, dict):
                self._visit_values(_Kind.ATTRIBUTES, value)
            elif name in (*_STRINGS, *_BYTES, *_ARRAYS, *_MAPS):
                self._visit(_Kind.PLAIN, node, name)
            elif name not in _SCALARS:
                self._visit_named(node, name)
            elif not (isinstance(value, str) and _is_number(value)):
                self._visit(_Kind.PLAIN, node, name)

    def _visit_values(self, kind: _Kind, node: dict[str, Any]) -> None:
        for name in node:
            self._visit(kind if name == "values" else _Kind.PLAIN, node, name)

    def _visit_plain(self, node: dict[str, Any]) -> None:
        for name in node:
            self._visit_named(node, name)

    def _visit_named(self, node: dict[str, Any], name: str) -> None:
        rule = self._find_rule(name)
        if rule is None:
            self._visit(_Kind.PLAIN, node, name)
            return
        node[name] = rule.replacement
        self._count(rule)

    def _visit_bytes(self, node: dict[str, Any], name: str) -> None:
        try:
            data = base64.b64decode(node[name], validate=True)
        except (binascii.Error, ValueError):
            self._visit(_Kind.PLAIN, node, name)
            return
        text = decode(data)
        if text is not None:
            self._slots.add(text, lambda new: node.__setitem__(name, base64.b64encode(new.encode()).decode()))


def decode(data: bytes) -> str | None:
    """Return bytes as text, or None if they are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _is_in_place(kind: _Kind, name: str, text: str) -> bool:
    """Whether a field of a message is the id or the number that it should be."""
    if name in _IDS:
        is_own = kind is _Kind.RECORD and name in _OWN_IDS
        return is_own or (kind is not _Kind.MESSAGE and _ID.fullmatch(text) is not None)
    return name in _NUMBERS and _is_number(text)


def _is_number(text: str) -> bool:
    """Whether a text is a number, a truth value, or a name that OTLP has for a number."""
    if text.strip().lower() in ("true", "false") or _NAME.fullmatch(text):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True
