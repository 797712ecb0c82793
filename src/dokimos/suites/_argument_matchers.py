"""What a suite says about one argument of a tool call, read into a check."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from dokimos._core.patterns import search_within_limit
from dokimos._core.text import format_list, quote
from dokimos.errors import ConfigurationError
from dokimos.evaluators._agent.accepted_values import ONE_OF, OPTIONAL, read_value
from dokimos.evaluators._agent.argument_values import same_value
from dokimos.evaluators._agent.value_matching import as_value_matcher

Check: TypeAlias = Callable[[Any], bool]
"""Says whether the value that an agent gave will do."""

FORMS: Final = ("fuzzy", "regex", "contains", "range", "not", "literal")
CLOSE: Final = 1e-9
# Thousands separators: 1,234, 1_234 and, in French, 1 234 with a narrow no-break space.
_DROPPED: Final = str.maketrans("", "", ",_\u202f")


def build_argument_check(expected: Any) -> Check:
    """Return the check for a literal value or a matcher such as `{fuzzy: "60.94"}`.

    A map with one of the forms as its only key is a matcher; `{literal: ...}` says that it is not. Of
    `{one_of: [...]}` each entry is a value or a matcher; inside a value it holds values.

    Raises:
        ConfigurationError: for a matcher whose content is of the wrong kind.
    """
    if may_be_absent(expected):
        return build_argument_check(expected[OPTIONAL])
    if _is_one_of(expected):
        return _any_of(expected[ONE_OF])
    if not isinstance(expected, Mapping) or not set(expected) & set(FORMS):
        value = read_value(expected, "the value")
        return lambda actual: same_value(value, actual)
    if len(expected) != 1:
        keys = ", ".join(sorted(map(str, expected)))
        raise ConfigurationError(
            f"a matcher has one key, not {keys}; a value that looks like one goes under literal."
        )
    ((form, content),) = expected.items()
    return _MAKERS[form](content)


def may_be_absent(expected: object) -> bool:
    """Say whether an argument may be left out: it is `{optional: ...}` around a matcher."""
    if not isinstance(expected, Mapping) or expected.keys() != {OPTIONAL}:
        return False
    inner = expected[OPTIONAL]
    return isinstance(inner, Mapping) and len(inner) == 1 and not {*FORMS, ONE_OF}.isdisjoint(inner)


def describe_expected_value(expected: Any) -> str:
    """Return what is expected of an argument as it stands in a reason."""
    if may_be_absent(expected):
        return f"{describe_expected_value(expected[OPTIONAL])} or nothing"
    return f"one of {format_list(expected[ONE_OF])}" if _is_one_of(expected) else quote(expected)


def hint_literal(expected: object, actual: object) -> str:
    """Return a clause for a reason where an agent gave the very map that was read as a matcher, else ""."""
    return "; a value that looks like a matcher goes under literal" if same_value(expected, actual) else ""


def _is_one_of(expected: object) -> bool:
    return isinstance(expected, Mapping) and expected.keys() == {ONE_OF}


def _any_of(content: object) -> Check:
    if not isinstance(content, list) or not content:
        raise ConfigurationError(
            f"one_of takes a list of one accepted value or more, not {quote(content)}; a value that looks "
            "like a matcher goes under literal."
        )
    if any(map(may_be_absent, content)):
        raise ConfigurationError("optional goes around one_of, not into it: {optional: {one_of: [...]}}.")
    checks = [build_argument_check(each) for each in content]
    return lambda actual: any(check(actual) for check in checks)


def _literal(content: object) -> Check:
    return lambda actual: same_value(content, actual)


def _fuzzy(content: object) -> Check:
    if not isinstance(content, str):
        raise ConfigurationError(f"fuzzy takes a text, not {quote(content)}; put it in quotes.")
    expected = _normalize(content)
    return lambda actual: _equals_loosely(expected, _normalize(str(actual)))


def _regex(content: object) -> Check:
    if not isinstance(content, str):
        raise ConfigurationError(f"regex takes a pattern as text, not {quote(content)}.")
    try:
        pattern = re.compile(content)
    except re.error as error:
        raise ConfigurationError(f"regex {quote(content)} is not a regular expression: {error}.") from None
    # With a time limit: agents may give texts on which a pattern backtracks for hours.
    return lambda actual: search_within_limit(pattern, str(actual), whole=True) is not None


def _value_matcher(form: str) -> Callable[[Any], Check]:
    def make(content: object) -> Check:
        matcher = as_value_matcher({form: content})
        return lambda actual: matcher.matches(None, actual)

    return make


def _not(content: object) -> Check:
    inner = build_argument_check(content)
    return lambda actual: not inner(actual)


_MAKERS: Final[dict[str, Callable[[Any], Check]]] = {
    "literal": _literal,
    "fuzzy": _fuzzy,
    "regex": _regex,
    "contains": _value_matcher("contains"),
    "range": _value_matcher("range"),
    "not": _not,
}


def _normalize(text: str) -> str:
    return " ".join(text.strip().lower().translate(_DROPPED).split())


def _equals_loosely(expected: str, actual: str) -> bool:
    expected_number, actual_number = _parse_number(expected), _parse_number(actual)
    if expected_number is not None and actual_number is not None:
        # == as well, since inf - inf is NaN. CLOSE is for percentages, whose division may round the last bit.
        return expected_number == actual_number or abs(expected_number - actual_number) <= CLOSE
    return expected == actual


def _parse_number(text: str) -> float | None:
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%").replace(" ", ""))
    except ValueError:
        return None
    return number / 100 if percent else number
