"""What a dashboard shows of the traces of a project, added up from what is counted by the hour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import ColumnElement, Connection, Row, Table, func, select

from dokimos.server._db.clock import HOUR
from dokimos.server._db.trace_tables import TRACE_HOURS, TRACE_LATENCIES, TRACE_MODELS, TRACE_ROLLUPS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.traces.day_rollups import (
    HOURS_OF_DAY,
    MODEL_TOTALS,
    TOTALS,
    DayCounts,
    read_counts,
    sum_by_step,
)
from dokimos.server._services.traces.trace_hours import NO_LATENCY, bin_milliseconds
from dokimos.server._services.traces.trace_lists import visible_keys

Step: TypeAlias = Literal["hour", "day"]
HOURS: Final[Mapping[Step, int]] = {"hour": 1, "day": HOURS_OF_DAY}
_MAX_BUCKETS: Final = 400
_WEEK: Final = 7 * 24 + 1
"""Hours, those at both ends counted that are not whole."""
_PERCENTILES: Final = (50, 90, 95, 99)
_MOST_TENANTS: Final = 100
MAX_MODELS: Final = 100
"""Models that are listed, those with the most calls."""


@dataclass(frozen=True, slots=True)
class Period:
    """Hours of which something is counted, cut into steps."""

    first_hour: int
    last_hour: int
    """The first one that is not in it."""
    hours: int
    """Of a step."""

    def buckets(self) -> range:
        """The numbers of the steps; the hour that one begins with is its number times their hours."""
        return range(self.first_hour // self.hours, -(-self.last_hour // self.hours))


@dataclass(slots=True)
class TraceStats:
    """What is counted of the traces of a project."""

    buckets: dict[int, Counter[str]] = field(default_factory=dict)
    """By the number of the step; a step without traces has none."""
    latencies: dict[int, Counter[int]] = field(default_factory=dict)
    """By the number of the step, how many traces are in each bin."""
    models: Sequence[tuple[str, Counter[str]]] = ()


def choose_period(first: int, last: int, step: Step | None) -> Period:
    """Return the hours between two times in microseconds, the hour of each of them whole.

    Raises:
        InvalidRequestError: There is nothing between them, or too many steps.
    """
    first_hour, last_hour = first // HOUR, -(-last // HOUR)
    if last_hour <= first_hour:
        raise InvalidRequestError("must be later than 'from'", field="to")
    if step is None:
        step = "hour" if last_hour - first_hour <= _WEEK else "day"
    period = Period(first_hour, last_hour, HOURS[step])
    if len(period.buckets()) > _MAX_BUCKETS:
        raise InvalidRequestError(
            f"makes {len(period.buckets())} steps of this period; there may be {_MAX_BUCKETS}", field="step"
        )
    return period


def read_stats(connection: Connection, principal: Principal, project_id: str, period: Period) -> TraceStats:
    """Return what is counted of the traces of a project that the caller sees."""
    visible = visible_keys(principal, TRACE_HOURS, project_id)
    hours = _Hours(connection, principal, project_id, period, _find_tenants(connection, visible))
    totals = hours.read_totals()
    stats = TraceStats()
    for (step, _), counts in totals.items():
        stats.buckets.setdefault(step, Counter()).update(counts)
    rolled_up = hours.read_rollups(totals) if period.hours == HOURS_OF_DAY else []
    models: dict[str, Counter[str]] = {}
    for day, counted in rolled_up:
        stats.latencies.setdefault(day, Counter()).update(counted.latencies)
        _add_models(models, counted.models.items())
    for first, end in _ranges_without({day for day, _ in rolled_up}, period):
        for step, number, count in hours.read_latencies(first, end):
            stats.latencies.setdefault(step, Counter())[number] += count
        _add_models(models, hours.read_models(first, end))
    called = [each for each in models.items() if each[1]["call_count"]]
    stats.models = sorted(called, key=lambda each: (-each[1]["call_count"], each[0]))[:MAX_MODELS]
    return stats


def _find_tenants(connection: Connection, visible: Sequence[ColumnElement[bool]]) -> Sequence[str] | None:
    """Return the tenants that have hours, with a look for each; None where there are many.

    The indexes have the tenants before the hours: without them, all hours of a project would be read.
    """
    column = TRACE_HOURS.c.tenant_key
    tenants: list[str] = []
    query = select(func.min(column)).where(*visible)
    while len(tenants) <= _MOST_TENANTS:
        behind = query.where(column > tenants[-1]) if tenants else query
        tenant = connection.execute(behind).scalar()
        if tenant is None:
            return tenants
        tenants.append(tenant)
    return None


def _add_models(models: dict[str, Counter[str]], added: Iterable[tuple[str, Counter[str]]]) -> None:
    for name, counts in added:
        models.setdefault(name, Counter()).update(counts)


def _ranges_without(days: Set[int], period: Period) -> Iterator[tuple[int, int]]:
    """Yield the first and the last hour, which is not in it, of each part of a period between some days."""
    first = period.first_hour
    for day in sorted(days):
        if day * HOURS_OF_DAY > first:
            yield first, day * HOURS_OF_DAY
        first = (day + 1) * HOURS_OF_DAY
    if first < period.last_hour:
        yield first, period.last_hour


@dataclass(frozen=True, slots=True)
class _Hours:
    """What is counted by the hour of the traces of a project that a caller sees."""

    connection: Connection
    principal: Principal
    project_id: str
    period: Period
    tenants: Sequence[str] | None
    """Those that have any; None where there are too many to name them."""

    def read_totals(self) -> dict[tuple[int, str], Counter[str]]:
        """Return the totals of all hours by the number of the step and the tenant."""
        period = self.period
        rows = self._read(TRACE_HOURS, TOTALS, period.first_hour, period.last_hour, TRACE_HOURS.c.tenant_key)
        return {(row.step, row.tenant_key): read_counts(row, TOTALS) for row in rows}

    def read_latencies(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the number of the step, a bin, and how many traces are in it, of some hours."""
        for row in self._read(TRACE_LATENCIES, ("trace_count",), first, end, TRACE_LATENCIES.c.bin):
            yield row.step, row.bin, int(row.trace_count)

    def read_models(self, first: int, end: int) -> Iterator[tuple[str, Counter[str]]]:
        """Yield models and what their calls of some hours have used."""
        for row in self._read(TRACE_MODELS, MODEL_TOTALS, first, end, TRACE_MODELS.c.model):
            yield row.model, read_counts(row, MODEL_TOTALS)

    def read_rollups(self, totals: Mapping[tuple[int, str], Counter[str]]) -> list[tuple[int, DayCounts]]:
        """Return the days that have been added up and are still what their hours say.

        Args:
            totals: Of the hours by the day and the tenant. A server of an earlier version that stores spans
                beside this one does not mark the days that it changes; their totals are other ones.
        """
        first, end = -(-self.period.first_hour // HOURS_OF_DAY), self.period.last_hour // HOURS_OF_DAY
        columns = TRACE_ROLLUPS.c
        query = select(columns.day, columns.tenant_key, columns.content).where(
            *self._conditions(TRACE_ROLLUPS),
            columns.day >= first,
            columns.day < end,
            columns.content.is_not(None),
        )
        stored = {
            (row.day, row.tenant_key): DayCounts.load(row.content) for row in self.connection.execute(query)
        }
        usable = {key for key, counts in stored.items() if totals.get(key) == counts.totals}
        others = {day for day, _ in totals.keys() - usable} | {day for day, _ in stored.keys() - usable}
        return [(day, stored[day, tenant]) for day, tenant in sorted(usable) if day not in others]

    def _read(
        self, table: Table, names: Sequence[str], first: int, end: int, *keys: ColumnElement[Any]
    ) -> Iterator[Row[Any]]:
        query = sum_by_step(table, names, self.period.hours, *keys)
        between = (table.c.hour >= first, table.c.hour < end)
        yield from self.connection.execute(query.where(*self._conditions(table), *between))

    def _conditions(self, table: Table) -> list[ColumnElement[bool]]:
        visible = visible_keys(self.principal, table, self.project_id)
        return visible if self.tenants is None else [*visible, table.c.tenant_key.in_(self.tenants)]


def find_percentiles(bins: Mapping[int, int]) -> dict[str, float | None]:
    """Return percentiles of durations in milliseconds from how many are in each bin: within 2.5 %.

    None where no duration is known.
    """
    known = sorted((number, count) for number, count in bins.items() if number != NO_LATENCY and count > 0)
    total = sum(count for _, count in known)
    found: dict[str, float | None] = {}
    for percent in _PERCENTILES:
        reached = 0
        found[f"p{percent}"] = None
        for number, count in known:
            reached += count
            if reached * 100 >= percent * total:
                found[f"p{percent}"] = bin_milliseconds(number)
                break
    return found
