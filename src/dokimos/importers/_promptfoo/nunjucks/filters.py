"""The filters of Nunjucks that are rendered, each with the conversions that JavaScript makes."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from dokimos.importers._promptfoo.nunjucks.filters_of_lists import LIST_FILTERS
from dokimos.importers._promptfoo.nunjucks.members import join
from dokimos.importers._promptfoo.nunjucks.operators import floor, keep_sign
from dokimos.importers._promptfoo.nunjucks.values import (
    UNDEFINED,
    EnvironmentText,
    SafeText,
    TemplateRefused,
    Value,
    Variable,
    check_size,
    from_data,
    is_nothing,
    is_true,
    kind,
    length,
    number_text,
    refuse_environment,
    to_json,
    to_number,
    to_text,
    to_written,
    trim,
    units,
)

_INT: Final = re.compile(r"[+-]?\d+", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?(?:Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
_ESCAPES: Final = {"&": "&amp;", '"': "&quot;", "'": "&#39;", "<": "&lt;", ">": "&gt;", "\\": "&#92;"}
_MOST_WIDTH: Final = 10_000


def apply_filter(name: str, value: Value, positional: list[Value], named: dict[str, Value]) -> Value:
    """Return what a filter makes of a value; further arguments are ignored, as JavaScript does.

    Raises:
        TemplateRefused: It is not rendered, or not with this value or these arguments.
    """
    if name in ("default", "d") and not named:
        return _default(value, *positional)
    if name == "safe" and not named:
        return _safe(value)
    refuse_environment(value, *positional, *named.values())
    found = _FILTERS.get(name)
    if found is None:
        raise TemplateRefused(f"there is no filter {name!r:.40} that is rendered")
    change, most, names = found
    given = [*positional[:most], *[UNDEFINED] * (most - len(positional))]
    for key, argument in named.items():
        if key not in names:
            raise TemplateRefused(f"its filter {name} gets an argument by the name {key!r:.40}")
        if names.index(key) >= len(positional):
            given[names.index(key)] = argument
    return change(value, *given)


def _default(value: Value, instead: Value = UNDEFINED, falsy: Value = UNDEFINED, *_: Value) -> Value:
    if isinstance(value, EnvironmentText):
        match value.parts:
            case (Variable(variable, ""),) if (
                isinstance(instead, str) and "}" not in instead and not is_true(falsy)
            ):
                return EnvironmentText((Variable(variable, instead),))
        raise TemplateRefused("its filter default cannot be the default of a variable of the environment")
    if is_true(falsy):
        return value if is_true(value) else instead
    return instead if value is UNDEFINED else value


def _safe(value: Value) -> Value:
    return value if isinstance(value, SafeText) else SafeText(to_written(value))


def _on_text(change: Callable[..., str]) -> Callable[..., Value]:
    """Return a filter for texts, to which null, undefined and false are empty; what was safe stays so."""

    def filter_text(value: Value, *arguments: Value) -> Value:
        if isinstance(value, SafeText):
            return SafeText(check_size(change(str(value.text), *arguments)))
        if is_nothing(value) or value is False:
            value = ""
        if not isinstance(value, str):
            raise TemplateRefused("one of its filters gets something that is not a text")
        return check_size(change(value, *arguments))

    return filter_text


def _strictly(change: Callable[..., Value]) -> Callable[..., Value]:
    """Return a filter for texts that fails with anything else."""

    def filter_text(value: Value, *arguments: Value) -> Value:
        if not isinstance(value, str | SafeText):
            raise TemplateRefused("one of its filters gets something that is not a text")
        return change(value, *arguments)

    return filter_text


def _plain(change: Callable[..., Value]) -> Callable[..., Value]:
    """Return a filter whose result is not safe, even if its text was."""

    def filter_text(value: Value, *arguments: Value) -> Value:
        changed = change(value, *arguments)
        return changed.text if isinstance(changed, SafeText) else changed

    return filter_text


def _capitalize(text: str) -> str:
    lower = units(text).lower()
    return lower[:1].upper() + lower[1:]


def _title(text: str) -> str:
    return " ".join(map(_capitalize, text.split(" ")))


def _width(value: Value, usual: int) -> int:
    if not is_true(value):
        return usual
    if not isinstance(value, float) or not value.is_integer() or not 0 <= value <= _MOST_WIDTH:
        raise TemplateRefused("the width that one of its filters gets is not a whole number")
    return int(value)


def _center(text: str, width: Value) -> str:
    missing = _width(width, 80) - int(length(text))
    if missing <= 0:
        return text
    before = max(0, math.ceil(missing / 2 - missing % 2))
    return " " * before + text + " " * math.ceil(missing / 2)


def _indent(text: str, width: Value, first: Value) -> str:
    space = " " * _width(width, 4)
    if not text:
        return ""
    lines = text.split("\n")
    return ("" if not is_true(first) else space) + f"\n{space}".join(lines)


def _truncate(text: str, most: Value, kills: Value, end: Value) -> str:
    limit = _width(most, 255)
    if length(text) <= limit:
        return text
    space = -1 if is_true(kills) else units(text).rfind(" ", 0, limit + 1)
    return units(text)[: limit if space < 0 else space] + ("..." if is_nothing(end) else to_text(end))


def _replace(value: Value, old: Value, new: Value, count: Value) -> Value:
    if not isinstance(old, str | float):
        return value
    text = (
        number_text(value)
        if isinstance(value, float)
        else value.text
        if isinstance(value, SafeText)
        else value
    )
    if not isinstance(text, str):
        return value
    if count is not UNDEFINED and not isinstance(count, float):
        raise TemplateRefused("its filter replace gets a count that is not a number")
    if old == "":
        changed = to_text(new) + to_text(new).join(units(text)) + to_text(new)
    else:
        most = math.ceil(count) if isinstance(count, float) and count != -1 else None
        most = -1 if most is None else max(0, most)
        changed = text if most == 0 else text.replace(to_text(old), to_text(new), most)
    return SafeText(check_size(changed)) if isinstance(value, SafeText) else check_size(changed)


def _escape(value: Value) -> Value:
    if isinstance(value, SafeText):
        return value
    text = "" if is_nothing(value) else to_text(value)
    return SafeText(check_size("".join(_ESCAPES.get(one, one) for one in text)))


def _string(value: Value) -> Value:
    if is_nothing(value):
        raise TemplateRefused("its filter string gets nothing")
    return value if isinstance(value, SafeText) else to_text(value)


def _int(value: Value, instead: Value, base: Value) -> Value:
    if base is not UNDEFINED and base != 10:
        raise TemplateRefused("its filter int gets a base")
    found = _INT.match(trim(_as_text(value)))
    return instead if found is None else float(found[0])


def _float(value: Value, instead: Value) -> Value:
    found = _FLOAT.match(trim(_as_text(value)))
    return instead if found is None else float(found[0])


def _as_text(value: Value) -> str:
    return to_text(value)


def _round(value: Value, precision: Value, method: Value) -> float:
    digits = to_number(precision) if is_true(precision) else 0.0
    if not digits.is_integer() or not 0 <= digits <= 15:
        raise TemplateRefused("its filter round gets a precision that is not a whole number from 0 to 15")
    factor: float = 10.0**digits
    scaled = to_number(value) * factor
    if not math.isfinite(scaled):
        return scaled / factor
    if method == "ceil":
        return keep_sign(math.ceil(scaled), scaled) / factor
    below = floor(scaled)
    return keep_sign(below + 1 if method != "floor" and scaled - below >= 0.5 else below, scaled) / factor


def _abs(value: Value) -> float:
    return abs(to_number(value))


def _length(value: Value) -> Value:
    if is_nothing(value) or value is False:
        return 0.0
    if isinstance(value, SafeText):
        return length(str(value.text))
    if isinstance(value, list | dict):
        return float(len(value))
    return length(value) if isinstance(value, str) else UNDEFINED


def _wordcount(value: Value) -> Value:
    words = len(re.findall(r"[A-Za-z0-9_]+", "" if is_nothing(value) or value is False else _text(value)))
    return float(words) if words else None


def _text(value: Value) -> str:
    if isinstance(value, SafeText):
        return str(value.text)
    if not isinstance(value, str):
        raise TemplateRefused("one of its filters gets something that is not a text")
    return value


def _dump(value: Value, indent: Value) -> Value:
    if kind(value) in ("undefined", "function"):
        return UNDEFINED
    if isinstance(indent, str):
        return to_json(value, indent[:10])
    return to_json(
        value, " " * min(10, max(0, int(indent))) if isinstance(indent, float) and indent >= 1 else ""
    )


def _load(value: Value) -> Value:
    def refuse(word: str) -> Any:
        raise ValueError(word)

    try:
        return from_data(json.loads(_text(value), parse_constant=refuse))
    except ValueError:
        raise TemplateRefused("its filter load gets what is not JSON") from None


def _join(value: Value, separator: Value, attribute: Value) -> str:
    from dokimos.importers._promptfoo.nunjucks.filters_of_lists import attributes, entries

    values = attributes(value, attribute) if is_true(attribute) else entries(value)
    return join(values, separator if is_true(separator) else "")


def _urlencode(value: Value) -> str:
    if isinstance(value, str):
        return _quote(value)
    pairs = [[key, one] for key, one in value.items()] if isinstance(value, dict) else value
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) >= 2 for pair in pairs):
        raise TemplateRefused(
            "its filter urlencode gets something that is not a text, a map or a list of pairs"
        )
    return "&".join(f"{_quote(to_text(pair[0]))}={_quote(to_text(pair[1]))}" for pair in pairs)


def _quote(text: str) -> str:
    return quote(text, safe="!~*'()")


def _breaks(value: Value) -> Value:
    if value is False:
        raise TemplateRefused("its filter nl2br gets something that is not a text")
    return _on_text(lambda text: re.sub(r"\r?\n", "<br />\n", text))(value)


_FILTERS: Final[dict[str, tuple[Callable[..., Value], int, tuple[str, ...]]]] = {
    "abs": (_abs, 0, ()),
    "capitalize": (_on_text(_capitalize), 0, ()),
    "center": (_on_text(_center), 1, ()),
    "dump": (_dump, 1, ()),
    "e": (_escape, 0, ()),
    "escape": (_escape, 0, ()),
    "float": (_float, 1, ()),
    "indent": (_on_text(_indent), 2, ()),
    "int": (_int, 2, ("default", "base")),
    "join": (_join, 2, ()),
    "length": (_length, 0, ()),
    "load": (_load, 0, ()),
    "lower": (_plain(_on_text(str.lower)), 0, ()),
    "nl2br": (_breaks, 0, ()),
    "replace": (_replace, 3, ()),
    "round": (_round, 2, ()),
    "string": (_string, 0, ()),
    "title": (_on_text(_title), 0, ()),
    "trim": (_strictly(_on_text(trim)), 0, ()),
    "truncate": (_on_text(_truncate), 3, ()),
    "upper": (_plain(_on_text(str.upper)), 0, ()),
    "urlencode": (_urlencode, 0, ()),
    "wordcount": (_wordcount, 0, ()),
    **LIST_FILTERS,
}
"""Each with the number of arguments that it reads, and with the names of those that may be given by name."""
