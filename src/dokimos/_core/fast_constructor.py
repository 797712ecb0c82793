"""Fast constructors for the value types that are made for every item of a run, or for every span."""

from __future__ import annotations

import functools
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
    `benchmarks/runner.py` with a journal: 0.022 s of CPU per 1,000 items, where plain ones take 0.031. To
    turn spans into agent traces takes 11 % fewer instructions with it.
    """
    make: Callable[P, T] = _compile_factory(kind, is_checked=is_checked, given=None)
    return make


def positional_factory(kind: Callable[..., T], *given: str, is_checked: bool = True) -> Callable[..., T]:
    """Return what `fast_factory` does, which takes these fields by place; the others have their defaults.

    To pass ten values by keyword takes half as long as all the rest: 0.42 us for an `EvalResult`, 0.30 us so.
    """
    make: Callable[..., T] = _compile_factory(kind, is_checked=is_checked, given=given)
    return make


def fast_copier(kind: Callable[..., T], *maps: str) -> Callable[[T], T]:
    """Return a function that copies objects of a frozen, slotted dataclass, unchecked.

    The copy has maps of its own in the fields `maps`, which hold dictionaries, and shares all else.
    """
    members = [member.name for member in fields(kind)]  # type: ignore[arg-type] # a dataclass
    copied = [f"self.{name} = other.{name}{'.copy()' if name in maps else ''}" for name in members]
    body = ["self = _Open()", *copied, "self.__class__ = _Frozen", "return self"]
    namespace = _namespace_of(kind) | _open_classes(kind)
    exec("\n    ".join(["def copy(other):", *body]), namespace)
    copier: Callable[[T], T] = namespace["copy"]
    return copier


def fast_init(kind: type[T]) -> type[T]:
    """Give a frozen, slotted dataclass without `__post_init__` a faster constructor, and return it.

    For values that users' code makes. The descriptors of the slots set the fields, also those of a subclass,
    where `object.__setattr__` looks each of them up by its name: 0.37 us instead of 0.67 us for a `Score`.
    """
    target: Any = kind
    own_init = target.__init__
    setters = {f"_set_{member.name}": getattr(kind, member.name).__set__ for member in fields(target)}
    init = _compile_constructor(kind, "__init__", ["self"], ["_set_{name}(self, {value})"], setters)
    # So that its signature and its annotations are read as those of the dataclass, in that one's module.
    target.__init__ = functools.wraps(own_init)(init)
    return kind


def _compile_factory(kind: Any, *, is_checked: bool, given: tuple[str, ...] | None) -> Any:
    last = ["self.__post_init__()"] if is_checked and hasattr(kind, "__post_init__") else []
    lines = ["self = _Open()", "self.{name} = {value}", "self.__class__ = _Frozen", *last, "return self"]
    return _compile_constructor(kind, "make", [], lines, _open_classes(kind), given)


def compile_reader(kind: Callable[..., T], members: Sequence[Member | None]) -> Callable[[Any], T]:
    """Return a function that makes objects of dictionaries which all have the same keys in the same order.

    `members` says where each value belongs, None for one that is left out. Fields that are not among them
    have defaults. Each value is looked at in place, so that neither a dictionary of arguments is filled nor
    the name of a field looked up: merging takes a sixth less CPU (`benchmarks/finished_runs.py merge`).
    """
    namespace = _namespace_of(kind) | _open_classes(kind)
    values = [f"v{place}" for place in range(len(members))]
    body = [f"{', '.join(values)}, = tree.values()" if values else "", "self = _Open()"]
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


def open_class(kind: type) -> Any:
    """Return a class like a frozen one, whose fields can be set, and whose objects can become of that one.

    As a subclass without slots of its own, it has the same layout, which Python would compare slot by slot
    each time, and it is called faster than `object.__new__`: an `EvalResult` takes 0.15 us instead of 0.21.
    """
    # `__delattr__`, too: without it, Python would go on to look up `__setattr__` for each field.
    methods = ("__new__", "__init__", "__setattr__", "__delattr__")
    return type(kind.__name__, (kind,), {"__slots__": ()} | {name: getattr(object, name) for name in methods})


def _open_classes(kind: Any) -> dict[str, Any]:
    """Return the names of a frozen class and of the one whose fields can be set."""
    return {"_Open": open_class(kind), "_Frozen": kind}


def _compile_constructor(
    kind: Any,
    function: str,
    positional: list[str],
    lines: list[str],
    content: dict[str, Any],
    given: tuple[str, ...] | None = None,
) -> Any:
    """Compile a function with the parameters of a dataclass; a line with `{name}` is one for each field.

    `given` are fields that are the only parameters, by place; None for all, as the dataclass has them.
    """
    namespace = _namespace_of(kind) | content
    keyword_only: list[str] = []
    values: dict[str, str] = {}
    for member in fields(kind):
        name = parameter = values[member.name] = member.name
        if member.default is not MISSING:
            parameter += f"=_default_{name}"
        elif member.default_factory is not MISSING:
            parameter += "=_MISSING"
            values[name] = f"_make_{name}() if {name} is _MISSING else {name}"
        if given is None:
            (keyword_only if member.kw_only else positional).append(parameter)
        elif name not in given:
            values[name] = f"_make_{name}()" if f"_make_{name}" in namespace else f"_default_{name}"
        else:
            values[name] = name
    parameters = ", ".join([*positional, *(given or ()), *(["*", *keyword_only] if keyword_only else [])])
    body: list[str] = []
    for line in lines:
        is_repeated = "{name}" in line
        body += [line.format(name=n, value=v) for n, v in values.items()] if is_repeated else [line]
    exec("\n    ".join([f"def {function}({parameters}):", *body]), namespace)
    return namespace[function]


def _namespace_of(kind: Any) -> dict[str, Any]:
    """Return the names that compiled functions use: the defaults of the fields, and what all of them need."""
    namespace: dict[str, Any] = {
        "__name__": __name__,  # so that an error in it is not taken for one in the user's code
        "_MISSING": MISSING,
    }
    for member in fields(kind):
        if member.default is not MISSING:
            namespace[f"_default_{member.name}"] = member.default
        elif member.default_factory is not MISSING:
            namespace[f"_make_{member.name}"] = member.default_factory
    return namespace
