"""The parameters of a callable: names, defaults, and annotations as far as they matter to a task."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import Parameter
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.task_marker import TaskArgument, find_mark
from dokimos.experiment._annotations import annotation_names

_POSITIONAL: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_EXAMPLE: Final = "example"
_INPUTS: Final = "inputs"
_EXAMPLE_NAMES: Final = frozenset({"Example"})
_MAPPING_NAMES: Final = frozenset({"Dict", "Mapping", "MutableMapping"})
_MOST_LAYERS: Final = 100
"""Decorators around one function; more than anybody writes, so that a ring of them ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters that are left to fill in: none that a method or a partial has filled in already."""

    all: tuple[Parameter, ...] = ()
    """In order; without `*args` and `**kwargs`."""
    taken: TaskArgument | None = None
    """What the callable is marked to take, or the function in its wrapper."""
    is_known: bool = True
    """False for a callable without a readable signature, or with one that says nothing."""
    is_wrapped: bool = False
    """Whether they are those of a function inside a wrapper that takes anything."""
    takes_more: bool = False
    """Whether there is an `*args`."""
    takes_any_keyword: bool = False
    """Whether there is a `**kwargs`."""
    bound: frozenset[str] = frozenset()
    """The names that a partial has filled in."""
    namespace: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Where annotations that are texts are looked up."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.all)

    @property
    def mandatory(self) -> tuple[Parameter, ...]:
        """Those without a default."""
        return tuple(parameter for parameter in self.all if parameter.default is Parameter.empty)

    @property
    def takes_something(self) -> bool:
        return bool(self.all) or self.takes_more or self.takes_any_keyword

    @property
    def first(self) -> Parameter | None:
        """The parameter that a single argument goes to, None where that is `*args` or nothing."""
        if self.all and self.all[0].kind in _POSITIONAL:
            return self.all[0]
        if self.takes_more:
            return None
        return _only(self.mandatory) or _only(self.all)

    @property
    def takes_example(self) -> bool:
        """Whether it is marked to take the example, or its first parameter asks for it.

        That does so by its annotation or, without one, by its name.
        """
        first = self.first
        if self.taken is not None or first is None:
            return self.taken == "example"
        if first.annotation is Parameter.empty:
            return first.name == _EXAMPLE
        return annotation_names(first.annotation, Example, _EXAMPLE_NAMES, self.namespace)

    def asks_for_mapping(self, parameter: Parameter) -> bool:
        """Say whether a parameter asks for all inputs, by its annotation or, without one, its name."""
        if parameter.annotation in (Parameter.empty, Any, "Any", "typing.Any"):
            return parameter.name == _INPUTS
        return annotation_names(parameter.annotation, Mapping, _MAPPING_NAMES, self.namespace)


def read_parameters(task: Callable[..., Any]) -> Parameters:
    """Read the parameters of the outermost function of a callable.

    Where that takes anything (`*args, **kwargs`, like the wrapper of a retry) those of the function that it
    wraps are read, as far inside as there is one.
    """
    current: Any = task
    taken: TaskArgument | None = None
    for depth in range(_MOST_LAYERS):
        taken = taken or find_mark(current)
        signature = _signature(current)
        if signature is not None and not _takes_anything(signature):
            return replace(_parameters(current, signature), taken=taken, is_wrapped=depth > 0)
        inner = _find_inner_callable(current)
        if inner is None:
            break
        current = inner
    return Parameters(is_known=False, taken=taken)


def keyword_of(parameter: Parameter | None) -> str | None:
    """Return the name under which an argument has to be given, None where it can be given positionally."""
    return parameter.name if parameter is not None and parameter.kind is Parameter.KEYWORD_ONLY else None


def _parameters(task: object, signature: inspect.Signature) -> Parameters:
    bound = _find_bound_names(task)
    parameters = signature.parameters.values()
    kinds = {parameter.kind for parameter in parameters}
    variadic = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return Parameters(
        all=tuple(p for p in parameters if p.kind not in variadic and p.name not in bound),
        takes_more=Parameter.VAR_POSITIONAL in kinds,
        takes_any_keyword=Parameter.VAR_KEYWORD in kinds,
        bound=bound,
        namespace=_namespace(task),
    )


def _signature(task: Any) -> inspect.Signature | None:
    more: dict[str, Any] = {}
    if sys.version_info >= (3, 14):  # annotations are evaluated when they are asked for
        import annotationlib

        more["annotation_format"] = annotationlib.Format.FORWARDREF
    try:
        return inspect.signature(task, follow_wrapped=False, **more)
    except Exception:  # built-in types, mocks of test frameworks, a `__signature__` of another type
        return None


def _takes_anything(signature: inspect.Signature) -> bool:
    """Say whether a function takes any arguments, whatever options of its own it has."""
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if Parameter.VAR_POSITIONAL not in kinds or any(kind in _POSITIONAL for kind in kinds):
        return False
    own = [p for p in signature.parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    return all(parameter.default is not Parameter.empty for parameter in own)


def _find_inner_callable(task: object) -> Any:
    """Return the callable one layer inside a wrapper, None for what wraps nothing."""
    if isinstance(task, functools.partial):
        inner = _find_inner_callable(task.func)
        return None if inner is None else functools.partial(inner, *task.args, **task.keywords)
    if isinstance(task, types.MethodType):
        inner = _find_inner_callable(task.__func__)
        return None if inner is None else types.MethodType(inner, task.__self__)
    wrapped = getattr(task, "__wrapped__", None)
    if callable(wrapped):
        return wrapped
    call = getattr(type(task), "__call__", None)  # noqa: B004 - the method is wanted, not whether there is one
    if isinstance(call, types.FunctionType) and not isinstance(task, types.FunctionType):
        return _find_inner_callable(types.MethodType(call, task))
    return None


def _find_bound_names(task: object) -> frozenset[str]:
    names: frozenset[str] = frozenset()
    while isinstance(task, functools.partial):
        names |= task.keywords.keys()
        task = task.func
    return names


def _namespace(task: object) -> Mapping[str, Any]:
    """Return the globals of the module in which a callable's parameters are written."""
    while isinstance(task, functools.partial):
        task = task.func
    if inspect.isclass(task):
        task = task.__init__
    elif not inspect.isroutine(task):
        task = getattr(type(task), "__call__", task)  # noqa: B004 - the method is wanted
    module_globals = getattr(task, "__globals__", None)
    return module_globals if isinstance(module_globals, dict) else {}


def _only(parameters: tuple[Parameter, ...]) -> Parameter | None:
    return parameters[0] if len(parameters) == 1 else None
