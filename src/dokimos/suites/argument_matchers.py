"""What a suite says about one argument of a tool call, read into a check."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from dokimos.core.patterns import search_within_limit
from dokimos.core.text import format_list, quote
from dokimos.errors import ConfigurationError
from dokimos.evaluators.agent.accepted_values import ONE_OF, OPTIONAL, read_value
from dokimos.evaluators.agent.argument_values import same_value
from dokimos.evaluators.agent.value_matching import as_value_matcher

Check: TypeAlias = Callable[[Any], bool]
"""Says whether the value that an agent gave will do."""

FORMS: Final = ("fuzzy", "regex", "contains", "range", "not", "literal")
CLOSE: Final = 1e-9
_DROPPED: Final = str.maketrans("", "", ",_\u202f")


def argument_check(wanted: Any) -> Check:
    """Return the check for a literal value or a matcher such as `{fuzzy: "60.94"}`.

    A map with one of the forms as its only key is a matcher; `{literal: ...}` says that it is not. Of
    `{one_of: [...]}` each entry is a value or a matcher; inside a value it holds values.

    Raises:
        ConfigurationError: for a matcher whose content is of the wrong kind.
    """
    if may_be_absent(wanted):
        return argument_check(wanted[OPTIONAL])
    if _is_one_of(wanted):
        return _one_of(wanted[ONE_OF])
    if not isinstance(wanted, Mapping) or not set(wanted) & set(FORMS):
        value = read_value(wanted, "the value")
        return lambda actual: same_value(value, actual)
    if len(wanted) != 1:
        keys = ", ".join(sorted(map(str, wanted)))
        raise ConfigurationError(
            f"a matcher has one key, not {keys}; a value that looks like one goes under literal."
        )
    ((form, content),) = wanted.items()
    return _MAKERS[form](content)


def may_be_absent(wanted: Any) -> bool:
    """Say whether an argument may be left out: it is `{optional: ...}` around a matcher."""
    if not isinstance(wanted, Mapping) or wanted.keys() != {OPTIONAL}:
        return False
    inner = wanted[OPTIONAL]
    return isinstance(inner, Mapping) and len(inner) == 1 and not {*FORMS, ONE_OF}.isdisjoint(inner)


def describe_wanted(wanted: Any) -> str:
    """Return what is expected of an argument as it stands in a reason."""
    if may_be_absent(wanted):
        return f"{describe_wanted(wanted[OPTIONAL])} or nothing"
    return f"one of {format_list(wanted[ONE_OF])}" if _is_one_of(wanted) else quote(wanted)


def hint_literal(wanted: Any, given: Any) -> str:
    """Return a clause for a reason where an agent gave the very map that was read as a matcher, else ""."""
    return "; a value that looks like a matcher goes under literal" if same_value(wanted, given) else ""


def _is_one_of(wanted: Any) -> bool:
    return isinstance(wanted, Mapping) and wanted.keys() == {ONE_OF}


def _one_of(content: Any) -> Check:
    if not isinstance(content, list) or not content:
        raise ConfigurationError(
            f"one_of takes a list of accepted values that is not empty, not {quote(content)}; a value that "
            "looks like it goes under literal."
        )
    if any(map(may_be_absent, content)):
        raise ConfigurationError("optional goes around one_of, not into it: {optional: {one_of: [...]}}.")
    checks = [argument_check(each) for each in content]
    return lambda actual: any(check(actual) for check in checks)


def _literal(content: Any) -> Check:
    return lambda actual: same_value(content, actual)


def _fuzzy(content: Any) -> Check:
    if not isinstance(content, str):
        raise ConfigurationError(f"fuzzy takes a text, not {quote(content)}; put it in quotes.")
    expected = _plain(content)
    return lambda actual: _alike(expected, _plain(str(actual)))


def _regex(content: Any) -> Check:
    if not isinstance(content, str):
        raise ConfigurationError(f"regex takes a pattern as text, not {quote(content)}.")
    try:
        pattern = re.compile(content)
    except re.error as error:
        raise ConfigurationError(f"regex {quote(content)} is not a regular expression: {error}.") from None
    return lambda actual: search_within_limit(pattern, str(actual), whole=True) is not None


def _ready_made(form: str) -> Callable[[Any], Check]:
    def make(content: Any) -> Check:
        matcher = as_value_matcher({form: content})
        return lambda actual: matcher.matches(None, actual)

    return make


def _not(content: Any) -> Check:
    inner = argument_check(content)
    return lambda actual: not inner(actual)


_MAKERS: Final[dict[str, Callable[[Any], Check]]] = {
    "literal": _literal,
    "fuzzy": _fuzzy,
    "regex": _regex,
    "contains": _ready_made("contains"),
    "range": _ready_made("range"),
    "not": _not,
}


def _plain(text: str) -> str:
    return " ".join(text.strip().lower().translate(_DROPPED).split())


def _alike(expected: str, actual: str) -> bool:
    wanted, given = _number(expected), _number(actual)
    if wanted is not None and given is not None:
        return wanted == given or abs(wanted - given) <= CLOSE
    return expected == actual


def _number(text: str) -> float | None:
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%").replace(" ", ""))
    except ValueError:
        return None
    return number / 100 if percent else number
