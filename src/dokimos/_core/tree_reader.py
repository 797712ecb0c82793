"""Value types from JSON trees that `to_tree` wrote, without pydantic: a report or a journal has thousands."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from functools import cache
from typing import Any, Final, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from dokimos._core.convert import adapter
from dokimos._core.fast_constructor import Member, compile_reader, fast_factory
from dokimos._core.jsonable import camel_case, is_wire_type

T = TypeVar("T")
_Convert = Callable[[Any], Any]
_MOST_READERS: Final = 256
"""Selections of keys, of one type, that get a function of their own: few come from what we wrote."""
_PLAIN: Final = (str, bool, int, float, types.NoneType)


class UnusualTree(ValueError):
    """A tree that has something to convert, or something wrong: pydantic reads it, or says what is wrong."""


def read_plain_tree(target: type[T], tree: Mapping[str, Any]) -> T:
    """Return a value type of a tree in which each field is in its wire form, as `to_tree` writes it.

    It is what pydantic makes of the same tree, in a quarter of the time: that is half of what it takes to
    load a report of 10,000 items (`benchmarks/finished_runs.py`).

    Raises:
        UnusualTree: for any other tree, right or wrong.
    """
    try:
        kind: Any = target
        value: T = _reader(kind)(tree)
        return value
    except (TypeError, ValueError, OverflowError, RecursionError) as cause:
        raise UnusualTree(str(cause)) from cause


def read_plain_trees(target: type[T], trees: Iterable[Mapping[str, Any]]) -> list[T]:
    """Return what `read_plain_tree` returns for each of several trees. Raises `UnusualTree` as well."""
    try:
        kind: Any = target
        return list(map(_reader(kind), trees))
    except (TypeError, ValueError, OverflowError, RecursionError) as cause:
        raise UnusualTree(str(cause)) from cause


@cache
def _reader(target: Any) -> _Convert:
    """Return the function that makes one value type of its tree."""
    if not isinstance(target, type) or not is_wire_type(target):
        return _refuse
    hints = get_type_hints(target)
    members = {
        camel_case(field.name): Member(field.name, *_plan_field(hints[field.name]))
        for field in fields(target)
    }
    required = {field.name for field in fields(target) if _is_required(field)}
    # Under its Python name a field may be there twice, which pydantic would not see either.
    other_spellings = frozenset(member.name for member in members.values()) - members.keys()
    is_slotted = "__slots__" in target.__dict__
    make: Callable[..., Any] = fast_factory(target) if is_slotted else target
    readers: dict[tuple[str, ...], _Convert] = {}

    def find_reader(names: tuple[str, ...]) -> _Convert:
        for name in names:
            if name not in members and (
                name in other_spellings or type(name) is not str or not name.isascii()
            ):
                _refuse(name)
        found = [members.get(name) for name in names]  # None for one of a newer version
        given = {member.name for member in found if member is not None}
        if not is_slotted or not required <= given or len(readers) >= _MOST_READERS:
            return lambda tree: make(**_read_values(zip(found, tree.values(), strict=True)))
        readers[names] = reader = compile_reader(target, found)
        return reader

    def read(tree: Any) -> Any:
        if type(tree) is not dict:
            _refuse(tree)
        names = tuple(tree)
        return (readers.get(names) or find_reader(names))(tree)

    return read


def _read_values(contents: Iterable[tuple[Member | None, Any]]) -> dict[str, Any]:
    return {
        member.name: content if type(content) in member.kinds else member.convert(content)
        for member, content in contents
        if member is not None
    }


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _plan_field(hint: Any) -> tuple[frozenset[type], _Convert]:
    """Return which types a field takes as they are, and what makes its value of any other content."""
    options = get_args(hint) if get_origin(hint) is types.UnionType else (hint,)
    plain = frozenset(option for option in options if option in _PLAIN)
    others = [option for option in options if option not in _PLAIN]
    if len(others) == 1 and plain <= {types.NoneType}:
        return plain, _converter(others[0])
    if others:
        return frozenset(), adapter(hint).validate_python
    return plain, _read_whole_number if float in plain and int not in plain else _refuse


def _converter(hint: Any) -> _Convert:
    """Return what reads content of a type that is more than a text or a number."""
    arguments = get_args(hint)
    if get_origin(hint) is Mapping and arguments == (str, Any):
        return _copy_mapping
    if get_origin(hint) is tuple and len(arguments) == 2 and arguments[1] is ...:
        element = arguments[0]
        if isinstance(element, type) and is_wire_type(element):
            return lambda content: _read_elements(_reader(element), content)
    elif isinstance(hint, type) and is_wire_type(hint):
        return lambda content: _reader(hint)(content)  # looked up when it is needed: a type may hold itself
    elif isinstance(hint, type) and issubclass(hint, StrEnum):
        return lambda content: hint(content) if type(content) is str else _refuse(content)
    return lambda content: adapter(hint).validate_python(content)


def _refuse(content: object) -> NoReturn:
    raise UnusualTree(f"{content!r:.80} is of another type")


def _read_whole_number(content: object) -> float:
    return float(content) if type(content) is int else _refuse(content)


def _copy_mapping(content: Any) -> dict[str, Any]:
    if type(content) is not dict:
        _refuse(content)
    for key in content:  # a generator would take three times as long, and this runs for each map of each item
        if type(key) is not str:
            _refuse(content)
    return content.copy()


def _read_elements(read: _Convert, content: Any) -> tuple[Any, ...]:
    if type(content) is not list:
        _refuse(content)
    return tuple(map(read, content))
