"""What a rule is held against: the name and the attributes of a span, with AND and OR."""

from __future__ import annotations

import fnmatch
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from dokimos._core.patterns import search_within_limit
from dokimos.errors import EvaluationError
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.traces.attribute_hashes import write_value

_LOGGER: Final = logging.getLogger("dokimos.server")
MAX_DEPTH: Final = 5
MAX_CONDITIONS: Final = 50
_MAX_TEXT: Final = 10_000
"""Characters of a value that a pattern is searched in."""
_MOST_STOPPED: Final = 3
_REST_SECONDS: Final = 600.0
_MOST_NOTED: Final = 1000


class MatchType(StrEnum):
    """How a condition compares."""

    SPAN_NAME = "SPAN_NAME"
    """The name of the span is the value."""
    ATTRIBUTE = "ATTRIBUTE"
    """An attribute is, as text."""
    WILDCARD = "WILDCARD"
    """The name, or the attribute that is named, fits a value with `*` and `?`."""
    PATTERN = "PATTERN"
    """A regular expression is found in it."""


@dataclass(frozen=True, slots=True)
class SpanFacts:
    """What conditions know of a span."""

    name: str
    attributes: Mapping[str, Any]
    """Those of its resource and its own, which win."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of one value of a span."""

    type: MatchType
    value: str
    key: str | None = None

    def holds(self, span: SpanFacts) -> bool:
        """Say whether a span fulfils it; exact, and upper and lower case are different."""
        if self.type is MatchType.SPAN_NAME or self.key is None:
            text = span.name
        elif self.key in span.attributes:
            text = write_value(span.attributes[self.key])
        else:
            return False
        if self.type in (MatchType.SPAN_NAME, MatchType.ATTRIBUTE):
            return text == self.value
        if self.type is MatchType.WILDCARD:
            return _compile_wildcard(self.value).fullmatch(text) is not None
        return _search(self.value, text)

    @property
    def needs_attributes(self) -> bool:
        """Whether the name of a span is not enough."""
        return self.type is not MatchType.SPAN_NAME and self.key is not None


@dataclass(frozen=True, slots=True)
class AllOf:
    """Conditions that must all hold."""

    parts: tuple[AnyCondition, ...]

    def holds(self, span: SpanFacts) -> bool:
        return all(part.holds(span) for part in self.parts)

    @property
    def needs_attributes(self) -> bool:
        return any(part.needs_attributes for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Conditions of which one must hold."""

    parts: tuple[AnyCondition, ...]

    def holds(self, span: SpanFacts) -> bool:
        return any(part.holds(span) for part in self.parts)

    @property
    def needs_attributes(self) -> bool:
        return any(part.needs_attributes for part in self.parts)


AnyCondition = Condition | AllOf | AnyOf


def parse_conditions(value: Any, field: str) -> AnyCondition:
    """Return the conditions of JSON such as `{"any": [{"matchType": "SPAN_NAME", "matchValue": "chat"}]}`.

    Raises:
        InvalidRequestError: They say nothing that a span could be compared with.
    """
    return _parse(value, field, 1, [0])


def _parse(value: Any, field: str, depth: int, count: list[int]) -> AnyCondition:
    count[0] += 1
    if depth > MAX_DEPTH or count[0] > MAX_CONDITIONS:
        raise InvalidRequestError(
            f"has more than {MAX_CONDITIONS} conditions or {MAX_DEPTH} levels", field=field
        )
    if not isinstance(value, dict):
        raise InvalidRequestError("must be an object", field=field)
    for key, combine in (("all", AllOf), ("any", AnyOf)):
        if key in value:
            parts = value[key]
            if len(value) != 1 or not isinstance(parts, list) or not parts:
                raise InvalidRequestError(f"must be nothing but a list of conditions in '{key}'", field=field)
            return combine(
                tuple(
                    _parse(part, f"{field}.{key}[{place}]", depth + 1, count)
                    for place, part in enumerate(parts)
                )
            )
    unknown = sorted(set(value) - {"matchType", "matchKey", "matchValue"})
    if unknown:
        raise InvalidRequestError("is unknown", field=f"{field}.{str(unknown[0])[:80]}")
    return parse_condition(
        value.get("matchType"), value.get("matchKey"), value.get("matchValue"), f"{field}."
    )


def parse_condition(match_type: Any, key: Any, value: Any, prefix: str = "") -> Condition:
    """Return a condition of its three fields; the key of one that compares the name is dropped.

    Raises:
        InvalidRequestError: One of them is missing or cannot be used.
    """
    if match_type not in list(MatchType):
        raise InvalidRequestError(f"must be one of {', '.join(MatchType)}", field=f"{prefix}matchType")
    kind = MatchType(match_type)
    if key is not None and not isinstance(key, str):
        raise InvalidRequestError("must be a text", field=f"{prefix}matchKey")
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequestError("must not be blank", field=f"{prefix}matchValue")
    if kind is MatchType.ATTRIBUTE and not (key or "").strip():
        raise InvalidRequestError("must not be blank for ATTRIBUTE", field=f"{prefix}matchKey")
    if kind is MatchType.PATTERN:
        try:
            re.compile(value)
        except (re.error, RecursionError, OverflowError) as error:
            raise InvalidRequestError(
                f"is not a regular expression: {error}", field=f"{prefix}matchValue"
            ) from None
    has_key = kind is not MatchType.SPAN_NAME and bool((key or "").strip())
    return Condition(kind, value, key if has_key else None)


@lru_cache(maxsize=512)
def _compile_wildcard(value: str) -> re.Pattern[str]:
    # Brackets mean nothing here. What `fnmatch` makes of stars does not backtrack.
    return re.compile(fnmatch.translate(value.replace("[", "[[]")))


@lru_cache(maxsize=512)
def _compile(value: str) -> re.Pattern[str]:
    return re.compile(value)


class SlowPatterns:
    """Patterns that took too long again and again: they match nothing for a while, so that others get on.

    All rules of all projects are held against spans one after another.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stopped: dict[str, tuple[int, float]] = {}
        """How often the search for a pattern was stopped lately, and when that was last."""

    def is_resting(self, pattern: str) -> bool:
        """Whether a pattern is not searched for now."""
        count, at = self._stopped.get(pattern, (0, 0.0))
        return count >= _MOST_STOPPED and self._clock() < at + _REST_SECONDS

    def note(self, pattern: str) -> None:
        """Note that a search was stopped. One stop more is enough for a pattern that has rested before."""
        count, at = self._stopped.get(pattern, (0, 0.0))
        moment = self._clock()
        is_lately = moment < at + 2 * _REST_SECONDS
        if len(self._stopped) >= _MOST_NOTED:
            self._stopped.clear()
        self._stopped[pattern] = (count + 1 if is_lately else 1, moment)
        if self.is_resting(pattern):
            _LOGGER.warning(
                "The pattern %r matches nothing for %g minutes: it took too long %d times.",
                pattern[:80],
                _REST_SECONDS / 60,
                count + 1,
            )


SLOW: Final = SlowPatterns()


def _search(pattern: str, text: str) -> bool:
    if SLOW.is_resting(pattern):
        return False
    try:
        return search_within_limit(_compile(pattern), text[:_MAX_TEXT]) is not None
    except EvaluationError as error:
        _LOGGER.warning("A rule did not match a span: %s", error)
        SLOW.note(pattern)
        return False
