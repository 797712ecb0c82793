"""What operators make of values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from dokimos.importers._promptfoo.nunjucks.values import (
    EnvironmentText,
    SafeText,
    TemplateRefused,
    Value,
    check_size,
    equals,
    is_nothing,
    kind,
    refuse_environment,
    sort_key,
    to_number,
    to_text,
    to_written,
)

_EXACT: Final = 2.0**53


def add(one: Value, other: Value) -> Value:
    """Return `one + other`: a sum, or texts joined."""
    if isinstance(one, EnvironmentText) or isinstance(other, EnvironmentText):
        return join_texts(one, other)
    if any(isinstance(value, str | list | dict | SafeText) for value in (one, other)):
        if any(
            isinstance(value, SafeText) and isinstance(value.text, EnvironmentText) for value in (one, other)
        ):
            return join_texts(one, other)
        return check_size(to_text(one) + to_text(other))
    return to_number(one) + to_number(other)


def join_texts(one: Value, other: Value) -> EnvironmentText:
    """Return two texts as one, at least one of which has a variable of the environment."""
    parts: list[object] = []
    for value in (one, other):
        text = to_written(value) if isinstance(value, str | SafeText | EnvironmentText) else None
        if text is None:
            raise TemplateRefused("it adds what is not a text to a variable of the environment")
        parts += [text] if isinstance(text, str) else text.parts
    return EnvironmentText(tuple(parts))  # type: ignore[arg-type]  # texts and variables, by the loop above


def divide(one: float, other: float) -> float:
    """Return `one / other`."""
    if other == 0:
        return (
            math.nan
            if one == 0 or math.isnan(one)
            else math.copysign(math.inf, one) * math.copysign(1, other)
        )
    return one / other


def remainder(one: float, other: float) -> float:
    """Return `one % other`, which has the sign of the first."""
    if math.isnan(one) or math.isnan(other) or math.isinf(one) or other == 0:
        return math.nan
    return math.fmod(one, other)


def power(one: float, other: float) -> float:
    """Return `one ** other` where both are whole, which is the same on every machine."""
    if not one.is_integer() or not other.is_integer() or other < 0:
        raise TemplateRefused("it has a power of a number that is not whole, or to one that is negative")
    found = 1.0 if other == 0 else math.inf if abs(one) > 1 and other > 64 else float(one**other)
    if abs(found) > _EXACT:
        raise TemplateRefused("it has a power that is too large")
    return found


def multiply(one: float, other: float) -> float:
    """Return `one * other`."""
    return one * other


def subtract(one: float, other: float) -> float:
    """Return `one - other`."""
    return one - other


def floor(value: float) -> float:
    """Return the whole number below."""
    return keep_sign(math.floor(value), value) if math.isfinite(value) else value


def keep_sign(result: float, value: float) -> float:
    """Return a rounded number; a zero has the sign of what was rounded, which shows when it divides."""
    return float(result) if result else math.copysign(0.0, value)


_ON_NUMBERS: Final[dict[str, Callable[[float, float], float]]] = {
    "-": subtract, "*": multiply, "/": divide, "%": remainder, "**": power,
}  # fmt: skip


def is_less(one: Value, other: Value) -> bool | None:
    """Return whether `one < other`, None where they cannot be compared."""
    if isinstance(one, str) and isinstance(other, str):
        return sort_key(one) < sort_key(other)
    left, right = to_number(one), to_number(other)
    return None if math.isnan(left) or math.isnan(right) else left < right


def is_in(one: Value, other: Value) -> bool:
    """Return whether a list has a value, a text a part, or a map a key."""
    refuse_environment(one, other)
    if isinstance(other, list):
        return any(is_same(value, one) for value in other)
    if isinstance(other, str):
        return to_text(one) in other
    if isinstance(other, dict):
        return has_key(other, to_text(one))
    raise TemplateRefused("'in' stands before what is not a list, a text or a map")


def has_key(value: dict[str, Value], key: str) -> bool:
    """Return whether a map has a key. Raises `TemplateRefused` for those that all maps of JavaScript have."""
    if key not in value and key in OBJECT_MEMBERS:
        raise TemplateRefused(f"it asks for {key!r}, which is another thing in JavaScript")
    return key in value


def is_same(one: Value, other: Value) -> bool:
    """Return whether a search in a list finds a value: one that is equal to it and of the same type."""
    if kind(one) == kind(other) == "object" and not is_nothing(one) and not is_nothing(other):
        raise TemplateRefused("it looks for a list or a map in a list")
    return equals(one, other, strict=True)


def apply(operator: str, one: Value, other: Value) -> Value:
    """Return what an operator makes of two values; `&&` and `||` are not among them."""
    match operator:
        case "+":
            return add(one, other)
        case "==" | "===":
            return equals(one, other, strict=operator == "===")
        case "!=" | "!==":
            return not equals(one, other, strict=operator == "!==")
        case "<" | ">":
            return bool(is_less(one, other) if operator == "<" else is_less(other, one))
        case "<=" | ">=":
            return (is_less(other, one) if operator == "<=" else is_less(one, other)) is False
        case "in":
            return is_in(one, other)
    return _ON_NUMBERS[operator](to_number(one), to_number(other))


OBJECT_MEMBERS: Final = frozenset(
    {
        "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString",
        "toString", "valueOf", "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__",
        "__lookupSetter__",
    }
)  # fmt: skip
"""What every object of JavaScript has."""
