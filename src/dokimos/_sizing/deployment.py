"""How many servers, databases and installations carry a load."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from dokimos._sizing.load import Load, Machine, Store
from dokimos._sizing.queueing import count_needed
from dokimos._sizing.unit_costs import UnitCosts

_MIB_PER_GIB: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a load takes on a kind of database."""

    item_cpu: float
    """Cores of servers that items take at the peak."""
    span_cpu: float
    item_gb: float
    """Disk when the retention has filled it."""
    span_gb: float
    """Of the database that has the traces; with ClickHouse, without their spans."""
    clickhouse_gb: float
    """The spans in ClickHouse, 0 where they are not there."""
    clickhouse_cpu: float
    run_cpu: float
    """Cores that runs take at the peak, beside the application."""
    compare_cpu: float
    """Cores that comparing each run with its baseline takes at the peak."""
    compare_mib: float
    """Memory of the process that compares, for a run of the mean size."""
    server_gib: float
    """Memory of a serving process and of the one that compares."""
    server_cores: int
    """One that stores and answers, and, where runs are compared, one for the process that compares."""
    database_cpu: float
    """Cores of the database, beside ClickHouse where spans are there."""

    @classmethod
    def of(cls, load: Load, costs: UnitCosts, machine: Machine, store: Store) -> Demand:
        item_bytes = costs.on("item-disk-bytes", store) + load.item_bytes
        item_cpu = load.at_peak(load.items) * costs.on("item-cpu-ms", store) / 1000
        span_cpu = load.at_peak(load.spans) * costs.on("span-cpu-ms", store) / 1000
        apart_cpu = load.at_peak(load.spans) * costs["insert-cpu-ms-clickhouse"] / 1000
        has_clickhouse = store == "clickhouse"
        run_cpu = load.items * costs["run-item-cpu-ms"] + load.judge_calls * costs["judge-call-cpu-ms"]
        compared = load.items if load.runs else 0.0
        base = costs["comparing-process-mib"] if load.runs else 0.0
        compare_mib = base + load.items_per_run * costs["compare-item-bytes"] / 2**20
        return cls(
            item_cpu=item_cpu,
            span_cpu=span_cpu,
            item_gb=load.items * load.run_days * item_bytes / 1e9,
            span_gb=load.spans * load.trace_days * find_span_bytes(load, costs, store) / 1e9,
            clickhouse_gb=load.spans * load.trace_days * find_clickhouse_bytes(load, costs, store) / 1e9,
            clickhouse_cpu=apart_cpu if has_clickhouse else 0.0,
            run_cpu=load.at_peak(run_cpu) / 1000,
            compare_cpu=load.at_peak(compared) * costs["compare-item-cpu-ms"] / 1000,
            compare_mib=compare_mib,
            # The server stops a comparison that takes more than the setting.
            server_gib=(costs["server-memory-mib"] + min(compare_mib, machine.comparison_memory_mib))
            / _MIB_PER_GIB,
            server_cores=2 if compared else 1,
            database_cpu=_find_database_cpu(item_cpu, span_cpu, load, costs, store),
        )

    @property
    def server_cpu(self) -> float:
        return self.item_cpu + self.span_cpu

    @property
    def gb(self) -> float:
        return self.item_gb + self.span_gb

    def count_servers(self, costs: UnitCosts) -> int:
        """Return how many serving processes it takes, each with one core for requests."""
        return count_needed(max(self.server_cpu, self.compare_cpu), costs["full-cpu"])


def find_span_bytes(load: Load, costs: UnitCosts, store: Store) -> float:
    """Return what a span takes on the disk of the database that has the traces."""
    if store == "clickhouse":
        return costs["span-rows-bytes-clickhouse"]
    return costs.on("span-disk-factor", store) * load.span_bytes


def find_clickhouse_bytes(load: Load, costs: UnitCosts, store: Store) -> float:
    """Return what a span takes on the disk of ClickHouse."""
    return costs.on("span-disk-factor", store) * load.span_bytes if store == "clickhouse" else 0.0


def _find_database_cpu(item_cpu: float, span_cpu: float, load: Load, costs: UnitCosts, store: Store) -> float:
    if store == "sqlite":
        return 0.0
    if store == "postgresql":
        return (item_cpu + span_cpu) * costs["database-cpu-factor"]
    rows_cpu = load.at_peak(load.spans) * costs["span-rows-cpu-ms-clickhouse"] / 1000
    return item_cpu * costs["database-cpu-factor"] + rows_cpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What is installed."""

    store: Store
    installations: int
    """Independent servers with a database of their own, which divide the projects."""
    servers: int
    """Serving processes of each installation."""
    disk_gb: float
    """The disk of each database."""
    clickhouse_disk_gb: float = 0.0
    """The disk of each ClickHouse, 0 where there is none."""

    @property
    def all_servers(self) -> int:
        return self.servers * self.installations

    @property
    def databases(self) -> int:
        """PostgreSQL machines of all installations; 0 with SQLite."""
        return 0 if self.store == "sqlite" else self.installations

    @property
    def clickhouses(self) -> int:
        """ClickHouse machines of all installations."""
        return self.installations if self.store == "clickhouse" else 0

    def take_share(self, load: Load) -> Load:
        """Return what comes to each installation."""
        return load.multiply(1 / self.installations)


def choose_store(load: Load, machine: Machine, costs: UnitCosts) -> Store:
    """Return SQLite where one process and one file are enough, ClickHouse for more spans than PostgreSQL has.

    The latter also where fewer installations carry the load with it.
    """
    demand = Demand.of(load, costs, machine, "sqlite")
    if demand.count_servers(costs) == 1 and demand.gb <= costs["sqlite-disk-gb"]:
        return "sqlite"
    if load.spans * load.trace_days > costs["postgresql-spans"]:
        return "clickhouse"
    plain, apart = (_count_installations(load, machine, costs, each) for each in ("postgresql", "clickhouse"))
    return "clickhouse" if apart < plain else "postgresql"


def plan_deployment(
    load: Load, machine: Machine, costs: UnitCosts, *, store: Store | None, servers: int | None
) -> Deployment:
    """Return the smallest deployment that carries a load.

    A larger disk is preferred to another installation.

    Args:
        store: The kind of database that there is.
        servers: How many serving processes there are. With either, there is one installation, with the disk
            of the machine.
    """
    is_given = store is not None or servers is not None
    store = store or ("postgresql" if servers and servers > 1 else choose_store(load, machine, costs))
    installations = 1 if is_given or store == "sqlite" else _count_installations(load, machine, costs, store)
    demand = Demand.of(load.multiply(1 / installations), costs, machine, store)
    return Deployment(
        store=store,
        installations=installations,
        servers=1 if store == "sqlite" else servers or demand.count_servers(costs),
        disk_gb=machine.disk_gb if is_given else _choose_disk(demand.gb, machine, costs),
        clickhouse_disk_gb=_choose_clickhouse_disk(demand, machine, costs, store, is_given=is_given),
    )


def _count_installations(load: Load, machine: Machine, costs: UnitCosts, store: Store) -> int:
    """Return how many installations it takes, each with one PostgreSQL and at most one ClickHouse."""
    demand = Demand.of(load, costs, machine, store)
    cpu = max(demand.database_cpu, demand.clickhouse_cpu)
    by_cpu = count_needed(cpu, machine.cores * costs["full-cpu"])
    gb = max(demand.gb, demand.clickhouse_gb)
    by_disk = count_needed(gb, _find_largest_disk(machine, costs) * costs["full-disk"])
    # A run is in one project, and a project in one installation.
    most = math.inf if load.spans or not load.runs else max(1, int(load.runs))
    return int(min(max(by_cpu, by_disk), most))


def _find_largest_disk(machine: Machine, costs: UnitCosts) -> float:
    return max(machine.disk_gb, costs["largest-disk-gb"])


def _choose_clickhouse_disk(
    demand: Demand, machine: Machine, costs: UnitCosts, store: Store, *, is_given: bool
) -> float:
    if store != "clickhouse":
        return 0.0
    return machine.disk_gb if is_given else _choose_disk(demand.clickhouse_gb, machine, costs)


def _choose_disk(gb: float, machine: Machine, costs: UnitCosts) -> float:
    """Return the disk of the machine, doubled until it is enough, and at most the largest one."""
    disk, most = machine.disk_gb, _find_largest_disk(machine, costs)
    while disk * costs["full-disk"] < gb and disk < most:
        disk = min(2 * disk, most)
    return disk
