"""Fast constructors for the value types that are made for every item of a run, or for every span."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Member:
    """A field of a value type, and how its value is read."""

    name: str
    kinds: frozenset[type]
    """Types of values that are taken as they are."""
    convert: Callable[[Any], Any]
    """What makes the field's value of any other."""


def fast_factory(kind: Callable[P, T], *, is_checked: bool = True) -> Callable[P, T]:
    """Return a function that makes objects as a frozen, slotted dataclass's constructor does, but faster.

    Without `is_checked` it leaves out `__post_init__`, for a caller that has checked the values itself.

    A frozen dataclass sets each field through `object.__setattr__`. Here an object is of an open class with
    the same slots while it is filled, and becomes one of its own class when it is complete. For
    `benchmarks/runner.py` with a journal: 0.048 s of CPU per 1,000 items, where plain constructors take 0.066
    and the budget is 0.06. To turn spans into agent traces takes 11 % fewer instructions with it.
    """
    last = ["self.__post_init__()"] if is_checked and hasattr(kind, "__post_init__") else []
    make: Callable[P, T] = _compile_constructor(kind, "make", [], "self = _new(_Open)", *last, "return self")
    return make


def compile_reader(kind: Callable[..., T], members: Sequence[Member | None]) -> Callable[[Any], T]:
    """Return a function that makes objects of dictionaries which all have the same keys in the same order.

    `members` says where each value belongs, None for one that is left out. Fields that are not among them
    have defaults. Each value is looked at in place, so that neither a dictionary of arguments is filled nor
    the name of a field looked up: merging takes a sixth less CPU (`benchmarks/finished_runs.py merge`).
    """
    namespace, values = _namespace_of(kind), [f"v{place}" for place in range(len(members))]
    body = [f"{', '.join(values)}, = tree.values()" if values else "", "self = _new(_Open)"]
    for value, member in zip(values, members, strict=True):
        if member is not None:
            namespace[f"_kinds_{value}"], namespace[f"_convert_{value}"] = member.kinds, member.convert
            text = f"_convert_{value}({value})"
            if member.kinds:
                text = f"{value} if type({value}) in _kinds_{value} else {text}"
            body.append(f"self.{member.name} = {text}")
    given = {member.name for member in members if member is not None}
    for field in fields(kind):  # type: ignore[arg-type] # a dataclass
        if field.name not in given:
            default = f"_make_{field.name}()" if field.default is MISSING else f"_default_{field.name}"
            body.append(f"self.{field.name} = {default}")
    last = ["self.__post_init__()"] if hasattr(kind, "__post_init__") else []
    lines = "\n    ".join([*filter(None, body), "self.__class__ = _Frozen", *last, "return self"])
    exec(f"def read(tree):\n    {lines}", namespace)
    reader: Callable[[Any], T] = namespace["read"]
    return reader


def open_class(kind: Any, slots: tuple[str, ...]) -> type:
    """Return a class of the same layout as a frozen one, which takes the same bases."""
    content: dict[str, Any] = {"__slots__": slots}
    if "__orig_bases__" in kind.__dict__:  # else typing refuses a base that is generic
        content["__orig_bases__"] = kind.__orig_bases__
    return type(kind.__name__, kind.__bases__, content)


def _compile_constructor(kind: Any, function: str, positional: list[str], first: str, *last: str) -> Any:
    """Compile a function with the parameters of a dataclass that fills the fields of `self`."""
    members, namespace = fields(kind), _namespace_of(kind)
    keyword_only: list[str] = []
    body = [first]
    for member in members:
        name = parameter = value = member.name
        if member.default is not MISSING:
            parameter += f"=_default_{name}"
        elif member.default_factory is not MISSING:
            parameter += "=_MISSING"
            value = f"_make_{name}() if {name} is _MISSING else {name}"
        (keyword_only if member.kw_only else positional).append(parameter)
        body.append(f"self.{name} = {value}")
    body.append("self.__class__ = _Frozen")
    parameters = ", ".join([*positional, *(["*", *keyword_only] if keyword_only else [])])
    lines = "\n    ".join([*body, *last])
    exec(f"def {function}({parameters}):\n    {lines}", namespace)
    return namespace[function]


def _namespace_of(kind: Any) -> dict[str, Any]:
    """Return the names that compiled functions use: the class, and the defaults of its fields."""
    members = fields(kind)
    namespace: dict[str, Any] = {
        "__name__": __name__,  # so that an error in it is not taken for one in the user's code
        "_Open": open_class(kind, tuple(member.name for member in members)),
        "_Frozen": kind,
        "_new": object.__new__,
        "_MISSING": MISSING,
    }
    for member in members:
        if member.default is not MISSING:
            namespace[f"_default_{member.name}"] = member.default
        elif member.default_factory is not MISSING:
            namespace[f"_make_{member.name}"] = member.default_factory
    return namespace
