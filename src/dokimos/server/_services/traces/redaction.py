"""Replaces in spans and log records what rules name, before anything of them is stored."""

from __future__ import annotations

import base64
import binascii
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, Literal

from dokimos._core.patterns import replace_within_limit
from dokimos.errors import EvaluationError
from dokimos.server._redaction_rules import RedactionRule
from dokimos.traces._log_records import SentLog, parse_sent_log
from dokimos.traces._otlp_protobuf import parse_message
from dokimos.traces._otlp_records import RecordOrigin, SpanRecord, dump_map, parse_record

MAX_SECONDS: Final = 2.0
"""CPU time that the rules may take for one span."""
_CHECK_SECONDS: Final = 0.5
_SAMPLE_LENGTH: Final = 1000
_NO_TEXTS: Final = frozenset(
    {
        *("traceId", "trace_id", "spanId", "span_id", "parentSpanId", "parent_span_id"),
        *("startTimeUnixNano", "start_time_unix_nano", "endTimeUnixNano", "end_time_unix_nano"),
        *("timeUnixNano", "time_unix_nano", "observedTimeUnixNano", "observed_time_unix_nano"),
        *("intValue", "int_value", "doubleValue", "double_value", "boolValue", "bool_value"),
        *("kind", "code", "flags", "severityNumber", "severity_number", "key"),
    }
)
"""Fields of OTLP that hold ids, times and numbers, and keys, which rules name."""
_BYTES: Final = ("bytesValue", "bytes_value")
_Message = Literal["Span", "Resource", "InstrumentationScope", "LogRecord"]


class RedactionError(Exception):
    """The rules could not be applied in time."""


class _Texts:
    """The texts of something, and where what takes their place goes."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.setters: list[Callable[[str], None]] = []

    def add(self, text: str, put: Callable[[str], None]) -> None:
        if text:
            self.texts.append(text)
            self.setters.append(put)


class Redactor:
    """Applies rules: those of a project and those of the server.

    Example:
        >>> Redactor([RedactionRule("digits", "[0-9]+")]).redact_text("Call 555")  # doctest: +SKIP
        ('Call [redacted]', Counter({'digits': 1}))
    """

    def __init__(self, rules: Sequence[RedactionRule]) -> None:
        self._key_rules = [rule for rule in rules if rule.keys]
        self._patterns = [rule for rule in rules if rule.pattern is not None]
        self._origins = lru_cache(maxsize=1024)(self._redact_origin)

    def redact_span(self, record: SpanRecord, counts: Counter[str]) -> SpanRecord:
        """Return a span without what the rules name, in its body and its origin too.

        Args:
            record: The span.
            counts: Of what was replaced, by the names of the rules.

        Raises:
            RedactionError: It took too long.
        """
        origin = self._origins(record.origin)
        body = self._redact_part("Span", record.body, origin.encoding, counts)
        if body == record.body and origin == record.origin:
            return record
        return parse_record(body, origin)

    def redact_log(self, log: SentLog, counts: Counter[str]) -> SentLog:
        """Return a log record without what the rules name; raises RedactionError."""
        origin = self._origins(log.origin)
        body = self._redact_part("LogRecord", log.body, origin.encoding, counts)
        return replace(log, record=parse_sent_log(body, origin.encoding), body=body, origin=origin)

    def redact_text(self, text: str) -> tuple[str, Counter[str]]:
        """Return a text as an attribute would have it, and how often each rule replaced something.

        Raises:
            RedactionError: It took too long.
        """
        counts: Counter[str] = Counter()
        texts = _Texts()
        result = [text]

        def put(new: str) -> None:
            result[0] = new

        texts.add(text, put)
        self._replace(texts, counts)
        return result[0], counts

    def _redact_origin(self, origin: RecordOrigin) -> RecordOrigin:
        counts: Counter[str] = Counter()  # of what all spans share, and which is rewritten once
        return replace(
            origin,
            resource=self._redact_part("Resource", origin.resource, origin.encoding, counts),
            scope=self._redact_part("InstrumentationScope", origin.scope, origin.encoding, counts),
        )

    def _redact_part(
        self, name: _Message, body: bytes, encoding: Literal["json", "protobuf"], counts: Counter[str]
    ) -> bytes:
        texts = _Texts()
        before = counts.total()
        if encoding == "json":
            tree = json.loads(body)
            self._walk_json(tree, texts, counts)
            self._replace(texts, counts)
            return body if counts.total() == before else dump_map(tree)
        message = parse_message(name, body)
        # Fields that this version does not know may hold texts, which nobody could look into.
        message.DiscardUnknownFields()
        is_whole = message.ByteSize() == len(body)
        self._walk_message(message, texts, counts)
        self._replace(texts, counts)
        if is_whole and counts.total() == before:
            return body
        redacted: bytes = message.SerializeToString()
        return redacted

    def _replace(self, texts: _Texts, counts: Counter[str]) -> None:
        if not (texts.texts and self._patterns):
            return
        pairs = [(rule.pattern or "", rule.replacement) for rule in self._patterns]
        try:
            replaced, numbers = replace_within_limit(pairs, texts.texts, limit=MAX_SECONDS)
        except EvaluationError as error:
            raise RedactionError(str(error)) from None
        for rule, number in zip(self._patterns, numbers, strict=True):
            counts[rule.name] += number
        for old, new, put in zip(texts.texts, replaced, texts.setters, strict=True):
            if new != old:
                put(new)

    def _find_key_rule(self, key: object) -> RedactionRule | None:
        is_named = isinstance(key, str)
        return next(
            (rule for rule in self._key_rules if is_named and rule.key_pattern.fullmatch(str(key))), None
        )

    def _walk_json(self, tree: object, texts: _Texts, counts: Counter[str]) -> None:
        stack: list[tuple[str, Any]] = [("", tree)]
        while stack:
            name, node = stack.pop()
            if isinstance(node, list):
                for place, each in enumerate(node):
                    self._visit_json(node, place, name, each, texts, stack)
                continue
            rule = self._find_key_rule(node.get("key"))
            if rule is not None and "value" in node:
                node["value"] = {"stringValue": rule.replacement}
                counts[rule.name] += 1
                continue
            for key, each in node.items():
                # Attributes as a plain map, which some exporters send.
                named = self._find_key_rule(key) if name == "attributes" else None
                if named is not None:
                    node[key] = named.replacement
                    counts[named.name] += 1
                else:
                    self._visit_json(node, key, key, each, texts, stack)

    @staticmethod
    def _visit_json(
        node: Any, place: Any, name: str, value: object, texts: _Texts, stack: list[tuple[str, Any]]
    ) -> None:
        if isinstance(value, dict | list):
            stack.append((name, value))
        elif isinstance(value, str) and name in _BYTES:
            text = _decode_base64(value)
            if text is not None:
                texts.add(text, lambda new: node.__setitem__(place, base64.b64encode(new.encode()).decode()))
        elif isinstance(value, str) and name not in _NO_TEXTS:
            texts.add(value, lambda new: node.__setitem__(place, new))

    def _walk_message(self, message: Any, texts: _Texts, counts: Counter[str]) -> None:
        stack = [message]
        while stack:
            node = stack.pop()
            if node.DESCRIPTOR.name == "KeyValue":
                rule = self._find_key_rule(node.key)
                if rule is not None:
                    node.value.Clear()
                    node.value.string_value = rule.replacement
                    counts[rule.name] += 1
                    continue
            for field, value in node.ListFields():
                _visit_field(node, field, value, texts, stack)


def _visit_field(node: Any, field: Any, value: Any, texts: _Texts, stack: list[Any]) -> None:
    is_list = not isinstance(value, str | bytes) and hasattr(value, "append")
    if field.message_type is not None:
        stack.extend(value if is_list else (value,))
    elif field.type == field.TYPE_STRING and field.name != "key":
        for place, each in enumerate(value) if is_list else ():
            texts.add(each, lambda new, place=place: value.__setitem__(place, new))  # type: ignore[misc]
        if not is_list:
            texts.add(value, lambda new: setattr(node, field.name, new))
    elif field.name == "bytes_value":
        text = _decode(value)
        if text is not None:
            texts.add(text, lambda new: setattr(node, field.name, new.encode()))


def _decode(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _decode_base64(text: str) -> str | None:
    try:
        return _decode(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return None


@lru_cache(maxsize=256)
def make_redactor(rules: tuple[RedactionRule, ...]) -> Redactor | None:
    """Return what applies rules, None where there are none."""
    return Redactor(rules) if rules else None


def check_patterns(rules: Sequence[RedactionRule]) -> None:
    """Raise ValueError where a pattern takes too long on texts that are made to be hard for it.

    One that this lets pass may still be slow on other texts: spans that take too long are rejected.
    """
    for place, rule in enumerate(rules):
        if rule.pattern is None:
            continue
        try:
            replace_within_limit(
                [(rule.pattern, rule.replacement)], _hard_texts(rule.pattern), limit=_CHECK_SECONDS
            )
        except EvaluationError as error:
            raise ValueError(f"rules[{place}].pattern may take too long: {error}") from None


def _hard_texts(pattern: str) -> list[str]:
    """Return texts with long runs of what a pattern may repeat, which end in something else."""
    letters = {"a", "A", "0", " ", "-", "_", ".", "@", *(each for each in pattern if each.isprintable())}
    runs = [each * _SAMPLE_LENGTH + "\n!" for each in sorted(letters)]
    words = sorted({pattern, "a1", "a ", "0 ", "a.", "a@", "ab"})
    return [*runs, *(word * (_SAMPLE_LENGTH // len(word)) + "\n!" for word in words)]


def count_labels(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts that are not 0."""
    return {name: number for name, number in counts.items() if number}
