"""The types that users pass through: of the input `In` and of the output `Out`, `Any` where nobody says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    In = TypeVar("In", default=Any)
    Out = TypeVar("Out", default=Any)
    In_co = TypeVar("In_co", covariant=True, default=Any)
    Out_co = TypeVar("Out_co", covariant=True, default=Any)
    In_contra = TypeVar("In_contra", contravariant=True, default=Any)
    Out_contra = TypeVar("Out_contra", contravariant=True, default=Any)
else:
    from typing import TypeVar

    # typing_extensions takes as long to load as all of core, and only type checkers need the defaults.
    In = TypeVar("In")
    Out = TypeVar("Out")
    In_co = TypeVar("In_co", covariant=True)
    Out_co = TypeVar("Out_co", covariant=True)
    In_contra = TypeVar("In_contra", contravariant=True)
    Out_contra = TypeVar("Out_contra", contravariant=True)


class DefaultsToAny:
    """Lets a generic class be given fewer types than it has: `Example[str]` is `Example[str, Any]`."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __class_getitem__(cls, types):
            arguments = types if isinstance(types, tuple) else (types,)
            lacking = len(getattr(cls, "__parameters__", ())) - len(arguments)
            return super().__class_getitem__(arguments + (Any,) * lacking)
