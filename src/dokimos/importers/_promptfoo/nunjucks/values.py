"""The values of a template as JavaScript has them: numbers are floats, `None` is null.

What Python and JavaScript make of them differs in conversions, so nothing here relies on Python's: an empty
list is true, `1.0` is written "1", and texts have the length of their UTF-16.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from json import dumps
from typing import Any, Final, TypeAlias

Value: TypeAlias = Any
"""UNDEFINED, None, bool, float, str, list, dict, SafeText, EnvironmentText or Function."""

SPACE: Final = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
"""What `\\s` matches in JavaScript, as the inside of a class of characters."""
MOST_CHARACTERS: Final = 5_000_000
_INDEX: Final = re.compile(r"0|[1-9]\d{0,9}")
_MOST_INDEX: Final = 2**32 - 2
_NUMBER: Final = re.compile(r"[+-]?(?:Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
_PREFIXED: Final = re.compile(r"0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_SIDES: Final = re.compile(rf"^[{SPACE}]+|[{SPACE}]+\Z")


class TemplateRefused(Exception):
    """A template that cannot be rendered as promptfoo does; its text says why."""


class _Undefined:
    def __repr__(self) -> str:
        return "undefined"


UNDEFINED: Final = _Undefined()


@dataclass(frozen=True, slots=True)
class SafeText:
    """What `safe`, `escape` and macros give: an object to JavaScript, so it is true even when it is empty."""

    text: Text


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the environment, which has no value before the suite runs."""

    name: str
    default: str = ""


@dataclass(frozen=True, slots=True)
class EnvironmentText:
    """A text with variables of the environment in it, which can be written and nothing else."""

    parts: tuple[str | Variable, ...]


Text: TypeAlias = str | EnvironmentText


class Environment:
    """`env`, of which only the variables can be written."""


@dataclass(frozen=True, slots=True)
class Function:
    """Something that a template can call, with positional and named arguments."""

    call: Callable[[list[Value], dict[str, Value]], Value]


class FileMap(dict[str, Any]):
    """A map from a file; promptfoo writes the text of the file, see `of_file`."""

    text: str


class FileList(list[Any]):
    """A list from a file, as `FileMap`."""

    text: str


def of_file(data: Any, text: str | None) -> Any:
    """Return what a file holds, with the text that stands for it: its own, or compact JSON."""
    if not isinstance(data, dict | list):
        return data
    marked: FileMap | FileList = FileMap(data) if isinstance(data, dict) else FileList(data)
    marked.text = to_json(from_data(data)) if text is None else text
    return marked


def from_data(value: Any) -> Value:
    """Return a value of YAML or JSON as a template has it."""
    if isinstance(value, Mapping):
        entries = {to_text(from_data(key)): from_data(entry) for key, entry in value.items()}
        return (
            _with_text(FileMap(order_keys(entries)), value)
            if isinstance(value, FileMap)
            else order_keys(entries)
        )
    if isinstance(value, list | tuple):
        items = [from_data(entry) for entry in value]
        return _with_text(FileList(items), value) if isinstance(value, FileList) else items
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if value is None or isinstance(value, str | bool | float | EnvironmentText):
        return value
    raise TemplateRefused(f"one of its variables is a {type(value).__name__}")


def _with_text(copy: Any, original: Any) -> Any:
    copy.text = original.text
    return copy


def order_keys(entries: dict[str, Value]) -> dict[str, Value]:
    """Return a map in the order of JavaScript: keys that are indices come first, by their number."""
    indices = sorted((key for key in entries if is_index(key)), key=int)
    return {**{key: entries[key] for key in indices}, **entries} if indices else entries


def is_index(key: str) -> bool:
    """Whether a key is the index of an array."""
    return _INDEX.fullmatch(key) is not None and key.isascii() and int(key) <= _MOST_INDEX


def check_size(text: str) -> str:
    """Return a text. Raises `TemplateRefused` where it is too large to be a prompt."""
    if len(text) > MOST_CHARACTERS:
        raise TemplateRefused(f"it makes a text of more than {MOST_CHARACTERS:,} characters")
    return text


def units(text: str) -> str:
    """Return a text whose positions Python and JavaScript count alike. Raises `TemplateRefused` otherwise."""
    if not text.isascii() and max(text) > "\uffff":
        raise TemplateRefused("it takes a text with emoji or other characters beyond U+FFFF apart")
    return text


def length(text: str) -> float:
    """Return the length of a text in UTF-16."""
    return float(len(text) + (0 if text.isascii() else sum(one > "\uffff" for one in text)))


def trim(text: str) -> str:
    """Return a text without what JavaScript takes for white space around it."""
    return _SIDES.sub("", text)


def refuse_environment(*values: Value) -> None:
    """Raise `TemplateRefused` where one of the values is not known before the suite runs."""
    for value in values:
        if isinstance(value, EnvironmentText | Environment) or (
            isinstance(value, SafeText) and isinstance(value.text, EnvironmentText)
        ):
            raise TemplateRefused("it does more with a variable of the environment than to write it")


def to_text(value: Value) -> str:
    """Return what `String(value)` gives."""
    refuse_environment(value)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number_text(value)
    if value is None or value is UNDEFINED:
        return "undefined" if value is UNDEFINED else "null"
    if isinstance(value, SafeText):
        return str(value.text)
    if isinstance(value, FileMap | FileList):
        return value.text
    if isinstance(value, list):
        return check_size(",".join("" if one is None or one is UNDEFINED else to_text(one) for one in value))
    if isinstance(value, dict):
        raise TemplateRefused("it writes a map, which comes out as [object Object]: use the filter dump")
    raise TemplateRefused("it writes a function")


def to_written(value: Value) -> Text:
    """Return what `{{ value }}` writes."""
    if value is None or value is UNDEFINED:
        return ""
    text = value.text if isinstance(value, SafeText) else value
    return text if isinstance(text, EnvironmentText) else to_text(text)


def number_text(value: float) -> str:
    """Return a number as JavaScript writes it."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    exact = Decimal(repr(abs(value))).normalize()
    digits, exponent = "".join(map(str, exact.as_tuple().digits)), int(exact.as_tuple().exponent)
    point = len(digits) + exponent
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"


def to_number(value: Value) -> float:
    """Return what `Number(value)` gives, NaN for a text that is not a number."""
    refuse_environment(value)
    if isinstance(value, bool | float):
        return float(value)
    if value is None or value is UNDEFINED:
        return 0.0 if value is None else math.nan
    if not isinstance(value, str):
        raise TemplateRefused("it calculates or compares with a list, a map or a macro")
    text = trim(value)
    if not text:
        return 0.0
    if _PREFIXED.fullmatch(text):
        return float(int(text, 0))
    return float(text) if _NUMBER.fullmatch(text) else math.nan


def is_true(value: Value) -> bool:
    """Whether a condition holds that is this value."""
    refuse_environment(value)
    if value is None or value is UNDEFINED:
        return False
    if isinstance(value, float):
        return value != 0 and not math.isnan(value)
    return bool(value) if isinstance(value, bool | str) else True


def is_nothing(value: Value) -> bool:
    """Whether a value is null or undefined."""
    return value is None or value is UNDEFINED


def kind(value: Value) -> str:
    """Return the type of a value, as `typeof` tells it."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str | float):
        return "string" if isinstance(value, str) else "number"
    return "undefined" if value is UNDEFINED else "function" if isinstance(value, Function) else "object"


def equals(one: Value, other: Value, *, strict: bool) -> bool:
    """Compare as `===`, or as `==` does."""
    refuse_environment(one, other)
    if is_nothing(one) or is_nothing(other):
        return one is other or (not strict and is_nothing(one) and is_nothing(other))
    kinds = {kind(one), kind(other)}
    if strict and len(kinds) > 1:
        return False
    if kinds & {"object", "function"}:
        raise TemplateRefused("it compares a list, a map or a macro")
    return bool(one == other) if len(kinds) == 1 else to_number(one) == to_number(other)


def sort_key(text: str) -> bytes:
    """Return what orders texts as JavaScript does: by UTF-16."""
    return text.encode("utf-16-be", "surrogatepass")


def to_json(value: Value, indent: str = "") -> str:
    """Return a value as `JSON.stringify` writes it."""
    refuse_environment(value)
    if isinstance(value, SafeText):
        raise TemplateRefused("it writes the result of safe, escape or a macro as JSON")
    return check_size(_to_json(value, indent, "\n"))


def _to_json(value: Value, indent: str, line: str) -> str:
    if isinstance(value, str):
        return dumps(value, ensure_ascii=False)
    if isinstance(value, float):
        return number_text(value) if math.isfinite(value) else "null"
    if isinstance(value, bool) or value is None:
        return "null" if value is None else to_text(value)
    inner = line + indent
    if isinstance(value, list):
        parts = [
            "null" if kind(one) in ("undefined", "function") else _entry(one, indent, inner) for one in value
        ]
        return _brackets("[]", parts, indent, line)
    space = " " if indent else ""
    parts = [
        f"{dumps(key, ensure_ascii=False)}:{space}{_entry(one, indent, inner)}"
        for key, one in value.items()
        if kind(one) not in ("undefined", "function")
    ]
    return _brackets("{}", parts, indent, line)


def _entry(value: Value, indent: str, line: str) -> str:
    if isinstance(value, SafeText | EnvironmentText | Environment):
        to_json(value)
    return _to_json(value, indent, line)


def _brackets(pair: str, parts: list[str], indent: str, line: str) -> str:
    if not parts or not indent:
        return pair[0] + ",".join(parts) + pair[1]
    inner = line + indent
    return pair[0] + inner + f",{inner}".join(parts) + line + pair[1]
