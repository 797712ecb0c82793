"""Compare two values as arguments of a tool: numbers by value, everything else exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from dokimos._core.jsonable import jsonable

Normalise: TypeAlias = Callable[[str], str]
"""What is done to two texts before they are compared."""


class _Absent:
    """The type of `ABSENT`."""

    def __repr__(self) -> str:
        return "<absent>"


ABSENT: Final = _Absent()
"""Stands for the value of an argument that is not there."""


@dataclass(frozen=True, slots=True, eq=False)
class AcceptedValues:
    """Stands in an expected value for several that are accepted; equal to nothing but by `same_value`."""

    values: tuple[Any, ...]
    may_be_absent: bool = False
    """Whether the argument, or the key of a map, may also be left out."""

    def accept(self, actual: object, normalise: Normalise | None = None) -> bool:
        """Return whether an actual value, or `ABSENT`, is accepted."""
        if actual is ABSENT:
            return self.may_be_absent
        return any(same_value(each, actual, normalise) for each in self.values)


_NUMBERS: Final = frozenset({int, float, Decimal})
_PLAIN: Final = frozenset({str, bool, type(None), dict, list, _Absent}) | _NUMBERS
_WITHOUT_KEY: Final = _PLAIN | {AcceptedValues}
"""Kinds that `value_key` has no key for, once it has seen to those that it has one for."""
_OWN_KEY: Final = frozenset({str, int, float, type(None)})
"""Kinds whose values are keys themselves: 1 and 1.0 are equal and share a hash."""
_SIMPLE: Final = frozenset({str, int, float, bool, type(None)})


def same_value(expected: Any, actual: Any, normalise: Normalise | None = None) -> bool:
    """Return whether two values are the same.

    1 equals 1.0 but neither "1" nor True; NaN equals NaN; lists are ordered; maps have the same keys at every
    level; None equals only None. `normalise`, where given, is applied to both of two texts. `AcceptedValues`
    anywhere in the expected value are the same as each of their values.
    """
    if expected is actual:
        return True
    kind, other = type(expected), type(actual)
    if kind is str and other is str:
        return expected == actual or (normalise is not None and normalise(expected) == normalise(actual))
    if kind in _NUMBERS and other in _NUMBERS:
        return _same_number(expected, actual)
    if kind is dict and other is dict:
        return same_mapping(expected, actual, normalise)
    if kind is list and other is list:
        return len(expected) == len(actual) and all(
            same_value(left, right, normalise) for left, right in zip(expected, actual, strict=True)
        )
    if kind is AcceptedValues:
        accepted: AcceptedValues = expected
        return accepted.accept(actual, normalise)
    if kind in _PLAIN and other in _PLAIN:
        return False
    return same_value(_plain(expected), _plain(actual), normalise)


def same_mapping(
    expected: Mapping[str, Any], actual: Mapping[str, Any], normalise: Normalise | None = None
) -> bool:
    """Return whether two maps have the same keys, and the same value under each."""
    if len(expected) < len(actual):
        return False
    try:
        # A fast comparison, which is true only for equal values, apart from True and 1.
        if type(expected) is type(actual) is dict and expected == actual:
            return _agree_in_bools(expected, actual)
    except Exception:  # values of somebody else's, such as arrays
        return _same_entries(expected, actual, normalise)
    return _same_entries(expected, actual, normalise)


def _same_entries(
    expected: Mapping[str, Any], actual: Mapping[str, Any], normalise: Normalise | None
) -> bool:
    omitted = 0
    for key, value in expected.items():
        other = actual.get(key, ABSENT)
        if value is not other and not same_value(value, other, normalise):
            return False
        if other is ABSENT:
            omitted += 1
    return len(expected) - omitted == len(actual)


def value_key(value: Any, normalise: Normalise | None = None) -> Hashable:
    """Return what is equal for two values exactly where `same_value` says that they are the same.

    Raises `TypeError` for a value with a `Decimal` or `AcceptedValues` in it, which may equal two that differ
    from each other.
    """
    kind = type(value)
    if kind is str and normalise is not None:
        return normalise(value)
    if kind is float and math.isnan(value):
        return float, "nan"
    if kind in _OWN_KEY:
        plain: Hashable = value
        return plain
    # True and 1 are equal in Python, and would share a key.
    if kind is bool:
        return bool, value
    if kind is dict:
        return dict, frozenset([(key, value_key(each, normalise)) for key, each in value.items()])
    if kind is list:
        return list, tuple([value_key(each, normalise) for each in value])
    if kind in _WITHOUT_KEY:
        raise TypeError(f"A {kind.__name__} has no key.")
    return value_key(_plain(value), normalise)


def contains_entries(
    whole: Mapping[str, Any], part: Mapping[str, Any], normalise: Normalise | None = None
) -> bool:
    """Return whether a map has every entry of another; only the keys of the first level may be more."""
    return all(same_value(value, whole.get(key, ABSENT), normalise) for key, value in part.items())


def is_contained(
    part: Mapping[str, Any], whole: Mapping[str, Any], normalise: Normalise | None = None
) -> bool:
    """Return whether every entry of a map is one that another expects; some of those may be missing."""
    return all(same_value(whole.get(key, ABSENT), value, normalise) for key, value in part.items())


def _agree_in_bools(expected: Any, actual: Any) -> bool:
    """Say of two equal maps or lists that neither has True or False where the other has 1 or 0."""
    if type(expected) is dict:
        for key, value in expected.items():
            kind = type(value)
            if kind is not str and not _agree_in_kind(kind, value, actual[key]):
                return False
        return True
    for value, other in zip(expected, actual, strict=True):
        kind = type(value)
        if kind is not str and not _agree_in_kind(kind, value, other):
            return False
    return True


def _agree_in_kind(kind: type, expected: object, actual: object) -> bool:
    if kind is not type(actual):
        return same_value(expected, actual)
    if kind is dict or kind is list:
        return _agree_in_bools(expected, actual)
    return kind in _SIMPLE or same_value(expected, actual)


def _same_number(expected: object, actual: object) -> bool:
    if expected == actual:
        return True
    if type(expected) is type(actual) is float:
        return math.isnan(expected) and math.isnan(actual)
    if type(expected) is Decimal and type(actual) is float:
        # Through repr: the float 0.1 is meant as 0.1, not as the binary fraction next to it.
        return expected == Decimal(repr(actual))
    if type(expected) is float and type(actual) is Decimal:
        return Decimal(repr(expected)) == actual
    return False


def _plain(value: object) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, tuple) and not hasattr(value, "_asdict"):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    return jsonable(value)
