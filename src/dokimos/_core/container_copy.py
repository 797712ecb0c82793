"""Copies of what users' code hands over: its containers, all the way down; everything else by reference."""

from __future__ import annotations

import datetime
import decimal
from collections import OrderedDict, UserList, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache, partial
from itertools import combinations
from operator import attrgetter
from types import MappingProxyType, NoneType
from typing import Any, Final, TypeAlias, TypeVar, cast

from dokimos._core.fast_constructor import open_class
from dokimos._core.jsonable import MAX_DEPTH, is_wire_type
from dokimos._core.metrics import CallMetrics

T = TypeVar("T")

_Memo: TypeAlias = dict[int, Any]
"""Copies by the identity of their originals: a container that occurs twice, or in itself, is copied once."""

_Copier: TypeAlias = Callable[[Any, _Memo, int], Any]

_ATOMS: Final = frozenset(
    {str, int, float, bool, NoneType, bytes, complex}
    | {decimal.Decimal, datetime.datetime, datetime.date, CallMetrics}
)
"""Types whose objects nobody can change."""


def copy_containers(value: T) -> T:
    """Return `value` with containers of its own, so that nobody who keeps the original can change it.

    Mappings, lists, tuples, sets, deques and bytearrays are copied all the way down, and so are the contents
    of our own value types. Types are kept (named tuples, subclasses with their attributes), and so are
    cycles. Keys and members of sets, which are hashable, and all other objects stay the same objects, as does
    what is nested deeper than 100 levels, where `jsonable` ends too.
    """
    kind: type = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:  # the usual case, in a fraction of the time
        copied: Any = value.copy()  # type: ignore[attr-defined] # it is a dict
        for content in copied.values():
            if type(content) not in _ATOMS:
                break
        else:
            return copied  # type: ignore[no-any-return] # a copy is of the type of its original
    copy_flat = _flat_copier_of(kind)
    if copy_flat is not None and (copied := copy_flat(value)) is not None:
        return copied  # type: ignore[no-any-return] # as above
    return _copy(value, {}, 0)  # type: ignore[no-any-return] # as above


def copy_repeatedly(value: T) -> Callable[[], T]:
    """Return a function that returns what `copy_containers` does of `value`, which nobody changes meanwhile.

    Whether the value holds nothing but flat maps, as it usually does, is asked once for all copies.
    """
    make_repeater = _flat_repeater_of(type(value))  # type: ignore[arg-type] # a type is hashable
    copy = None if make_repeater is None else make_repeater(value)
    return partial(copy_containers, value) if copy is None else copy


def _copy(value: object, memo: _Memo, depth: int) -> Any:
    kind = type(value)
    copier = _copier_of(kind)  # type: ignore[arg-type] # a type is hashable
    if copier is None or depth >= MAX_DEPTH:
        return value
    copied = memo.get(id(value))
    if copied is not None:
        return copied
    try:
        return copier(value, memo, depth + 1)
    except TypeError:  # a type written in C that only its own constructor can make
        memo[id(value)] = value
        return value


@lru_cache(maxsize=1024)
def _copier_of(kind: type) -> _Copier | None:
    """Return what copies objects of a type, None for those that stay the same objects."""
    if kind in _PLAIN_COPIERS:
        return _PLAIN_COPIERS[kind]
    for base, copier in _COPIERS:
        if issubclass(kind, base):
            return copier
    if is_wire_type(kind):
        return _compile_slots_copier(kind) if "__slots__" in kind.__dict__ else _copy_object
    return _copy_object if issubclass(kind, Mapping) else None


def _copy_dict(value: dict[Any, Any], memo: _Memo, depth: int) -> dict[Any, Any]:
    new = memo[id(value)] = value.copy()
    for key, content in new.items():
        if type(content) not in _ATOMS:
            new[key] = _copy(content, memo, depth)
    return new


def _copy_special_dict(value: dict[Any, Any], memo: _Memo, depth: int) -> dict[Any, Any]:
    """Copy an object of a subclass of dict through the methods of its base: its own may do anything."""
    base: Any = next(kind for kind in (OrderedDict, defaultdict, dict) if isinstance(value, kind))
    new: dict[Any, Any] = base.__new__(type(value))
    memo[id(value)] = new
    for key, content in list(base.items(value)):
        base.__setitem__(new, key, _copy(content, memo, depth))
    if isinstance(value, defaultdict):
        object.__setattr__(new, "default_factory", value.default_factory)
    _copy_attributes(value, new, memo, depth)
    return new


def _copy_list(value: list[Any], memo: _Memo, depth: int) -> list[Any]:
    new: list[Any] = []
    memo[id(value)] = new
    new += [content if type(content) in _ATOMS else _copy(content, memo, depth) for content in value]
    return new


def _copy_special_list(value: list[Any], memo: _Memo, depth: int) -> list[Any]:
    new: list[Any] = list.__new__(type(value))
    memo[id(value)] = new
    list.extend(new, [_copy(content, memo, depth) for content in list.__iter__(value)])
    _copy_attributes(value, new, memo, depth)
    return new


def _copy_tuple(value: tuple[Any, ...], memo: _Memo, depth: int) -> tuple[Any, ...]:
    contents = [_copy(content, memo, depth) for content in tuple.__iter__(value)]
    if id(value) in memo:  # it is in one of its own contents, and was copied there
        return memo[id(value)]  # type: ignore[no-any-return] # its copy, which is a tuple too
    if all(new is old for new, old in zip(contents, tuple.__iter__(value), strict=True)):
        return value
    new = memo[id(value)] = tuple.__new__(type(value), contents)
    if type(value) is not tuple:
        _copy_attributes(value, new, memo, depth)
    return new


def _copy_set(value: set[Any], memo: _Memo, depth: int) -> set[Any]:
    new: set[Any] = set.__new__(type(value))
    memo[id(value)] = new
    set.update(new, value)
    _copy_attributes(value, new, memo, depth)
    return new


def _copy_deque(value: deque[Any], memo: _Memo, depth: int) -> deque[Any]:
    new: deque[Any] = deque.__new__(type(value))
    memo[id(value)] = new
    contents = list(deque.__iter__(value))
    deque.__init__(new, [_copy(content, memo, depth) for content in contents], value.maxlen)
    _copy_attributes(value, new, memo, depth)
    return new


def _copy_bytearray(value: bytearray, memo: _Memo, depth: int) -> bytearray:
    new = memo[id(value)] = bytearray(value)
    return new


def _copy_proxy(value: MappingProxyType[Any, Any], memo: _Memo, depth: int) -> MappingProxyType[Any, Any]:
    inner: dict[Any, Any] = {}
    new = memo[id(value)] = MappingProxyType(inner)
    inner.update((key, _copy(content, memo, depth)) for key, content in value.items())
    return new


def _copy_object(value: object, memo: _Memo, depth: int) -> Any:
    """Copy an object whose contents are in its attributes."""
    new = memo[id(value)] = object.__new__(type(value))
    _copy_attributes(value, new, memo, depth)
    return new


@lru_cache(maxsize=1024)
def _flat_copier_of(kind: type) -> Callable[[Any], Any] | None:
    """Return what copies one of our own value types whose maps hold nothing that has to be copied.

    It gives None for any other content. Each task and each evaluator of a user's own gets a copy, of a usual
    example or case: that takes 1.0 us with this, where `_compile_slots_copier` alone takes 2.1 us.
    """
    copier: Callable[[Any], Any] | None = _compile_flat(kind, ["{build}", "return new"], map_copy="{place}")
    return copier


@lru_cache(maxsize=1024)
def _flat_repeater_of(kind: type) -> Callable[[Any], Callable[[], Any] | None] | None:
    """Return what makes a function of an object that gives such copies of it, 0.3 us each."""
    lines = ["def copy():", " {build}", " return new", "return copy"]
    map_copy = "None if {place} is None else {place}.copy()"
    repeater: Callable[[Any], Callable[[], Any] | None] | None = _compile_flat(kind, lines, map_copy=map_copy)
    return repeater


def _compile_flat(kind: type, last: list[str], *, map_copy: str) -> Any:
    """Compile a function that copies the maps of an object, returns None unless they are flat, and ends so.

    In the last lines, `{build}` stands for what builds the copy, with a `map_copy` for each map.
    """
    if not is_wire_type(kind) or "__slots__" not in kind.__dict__:
        return None
    types = {member.name: str(member.type) for member in fields(cast("Any", kind))}
    # A slot may have the name of another variable of the function.
    slots = {f"slot_{name}": name for name in _slot_names(kind)}
    maps = [place for place, name in slots.items() if types.get(name, "").startswith("Mapping[")]
    namespace = {"_atoms": _ATOMS, "_Open": open_class(kind), "_Kind": kind}
    lines = [
        "try:",
        *(f" {place} = value.{name}" for place, name in slots.items()),
        "except AttributeError: return None",  # a slot was never filled
    ]
    # A map that occurs twice is copied once, which needs a memo.
    lines += [f"if {one} is {other}: return None" for one, other in combinations(maps, 2)]
    for place in slots:
        if place in maps:
            lines += [
                f"if type({place}) is dict:",
                f" if {place}:",
                f"  {place} = {place}.copy()",
                f"  for content in {place}.values():",
                "   if type(content) not in _atoms: return None",
                f" else: {place} = {{}}",
                f"elif {place} is not None: return None",
            ]
        else:
            lines.append(f"if {place} is not None and type({place}) not in _atoms: return None")
    values = [map_copy.format(place=place) if place in maps else place for place in slots]
    build = ["new = _Open()", *map("new.{} = {}".format, slots.values(), values)]
    building = "; ".join([*build, "new.__class__ = _Kind"])
    lines += [line.replace("{build}", building) for line in last]
    exec("def copy_flat(value):\n " + "\n ".join(lines), namespace)
    return namespace["copy_flat"]


def _slot_names(kind: type) -> list[str]:
    """Return the names of all slots of a type: its fields, and what a base keeps beside them."""
    return [name for base in kind.__mro__ for name in base.__dict__.get("__slots__", ())]


def _compile_slots_copier(kind: type) -> _Copier:
    """Return what copies objects of one of our own value types, faster than `_copy_object`."""
    names = _slot_names(kind)
    namespace = {
        "_read": attrgetter(*names, "__class__"),  # with one name alone it would not return a tuple
        "_copy_incomplete": _copy_object,
        "_copy_content": _copy_content,
        "_atoms": _ATOMS,
        "_Open": open_class(kind),
        "_Kind": kind,
    }
    contents = [f"content_{index}" for index in range(len(names))]
    lines = [
        f"try: {', '.join([*contents, '_'])} = _read(value)",
        "except AttributeError: return _copy_incomplete(value, memo, depth)",  # a slot was never filled
        "new = memo[id(value)] = _Open()",
        *(
            f"new.{name} = {content} if type({content}) in _atoms else _copy_content({content}, memo, depth)"
            for name, content in zip(names, contents, strict=True)
        ),
        "new.__class__ = _Kind",
        "return new",
    ]
    exec("def copy_slots(value, memo, depth):\n    " + "\n    ".join(lines), namespace)
    copier: Any = namespace["copy_slots"]
    return cast("_Copier", copier)


def _copy_content(value: Any, memo: _Memo, depth: int) -> Any:
    if type(value) is not dict or id(value) in memo:
        return _copy(value, memo, depth)
    new = memo[id(value)] = {**value}  # as `_copy_dict` does, in less time for a small one
    for key, content in new.items():
        if type(content) not in _ATOMS:
            new[key] = _copy(content, memo, depth)
    return new


def _copy_attributes(value: object, new: object, memo: _Memo, depth: int) -> None:
    state: Any = object.__getstate__(value)
    if state is None:
        return
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    if attributes is value:  # an object whose keys are its attributes too
        object.__setattr__(new, "__dict__", new)
        attributes = None
    for name, content in ((attributes or {}) | slots).items():
        object.__setattr__(new, name, content if type(content) in _ATOMS else _copy(content, memo, depth))


_PLAIN_COPIERS: Final[dict[type, _Copier]] = {
    dict: _copy_dict,
    list: _copy_list,
    bytearray: _copy_bytearray,
}
_COPIERS: Final[tuple[tuple[type, _Copier], ...]] = (
    (dict, _copy_special_dict),
    (list, _copy_special_list),
    (tuple, _copy_tuple),
    (set, _copy_set),
    (deque, _copy_deque),
    (UserList, _copy_object),
    (MappingProxyType, _copy_proxy),
)
