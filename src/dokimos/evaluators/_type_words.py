"""Types of parameters in the words of a person who writes YAML: "text", "list of texts", "number 0 to 1"."""

from __future__ import annotations

import collections.abc
import enum
import types
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

_PLAIN: Final[dict[Any, str]] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "yes or no",
    object: "any value",
    Any: "any value",
}
_CLASS_WORDS: Final = {
    "JudgeLM": "judge",
    "JudgeLike": "judge",
    "Embedder": "embedder",
    "EmbedderLike": "embedder",
    "Criterion": "criterion",
    "GradedExample": "graded example",
}
_LISTS: Final = (list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Set)
_MAPS: Final = (dict, collections.abc.Mapping)
_UNIONS: Final = (Union, types.UnionType)


def parameter_types(kind: type) -> dict[str, str]:
    """Return the types of a class's fields, by name."""
    return {name: describe_type(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}


def describe_type(hint: object) -> str:
    """Return a type as a person writes it.

    >>> describe_type(Sequence[str] | None)
    'list of texts, or nothing'
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return describe_type(arguments[0])
    if origin is Literal:
        return _one_of(map(str, arguments))
    if origin in _UNIONS:
        return _union(arguments)
    if origin in _LISTS:
        return _list(arguments)
    if origin in _MAPS and arguments[1] is Any:
        return "map"
    if origin in _MAPS:
        return f"map of {_plural(describe_type(arguments[1]))} by {describe_type(arguments[0])}"
    if origin is collections.abc.Callable or hint is collections.abc.Callable:
        return "function"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _one_of(str(each.value) for each in hint)
    return _PLAIN.get(hint) or _describe_class(hint)


def _union(arguments: Sequence[Any]) -> str:
    words = list(dict.fromkeys(describe_type(each) for each in arguments if each is not type(None)))
    # Such a union is of a name, an object and a function: one word says it to a person.
    if "judge" in words or "embedder" in words:
        words = [each for each in words if each in ("judge", "embedder")]
    text = " or ".join(words)
    return f"{text}, or nothing" if type(None) in arguments else text


def _list(arguments: Sequence[Any]) -> str:
    if not arguments:
        return "list"
    if len(arguments) > 1 and arguments[1] is not Ellipsis:
        words = {describe_type(each) for each in arguments}
        return f"{len(arguments)} {_plural(words.pop())}" if len(words) == 1 else "list"
    return f"list of {_plural(describe_type(arguments[0]))}"


def _describe_class(hint: object) -> str:
    name = getattr(hint, "__name__", str(hint))
    return "evaluator" if name.endswith("Evaluator") else _CLASS_WORDS.get(name, name)


def _one_of(values: Iterable[str]) -> str:
    *most, last = values
    return f"{', '.join(most)} or {last}" if most else last


def _plural(noun: str) -> str:
    if " or " in noun or noun == "yes or no":
        return f"({noun})"
    if noun.startswith(("list", "map")):
        return noun.replace("list", "lists", 1).replace("map", "maps", 1)
    return {"criterion": "criteria", "any value": "values"}.get(noun, f"{noun}s")
