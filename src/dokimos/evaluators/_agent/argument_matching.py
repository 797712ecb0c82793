"""Match the arguments of a tool call with the expected ones.

Any function of (expected arguments, actual arguments) that gives a bool is a matcher; `ArgumentMatcher` is
the ready-made one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, get_args

from dokimos._core.jsonable import text_form
from dokimos._core.text import quote
from dokimos.errors import ConfigurationError
from dokimos.evaluators._agent.accepted_values import describe_expected, hint_literal, read_values
from dokimos.evaluators._agent.argument_values import (
    ABSENT,
    AcceptedValues,
    Normalise,
    contains_entries,
    is_contained,
    same_mapping,
    value_key,
)
from dokimos.evaluators._agent.value_matching import (
    ValueMatcher,
    ValueMatching,
    as_value_matcher,
)
from dokimos.evaluators._import_string import import_object
from dokimos.evaluators._setting_checks import check_option

Arguments: TypeAlias = Mapping[str, Any]
ArgumentMode: TypeAlias = Literal[
    "exact", "expected_in_actual", "actual_in_expected", "subset", "superset", "ignore"
]
ArgumentCheck: TypeAlias = Callable[[Arguments, Arguments], bool]
"""A function of (expected arguments, actual arguments)."""
ArgumentMatching: TypeAlias = ArgumentCheck | str | Mapping[str, Any]
"""A check, or its data form: a mode, a map of the fields of `ArgumentMatcher`, or `module:function`."""

MODES: Final = get_args(ArgumentMode)
CANONICAL_MODES: Final[dict[str, ArgumentMode]] = {
    "expected_in_actual": "subset",
    "actual_in_expected": "superset",
}
"""The older words for two modes; "subset" and "superset" of a trajectory mean the opposite."""

ARGUMENTS_SCHEMA: Final[dict[str, Any]] = {
    "oneOf": [
        {"enum": list(MODES)},
        {"type": "string", "pattern": r"^[\w.]+:[\w.]+$"},
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "mode": {"enum": list(MODES)},
                "trim_strings": {"type": "boolean"},
                "ignore_case": {"type": "boolean"},
                "arguments": {"type": "object"},
            },
        },
    ]
}


@dataclass(frozen=True)
class ArgumentMatcher:
    """Compares arguments by their structure: 1 equals 1.0, and texts are equal only if every character is.

    Maps inside the arguments have the same keys whatever the mode; lists are in the same order.

    Example:
        >>> matcher = ArgumentMatcher("expected_in_actual", arguments={"city": {"fuzzy": 0.8}})
        >>> matcher({"city": "Zurich", "nights": 2}, {"city": "Zürich", "nights": 2, "pets": False})
        True
    """

    mode: ArgumentMode = "exact"
    """"exact": the same arguments; "expected_in_actual" (also "subset"): at least those expected;
    "actual_in_expected" (also "superset"): none but those expected; "ignore": any."""
    _: KW_ONLY
    trim_strings: bool = False
    """Strip white space from both ends of texts."""
    ignore_case: bool = False
    """Ignore upper and lower case in texts."""
    arguments: Mapping[str, ValueMatching] = field(default_factory=dict)
    """Matchers for single arguments by name, such as {"city": {"fuzzy": 0.8}, "nights": {"range": [1, 7]}};
    the mode goes for the others."""

    def __post_init__(self) -> None:
        check_option(self, "mode", self.mode, MODES)
        if not isinstance(self.arguments, Mapping):
            raise ConfigurationError(
                f"ArgumentMatcher: arguments must be a map of argument names, not {quote(self.arguments)}."
            )
        _ = self._matchers  # validates now, not at the first case

    def __call__(self, expected: Arguments, actual: Arguments) -> bool:
        """Return whether the actual arguments match; the expected ones may hold accepted values as data."""
        return self.compare(read_values(expected), actual)

    def compare(self, expected: Arguments, actual: Arguments) -> bool:
        """Return whether the arguments match, where accepted values have been parsed already."""
        if self._matchers:
            return self._with_matchers(expected, actual)
        if self.mode == "exact":
            return same_mapping(expected, actual, self._normalise)
        return self._by_mode(expected, actual)

    def explain(self, expected: Arguments, actual: Arguments) -> list[str]:
        """Return what is wrong with each argument that is not as expected; none where all are."""
        names = dict.fromkeys((*self._matchers, *expected, *actual))
        return [
            self._fault(name, expected, actual) for name in names if not self._fits(name, expected, actual)
        ]

    @property
    def names_only(self) -> bool:
        """Whether any arguments match."""
        return self.mode == "ignore" and not self.arguments

    def key(self, arguments: Arguments) -> Hashable:
        """Return a key that two arguments share exactly if they match; None where both must be compared.

        Raises `TypeError` for values that have no such key.
        """
        if self.mode != "exact" or self._matchers:
            return None
        return value_key(arguments, self._normalise)

    @cached_property
    def identity(self) -> str:
        """The data form as text, the same from run to run."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        # Two words for one mode must not look like two configurations.
        values["mode"] = self._canonical_mode
        values["arguments"] = {
            name: _describe_matching(matching) for name, matching in self.arguments.items()
        }
        return text_form(values) or ""

    def _by_mode(self, expected: Arguments, actual: Arguments) -> bool:
        mode = self._canonical_mode
        if mode == "ignore":
            return True
        if mode == "subset":
            return contains_entries(actual, expected, self._normalise)
        if mode == "superset":
            return is_contained(actual, expected, self._normalise)
        return same_mapping(expected, actual, self._normalise)

    def _with_matchers(self, expected: Arguments, actual: Arguments) -> bool:
        matched_names = set()
        for name, matcher in self._matchers.items():
            expected_value, actual_value = expected.get(name, ABSENT), actual.get(name, ABSENT)
            # Nothing to compare with: the mode decides whether the argument may be there.
            if expected_value is ABSENT and matcher.needs_expected:
                continue
            matched_names.add(name)
            if not self._suits(matcher, expected_value, actual_value):
                return False
        return self._by_mode(_without(expected, matched_names), _without(actual, matched_names))

    def _suits(self, matcher: ValueMatcher, expected_value: object, actual_value: object) -> bool:
        may_be_absent = self._canonical_mode == "superset" or (
            isinstance(expected_value, AcceptedValues) and expected_value.may_be_absent
        )
        return (actual_value is ABSENT and may_be_absent) or matcher.matches(expected_value, actual_value)

    def _fits(self, name: str, expected: Arguments, actual: Arguments) -> bool:
        matcher = self._matchers.get(name)
        if matcher is not None and (name in expected or not matcher.needs_expected):
            return self._suits(matcher, expected.get(name, ABSENT), actual.get(name, ABSENT))
        return self._by_mode(_only(expected, name), _only(actual, name))

    def _fault(self, name: str, expected: Arguments, actual: Arguments) -> str:
        if name not in actual:
            return f"{name} is missing"
        if name not in expected and name not in self._matchers:
            return f"{name} is not expected"
        expectation = describe_expected(expected[name]) if name in expected else ""
        if name in self._matchers:
            form = quote(_describe_matching(self.arguments[name]))
            expectation = (
                f"{form} of {expectation}" if expectation and self._matchers[name].needs_expected else form
            )
        hint = hint_literal(expected.get(name, ABSENT), actual[name])
        return f"{name} is {quote(actual[name])}, expected {expectation}{hint}"

    @property
    def _canonical_mode(self) -> ArgumentMode:
        return CANONICAL_MODES.get(self.mode, self.mode)

    @cached_property
    def _normalise(self) -> Normalise | None:
        if self.trim_strings and self.ignore_case:
            return lambda text: text.strip().casefold()
        if self.trim_strings:
            return str.strip
        return str.casefold if self.ignore_case else None

    @cached_property
    def _matchers(self) -> dict[str, ValueMatcher]:
        return {name: as_value_matcher(each, self._normalise) for name, each in self.arguments.items()}


def as_argument_check(matching: ArgumentMatching) -> ArgumentCheck:
    """Return the check for its data form; a function is one already.

    Raises:
        ConfigurationError: for anything else, with the forms there are.
    """
    if isinstance(matching, str) and matching in MODES:
        return ArgumentMatcher(matching)  # type: ignore[arg-type] # it is one of the modes
    if isinstance(matching, str) and ":" in matching:
        return _require_sync_function(import_object(matching, "The argument matcher"))
    if isinstance(matching, Mapping):
        return _from_map(matching)
    if callable(matching):
        return _require_sync_function(matching)
    raise ConfigurationError(
        f"The argument matcher {quote(matching)} is not known; expected {', '.join(map(repr, MODES))}, a "
        "map with mode, trim_strings, ignore_case and arguments, module:function, or a function of the "
        "expected and the actual arguments."
    )


def with_canonical_modes(matching: object) -> Any:
    """Return the data form of a check with the canonical names of its modes; anything else as it is."""
    if isinstance(matching, str):
        return CANONICAL_MODES.get(matching, matching)
    if isinstance(matching, Mapping) and matching.get("mode") in CANONICAL_MODES:
        return {**matching, "mode": CANONICAL_MODES[matching["mode"]]}
    return matching


def ignores_arguments(check: ArgumentCheck) -> bool:
    """Return whether a check lets any arguments pass."""
    return isinstance(check, ArgumentMatcher) and check.names_only


def _from_map(options: Mapping[str, Any]) -> ArgumentMatcher:
    option_names = {f.name for f in fields(ArgumentMatcher)}
    unknown = sorted(str(key) for key in options if key not in option_names)
    if unknown:
        allowed = ", ".join(sorted(option_names))
        raise ConfigurationError(f"An argument matcher has no option {unknown[0]!r}; it has {allowed}.")
    return ArgumentMatcher(**options)


def _require_sync_function(check: object) -> ArgumentCheck:
    if not callable(check) or isinstance(check, type):
        raise ConfigurationError(f"An argument matcher must be a function, not {quote(check)}.")
    if inspect.iscoroutinefunction(check):
        raise ConfigurationError("An argument matcher must not be async; declare it with def.")
    checked: ArgumentCheck = check
    return checked


def _without(arguments: Arguments, names: set[str]) -> Arguments:
    return {name: value for name, value in arguments.items() if name not in names}


def _only(arguments: Arguments, name: str) -> Arguments:
    return {name: arguments[name]} if name in arguments else {}


def _describe_matching(matching: ValueMatching) -> Any:
    if callable(matching):
        return f"{getattr(matching, '__module__', '?')}:{getattr(matching, '__qualname__', '?')}"
    return matching
