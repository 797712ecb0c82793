"""Values of JSON in columns, with what is worth to be found out once for all who look at them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final, Self, TypeAlias

JsonObject: TypeAlias = dict[str, Any]

_MANY: Final = 8
"""Objects that are worth to be looked at column by column."""


class Column:
    """Values of one place: those that many objects have under one name, or the objects of many lines."""

    __slots__ = ("_objects", "kinds", "values")

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values
        self.kinds = set(map(type, values))
        self._objects: ObjectColumns | None = None

    @classmethod
    def of_kind(cls, kind: type, values: Sequence[Any], objects: ObjectColumns | None = None) -> Self:
        """Return a column of values of one type, with the columns inside where they are known."""
        column = cls(())
        column.values, column.kinds, column._objects = values, {kind}, objects
        return column

    @property
    def objects(self) -> ObjectColumns | None:
        """The columns inside, where all values are objects with the same names, and not only a few."""
        if self._objects is None and self.kinds == {dict} and len(self.values) >= _MANY:
            self._objects = _split_objects(self.values)
        return self._objects

    def select(self, kind: type) -> Sequence[Any]:
        """Return the values of exactly this type."""
        if kind not in self.kinds:
            return ()
        return (
            self.values if len(self.kinds) == 1 else [value for value in self.values if type(value) is kind]
        )

    def count_members(self) -> int:
        """Return how many members the objects have."""
        if self.objects is not None:
            return len(self.objects) * len(self.values)
        return sum(map(len, self.select(dict)))

    def inside(self) -> Iterable[Column]:
        """Return all values inside of the objects and arrays: by their place where all have the same ones."""
        if self.objects is not None:
            return self.objects.values()
        members = chain.from_iterable(map(dict.values, self.select(dict)))
        return (Column([*members, *chain.from_iterable(self.select(list))]),)


ObjectColumns: TypeAlias = dict[str, Column]
"""The columns of objects that have the same names, by these, in their order."""


def _split_objects(objects: Sequence[JsonObject]) -> ObjectColumns | None:
    names = list(objects[0])
    # Since no object has a name twice, the names of all in a row repeat only where each has all of them.
    if list(chain.from_iterable(objects)) != names * len(objects):
        return None
    columns = map(Column, zip(*map(dict.values, objects), strict=True))
    return dict(zip(names, columns, strict=True))
