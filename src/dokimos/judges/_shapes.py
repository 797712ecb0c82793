"""Field types for what a judge is asked to reply; they bring pydantic in only where a reply is read."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias


class _Word:
    """Reads a word without regard to case, white space and the punctuation around it."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(_bare_word, handler(source))


class _NoBool:
    """Refuses true and false, which would otherwise be read as 1 and 0."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(_not_bool, handler(source))


class AsGiven:
    """Takes any value as it is: for parameters that check what they are given themselves."""

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()


Number: TypeAlias = Annotated[float, _NoBool()]
"""A number, also as text ("0.8"), but no bool."""
WholeNumber: TypeAlias = Annotated[int, _NoBool()]
YesNo: TypeAlias = Annotated[Literal["yes", "no"], _Word()]
YesNoUnsure: TypeAlias = Annotated[Literal["yes", "no", "idk"], _Word()]
"""Yes, no, or "idk": the material says nothing about it."""
Preference: TypeAlias = Annotated[Literal["first", "second", "tie"], _Word()]


def _bare_word(value: object) -> Any:
    return value.strip(" \t\r\n.,;:!\"'*").casefold() if isinstance(value, str) else value


def _not_bool(value: object) -> Any:
    if isinstance(value, bool):
        raise ValueError("it should be a number, not true or false")
    return value
