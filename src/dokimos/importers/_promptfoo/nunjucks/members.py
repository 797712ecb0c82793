"""What `value.name` and `value[key]` are, and the methods that templates call."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any, Final

from dokimos.importers._promptfoo.nunjucks.operators import OBJECT_MEMBERS, has_key, is_same
from dokimos.importers._promptfoo.nunjucks.values import (
    UNDEFINED,
    Environment,
    EnvironmentText,
    Function,
    SafeText,
    TemplateRefused,
    Value,
    Variable,
    check_size,
    is_index,
    is_nothing,
    kind,
    length,
    number_text,
    refuse_environment,
    to_text,
    trim,
    units,
)

_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def find_member(value: Value, key: Value) -> Value:
    """Return a member of a value, UNDEFINED where there is none."""
    if is_nothing(value):
        return UNDEFINED
    name = _key(key)
    if isinstance(value, Environment):
        if _VARIABLE.fullmatch(name) is None:
            raise TemplateRefused(f"{name!r:.40} cannot be the name of a variable of the environment")
        return EnvironmentText((Variable(name),))
    refuse_environment(value)
    if isinstance(value, dict):
        return value[name] if has_key(value, name) else UNDEFINED
    if isinstance(value, list) and is_index(name):
        return value[int(name)] if int(name) < len(value) else UNDEFINED
    if isinstance(value, str) and is_index(name):
        return units(value)[int(name)] if int(name) < length(value) else UNDEFINED
    if name == "length" and isinstance(value, list | str):
        return float(len(value)) if isinstance(value, list) else length(value)
    return _method(value, name)


def _key(key: Value) -> str:
    if isinstance(key, list | dict) or kind(key) == "function":
        raise TemplateRefused("it looks up what is not a text or a number")
    return to_text(key)


def _method(value: Value, name: str) -> Value:
    methods = _METHODS.get(kind(value) if not isinstance(value, list) else "list", {})
    if name in methods:
        return Function(lambda positional, named: _call(methods[name], name, value, positional, named))
    if name in _UNKNOWN or name in OBJECT_MEMBERS or kind(value) == "function" or isinstance(value, SafeText):
        raise TemplateRefused(f"it asks for {name!r:.40}, which is not rendered")
    return UNDEFINED


def _call(
    method: Callable[..., Value], name: str, value: Value, positional: list[Value], named: dict[str, Value]
) -> Value:
    refuse_environment(*positional)
    try:
        if named:
            raise TypeError
        return method(value, *positional)
    except TypeError:
        raise TemplateRefused(f"it calls {name} with other arguments than are rendered") from None


def _texts(*values: Value) -> None:
    if not all(isinstance(value, str) for value in values):
        raise TypeError


def _split(text: str, separator: str) -> list[Value]:
    _texts(separator)
    return list(text.split(separator)) if separator else list(units(text))


def _replace(text: str, old: str, new: str, count: int = 1) -> str:
    _texts(old, new)
    if "$" in new:  # which stands for parts of the text
        raise TypeError
    return check_size(text.replace(old, new, count))


def _replace_all(text: str, old: str, new: str) -> str:
    if old == "":
        units(text)
    return _replace(text, old, new, -1)


def _index(value: Value) -> int | None:
    if value is UNDEFINED:
        return None
    if not isinstance(value, float) or not value.is_integer():
        raise TypeError
    return int(value)


def _slice(value: Any, start: Value = UNDEFINED, end: Value = UNDEFINED) -> Value:
    return (units(value) if isinstance(value, str) else value)[_index(start) : _index(end)]


def _includes(text: str, part: str) -> bool:
    _texts(part)
    return part in text


def _index_of(value: Any, one: Value) -> float:
    if isinstance(value, str):
        _texts(one)
        return float(units(value).find(one))
    return float(next((index for index, each in enumerate(value) if is_same(each, one)), -1))


def _starts_with(text: str, part: str) -> bool:
    _texts(part)
    return text.startswith(part)


def _ends_with(text: str, part: str) -> bool:
    _texts(part)
    return text.endswith(part)


def _has(values: list[Value], one: Value) -> bool:
    if isinstance(one, float) and math.isnan(one):  # which is not equal to itself, but found
        return any(isinstance(each, float) and math.isnan(each) for each in values)
    return any(is_same(each, one) for each in values)


def join(values: list[Value], separator: Value = UNDEFINED) -> str:
    """Return the entries of a list as one text."""
    between = "," if separator is UNDEFINED else to_text(separator)
    return check_size(between.join("" if is_nothing(one) else to_text(one) for one in values))


def _to_fixed(value: float, digits: Value = 0.0) -> str:
    places = _index(digits) or 0
    if not 0 <= places <= 100:
        raise TypeError
    if not math.isfinite(value) or abs(value) >= 1e21:
        return number_text(value)
    with localcontext() as context:
        context.prec = 200
        rounded = Decimal(abs(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return ("-" if value < 0 else "") + f"{rounded:f}"


def _to_string(value: Value) -> str:
    return to_text(value)


_METHODS: Final[dict[str, dict[str, Callable[..., Value]]]] = {
    "string": {
        "endsWith": _ends_with,
        "includes": _includes,
        "indexOf": _index_of,
        "replace": _replace,
        "replaceAll": _replace_all,
        "slice": _slice,
        "split": _split,
        "startsWith": _starts_with,
        "toLowerCase": lambda text: text.lower(),
        "toString": _to_string,
        "toUpperCase": lambda text: text.upper(),
        "trim": trim,
    },
    "list": {"includes": _has, "indexOf": _index_of, "join": join, "slice": _slice},
    "number": {"toFixed": _to_fixed, "toString": _to_string},
    "boolean": {"toString": _to_string},
}
# Everything else that texts, lists and numbers of JavaScript have.
_UNKNOWN: Final = frozenset(
    {
        "anchor", "at", "big", "blink", "bold", "charAt", "charCodeAt", "codePointAt", "concat",
        "copyWithin", "endsWith", "entries", "every", "exec", "fill", "filter", "find", "findIndex",
        "findLast", "findLastIndex", "fixed", "flat", "flatMap", "fontcolor", "fontsize", "forEach",
        "includes", "indexOf", "isWellFormed", "italics", "join", "keys", "lastIndexOf", "length",
        "link", "localeCompare", "map", "match", "matchAll", "normalize", "padEnd", "padStart", "pop",
        "push", "reduce", "reduceRight", "repeat", "replace", "replaceAll", "reverse", "search",
        "shift", "slice", "small", "some", "sort", "splice", "split", "startsWith", "strike", "sub",
        "substr", "substring", "sup", "toExponential", "toFixed", "toLocaleLowerCase",
        "toLocaleUpperCase", "toLowerCase", "toPrecision", "toReversed", "toSorted", "toSpliced",
        "toUpperCase", "toWellFormed", "trim", "trimEnd", "trimLeft", "trimRight", "trimStart",
        "unshift", "values", "with",
    }
)  # fmt: skip
