"""What a dashboard shows of the traces of a project, added up from what is counted by the hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from sqlalchemy import ColumnElement, Connection, Row, Table, func, select

from dokimos.server._db.clock import HOUR
from dokimos.server._db.trace_tables import TRACE_HOURS, TRACE_LATENCIES, TRACE_MODELS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.traces.trace_hours import NO_LATENCY, bin_milliseconds
from dokimos.server._services.traces.trace_lists import visible_keys

Step: TypeAlias = Literal["hour", "day"]
HOURS: Final[Mapping[Step, int]] = {"hour": 1, "day": 24}
_MAX_BUCKETS: Final = 400
_WEEK: Final = 7 * 24 + 1
"""Hours, those at both ends counted that are not whole."""
_PERCENTILES: Final = (50, 90, 95, 99)
_TOTALS: Final = tuple(each.name for each in TRACE_HOURS.c if not each.primary_key)
_MODEL_TOTALS: Final = (
    "call_count",
    "error_count",
    "tokens_in",
    "tokens_out",
    "cost_nano_usd",
    "priced_calls",
    "unpriced_calls",
)
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

    buckets: dict[int, Row[Any]] = field(default_factory=dict)
    """By the number of the step; a step without traces has none."""
    latencies: dict[int, dict[int, int]] = field(default_factory=dict)
    """By the number of the step, how many traces are in each bin."""
    models: Sequence[Row[Any]] = ()


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
    stats = TraceStats()
    for row in _read(connection, principal, project_id, period, TRACE_HOURS, _TOTALS):
        stats.buckets[row.step] = row
    names = (TRACE_LATENCIES.c.bin,)
    for row in _read(connection, principal, project_id, period, TRACE_LATENCIES, ("trace_count",), *names):
        stats.latencies.setdefault(row.step, {})[row.bin] = int(row.trace_count)
    conditions = _conditions(principal, project_id, period, TRACE_MODELS)
    columns = [func.sum(TRACE_MODELS.c[name]).label(name) for name in _MODEL_TOTALS]
    query = select(TRACE_MODELS.c.model, *columns).where(*conditions).group_by(TRACE_MODELS.c.model)
    by_calls = sorted(connection.execute(query).all(), key=lambda row: (-row.call_count, row.model))
    stats.models = [row for row in by_calls if row.call_count][:MAX_MODELS]
    return stats


def _read(
    connection: Connection,
    principal: Principal,
    project_id: str,
    period: Period,
    table: Table,
    counts: Sequence[str],
    *keys: ColumnElement[Any],
) -> Iterator[Row[Any]]:
    step = (table.c.hour // period.hours).label("step")
    sums = [func.sum(table.c[name]).label(name) for name in counts]
    query = select(step, *keys, *sums).where(*_conditions(principal, project_id, period, table))
    yield from connection.execute(query.group_by(step, *keys))


def _conditions(
    principal: Principal, project_id: str, period: Period, table: Table
) -> list[ColumnElement[bool]]:
    hours = (table.c.hour >= period.first_hour, table.c.hour < period.last_hour)
    return [*visible_keys(principal, table, project_id), *hours]


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
