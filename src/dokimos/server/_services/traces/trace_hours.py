"""What dashboards count of traces, kept by the hour while spans come in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlalchemy import Connection, Table, bindparam, text

from dokimos.server._db.clock import DAY, HOUR
from dokimos.server._db.driver_statements import DriverStatement
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.trace_tables import TRACE_HOURS, TRACE_LATENCIES, TRACE_MODELS
from dokimos.server._services.traces.day_rollups import HourKey, mark_changed_days
from dokimos.server._services.traces.trace_summary import TraceSummary

_BIN_BASE: Final = math.log(1.05)
NO_LATENCY: Final = -1
"""The bin of traces whose duration is unknown."""
_PAST: Final = 30 * DAY
_FUTURE: Final = DAY
_NANOSECONDS: Final = 1000
"""In a microsecond."""
_Rows: TypeAlias = dict[tuple[object, ...], list[int]]
"""The counts of a table by its key, in the order of its columns."""


def latency_bin(duration_ns: int | None) -> int:
    """Return the bin of a duration: each is 5 % wide, and begins at 1 ms."""
    if duration_ns is None:
        return NO_LATENCY
    return max(0, math.floor(math.log(max(duration_ns, 1) / 1e6) / _BIN_BASE) + 1)


def bin_milliseconds(number: int) -> float:
    """Return the middle of a bin, as a ratio between its ends."""
    return 0.5 if number <= 0 else math.exp((number - 0.5) * _BIN_BASE)


def hour_of(summary: TraceSummary, created_at: int) -> int:
    """Return the hour in which a trace began, that in which it came where its clock cannot be right."""
    began_at = created_at if summary.start_ns is None else summary.start_ns // _NANOSECONDS
    if not created_at - _PAST <= began_at <= created_at + _FUTURE:
        began_at = created_at
    return began_at // HOUR


@dataclass(frozen=True, slots=True)
class TraceCount:
    """What one trace adds to the counts of an hour."""

    key: HourKey
    summary: TraceSummary


class HourChanges:
    """What a transaction adds to the counts, and takes off again where a trace has changed."""

    def __init__(self) -> None:
        self._keys: set[HourKey] = set()
        self._hours: _Rows = {}
        self._latencies: _Rows = {}
        self._models: _Rows = {}

    def add(self, count: TraceCount, sign: int = 1) -> None:
        """Count a trace, or with -1 take it off as it was counted before."""
        summary, usage = count.summary, count.summary.usage
        priced_calls, unpriced_calls = summary.call_prices
        hour = (
            1,
            int(summary.error_count > 0),
            summary.span_count,
            summary.byte_count,
            usage.tokens_in or 0,
            usage.tokens_out or 0,
            usage.cost_nano_usd or 0,
            int(usage.cost_nano_usd is not None),
            priced_calls or 0,
            unpriced_calls or 0,
        )
        self._keys.add(count.key)
        _add(self._hours, count.key, hour, sign)
        _add(self._latencies, (*count.key, latency_bin(summary.duration_ns)), (1,), sign)
        knows_prices = summary.knows_prices
        for name, model in summary.models.items():
            calls = (
                model.call_count,
                model.error_count,
                model.tokens_in or 0,
                model.tokens_out or 0,
                model.cost_nano_usd or 0,
                # Those of some spans are not stored with the trace, and could not be taken off again.
                model.priced_calls if knows_prices else 0,
                model.unpriced_calls if knows_prices else 0,
            )
            _add(self._models, (*count.key, name), calls, sign)

    def store(self, connection: Connection, shard: int, today: int) -> None:
        """Add the changes to the rows of this server's shard.

        Args:
            connection: In a transaction.
            shard: Of this server.
            today: The day since 1970: those before it may have been added up.
        """
        _store(connection, _ADD_TO_HOURS, self._hours, shard)
        _store(connection, _ADD_TO_LATENCIES, self._latencies, shard)
        _store(connection, _ADD_TO_MODELS, self._models, shard)
        mark_changed_days(connection, self._keys, today)


class _Counts:
    """The statement that adds to the counts of a table."""

    def __init__(self, table: Table, key: tuple[str, ...]) -> None:
        self.key = key
        self.counts = tuple(each.name for each in table.c if each.name not in (*key, "shard"))
        columns = (*key, "shard", *self.counts)
        self.statement = DriverStatement(
            lambda dialect: (
                INSERTS[dialect](table)
                .values({name: bindparam(name) for name in columns})
                .on_conflict_do_update(
                    index_elements=[table.c[name] for name in (*key, "shard")],
                    set_={name: text(f"{table.name}.{name} + excluded.{name}") for name in self.counts},
                )
            )
        )


_HOUR_KEY: Final = ("project_key", "tenant_key", "hour")
_ADD_TO_HOURS: Final = _Counts(TRACE_HOURS, _HOUR_KEY)
_ADD_TO_LATENCIES: Final = _Counts(TRACE_LATENCIES, (*_HOUR_KEY, "bin"))
_ADD_TO_MODELS: Final = _Counts(TRACE_MODELS, (*_HOUR_KEY, "model"))


def _add(rows: _Rows, key: tuple[object, ...], counts: tuple[int, ...], sign: int) -> None:
    row = rows.get(key)
    if row is None:
        row = rows[key] = [0] * len(counts)
    for place, number in enumerate(counts):
        row[place] += sign * number


def _store(connection: Connection, counts: _Counts, rows: _Rows, shard: int) -> None:
    changes = [
        {
            **dict(zip(counts.key, key, strict=True)),
            "shard": shard,
            **dict(zip(counts.counts, row, strict=True)),
        }
        for key, row in sorted(rows.items(), key=lambda each: str(each[0]))
        if any(row)
    ]
    if changes:
        counts.statement.execute_many(connection, changes)
