"""What one item, span, call and comparison costs: figures that benchmarks print, and what is assumed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from dokimos._sizing.load import Store
from dokimos.errors import ConfigurationError

Origin: TypeAlias = Literal["measured", "derived", "limit", "setting", "assumed", "given"]
"""Printed by a benchmark; computed from what it prints; the budget that it holds the server to; what it was
run with; none of these; said by the user."""

MACHINE: Final = "a virtual machine with two cores (AMD EPYC, Python 3.11)"
"""Where the measured figures are from. Benchmarks print the limits beside what they measure."""

# A limit stands in for a figure where no measured one is documented: a server that passes its benchmark on
# that machine takes at most so much.


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCost:
    """One figure of the model."""

    name: str
    value: float
    unit: str
    meaning: str
    origin: Origin
    command: str
    """The benchmark that prints it; for an assumption, why it is what it is."""


_INGESTION: Final = "python benchmarks/server_ingestion.py"
_TRACES: Final = "python benchmarks/server_traces.py"
_FINISHED: Final = "python benchmarks/finished_runs.py"
_SIZING: Final = "python benchmarks/sizing.py"
_DATABASES: Final = "python benchmarks/server_database_costs.py"
_CLICKHOUSE: Final = "python benchmarks/server_clickhouse_costs.py --spans 200000"

UNIT_COSTS: Final = (
    UnitCost(
        name="item-cpu-ms", value=0.225, unit="ms", origin="limit", command=_INGESTION,
        meaning="CPU of the server for an item with three scores, on SQLite",
    ),
    UnitCost(
        name="item-cpu-ms-postgresql", value=0.3, unit="ms", origin="limit", command=_INGESTION,
        meaning="the same on PostgreSQL, without what the database takes",
    ),
    UnitCost(
        name="span-cpu-ms", value=0.104, unit="ms", origin="measured", command=_TRACES,
        meaning="CPU of the server for a span of 1.8 KB (protobuf), on a machine with other load, on SQLite",
    ),
    UnitCost(
        name="span-cpu-ms-postgresql", value=0.149, unit="ms", origin="derived", command=_DATABASES,
        meaning="the same on PostgreSQL, 1.43 times as much, without what the database takes",
    ),
    UnitCost(
        name="span-cpu-ms-clickhouse", value=0.198, unit="ms", origin="measured", command=_CLICKHOUSE,
        meaning="the same with spans in ClickHouse, beside a PostgreSQL, without what either takes",
    ),
    UnitCost(
        name="insert-cpu-ms-clickhouse", value=0.268, unit="ms", origin="measured", command=_CLICKHOUSE,
        meaning="CPU of ClickHouse for a span: to insert it and to merge it with others",
    ),
    UnitCost(
        name="span-rows-cpu-ms-clickhouse", value=0.046, unit="ms", origin="measured", command=_CLICKHOUSE,
        meaning="CPU of the PostgreSQL beside it for a span, whose trace it has",
    ),
    UnitCost(
        name="lone-request-factor", value=1.5, unit="", origin="measured", command=_SIZING,
        meaning="CPU of a request that shares its commit with no other, beside one at capacity (SQLite)",
    ),
    UnitCost(
        name="database-cpu-factor", value=0.77, unit="", origin="measured", command=_DATABASES,
        meaning="CPU of PostgreSQL for each second of CPU of the servers",
    ),
    UnitCost(
        name="service-variation", value=0.5, unit="", origin="measured", command=_SIZING,
        meaning="squared coefficient of variation of the time that a request takes, fitted at three loads",
    ),
    UnitCost(
        name="item-disk-bytes", value=490, unit="bytes", origin="measured", command=_SIZING,
        meaning="an item with three scores in SQLite, beside the texts in it",
    ),
    UnitCost(
        name="item-disk-bytes-postgresql", value=841, unit="bytes", origin="measured", command=_DATABASES,
        meaning="the same in PostgreSQL, without its write-ahead log",
    ),
    UnitCost(
        name="span-disk-factor", value=1.5, unit="", origin="measured", command=_TRACES,
        meaning="bytes on disk for each byte of a span as protobuf, on SQLite",
    ),
    UnitCost(
        name="span-disk-factor-postgresql", value=1.6, unit="", origin="measured", command=_DATABASES,
        meaning="the same on PostgreSQL, without its write-ahead log",
    ),
    UnitCost(
        name="span-disk-factor-clickhouse", value=0.22, unit="", origin="measured", command=_CLICKHOUSE,
        meaning="the same in ClickHouse, compressed, in as many parts as it leaves by itself",
    ),
    UnitCost(
        name="span-rows-bytes-clickhouse", value=176, unit="bytes", origin="measured", command=_CLICKHOUSE,
        meaning="a span's share of what the PostgreSQL beside ClickHouse has of its trace",
    ),
    UnitCost(
        name="server-memory-mib", value=250, unit="MiB", origin="limit", command=_INGESTION,
        meaning="memory of a serving process at 1,000 items a second",
    ),
    UnitCost(
        name="comparing-process-mib", value=55, unit="MiB", origin="derived", command="make soak",
        meaning="memory of the process that compares, before it has a large run",
    ),
    UnitCost(
        name="run-item-cpu-ms", value=0.023, unit="ms", origin="measured",
        command="python benchmarks/runner.py",
        meaning="CPU of a run for an item, with its journal and without the application",
    ),
    UnitCost(
        name="judge-call-cpu-ms", value=0.338, unit="ms", origin="measured",
        command="python benchmarks/judged.py",
        meaning="CPU of a run for an item with one call of a judge over HTTP, its journal included",
    ),
    UnitCost(
        name="compare-item-cpu-ms", value=0.038, unit="ms", origin="derived", command=_FINISHED,
        meaning="CPU of comparing an item of two runs of 100,000",
    ),
    UnitCost(
        name="compare-item-bytes", value=3544, unit="bytes", origin="derived", command=_FINISHED,
        meaning="memory of a comparison for each item of the run",
    ),
    UnitCost(
        name="items-per-request", value=10, unit="items", origin="setting", command=_INGESTION,
        meaning="items that a client sends at once",
    ),
    UnitCost(
        name="spans-per-export", value=100, unit="spans", origin="setting", command=_TRACES,
        meaning="spans that an exporter sends at once",
    ),
    UnitCost(
        name="measured-spans", value=10e6, unit="spans", origin="setting",
        command="python benchmarks/server_trace_pages.py --traces 560000",
        meaning="the most stored spans that lists and searches were measured with",
    ),
    UnitCost(
        name="measured-spans-clickhouse", value=200_000, unit="spans", origin="setting", command=_CLICKHOUSE,
        meaning="the most spans in ClickHouse that its figures were measured with",
    ),
    UnitCost(
        name="postgresql-spans", value=1e9, unit="spans", origin="assumed",
        command="a hundred times what lists and searches were measured with; partitions of a day stay small",
        meaning="the most stored spans that are proposed for one PostgreSQL, and not for ClickHouse",
    ),
    UnitCost(
        name="measured-items", value=5e6, unit="items", origin="setting",
        command="python benchmarks/server_pages.py --items 5000000",
        meaning="the most stored items that pages were measured with",
    ),
    UnitCost(
        name="sqlite-disk-gb", value=200, unit="GB", origin="assumed",
        command="copies and backups take longer the larger the file is",
        meaning="the largest SQLite file that is proposed",
    ),
    UnitCost(
        name="largest-disk-gb", value=16_000, unit="GB", origin="assumed",
        command="larger ones can be bought; --disk-gb takes precedence where it is more",
        meaning="the largest disk of one database that is proposed",
    ),
    UnitCost(
        name="full-cpu", value=0.7, unit="", origin="assumed",
        command="in an M/M/1 queue, answers at 0.7 take 3.3 times as long as without load, at 0.9 ten times",
        meaning="share of a core that is used at the peak at most",
    ),
    UnitCost(
        name="full-disk", value=0.8, unit="", origin="assumed",
        command="room for a backup, for the log of the database and for what is removed but not yet free",
        meaning="share of a disk that is used at most",
    ),
)  # fmt: skip


_MOST: Final = 1e12
_RANGES: Final = {
    "full-cpu": (0.0, 1.0),
    "full-disk": (0.0, 1.0),
    "lone-request-factor": (1.0, 15.0),
    "service-variation": (0.0, 100.0),
}
"""Of the others: from 0 to `_MOST`."""


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """The figures of one size, by name."""

    figures: tuple[UnitCost, ...] = UNIT_COSTS

    def __getitem__(self, name: str) -> float:
        return next(each.value for each in self.figures if each.name == name)

    def on(self, name: str, store: Store) -> float:
        """Return a figure that is another one on PostgreSQL, or where ClickHouse has the spans.

        What is not said for ClickHouse is that of the PostgreSQL beside it.
        """
        if store == "sqlite":
            return self[name]
        if store == "clickhouse" and any(each.name == f"{name}-clickhouse" for each in self.figures):
            return self[f"{name}-clickhouse"]
        return self[f"{name}-postgresql"]

    def with_values(self, values: Mapping[str, float]) -> UnitCosts:
        """Return the same with other values of some.

        Raises:
            ConfigurationError: for a name that there is not, or a value that is not a number over 0.
        """
        names = [each.name for each in self.figures]
        for name, value in values.items():
            if name not in names:
                close = difflib.get_close_matches(name, names, n=1)
                hint = f"Did you mean '{close[0]}'?" if close else f"There are {', '.join(names)}."
                raise ConfigurationError(f"There is no unit cost '{name}'. {hint}")
            if not math.isfinite(value) or value <= 0:
                raise ConfigurationError(f"The unit cost {name} must be a number over 0, not {value:g}.")
            low, high = _RANGES.get(name, (0.0, _MOST))
            if not low <= value <= high:
                raise ConfigurationError(
                    f"The unit cost {name} must be at most {high:g} and at least {low:g}, not {value:g}."
                )
        figures = (
            replace(each, value=values[each.name], origin="given", command="")
            if each.name in values
            else each
            for each in self.figures
        )
        return UnitCosts(tuple(figures))
