"""The identity of a judge, under which its replies are cached, whether it has an `identity` or not."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from types import CodeType
from typing import Any, Final
from weakref import WeakKeyDictionary

DEEPEST: Final = 3
"""How many levels of the values that a judge holds are hashed."""
_SECRET: Final = re.compile("key|token|secret|passw", re.IGNORECASE)
_PLAIN: Final = str | int | float | bool | bytes | None

_identities: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def identity_of(judge: object) -> str:
    """Return the judge's own `identity`, else its class or function with a hash of the values it holds.

    The hash is computed when the judge is first seen: a judge that counts its calls keeps its identity.
    Values that differ in every process (open files, locks, connections) are not hashed.
    """
    own = getattr(judge, "identity", None)  # `Identified`; isinstance would take longer, at every call
    if isinstance(own, str):
        return own
    with contextlib.suppress(TypeError):  # an object without weak references is hashed each time
        if judge in _identities:
            return _identities[judge]
    identity = _identity(judge, 0)
    with contextlib.suppress(TypeError):
        _identities[judge] = identity
    return identity


def _identity(thing: object, depth: int) -> str:
    own = getattr(thing, "identity", None)
    if isinstance(own, str):
        return own
    code = getattr(_unwrap(thing), "__code__", None)
    return _object_identity(thing, depth) if code is None else _function_identity(thing, code, depth)


def _function_identity(function: object, code: CodeType, depth: int) -> str:
    """Return module and name, with a hash of what distinguishes functions: constants, defaults, closure."""
    inner = _unwrap(function)
    parts = [
        *sorted(_constants(code)),
        # Not the bytecode, which differs between versions of Python: replies would not be found after an
        # update.
        *code.co_names,
        *(_stable_form(value, depth + 1) for value in inner.__defaults__ or ()),
        *_format_members(inner.__kwdefaults__ or {}, depth),
        *_format_members(_closure(inner, code), depth),
    ]
    owner = getattr(function, "__self__", None)
    bound = "" if owner is None else f" of {_identity(owner, depth + 1)}"
    return f"{inner.__module__}:{inner.__qualname__}#{_short_hash(parts)}{bound}"


def _object_identity(thing: object, depth: int) -> str:
    """Return the class, with a hash of the values that the object holds."""
    kind = type(thing)
    if isinstance(thing, functools.partial):
        values = {"func": thing.func, "args": thing.args, **thing.keywords}
    else:
        names = [*getattr(thing, "__dict__", {}), *getattr(kind, "__slots__", ())]
        values = {name: getattr(thing, name, None) for name in sorted(names)}
    parts = list(_format_members(values, depth))
    return f"{kind.__module__}:{kind.__qualname__}" + (f"#{_short_hash(parts)}" if parts else "")


def _stable_form(value: object, depth: int) -> str:
    """Return a value in a form that is the same in every process."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, type) or inspect.isbuiltin(value) or inspect.ismethoddescriptor(value):
        return f"{getattr(value, '__module__', '')}:{value.__qualname__}"
    if depth >= DEEPEST:
        return type(value).__qualname__
    if isinstance(value, Mapping):
        return str(
            [(_stable_form(key, depth + 1), _stable_form(each, depth + 1)) for key, each in value.items()]
        )
    if isinstance(value, list | tuple):
        return str([_stable_form(each, depth + 1) for each in value])
    if isinstance(value, Set):
        return str(sorted(_stable_form(each, depth + 1) for each in value))
    return _identity(value, depth)


def _format_members(values: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Yield values with their names, but no secrets."""
    for name, value in values.items():
        if not _SECRET.search(name):
            yield f"{name}={_stable_form(value, depth + 1)}"


def _constants(code: CodeType) -> Iterator[str]:
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _constants(value)
        elif value is not None and isinstance(value, _PLAIN):
            yield repr(value)


def _closure(function: Any, code: CodeType) -> dict[str, Any]:
    values = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        with contextlib.suppress(ValueError):  # nothing has been put into it yet
            values[name] = cell.cell_contents
    return values


def _unwrap(function: Any) -> Any:
    return inspect.unwrap(getattr(function, "__func__", function))


def _short_hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:8]
