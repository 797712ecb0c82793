"""Functions in the place of tools, with their signatures, that give recorded results."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_type_hints

from dokimos._core.agent import ToolCall
from dokimos._core.json_object import parse_if_container

if TYPE_CHECKING:
    from dokimos.replay._replay import Replay

F = TypeVar("F", bound=Callable[..., Any])
ArgumentBinder = Callable[[Mapping[str, Any] | str], Any]
"""Brings the arguments of a call, recorded or given, into one form."""

_CONVERTED: Final = (int, float, bool)


def wrap_tool(replay: Replay, function: F, name: str) -> F:
    """Return a function that gives the recorded results of a tool."""
    signature = inspect.signature(function)
    convert = _make_converter(function, name)
    bind = functools.partial(_fill_in, signature)

    def give(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arguments = signature.bind(*args, **kwargs)
        return convert(replay.take_tool_result(name, _flatten(signature, arguments), bind))

    stand_in: Any
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def stand_in(*args: Any, **kwargs: Any) -> Any:
            return give(args, kwargs)
    else:

        @functools.wraps(function)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            return give(args, kwargs)

    result: F = stand_in
    return result


def _fill_in(signature: inspect.Signature, arguments: Mapping[str, Any] | str) -> Any:
    """Add the defaults to arguments; those that do not fit the signature stay as they are."""
    named = parse_if_container(arguments)
    if not isinstance(named, Mapping):
        return named
    try:
        bound = signature.bind(**named)
    except TypeError:
        return named
    return _flatten(signature, bound)


def _flatten(signature: inspect.Signature, bound: inspect.BoundArguments) -> dict[str, Any]:
    bound.apply_defaults()
    named = dict(bound.arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named |= named.pop(parameter.name)
    return named


def _make_converter(function: Callable[..., Any], name: str) -> Callable[[str], Any]:
    """Return what makes the value of a tool of the text that was recorded, as its annotation says."""
    try:
        target = get_type_hints(function).get("return")
    except Exception:  # annotations may name what exists for type checkers alone
        target = None
    if target is str:
        return str
    if target in _CONVERTED:
        return lambda text: ToolCall(name, result=text).result_as(target)
    return parse_if_container
