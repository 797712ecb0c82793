"""The JSON form of our value types: camelCase out, both spellings of our field names in.

Keys inside inputs, outputs and metadata are user data and stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_type_hints

from dokimos._core.convert import adapter, explain
from dokimos._core.jsonable import JsonValue, is_wire_type, jsonable, wire_fields, with_escapes
from dokimos._core.tree_reader import UnusualTree, read_plain_tree, read_plain_trees
from dokimos.errors import TypeConversionError

T = TypeVar("T")


def to_tree(value: object) -> JsonValue:
    """Return a value type (or any value) as a JSON tree; fields that hold their default are left out."""
    return jsonable(value)


def to_json(value: object, *, indent: int | None = None) -> str:
    """Return a value type (or any value) as JSON text.

    Example:
        >>> to_json(ToolCall("search", {"q": "Rome"}))
        '{"name":"search","arguments":{"q":"Rome"}...}'
    """
    separators = (",", ":") if indent is None else None
    text = json.dumps(
        jsonable(value), ensure_ascii=False, allow_nan=False, indent=indent, separators=separators
    )
    return with_escapes(text)


def from_json(target: type[T], data: str | bytes | Mapping[str, Any]) -> T:
    """Read a value type from JSON text or from a tree.

    Raises:
        TypeConversionError: for text that is not JSON, a field of the wrong type or one in both spellings.

    Example:
        >>> from_json(ToolCall, '{"name": "search", "arguments": {"q": "Rome"}}').arguments
        {'q': 'Rome'}
    """
    tree = _parse(target, data) if isinstance(data, str | bytes) else data
    try:
        return read_plain_tree(target, tree)
    except UnusualTree:
        pass  # it has something to convert, or something wrong
    _refuse_both_spellings(target, tree, "")
    try:
        return cast("T", adapter(target).validate_python(tree))
    except ValueError as cause:
        message = f"Cannot read {target.__name__}: {explain(cause)}"
        raise TypeConversionError(message, target=target) from cause


def list_from_json(target: type[T], trees: Sequence[Mapping[str, Any]]) -> list[T]:
    """Read each tree of a list as `from_json` does."""
    try:
        return read_plain_trees(target, trees)
    except UnusualTree:
        return [from_json(target, tree) for tree in trees]


def _parse(target: type, text: str | bytes) -> Any:
    try:
        # Not pydantic's parser, which takes NaN and Infinity for numbers.
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as cause:
        raise TypeConversionError(
            f"Cannot read {target.__name__}: not JSON: {cause}", target=target
        ) from cause


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def _refuse_both_spellings(target: type, tree: object, path: str) -> None:
    """Walk our own fields only; what is inside a payload is never looked at."""
    if not isinstance(tree, Mapping) or not is_wire_type(target):
        return
    for attribute, wire_name, _ in wire_fields(target):
        if attribute != wire_name and attribute in tree and wire_name in tree:
            where = f"{path}{wire_name}"
            raise TypeConversionError(
                f"Cannot read {target.__name__}: {where} is given twice, as {attribute!r} and {wire_name!r}.",
                target=target,
                key=wire_name,
            )
        nested = _find_nested_types(target).get(attribute)
        if nested is not None:
            content = tree.get(wire_name, tree.get(attribute))
            if not isinstance(content, list | tuple):
                _refuse_both_spellings(nested, content, f"{path}{wire_name}.")
                continue
            for index, element in enumerate(content):
                _refuse_both_spellings(nested, element, f"{path}{wire_name}[{index}].")


@cache
def _find_nested_types(target: type) -> dict[str, type]:
    """The fields of a value type that hold value types themselves, or tuples of them."""
    nested = {}
    for name, hint in get_type_hints(target).items():
        for candidate in (hint, *get_args(hint)):
            if isinstance(candidate, type) and is_wire_type(candidate):
                nested[name] = candidate
    return nested
