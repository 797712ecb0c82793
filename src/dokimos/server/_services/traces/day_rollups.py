"""The hours of traces, added up by the day, so that a dashboard of a month reads a few pages of the file.

A day is added up once it is over, by a worker. Spans may still come for it: whoever stores them marks it as
changed, and it is read from its hours until it has been added up again. No lock is needed for that: a mark
counts one more change, and a sum is stored only where the count is the one from before the hours were read.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from sqlalchemy import (
    ClauseElement,
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    bindparam,
    func,
    null,
    select,
    tuple_,
)

from dokimos.server._db.clock import DAY
from dokimos.server._db.driver_statements import DriverStatement
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.trace_tables import TRACE_HOURS, TRACE_LATENCIES, TRACE_MODELS, TRACE_ROLLUPS

HourKey: TypeAlias = tuple[str, str, int]
"""A project (empty for none), a tenant (empty for none), and an hour since 1970."""
OwnerKey: TypeAlias = tuple[str, str]
"""A project and a tenant, likewise."""
HOURS_OF_DAY: Final = 24
_DAYS_OPEN: Final = 2
"""The last days are not added up: traces that began on them are still coming, and clocks differ."""
TOTALS: Final = tuple(each.name for each in TRACE_HOURS.c if not each.primary_key)
MODEL_TOTALS: Final = tuple(each.name for each in TRACE_MODELS.c if not each.primary_key)


@dataclass(slots=True)
class DayCounts:
    """What is counted of the traces of a project that began on one day, or in some hours of it."""

    totals: Counter[str] = field(default_factory=Counter)
    """By the names of `TOTALS`."""
    latencies: Counter[int] = field(default_factory=Counter)
    """How many traces are in each bin."""
    models: dict[str, Counter[str]] = field(default_factory=dict)
    """By the model and the names of `MODEL_TOTALS`."""

    def dump(self) -> bytes:
        """Return this as it is stored."""
        content = {"totals": self.totals, "latencies": self.latencies, "models": self.models}
        return zlib.compress(json.dumps(content, separators=(",", ":")).encode())

    @classmethod
    def load(cls, content: bytes) -> DayCounts:
        """Return what `dump` made of it."""
        values = json.loads(zlib.decompress(content))
        return cls(
            Counter(values["totals"]),
            Counter({int(number): count for number, count in values["latencies"].items()}),
            {name: Counter(counts) for name, counts in values["models"].items()},
        )


class ChosenDay(NamedTuple):
    """A day to be added up."""

    day: int
    changes: int
    """How often it had changed before."""


class Rollup(NamedTuple):
    """A day that has been added up."""

    owner: OwnerKey
    chosen: ChosenDay
    counts: DayCounts


def mark_changed_days(connection: Connection, hours: Iterable[HourKey], today: int) -> None:
    """Say that something came for days that may have been added up.

    Args:
        connection: In the transaction that changes the counts.
        hours: Whose counts change.
        today: The day since 1970, of which nothing has been added up.
    """
    # Also of yesterday, which no server adds up yet: the clocks of two servers may differ.
    changed = {(*key[:2], key[2] // HOURS_OF_DAY) for key in hours if key[2] < today * HOURS_OF_DAY}
    if changed:  # in one order in all servers, so that none waits for one that waits for it
        rows = [dict(zip(_KEY, key, strict=True)) | {"changes": 1} for key in sorted(changed)]
        _MARK.execute_many(connection, rows)


def list_owners(connection: Connection, after: OwnerKey | None, limit: int) -> list[OwnerKey]:
    """Return some of the projects and tenants that have hours, in order, with a look for each."""
    key = (TRACE_HOURS.c.project_key, TRACE_HOURS.c.tenant_key)
    owners: list[OwnerKey] = []
    while len(owners) < limit:
        query = select(*key).order_by(*key).limit(1)
        if after is not None:
            query = query.where(tuple_(*key) > after)
        row = connection.execute(query).first()
        if row is None:
            break
        after = (row.project_key, row.tenant_key)
        owners.append(after)
    return owners


def choose_days(connection: Connection, owner: OwnerKey, moment: int) -> list[ChosenDay]:
    """Return the days of a project and a tenant that are over and not added up, or have changed since."""
    rollups, hours = TRACE_ROLLUPS.c, TRACE_HOURS.c
    end = moment // DAY - _DAYS_OPEN + 1
    own = (*_is_of(TRACE_ROLLUPS, owner), rollups.day < end)
    stale = select(rollups.day, rollups.changes).where(*own, rollups.content.is_(None))
    chosen = {row.day: row.changes for row in connection.execute(stale)}
    newest = select(rollups.day).where(*own, rollups.content.is_not(None)).order_by(rollups.day.desc())
    last = connection.execute(newest.limit(1)).scalar()
    is_new = [hours.hour < end * HOURS_OF_DAY]
    if last is not None:
        is_new.append(hours.hour >= (last + 1) * HOURS_OF_DAY)
    found = (
        select((hours.hour // HOURS_OF_DAY).label("day"))
        .where(*_is_of(TRACE_HOURS, owner), *is_new)
        .distinct()
    )
    for day in connection.execute(found).scalars():
        chosen.setdefault(int(day), 0)
    return [ChosenDay(*each) for each in sorted(chosen.items())]


def add_up_days(connection: Connection, owner: OwnerKey, days: Sequence[ChosenDay]) -> list[Rollup]:
    """Return what is counted of days in order, from their hours."""
    counts = {each.day: DayCounts() for each in days}
    first, end = days[0].day * HOURS_OF_DAY, (days[-1].day + 1) * HOURS_OF_DAY

    def read(table: Table, names: Sequence[str], *keys: ColumnElement[Any]) -> Iterator[Row[Any]]:
        query = sum_by_step(table, names, HOURS_OF_DAY, *keys)
        between = (table.c.hour >= first, table.c.hour < end)
        rows = connection.execute(query.where(*_is_of(table, owner), *between))
        yield from (row for row in rows if row.step in counts)

    for row in read(TRACE_HOURS, TOTALS):
        counts[row.step].totals = read_counts(row, TOTALS)
    for row in read(TRACE_LATENCIES, ("trace_count",), TRACE_LATENCIES.c.bin):
        counts[row.step].latencies[row.bin] = int(row.trace_count)
    for row in read(TRACE_MODELS, MODEL_TOTALS, TRACE_MODELS.c.model):
        counts[row.step].models[row.model] = read_counts(row, MODEL_TOTALS)
    return [Rollup(owner, each, counts[each.day]) for each in days]


def store_rollups(connection: Connection, rollups: Sequence[Rollup]) -> None:
    """Store what days add up to, unless something came for them since their hours were chosen."""
    rows = [
        dict(zip(_KEY, (*each.owner, each.chosen.day), strict=True))
        | {"changes": each.chosen.changes, "content": each.counts.dump()}
        for each in sorted(rollups, key=lambda each: (each.owner, each.chosen.day))
    ]
    if rows:
        _STORE.execute_many(connection, rows)


def sum_by_step(table: Table, names: Sequence[str], hours: int, *keys: ColumnElement[Any]) -> Select[Any]:
    """Return a query that adds up counts by the `step` of so many hours, and by further columns."""
    step = (table.c.hour // hours).label("step")
    sums = [func.sum(table.c[name]).label(name) for name in names]
    return select(step, *keys, *sums).group_by(step, *keys)


def read_counts(row: Row[Any], names: Sequence[str]) -> Counter[str]:
    """Return the sums of a row by their names, as whole numbers on each database."""
    return Counter({name: int(row._mapping[name]) for name in names})


def _is_of(table: Table, owner: OwnerKey) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return table.c.project_key == owner[0], table.c.tenant_key == owner[1]


_KEY: Final = ("project_key", "tenant_key", "day")


def _build_mark(dialect: str) -> ClauseElement:
    insert = INSERTS[dialect](TRACE_ROLLUPS)
    marked: ClauseElement = insert.values(
        {name: bindparam(name) for name in (*_KEY, "changes")}
    ).on_conflict_do_update(
        index_elements=list(TRACE_ROLLUPS.primary_key),
        set_={"changes": TRACE_ROLLUPS.c.changes + insert.excluded.changes, "content": null()},
    )
    return marked


def _build_store(dialect: str) -> ClauseElement:
    names = (*_KEY, "changes", "content")
    insert = INSERTS[dialect](TRACE_ROLLUPS).values({name: bindparam(name) for name in names})
    stored: ClauseElement = insert.on_conflict_do_update(
        index_elements=list(TRACE_ROLLUPS.primary_key),
        set_={"content": insert.excluded.content},
        where=TRACE_ROLLUPS.c.changes == insert.excluded.changes,
    )
    return stored


_MARK: Final = DriverStatement(_build_mark)
_STORE: Final = DriverStatement(_build_store)
