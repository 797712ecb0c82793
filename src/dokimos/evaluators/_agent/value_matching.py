"""Matchers for a single argument, each written as a map: `{"fuzzy": 0.8}`, `{"range": [1, 7]}` and so on."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from dokimos._core.jsonable import text_form
from dokimos._core.patterns import search_within_limit
from dokimos._core.text import quote
from dokimos.errors import ConfigurationError
from dokimos.evaluators._agent.accepted_values import every_alternative, read_value
from dokimos.evaluators._agent.argument_values import ABSENT, AcceptedValues, Normalise, same_value
from dokimos.evaluators._edit_distance import edit_distance

ValueCheck: TypeAlias = Callable[[Any, Any], bool]
"""A function of (expected value, actual value)."""
ValueMatching: TypeAlias = ValueCheck | str | Mapping[str, Any]
"""A check, or its data form."""

FORMS: Final = (
    '"any", {"equals": VALUE}, {"one_of": [...]}, {"fuzzy": 0.8}, {"regex": PATTERN}, {"contains": TEXT},'
    ' {"range": [LOW, HIGH]}, {"within": NUMBER}, {"not": ...}, {"optional": ...}, {"any_of": [...]}, '
    '{"all_of": [...]} or a function of the expected and the actual value'
)


@dataclass(frozen=True, slots=True)
class ValueMatcher:
    """A check with what else there is to know about it."""

    check: ValueCheck
    needs_expected: bool = True
    """Whether it compares with the expected value, and so says nothing where there is none."""
    allows_absent: bool = False
    """Whether the argument may be left out."""

    def matches(self, expected: object, actual: object) -> bool:
        """Return whether the actual value will do; either may be `ABSENT`."""
        if actual is ABSENT:
            return self.allows_absent
        return bool(self.check(expected, actual))


def as_value_matcher(matching: ValueMatching, normalise: Normalise | None = None) -> ValueMatcher:
    """Return the matcher for its data form or for a function.

    Raises:
        ConfigurationError: for anything else, with the forms there are.
    """
    if matching == "any":
        return ValueMatcher(lambda expected, actual: True, needs_expected=False)
    if isinstance(matching, Mapping) and len(matching) == 1:
        ((form, content),) = matching.items()
        if form in _FORMS:
            return _FORMS[form](content, normalise)
    if callable(matching):
        return ValueMatcher(_of_alternatives(matching), needs_expected=False)
    raise ConfigurationError(f"The argument matcher {quote(matching)} is not known; expected {FORMS}.")


def _of_each(check: ValueCheck) -> ValueCheck:
    """Return a check that passes where it does with one of the accepted values."""

    def check_each(expected: object, actual: object) -> bool:
        if isinstance(expected, AcceptedValues):
            return any(check_each(value, actual) for value in expected.values)
        return bool(check(expected, actual))

    return check_each


def _of_alternatives(check: ValueCheck) -> ValueCheck:
    """Return a user's check that passes where it does with a value that the expected one stands for."""

    def check_alternatives(expected: object, actual: object) -> bool:
        return any(check(each, actual) for each in every_alternative(expected) if each is not ABSENT)

    return lambda expected, actual: (
        bool(check(expected, actual)) if expected is ABSENT else check_alternatives(expected, actual)
    )


def _equals(value: object, normalise: Normalise | None) -> ValueMatcher:
    return ValueMatcher(lambda expected, actual: same_value(value, actual, normalise), needs_expected=False)


def _one_of(values: object, normalise: Normalise | None) -> ValueMatcher:
    options = [read_value(value, "one_of") for value in _list("one_of", values)]
    return ValueMatcher(
        lambda expected, actual: any(same_value(value, actual, normalise) for value in options),
        needs_expected=False,
    )


def _fuzzy(least: Any, normalise: Normalise | None) -> ValueMatcher:
    if not _is_number(least) or not 0 <= least <= 1:
        raise ConfigurationError(f'"fuzzy" takes a similarity in 0..1, not {quote(least)}.')

    def similar(expected: Any, actual: Any) -> bool:
        if not isinstance(expected, str) or not isinstance(actual, str):
            return same_value(expected, actual, normalise)
        left, right = (text if normalise is None else normalise(text) for text in (expected, actual))
        longest = max(len(left), len(right))
        # One division, so that a similarity of exactly 0.8 reaches 0.8.
        return longest == 0 or (longest - edit_distance(left, right)) / longest >= least

    return ValueMatcher(_of_each(similar))


def _regex(pattern: object, normalise: Normalise | None) -> ValueMatcher:
    if not isinstance(pattern, str | re.Pattern) or not pattern:
        raise ConfigurationError(f'"regex" takes a pattern that is not blank, not {quote(pattern)}.')
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f'"regex" takes a pattern, not {quote(pattern)}: {error}.') from None
    return ValueMatcher(
        lambda expected, actual: search_within_limit(compiled, text_form(actual) or "") is not None,
        needs_expected=False,
    )


def _contains(content: object, normalise: Normalise | None) -> ValueMatcher:
    """An actual text contains another, or an actual list has an element."""
    if content == "":
        raise ConfigurationError('"contains" takes a text that is not blank: every text contains "".')
    # {"contains": true} is about the expected value itself.
    if content is True:
        return ValueMatcher(_of_each(lambda expected, actual: _is_in(expected, actual, normalise)))
    return ValueMatcher(lambda expected, actual: _is_in(content, actual, normalise), needs_expected=False)


def _is_in(content: object, actual: object, normalise: Normalise | None) -> bool:
    if isinstance(actual, list | tuple):
        return any(same_value(content, element, normalise) for element in actual)
    if not isinstance(actual, str) or not isinstance(content, str):
        return False
    return content in actual or (normalise is not None and normalise(content) in normalise(actual))


def _range(bounds: object, normalise: Normalise | None) -> ValueMatcher:
    ends = _list("range", bounds)
    if len(ends) != 2 or not all(end is None or _is_number(end) for end in ends) or ends == [None, None]:
        raise ConfigurationError(f'"range" takes [LOW, HIGH], one of which may be null, not {quote(bounds)}.')
    low, high = ends
    if low is not None and high is not None and low > high:
        raise ConfigurationError(f'"range" takes [LOW, HIGH]: no number is in {quote(bounds)}.')
    return ValueMatcher(
        lambda expected, actual: (
            _is_number(actual) and (low is None or low <= actual) and (high is None or actual <= high)
        ),
        needs_expected=False,
    )


def _within(tolerance: Any, normalise: Normalise | None) -> ValueMatcher:
    """At most so far from the expected number: absolute, or {"relative": share}."""
    relative = isinstance(tolerance, Mapping) and set(tolerance) == {"relative"}
    room = tolerance["relative"] if relative else tolerance
    if not _is_number(room) or room < 0:
        raise ConfigurationError(
            f'"within" takes a number of at least 0 or {{"relative": NUMBER}}, not {quote(tolerance)}.'
        )

    def near(expected: Any, actual: Any) -> bool:
        if not _is_number(expected) or not _is_number(actual):
            return same_value(expected, actual, normalise)
        return bool(abs(expected - actual) <= (room * abs(expected) if relative else room))

    return ValueMatcher(_of_each(near))


def _not(matching: Any, normalise: Normalise | None) -> ValueMatcher:
    inner = as_value_matcher(matching, normalise)
    return ValueMatcher(
        lambda expected, actual: not inner.check(expected, actual), needs_expected=inner.needs_expected
    )


def _optional(matching: Any, normalise: Normalise | None) -> ValueMatcher:
    inner = as_value_matcher(matching, normalise)
    return ValueMatcher(inner.check, inner.needs_expected, allows_absent=True)


def _any_of(matchings: object, normalise: Normalise | None) -> ValueMatcher:
    return _combine("any_of", matchings, normalise, any)


def _all_of(matchings: object, normalise: Normalise | None) -> ValueMatcher:
    return _combine("all_of", matchings, normalise, all)


def _combine(
    form: str, matchings: object, normalise: Normalise | None, join: Callable[..., bool]
) -> ValueMatcher:
    inner = [as_value_matcher(matching, normalise) for matching in _list(form, matchings)]
    return ValueMatcher(
        lambda expected, actual: join(bool(matcher.check(expected, actual)) for matcher in inner),
        needs_expected=any(matcher.needs_expected for matcher in inner),
        # As the matchers combine: "any_of" needs one that allows it, "all_of" needs all.
        allows_absent=bool(inner) and join(matcher.allows_absent for matcher in inner),
    )


def _list(form: str, value: object) -> list[Any]:
    if not isinstance(value, list | tuple) or not value:
        raise ConfigurationError(f'"{form}" takes a list that is not empty, not {quote(value)}.')
    return list(value)


def _is_number(value: object) -> bool:
    """Return whether a value is a number to compare with, which NaN is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


_FORMS: Final[dict[str, Callable[[Any, Normalise | None], ValueMatcher]]] = {
    "equals": _equals,
    "one_of": _one_of,
    "fuzzy": _fuzzy,
    "regex": _regex,
    "contains": _contains,
    "range": _range,
    "within": _within,
    "not": _not,
    "optional": _optional,
    "any_of": _any_of,
    "all_of": _all_of,
}
