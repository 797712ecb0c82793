"""By what runs are paired and sliced: the dataset case and the metadata of each item."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, select

from dokimos.server._db.tables import DATASET_ITEMS, ITEMS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.runs.runs import find_described_run

MOST_VALUES: Final = 40
"""Of a key with more values than these no slices are made: it tells single items apart."""
MOST_KEYS: Final = 30
_LONGEST_VALUE: Final = 200
_OWN_KEY: Final = "dokimos"
"""The member of an item's metadata in which our client says what the wire has no field for."""
_ROWS_AT_ONCE: Final = 5_000

Value = str | int | float | bool


@dataclass(slots=True)
class MetadataColumn:
    """The values of one key of the metadata of the items of a run."""

    name: str
    values: list[Value]
    """Each value once, in the order in which it came."""
    codes: list[int]
    """For each item the position of its value, -1 where it has none."""


@dataclass(slots=True)
class ItemAttributes:
    """The items of a run in the order of their ordinals, as columns."""

    ordinals: list[int] = field(default_factory=list)
    repetitions: list[int] = field(default_factory=list)
    dataset_item_ids: list[str | None] = field(default_factory=list)
    lineage_ids: list[str | None] = field(default_factory=list)
    """The case that an item of a dataset is, in all versions that have it."""
    example_ids: list[str | None] = field(default_factory=list)
    """What the data set of the client calls each item, where the client said it."""
    metadata: list[MetadataColumn] = field(default_factory=list)


def read_item_attributes(connection: Connection, principal: Principal, run_id: str) -> ItemAttributes:
    """Return by what the items of a run are told apart, in the order of its outline.

    Raises:
        NotFoundError: The caller sees no such run.
    """
    find_described_run(connection, principal, run_id)
    attributes = ItemAttributes()
    columns = _MetadataColumns()
    query = (
        select(
            ITEMS.c.ordinal,
            ITEMS.c.repetition,
            ITEMS.c.dataset_item_id,
            DATASET_ITEMS.c.lineage_id,
            ITEMS.c.metadata,
        )
        .outerjoin(DATASET_ITEMS, DATASET_ITEMS.c.id == ITEMS.c.dataset_item_id)
        .where(ITEMS.c.run_id == run_id)
        .order_by(ITEMS.c.ordinal, ITEMS.c.repetition)
    )
    # An option of the statement: one of the connection would hold for all that is read through it later.
    for row in connection.execute(query.execution_options(yield_per=_ROWS_AT_ONCE)):
        metadata = json.loads(row.metadata) if row.metadata else None
        columns.add(len(attributes.ordinals), metadata)
        attributes.example_ids.append(_find_example_id(metadata))
        attributes.ordinals.append(row.ordinal)
        attributes.repetitions.append(row.repetition)
        attributes.dataset_item_ids.append(row.dataset_item_id)
        attributes.lineage_ids.append(row.lineage_id)
    attributes.metadata = columns.finish(len(attributes.ordinals))
    return attributes


@dataclass(slots=True)
class _MetadataColumns:
    """Collects the values of each key, until it has too many to make slices of."""

    _codes: dict[str, dict[tuple[type, Value], int]] = field(default_factory=dict)
    """By key, the code of each of its values; `1`, `1.0` and `true` are three values, unlike in Python."""
    _items: dict[str, dict[int, int]] = field(default_factory=dict)
    """By key, the code of each item that has it."""
    _excluded: set[str] = field(default_factory=set)

    def add(self, position: int, metadata: Any) -> None:
        for name, value in _slice_values(metadata):
            if name in self._excluded:
                continue
            codes = self._codes.setdefault(name, {})
            code = codes.setdefault((type(value), value), len(codes))
            if len(codes) > MOST_VALUES or len(self._codes) > MOST_KEYS:
                self._exclude(name)
                continue
            self._items.setdefault(name, {})[position] = code

    def _exclude(self, name: str) -> None:
        self._excluded.add(name)
        self._codes.pop(name, None)
        self._items.pop(name, None)

    def finish(self, size: int) -> list[MetadataColumn]:
        columns = []
        for name, codes in sorted(self._codes.items()):
            its = self._items[name]
            values = [value for _, value in codes]
            columns.append(MetadataColumn(name, values, [its.get(at, -1) for at in range(size)]))
        return columns


def _find_example_id(metadata: Any) -> str | None:
    """Return what our client calls the example of an item, None where it has no id or a very long one."""
    about = metadata.get(_OWN_KEY) if isinstance(metadata, dict) else None
    id = about.get("id") if isinstance(about, dict) else None
    return id if isinstance(id, str) and len(id) <= _LONGEST_VALUE else None


def _slice_values(metadata: Any) -> Iterator[tuple[str, Value]]:
    if not isinstance(metadata, dict):
        return
    for name, value in metadata.items():
        is_short = isinstance(value, (bool, int, float)) or (
            isinstance(value, str) and len(value) <= _LONGEST_VALUE
        )
        if is_short and name != _OWN_KEY and len(name) <= _LONGEST_VALUE:
            yield name, value
