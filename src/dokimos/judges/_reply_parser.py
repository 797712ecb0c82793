"""Parsing a judge's reply: which of the JSON in it is the judge's own verdict.

A judge may quote what it judges, and an attacker may write text that is meant to be quoted. So a reply that
is one JSON value and nothing else is the verdict, whatever the judged text holds. In any other reply, values
that occur in the judged text are ignored, and the rest must be readable, fit the requested shape and agree.
Otherwise there is no verdict: an earlier or a quoted one never takes its place.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

from dokimos._core.results import CONTESTED, UNREADABLE, ErrorKind
from dokimos.judges._judged_text import JudgedText
from dokimos.judges._lenient_json import Group, groups, whole_value
from dokimos.judges._reasoning import without_reasoning
from dokimos.judges._reply_schema import adapter_of, explain, schema_of

T = TypeVar("T")

REASON: Final = "reason"
_TWICE: Final = "a key is in it twice"
_BROKEN: Final = "there is JSON in it that cannot be read: cut off, or with quotes that are not escaped"
_QUOTED: Final = "the only JSON in it is quoted from the judged text"
_DIFFERENT: Final = "it gives several answers that differ"
_NOT_ALONE: Final = "it is not one JSON object alone"
_NO_JSON: Final = "there is no JSON in it"
_OTHER_JSON: Final = "the JSON in it has none of the keys that were asked for: {}"


class ParsedReply(NamedTuple, Generic[T]):
    """A judge's answer, and where it is in the reply."""

    answer: T
    start: int
    """Where the JSON of the answer begins in the text of the reply."""


class UnusableReply(ValueError):
    """A reply without a verdict that is certainly the judge's; the message says why, for the repair."""

    def __init__(self, message: str, kind: ErrorKind, *, is_misfit: bool = False) -> None:
        self.kind = kind
        self.is_misfit = is_misfit
        """Whether it has one value, which is not from the judged text, and lacks a key that was asked for."""
        super().__init__(message)


def parse_reply(
    text: str,
    shape: type[T],
    check: Callable[[T], None] | None = None,
    *,
    judged: JudgedText | None = None,
    enforced: bool = False,
) -> ParsedReply[T]:
    """Parse a reply as `shape`.

    Args:
        text: The reply.
        shape: The requested dataclass.
        check: Validates what the types cannot express, and raises `ValueError`.
        judged: What the judge was shown, and may quote.
        enforced: Whether the server enforces the shape's schema: then text around the JSON is an error.

    Raises:
        UnusableReply: with what is wrong with the reply.
    """
    form: _Form[T] = _Form(shape, check)
    judged = judged or JudgedText()
    plain, ends_reasoning = text, True
    if "<" in text:
        # A closing tag that the judge may have quoted must not blank out everything before it.
        plain, ends_reasoning = without_reasoning(text, may_begin_inside=not judged.closes_reasoning)
    # The untouched text first: a verdict alone may quote a reasoning tag in its reason.
    for spelling in (text,) if plain is text or not ends_reasoning else (text, plain):
        whole = whole_value(spelling)
        if whole is not None:
            with contextlib.suppress(ValueError):
                return form.parse(whole)
    candidates = _collect_candidates(plain, form, judged)
    if not (candidates.has_values or candidates.broken):
        return form.parse_bare(plain)
    return _select_verdict(candidates, form, enforced=enforced)


def _select_verdict(candidates: _Candidates, form: _Form[T], *, enforced: bool) -> ParsedReply[T]:
    """Return the answer on which all of the judge's own values agree."""
    kind = CONTESTED if candidates.has_values else UNREADABLE
    if candidates.broken:
        raise UnusableReply(_BROKEN, kind)
    try:
        parsed = [form.parse(group) for group in (*candidates.own, *candidates.doubtful)]
    except ValueError as problem:
        is_misfit = candidates.has_one_value and form.lacks_keys(candidates.own[0])
        raise UnusableReply(explain(problem), kind, is_misfit=is_misfit) from None
    if not candidates.own:
        raise UnusableReply(_QUOTED, kind)
    if enforced:
        raise UnusableReply(_NOT_ALONE, kind)
    first, *others = parsed
    if any(_verdict_in(other.answer) != _verdict_in(first.answer) for other in others):
        raise UnusableReply(_DIFFERENT, kind)
    # They agree on the verdict; the last one has the reason that the judge ended with.
    return parsed[len(candidates.own) - 1]


def _holds_object(value: object) -> bool:
    """Say whether a value is an object with keys, or a list that has one: `[1]` is prose."""
    if isinstance(value, list):
        return any(_holds_object(each) for each in value)
    return isinstance(value, dict) and bool(value)


def _verdict_in(answer: Any) -> Any:
    """Return an answer without its reasons, which may differ between equal verdicts."""
    return _without_reasons(asdict(answer))


def _without_reasons(tree: object) -> Any:
    if isinstance(tree, dict):
        return {key: _without_reasons(value) for key, value in tree.items() if key != REASON}
    return [_without_reasons(element) for element in tree] if isinstance(tree, list) else tree


@dataclass(frozen=True, slots=True)
class _Candidates:
    """The bracket groups of a reply that may be the answer."""

    own: tuple[Group, ...]
    """Values that do not occur in the judged text."""
    doubtful: tuple[Group, ...]
    """Values that resemble one in the judged text: not a verdict, but no verdict may contradict them."""
    quoted: bool
    """Whether there are values that occur in the judged text."""
    broken: bool
    """Whether there are unreadable groups that begin like an answer."""
    hides_values: bool
    """Whether there is a readable value inside one of those."""

    @property
    def has_values(self) -> bool:
        """Whether there is any value that could be taken for a verdict."""
        return bool(self.own or self.doubtful) or self.quoted or self.hides_values

    @property
    def has_one_value(self) -> bool:
        """Whether there is one value alone, and it is not from the judged text."""
        return len(self.own) == 1 and not (self.doubtful or self.quoted or self.broken)


def _collect_candidates(text: str, form: _Form[Any], judged: JudgedText) -> _Candidates:
    own: list[Group] = []
    doubtful: list[Group] = []
    quoted = broken = hides_values = False
    rest: list[str] = []
    position = 0
    for group in groups(text):
        rest.append(text[position : group.start])
        position = group.end
        if not group.is_readable:
            content = text[group.start : group.end]
            if not form.has_keys(content):
                continue
            if group.end < len(text) and judged.quotes(content):
                quoted = True
                continue
            broken = True
            hides_values = hides_values or _has_values(content[1:], form)
            continue
        for value in form.values_in(group):
            if judged.holds(value.value):
                quoted = True
            elif judged.resembles(value.value):
                doubtful.append(value)
            else:
                own.append(value)
    # The rest of a value that unescaped quotes have split: `", "score": 0}`.
    broken = broken or form.has_quoted_keys(" ".join([*rest, text[position:]]))
    return _Candidates(tuple(own), tuple(doubtful), quoted, broken, hides_values)


def _has_values(text: str, form: _Form[Any]) -> bool:
    return any(next(form.values_in(group), None) for group in groups(text) if group.is_readable)


class _Form(Generic[T]):
    """The requested shape, and how to find it in a reply."""

    def __init__(self, shape: Any, check: Callable[[T], None] | None) -> None:
        self._shape = shape
        self._check = check
        self._keys = _keys_of(shape)

    def parse(self, group: Group) -> ParsedReply[T]:
        """Parse a value as the shape. Raises `ValueError` if it does not fit."""
        if group.has_duplicates:
            raise ValueError(_TWICE)
        return ParsedReply(self._validate(self._as_object(group.value)), group.start)

    def parse_bare(self, text: str) -> ParsedReply[T]:
        """Parse a reply without JSON, such as `yes`, as the value of a shape's only field."""
        if len(fields(self._shape)) == 1:
            with contextlib.suppress(ValueError):
                return ParsedReply(self._validate({fields(self._shape)[0].name: text.strip()}), 0)
        if whole_value(text.strip()) is None and not any(
            _holds_object(group.value) for group in groups(text)
        ):
            raise UnusableReply(_NO_JSON, UNREADABLE)
        keys = ", ".join(f'"{field.name}"' for field in fields(self._shape))
        raise UnusableReply(_OTHER_JSON.format(keys), UNREADABLE)

    def values_in(self, group: Group) -> Iterator[Group]:
        """Yield the possible answers in a readable group; a value with none of the shape's keys is prose."""
        if isinstance(group.value, list) and not self._takes(group.value):
            for element in group.value:
                part = Group(group.start, group.end, element, has_duplicates=group.has_duplicates)
                yield from self.values_in(part)
        elif isinstance(group.value, list) or self._mentions(group.value):
            yield group

    def lacks_keys(self, group: Group) -> bool:
        """Say whether a value is a flat object that lacks a required key of the shape."""
        value = group.value
        if group.has_duplicates or not isinstance(value, dict):
            return False
        is_flat = not any(isinstance(each, dict | list) for each in value.values())
        required = schema_of(self._shape).get("required", ())
        return is_flat and any(name not in value for name in required if name != REASON)

    def has_keys(self, text: str) -> bool:
        """Say whether an unreadable text has a key of the shape."""
        return self._keys.unquoted.search(text) is not None

    def has_quoted_keys(self, text: str) -> bool:
        """Say whether a text has a key of the shape in quotes."""
        return self._keys.in_quotes.search(text) is not None

    def _takes(self, value: list[Any]) -> bool:
        """Say whether a bare list may be the answer: the shape's only field is a list. `[1]` is prose."""
        if not self._keys.list_alone:
            return False
        return any(isinstance(each, str) or self._mentions(each) for each in value)

    def _mentions(self, value: object) -> bool:
        if isinstance(value, dict):
            return any(
                str(key).casefold() in self._keys.names or self._mentions(each) for key, each in value.items()
            )
        return isinstance(value, list) and any(self._mentions(each) for each in value)

    def _as_object(self, value: Any) -> Any:
        """Return a bare list as an object whose only field is that list."""
        if isinstance(value, list) and self._keys.list_alone:
            return {fields(self._shape)[0].name: value}
        return value

    def _validate(self, value: object) -> T:
        adapter = adapter_of(self._shape)
        try:
            answer: T = adapter.validate_python(value)
        except ValueError:
            answer = adapter.validate_python(_with_empty_reasons(value, schema_of(self._shape)))
        if self._check is not None:
            self._check(answer)
        return answer


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of a shape, at all its levels."""

    names: frozenset[str]
    unquoted: re.Pattern[str]
    in_quotes: re.Pattern[str]
    list_alone: bool
    """Whether a list is the only field."""


@cache
def _keys_of(shape: object) -> _Keys:
    schema = schema_of(shape)
    names = frozenset(_property_names(schema))
    either = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    quotes = "[\"'“”‘’]"
    properties = list(schema["properties"].values())
    return _Keys(
        frozenset(name.casefold() for name in names),
        re.compile(rf"(?<![\w$-]){quotes}?(?:{either}){quotes}?\s{{0,99}}:", re.IGNORECASE),
        re.compile(rf"{quotes}(?:{either}){quotes}\s{{0,99}}:", re.IGNORECASE),
        len(properties) == 1 and properties[0].get("type") == "array",
    )


def _property_names(schema: object) -> Iterator[str]:
    if isinstance(schema, list):
        for each in schema:
            yield from _property_names(each)
    if isinstance(schema, Mapping):
        for key, each in schema.items():
            if key == "properties":
                yield from each
            yield from _property_names(list(each.values()) if key == "properties" else each)


def _with_empty_reasons(value: object, schema: Mapping[str, Any]) -> Any:
    """Return a value with an empty text for each reason that is null."""
    if isinstance(value, dict):
        properties: Mapping[str, Any] = schema.get("properties", {})
        return {
            key: ""
            if key == REASON and each is None and properties.get(key, {}).get("type") == "string"
            else _with_empty_reasons(each, properties.get(key, {}))
            for key, each in value.items()
        }
    if isinstance(value, list):
        items = schema.get("items")
        return [_with_empty_reasons(each, items) for each in value] if isinstance(items, Mapping) else value
    return value
