"""Replaces in spans and log records what rules name, before anything of them is stored."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final, Literal

from dokimos._core.patterns import replace_within_limit
from dokimos._runtime.search_process import search_process, slow_search_process
from dokimos.errors import EvaluationError
from dokimos.server._redaction_rules import RedactionRule
from dokimos.server._services.traces.json_texts import JsonTexts, TextSlots, decode
from dokimos.traces._log_records import SentLog, parse_sent_log
from dokimos.traces._otlp import Encoding
from dokimos.traces._otlp_protobuf import parse_message
from dokimos.traces._otlp_records import RecordOrigin, SpanRecord, dump_map, parse_record

MAX_SECONDS: Final = 2.0
"""CPU time that the rules may take for one span."""
SHORT_SECONDS: Final = 0.1
"""The same where they took too long repeatedly: others whose rules are slow wait for them."""
_MOST_STOPPED: Final = 3
_LATELY_SECONDS: Final = 600.0
_CHECK_SECONDS: Final = 0.5
_SAMPLE_LENGTH: Final = 1000
_Message = Literal["Span", "Resource", "InstrumentationScope", "LogRecord"]


class RedactionError(Exception):
    """The rules could not be applied in time."""


@dataclass(slots=True)
class _Draft:
    """A message whose texts may still be replaced."""

    body: bytes
    """As it was sent."""
    dump: Callable[[], bytes]
    """Returns it as it is now."""
    texts: TextSlots
    has_other_changes: bool = False

    def finish(self) -> bytes:
        return self.dump() if self.texts.is_changed or self.has_other_changes else self.body


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
        self._stopped_count = 0
        """How many messages took too long by themselves."""
        self._stopped_at = float("-inf")

    @property
    def has_patterns(self) -> bool:
        """Whether the rules take a process to apply; those with keys alone do not."""
        return bool(self._patterns)

    @property
    def is_slow(self) -> bool:
        """Whether the rules took too long within the last minutes."""
        return time.monotonic() <= self._stopped_at + _LATELY_SECONDS

    def redact_span(self, record: SpanRecord, counts: Counter[str]) -> SpanRecord:
        """Return a span without what the rules name; as `redact_spans`."""
        return self.redact_spans([record], counts)[0]

    def redact_spans(self, records: Sequence[SpanRecord], counts: Counter[str]) -> list[SpanRecord]:
        """Return spans without what the rules name, in their bodies and their origins too.

        Args:
            records: The spans, which share the time that the rules may take.
            counts: Of what was replaced in their bodies, by the names of the rules.

        Raises:
            RedactionError: It took too long.
            TraceError: One of them cannot be read.
        """
        origins = [self._origins(record.origin)[0] for record in records]
        bodies = self._redact_parts(
            "Span", [(record.body, record.origin.encoding) for record in records], counts
        )
        return [
            record if body == record.body and origin == record.origin else parse_record(body, origin)
            for record, body, origin in zip(records, bodies, origins, strict=True)
        ]

    def redact_log(self, log: SentLog, counts: Counter[str]) -> SentLog:
        """Return a log record without what the rules name; raises RedactionError."""
        origin = self._origins(log.origin)[0]
        body = self._redact_part("LogRecord", log.body, origin.encoding, counts)
        return replace(log, record=parse_sent_log(body, origin.encoding), body=body, origin=origin)

    def count_in_origin(self, origin: RecordOrigin) -> Mapping[str, int]:
        """Return how often each rule replaces something in what many spans share; raises RedactionError."""
        return self._origins(origin)[1]

    def redact_text(self, text: str) -> tuple[str, Counter[str]]:
        """Return a text as an attribute would have it, and how often each rule replaced something.

        Raises:
            RedactionError: It took too long.
        """
        counts: Counter[str] = Counter()
        return self._redact_whole(text, counts), counts

    def _redact_whole(self, text: str, counts: Counter[str]) -> str:
        result = [text]
        texts = TextSlots()
        texts.add(text, lambda new: result.__setitem__(0, new))
        self._replace([texts], counts)
        return result[0]

    def _redact_origin(self, origin: RecordOrigin) -> tuple[RecordOrigin, Mapping[str, int]]:
        counts: Counter[str] = Counter()
        return replace(
            origin,
            resource=self._redact_part("Resource", origin.resource, origin.encoding, counts),
            resource_schema_url=self._redact_whole(origin.resource_schema_url, counts),
            scope=self._redact_part("InstrumentationScope", origin.scope, origin.encoding, counts),
            schema_url=self._redact_whole(origin.schema_url, counts),
        ), counts

    def _redact_part(self, name: _Message, body: bytes, encoding: Encoding, counts: Counter[str]) -> bytes:
        return self._redact_parts(name, [(body, encoding)], counts)[0]

    def _redact_parts(
        self, name: _Message, parts: Sequence[tuple[bytes, Encoding]], counts: Counter[str]
    ) -> list[bytes]:
        own_counts: Counter[str] = Counter()
        drafts = [self._make_draft(name, body, encoding, own_counts) for body, encoding in parts]
        self._replace([draft.texts for draft in drafts], own_counts)
        for rule, number in own_counts.items():
            counts[rule] += number
        return [draft.finish() for draft in drafts]

    def _make_draft(self, name: _Message, body: bytes, encoding: Encoding, counts: Counter[str]) -> _Draft:
        """Return a message without the values of the keys that rules name, and its other texts."""
        before = counts.total()
        if encoding == "json":
            tree = json.loads(body)
            draft = _Draft(body, lambda: dump_map(tree), TextSlots())
            self._find_texts_of_json(name, tree, draft.texts, counts)
        else:
            message = parse_message(name, body)
            # Fields that this version does not know may hold texts, which nobody could look into.
            message.DiscardUnknownFields()
            draft = _Draft(body, message.SerializeToString, TextSlots())
            draft.has_other_changes = message.ByteSize() != len(body)
            self._walk_message(message, draft.texts, counts)
        draft.has_other_changes = draft.has_other_changes or counts.total() != before
        return draft

    def _replace(self, groups: Sequence[TextSlots], counts: Counter[str]) -> None:
        texts = [text for group in groups for text in group.texts]
        if not (texts and self._patterns):
            return
        pairs = [(rule.pattern or "", rule.replacement) for rule in self._patterns]
        process = slow_search_process if self.is_slow else search_process
        try:
            replaced, numbers = replace_within_limit(pairs, texts, limit=self._find_limit(), process=process)
        except EvaluationError as error:
            # Several together may take too long although each is quick enough, or one is counted next.
            self._stopped_count += len(groups) == 1
            self._stopped_at = time.monotonic()
            raise RedactionError(str(error)) from None
        for rule, number in zip(self._patterns, numbers, strict=True):
            counts[rule.name] += number
        results = iter(replaced)
        for group in groups:
            group.put(results)

    def _find_limit(self) -> float:
        """Return how long the rules may take now: shorter for some minutes after they took too long."""
        if not self.is_slow:
            self._stopped_count = 0
        return MAX_SECONDS if self._stopped_count < _MOST_STOPPED else min(SHORT_SECONDS, MAX_SECONDS)

    def _find_key_rule(self, key: object) -> RedactionRule | None:
        return next((rule for rule in self._key_rules if rule.key_pattern.fullmatch(str(key))), None)

    def _find_texts_of_json(self, name: _Message, tree: Any, texts: TextSlots, counts: Counter[str]) -> None:
        def count(rule: RedactionRule) -> None:
            counts[rule.name] += 1

        is_record = name in ("Span", "LogRecord")
        JsonTexts(texts, self._find_key_rule, count).collect(tree, is_record=is_record)

    def _walk_message(self, message: Any, texts: TextSlots, counts: Counter[str]) -> None:
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
                if node.value.WhichOneof("value") == "string_value":  # as most are
                    texts.add(node.value.string_value, partial(setattr, node.value, "string_value"))
                    continue
            for field, value in node.ListFields():
                _visit_field(node, field, value, texts, stack)


def _visit_field(node: Any, field: Any, value: Any, texts: TextSlots, stack: list[Any]) -> None:
    is_list = not isinstance(value, str | bytes) and hasattr(value, "append")
    if field.message_type is not None:
        stack.extend(value if is_list else (value,))
    elif field.type == field.TYPE_STRING and field.name != "key":
        for place, each in enumerate(value) if is_list else ():
            texts.add(each, lambda new, place=place: value.__setitem__(place, new))  # type: ignore[misc]
        if not is_list:
            texts.add(value, lambda new: setattr(node, field.name, new))
    elif field.name == "bytes_value":
        text = decode(value)
        if text is not None:
            texts.add(text, lambda new: setattr(node, field.name, new.encode()))


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
