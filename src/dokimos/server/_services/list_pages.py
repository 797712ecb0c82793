"""In which order a list is read, and a page of it, which goes on behind a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, or_

from dokimos.server._services.errors import InvalidRequestError

_DIRECTIONS: Final = ("asc", "desc")


@dataclass(frozen=True, slots=True)
class Order:
    """An order of rows: by values of which the last ones are the same for no two rows."""

    values: tuple[ColumnElement[Any], ...]
    is_descending: bool

    def apply(self, query: Select[Any]) -> Select[Any]:
        """Return the query with its rows in this order."""
        return query.order_by(*(value.desc() if self.is_descending else value.asc() for value in self.values))

    def replace(self, values: Mapping[ColumnElement[Any], ColumnElement[Any]]) -> Order:
        """Return the same order by other values, such as by what a caller sees of them."""
        return Order(tuple(values.get(value, value) for value in self.values), self.is_descending)

    def is_behind(self, place: Sequence[Any]) -> ColumnElement[bool]:
        """The condition that a row comes later than one with these values."""
        return _is_beyond(self.values, place, is_descending=self.is_descending)


class SortKeys:
    """What a list can be sorted by.

    Args:
        keys: The value for each name; never NULL, which has no place in an order.
        ties: What tells apart rows with the same value; the last column of it is the id, or a part of it.
        default: The documented order, such as `createdAt,desc`.
    """

    def __init__(
        self,
        keys: Mapping[str, ColumnElement[Any]],
        *,
        ties: tuple[ColumnElement[Any], ...],
        default: str,
    ) -> None:
        self._keys = keys
        self._ties = ties
        self.default: Final = default

    @property
    def choices(self) -> list[str]:
        """All values of the parameter `sort`."""
        return [f"{name}{direction}" for name in self._keys for direction in ("", ",asc", ",desc")]

    def parse(self, text: str | None) -> Order:
        """Return the order that the parameter `sort` asks for: a name, and perhaps `,asc` or `,desc`.

        Raises:
            InvalidRequestError: The list cannot be sorted so.
        """
        name, comma, direction = (text or self.default).partition(",")
        direction = direction.lower()
        value = self._keys.get(name)
        if value is None or (comma and direction not in _DIRECTIONS):
            names = list(self._keys)
            listed = f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
            raise InvalidRequestError(f"must be {listed}, alone or with ',asc' or ',desc'", field="sort")
        values = self._ties if value is self._ties[0] else (value, *self._ties)
        return Order(values, is_descending=direction == "desc")


@dataclass(frozen=True, slots=True)
class ListPage:
    """Which part of a list is asked for."""

    order: Order
    limit: int | None = None
    """Rows at most; None for all."""
    after: str | None = None
    """The id of the row that the page before ended with."""
    place: tuple[Any, ...] | None = None
    """The values of that row by which the list is sorted, where they are known: it may be there no more."""


def read_page(
    connection: Connection,
    rows: Select[Any],
    page: ListPage,
    id_column: ColumnElement[str],
    *conditions: ColumnElement[bool],
) -> Sequence[Row[Any]]:
    """Return a page of a list.

    Args:
        rows: All rows of the list that the caller sees.
        id_column: By which `page.after` names one of them.
        conditions: Which of them are asked for; the row that the page goes on behind need not be one.

    Raises:
        InvalidRequestError: `page.after` is not the id of a row of the list.
    """
    query = page.order.apply(rows.where(*conditions))
    if page.after is not None:
        query = query.where(page.order.is_behind(find_place(connection, rows, page, id_column)))
    return connection.execute(query.limit(page.limit)).all()


def find_place(
    connection: Connection, rows: Select[Any], page: ListPage, id_column: ColumnElement[str]
) -> Sequence[Any]:
    """Return the values of the row that a page goes on behind.

    Raises:
        InvalidRequestError: It is not in the list.
    """
    query = rows.with_only_columns(*page.order.values).where(id_column == page.after)
    place = connection.execute(query).first()
    if place is None:
        raise InvalidRequestError("is not the id of a row of this list", field="after")
    return tuple(place)


def _is_beyond(
    values: Sequence[ColumnElement[Any]], place: Sequence[Any], *, is_descending: bool
) -> ColumnElement[bool]:
    value, bound = values[0], place[0]
    is_strictly: ColumnElement[bool] = value < bound if is_descending else value > bound
    if len(values) == 1:
        return is_strictly
    # The first condition follows from the second; it lets an index begin at the place.
    is_at_least = value <= bound if is_descending else value >= bound
    rest = _is_beyond(values[1:], place[1:], is_descending=is_descending)
    return and_(is_at_least, or_(is_strictly, rest))
