"""Several accepted values for an argument of an expected call, as data: `{"one_of": ["km", "kilometres"]}`.

`{"optional": {"one_of": [...]}}` says that the argument may also be left out, and `{"literal": {...}}` around
a map that would be read as one of these that the map itself is the value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import chain, product
from typing import Any, Final

from dokimos._core.agent import ToolCall
from dokimos._core.text import format_list, quote
from dokimos.errors import ConfigurationError, EvaluationError
from dokimos.evaluators._agent.argument_values import ABSENT, AcceptedValues, same_value

ONE_OF: Final = "one_of"
OPTIONAL: Final = "optional"
LITERAL: Final = "literal"

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_MAX_COMBINATIONS: Final = 1000
_HINT: Final = f'{{"{LITERAL}": ...}} around a map says that the map itself is the value'


class ExpectedCall(ToolCall):
    """A call of which several values of an argument are accepted; `arguments` holds `AcceptedValues`."""

    __slots__ = ("written",)
    written: Mapping[str, Any]
    """The arguments as they are written in the data."""


def one_of(*values: Any, optional: bool = False) -> dict[str, Any]:
    """Return the data form of an argument of an expected call of which each of the values is accepted.

    `ToolCall("convert", {"unit": one_of("km", "kilometres"), "digits": one_of(2, optional=True)})` expects a
    unit, and either two digits or nothing said about them.

    Args:
        values: What is accepted; compared strictly, as every value is. One may hold such a form itself.
        optional: Whether the argument may also be left out, which None among the values does not say.

    Raises:
        ConfigurationError: without any value.

    Example:
        >>> one_of("km", "kilometres")
        {'one_of': ['km', 'kilometres']}
        >>> one_of(2, optional=True)
        {'optional': {'one_of': [2]}}
    """
    if not values:
        raise ConfigurationError("one_of takes at least one accepted value.")
    form: dict[str, Any] = {ONE_OF: list(values)}
    return {OPTIONAL: form} if optional else form


def read_expected(call: ToolCall) -> ToolCall:
    """Parse the accepted values in an expected call's arguments; return the call itself if there are none.

    Raises:
        EvaluationError: for a form that accepts nothing, or `optional` where nothing can be left out.
    """
    if not _hold_form(call.arguments.values()):
        return call
    try:
        arguments = read_values(call.arguments)
    except ConfigurationError as error:
        raise EvaluationError(f"The expected call of {call.name!r}: {error}") from None
    expected = ExpectedCall(call.name, arguments, result=call.result, metadata=call.metadata)
    object.__setattr__(expected, "written", call.arguments)
    return expected


def arguments_as_written(call: ToolCall) -> Mapping[str, Any]:
    """Return the arguments of an expected call as they are written in the data."""
    return call.written if isinstance(call, ExpectedCall) else call.arguments


def read_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the forms in arguments into `AcceptedValues`. Raises `ConfigurationError`."""
    return {name: read_value(value, str(name), may_be_absent=True) for name, value in arguments.items()}


def read_value(value: object, location: str, *, may_be_absent: bool = False) -> Any:
    """Parse the forms in a value into `AcceptedValues`. Raises `ConfigurationError`."""
    if isinstance(value, Mapping):
        if not _is_form(value):
            return {
                key: read_value(each, f"{location}.{key}", may_be_absent=True) for key, each in value.items()
            }
        ((form, content),) = value.items()
        if form == LITERAL:
            return content
        if form == ONE_OF:
            return AcceptedValues(_options(content, location))
        if not may_be_absent:
            raise ConfigurationError(f'{location}: "{OPTIONAL}" has no meaning here; {_HINT}.')
        return AcceptedValues(_options(content[ONE_OF], location), may_be_absent=True)
    # A named tuple is a record, not a list.
    if isinstance(value, list | tuple) and not hasattr(value, "_asdict"):
        return [read_value(each, f"{location}[{index}]") for index, each in enumerate(value)]
    return value


def _options(content: object, location: str) -> tuple[Any, ...]:
    if not isinstance(content, list | tuple) or not content:
        raise ConfigurationError(
            f'{location}: "{ONE_OF}" takes a list of at least one accepted value, not {quote(content)}; '
            f"{_HINT}."
        )
    return tuple(read_value(each, f"{location}.{ONE_OF}[{index}]") for index, each in enumerate(content))


def _hold_form(values: Iterable[Any]) -> bool:
    for value in values:
        if type(value) in _SCALARS:
            continue
        if isinstance(value, Mapping):
            if _is_form(value) or _hold_form(value.values()):
                return True
        elif isinstance(value, list | tuple) and _hold_form(value):
            return True
    return False


def _is_form(value: object) -> bool:
    if not isinstance(value, Mapping) or len(value) != 1:
        return False
    ((form, content),) = value.items()
    if form == ONE_OF:
        return True
    if form == OPTIONAL:
        return isinstance(content, Mapping) and content.keys() == {ONE_OF}
    return form == LITERAL and _is_form(content)


def hint_literal(expected: object, actual: object) -> str:
    """Return a hint at `literal` where the actual value looks like the form itself, else ""."""
    looks_meant = expected is not ABSENT and _hold_form([actual]) and same_value(as_data(expected), actual)
    return f"; {_HINT}" if looks_meant else ""


def alternatives(value: object, most: int) -> list[Any] | None:
    """Expand an expected value with `AcceptedValues` into every value that it stands for.

    None where there would be more than `most`. `ABSENT` stands for what may be left out.
    """
    if isinstance(value, AcceptedValues):
        # One more than allowed is enough to know that there are too many.
        parts = [alternatives(each, most) for each in value.values[: most + 1]]
        return _merge_alternatives(parts, value.may_be_absent, most)
    if not isinstance(value, dict | list):
        return [value]
    inner = value.values() if isinstance(value, dict) else value
    chosen = _choices([alternatives(each, most) for each in inner], most)
    if chosen is None:
        return None
    return [_entries(value, choice) if isinstance(value, dict) else list(choice) for choice in chosen]


def every_alternative(value: object) -> list[Any]:
    """Expand an expected value for a user's function, which is called with each alternative.

    Raises:
        EvaluationError: where there would be more than 1000.
    """
    expanded = alternatives(value, _MAX_COMBINATIONS)
    if expanded is None:
        raise EvaluationError(
            f"The accepted values of an expected call combine in more than {_MAX_COMBINATIONS} ways, and a "
            "function is called with each; compare single arguments with functions, or accept fewer values."
        )
    return expanded


def _merge_alternatives(parts: list[list[Any] | None], may_be_absent: bool, most: int) -> list[Any] | None:
    expandable = [part for part in parts if part is not None]
    joined = [*([ABSENT] if may_be_absent else []), *chain.from_iterable(expandable)]
    return None if len(expandable) < len(parts) or len(joined) > most else joined


def _choices(parts: list[list[Any] | None], most: int) -> list[tuple[Any, ...]] | None:
    """Return the Cartesian product of the lists; None where it is too large or a list is unknown."""
    expandable = [part for part in parts if part is not None]
    if len(expandable) < len(parts) or math.prod(map(len, expandable)) > most:
        return None
    return list(product(*expandable))


def _entries(keys: Iterable[Any], values: Iterable[Any]) -> dict[Any, Any]:
    return {key: value for key, value in zip(keys, values, strict=True) if value is not ABSENT}


def describe_expected(value: object) -> str:
    """Return an expected value as it stands in a reason: `'km'`, or `one of 'km', 'kilometres'`."""
    if not isinstance(value, AcceptedValues):
        return quote(as_data(value))
    options = format_list([as_data(each) for each in value.values])
    text = f"one of {options}" if len(value.values) > 1 else options
    return f"{text} or nothing" if value.may_be_absent else text


def as_data(value: object) -> Any:
    """Return a value with the data form in the place of the `AcceptedValues` in it."""
    if isinstance(value, AcceptedValues):
        return one_of(*map(as_data, value.values), optional=value.may_be_absent)
    if isinstance(value, Mapping):
        return {key: as_data(each) for key, each in value.items()}
    return [as_data(each) for each in value] if isinstance(value, list) else value
