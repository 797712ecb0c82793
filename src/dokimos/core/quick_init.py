"""A fast constructor for the value types that are made for every item."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T")


def quick_init(kind: type[T]) -> type[T]:
    """Decorate a frozen, slotted dataclass: its constructor takes half the time, and does the same.

    A frozen dataclass sets each field through `object.__setattr__`. Here an object is of an open class with
    the same slots while it is filled, and becomes one of its own class when it is complete.
    """
    members = fields(kind)  # type: ignore[arg-type] # a dataclass, which its decorator does not say
    names = tuple(member.name for member in members)
    known: dict[str, Any] = {
        "_Open": type(kind.__name__, (), {"__slots__": names}),
        "_Frozen": kind,
        "_become": object.__setattr__,
        "_MISSING": MISSING,
    }
    positional: list[str] = ["self"]
    keyword_only: list[str] = []
    body = ["_become(self, '__class__', _Open)"]
    for member in members:
        name, value = member.name, member.name
        parameter = name
        if member.default is not MISSING:
            known[f"_default_{name}"] = member.default
            parameter += f"=_default_{name}"
        elif member.default_factory is not MISSING:
            known[f"_make_{name}"] = member.default_factory
            parameter += "=_MISSING"
            value = f"_make_{name}() if {name} is _MISSING else {name}"
        (keyword_only if member.kw_only else positional).append(parameter)
        body.append(f"self.{name} = {value}")
    body.append("self.__class__ = _Frozen")
    if hasattr(kind, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *keyword_only] if keyword_only else [])])
    lines = "\n    ".join(body)
    exec(f"def __init__({parameters}):\n    {lines}", known)
    init = known["__init__"]
    init.__qualname__ = f"{kind.__qualname__}.__init__"
    init.__annotations__ = kind.__init__.__annotations__
    type.__setattr__(kind, "__init__", init)
    return kind
