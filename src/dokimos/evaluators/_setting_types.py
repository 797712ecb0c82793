"""Settings of evaluators that are of a wrong type, refused in one wording when the evaluator is made."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from dokimos._core.plain_number import plain_number
from dokimos.errors import ConfigurationError
from dokimos.evaluators._setting_checks import is_list

_UNION: Final = re.compile(r" \| (?![^\[]*\])")
"""Where the parts of a union meet, outside of brackets."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """What a setting takes, read from its annotation."""

    setting: str
    accepts: tuple[Callable[[Any], bool], ...]
    words: str
    """What it must be, as the end of a sentence: `a number or None`."""
    is_number: bool
    takes_plain: bool
    """Whether a number or a boolean is among what it takes."""


def check_types(evaluator: Any) -> None:
    """Raise `ConfigurationError` for a setting whose value is not of the type that its field declares.

    Numbers and booleans of other libraries become Python's own: settings are written to reports as JSON.

    Only fields that dokimos declares are looked at, also in the evaluators that users derive from its own
    unless they declare them anew, and of these those of plain types: numbers, texts, flags, options and lists
    of texts.
    """
    for rule in _rules_of(_kind_of(evaluator)):
        value = getattr(evaluator, rule.setting)
        if not any(accepts(value) for accepts in rule.accepts):
            name = evaluator.name
            owner = name if isinstance(name, str) else type(evaluator).__name__
            raise ConfigurationError(
                f"{owner}: {rule.setting} must be {rule.words}, not {value!r:.80}.{_advice(rule, value)}",
                setting=rule.setting,
            )
        if rule.takes_plain and (plain := _plain(value)) is not None and plain is not value:
            object.__setattr__(evaluator, rule.setting, plain)


def _advice(rule: _Rule, value: object) -> str:
    """Return what to write instead, where a number was written as a text."""
    if not rule.is_number or not isinstance(value, str):
        return ""
    try:
        number = float(value)
    except ValueError:
        return ""
    whole = number.is_integer() and "." not in value
    return f" Write it without quotes: {rule.setting}={int(number) if whole else number}."


def _kind_of(evaluator: object) -> Any:  # to a type checker a class of evaluators is not hashable
    return type(evaluator)


@cache
def _rules_of(kind: Any) -> tuple[_Rule, ...]:
    # What users annotate may mean anything, also types that exist only for checkers.
    ours = [base for base in kind.__mro__ if base.__module__.startswith("dokimos.")]
    declared: dict[str, Any] = {}
    for base in reversed(ours):
        declared |= getattr(base, "__annotations__", {}) if "__annotations__" in base.__dict__ else {}
    fields = kind.__dataclass_fields__.values()  # a class that declares one of ours anew means its own type
    rules = (_rule(field.name, field.type) for field in fields if field.type == declared.get(field.name, ""))
    return tuple(rule for rule in rules if rule is not None)


def _rule(setting: str, annotation: str) -> _Rule | None:
    """Return the rule of an annotation, None for one that has a part of another kind."""
    parts = [_part(text) for text in _UNION.split(annotation)]
    supported = [part for part in parts if part is not None]
    if len(supported) < len(parts):
        return None
    accepts = tuple(accepts for accepts, _ in supported)
    words = " or ".join(words for _, words in supported)
    is_number = _is_number in accepts or _is_whole in accepts
    return _Rule(setting, accepts, words, is_number, is_number or _is_bool in accepts)


def _part(text: str) -> tuple[Callable[[Any], bool], str] | None:
    if text in _PARTS:
        return _PARTS[text]
    if not text.startswith("Literal["):
        return None
    options = tuple(_options(text))
    return (
        lambda value: isinstance(value, str) and value in options
    ), f"one of {', '.join(map(repr, options))}"


def _options(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text, mode="eval")):
        if isinstance(node, ast.Constant):
            yield str(node.value)


def _plain(value: object) -> bool | int | float | None:
    try:
        return plain_number(value)
    except OverflowError:  # a fraction that no float can hold
        return None


def _is_bool(value: object) -> bool:
    return isinstance(_plain(value), bool)


def _is_whole(value: object) -> bool:
    number = _plain(value)
    return isinstance(number, int) and not isinstance(number, bool)


def _is_number(value: object) -> bool:
    number = _plain(value)
    return number is not None and not isinstance(number, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_list_of_texts(value: Any) -> bool:
    return is_list(value) and all(map(_is_text, value))


_PARTS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "bool": (_is_bool, "True or False"),
    "int": (_is_whole, "a whole number"),
    "float": (_is_number, "a number"),
    "str": (_is_text, "text"),
    "Sequence[str]": (_is_list_of_texts, "a list of texts"),
    "None": (lambda value: value is None, "None"),
}
