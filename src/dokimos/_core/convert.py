"""Convert the values in a payload to the type that a reader asks for."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import (
    TYPE_CHECKING,
    Any,
    NotRequired,
    Required,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from dokimos._core.constraints import describe_requirement
from dokimos._core.jsonable import jsonable
from dokimos.errors import TypeConversionError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


def convert(value: object, target: type[T], *, what: str, key: str | None = None) -> T | None:
    """Return `value` as a `target`: dataclass, pydantic model, TypedDict, enum, `list[T]`, `dict[str, T]` ...

    None stays None, and a value that already is a `target` is returned itself. A string is never parsed as
    JSON. `what` and `key` say in an error where the value came from.

    Raises:
        TypeConversionError: naming target, key and cause.
    """
    if value is None:
        return None
    if _is_instance(value, target):
        return cast("T", value)
    try:
        return cast("T", _validate(value, target))
    except Exception as cause:
        source = what if key is None else f"{what} {key!r}"
        raise TypeConversionError(
            f"Cannot convert {source} to {_type_name(target)}: {explain(cause)}", target=target, key=key
        ) from cause


def convert_entry(
    entries: Mapping[str, Any], target: type[T] | str, key: str | type[T], *, what: str
) -> T | None:
    """Return the value under a key as a `target`, like `convert`; type and key may come in either order.

    Raises:
        TypeError: unless one of the two is a text.
        TypeConversionError: naming target, key and cause.
    """
    target_type: Any = target
    if isinstance(target, str):
        target_type, key = key, target
    if isinstance(target_type, str) or not isinstance(key, str):
        name = what.replace(" ", "_")
        raise TypeError(
            f"{name}_as() takes a type and a key, such as {name}_as(Movie, 'movie'), "
            f"not {target_type!r:.80} and {key!r:.80}."
        )
    return convert(entries.get(key), cast("type[T]", target_type), what=what, key=key)


def _is_instance(value: object, target: object) -> bool:
    if not isinstance(target, type) or get_origin(target) is not None or is_typeddict(target):
        return False
    # True is an int to Python but not to anyone who asked for a number.
    if isinstance(value, bool) and target is not bool and target is not object:
        return False
    try:
        return isinstance(value, target)
    except TypeError:  # Any, protocols, another library's TypedDict
        return False


def _validate(value: object, target: object) -> Any:
    if isinstance(value, bool) and target in (int, float):
        raise ValueError(f"a bool is not a number (got {value})")
    if target is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    validator = adapter(target)
    try:
        return _original_if_same(value, validator.validate_python(value))
    except ValueError as cause:
        try:
            return validator.validate_python(jsonable(value))  # objects as mappings of their fields
        except ValueError:
            raise cause from None  # the first one: it speaks of the value as it was given


def _original_if_same(value: Any, converted: Any) -> Any:
    """Give back the container itself where validation copied it but changed nothing in it."""
    if type(value) is not type(converted):
        return converted
    if isinstance(value, list) and all(a is b for a, b in zip(value, converted, strict=True)):
        return value
    if isinstance(value, dict) and value.keys() == converted.keys():
        return value if all(converted[k] is v for k, v in value.items()) else converted
    return converted


def adapter(target: object) -> TypeAdapter[Any]:
    """Return what reads values as a `target`; the same one each time."""
    try:
        return _build_adapter(target)
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
        return _new_adapter(target)


def _new_adapter(target: object) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(_replace_typed_dicts(target))


@lru_cache(maxsize=256)
def _build_adapter(target: object) -> TypeAdapter[Any]:
    return _new_adapter(target)


def _replace_typed_dicts(target: object) -> Any:
    """Rebuild `typing.TypedDict`s, which pydantic reads only from Python 3.12 on, as typing_extensions'."""
    if sys.version_info >= (3, 12):
        return target
    if is_typeddict(target):
        return _rebuild_typed_dict(target)
    origin, arguments = get_origin(target), get_args(target)
    if origin is None or not any(map(_mentions_typed_dict, arguments)):
        return target
    rebuilt = tuple(_replace_typed_dicts(argument) for argument in arguments)
    if origin is types.UnionType:
        from typing import Union

        return Union[rebuilt]  # noqa: UP007 - built from values, not written as types
    return origin[rebuilt]


def _mentions_typed_dict(target: object) -> bool:
    return is_typeddict(target) or any(map(_mentions_typed_dict, get_args(target)))


def _rebuild_typed_dict(target: Any) -> Any:
    from typing_extensions import TypedDict

    fields = {
        name: (Required if name in target.__required_keys__ else NotRequired)[_replace_typed_dicts(hint)]
        for name, hint in get_type_hints(target).items()
    }
    return TypedDict(target.__name__, fields)  # type: ignore[operator] # known only when it runs


def explain(cause: Exception) -> str:
    """Say in one line what was wrong with a value: where in it, what, and what was found there."""
    errors = getattr(cause, "errors", None)
    if not callable(errors):
        return getattr(cause, "message", None) or str(cause) or type(cause).__name__
    return "; ".join(_explain_one(error) for error in _first(errors(), 5))


def _explain_one(error: dict[str, Any]) -> str:
    path = ".".join(str(step) for step in error["loc"])
    given = repr(error.get("input"))
    if len(given) > 80:
        given = f"{given[:77]}..."
    return f"{path + ': ' if path else ''}{describe_requirement(error)} (got {given})"


def _first(items: Iterable[Any], count: int) -> Iterable[Any]:
    return (item for _, item in zip(range(count), items, strict=False))


def _type_name(target: object) -> str:
    return target.__name__ if isinstance(target, type) and get_origin(target) is None else str(target)
