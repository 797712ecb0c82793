"""How many servers, databases and installations carry a load, and what each of their resources has left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from dokimos._sizing.load import SECONDS_PER_DAY, Load, Machine, Store
from dokimos._sizing.queueing import GroupedService, Station, count_servers
from dokimos._sizing.unit_costs import UnitCosts

CORES_OF_A_SERVER: Final = 2
"""One that stores and answers, and one for the process that compares."""

_CLIENTS: Final = 16
"""Those of the benchmark that measured the unit costs of a request alone and at capacity."""

ResourceName: TypeAlias = Literal[
    "server CPU", "database CPU", "disk", "comparison CPU", "comparison memory", "CPU of runs", "judge calls"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a load takes on a kind of database, all installations together."""

    item_cpu: float
    """Cores of servers that items take at the peak."""
    span_cpu: float
    item_gb: float
    """Disk when the retention has filled it."""
    span_gb: float
    run_cpu: float
    """Cores that runs take at the peak, beside the application."""
    compare_cpu: float
    """Cores that comparing each run with its baseline takes at the peak."""
    database_factor: float

    @classmethod
    def of(cls, load: Load, costs: UnitCosts, store: Store) -> Demand:
        item_cpu = costs["item-cpu-ms" if store == "sqlite" else "item-cpu-ms-postgresql"] / 1000
        run_cpu = load.items * costs["run-item-cpu-ms"] + load.judge_calls * costs["judge-call-cpu-ms"]
        compared = load.items if load.runs else 0.0
        return cls(
            item_cpu=load.at_peak(load.items) * item_cpu,
            span_cpu=load.at_peak(load.spans) * costs["span-cpu-ms"] / 1000,
            item_gb=load.items * load.run_days * (costs["item-disk-bytes"] + load.item_bytes) / 1e9,
            span_gb=load.spans * load.trace_days * load.span_bytes * costs["span-disk-factor"] / 1e9,
            run_cpu=load.at_peak(run_cpu) / 1000,
            compare_cpu=load.at_peak(compared) * costs["compare-item-cpu-ms"] / 1000,
            database_factor=0.0 if store == "sqlite" else costs["database-cpu-factor"],
        )

    @property
    def server_cpu(self) -> float:
        return self.item_cpu + self.span_cpu

    @property
    def database_cpu(self) -> float:
        return self.server_cpu * self.database_factor

    @property
    def gb(self) -> float:
        return self.item_gb + self.span_gb


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What is installed."""

    store: Store
    servers: int
    """Serving processes of all installations."""
    databases: int
    """PostgreSQL machines of all installations; 0 with SQLite."""
    installations: int
    """Independent servers with databases of their own, among which the projects are divided."""

    @property
    def traces_apart(self) -> bool:
        """Whether traces have a PostgreSQL of their own."""
        return self.databases > self.installations


def choose_store(load: Load, machine: Machine, costs: UnitCosts) -> Store:
    """Return SQLite where one process and one file are enough."""
    demand = Demand.of(load, costs, "sqlite")
    most_gb = min(costs["sqlite-disk-gb"], machine.disk_gb * costs["full-disk"])
    is_enough = max(demand.server_cpu, demand.compare_cpu) <= costs["full-cpu"] and demand.gb <= most_gb
    return "sqlite" if is_enough else "postgresql"


def plan_deployment(
    load: Load, machine: Machine, costs: UnitCosts, *, store: Store | None, servers: int | None
) -> Deployment:
    """Return the smallest deployment that carries a load.

    Args:
        store: The kind of database that there is to be; by default the simplest one that is enough.
        servers: How many serving processes there are to be; by default as many as it takes.
    """
    store = store or ("postgresql" if servers and servers > 1 else choose_store(load, machine, costs))
    if store == "sqlite":
        return Deployment(store=store, servers=1, databases=0, installations=1)
    demand = Demand.of(load, costs, store)

    def databases(cpu: float, gb: float) -> int:
        cores = count_servers(cpu * demand.database_factor, 1 / machine.cores, utilisation=costs["full-cpu"])
        return max(cores, count_servers(gb, 1 / machine.disk_gb, utilisation=costs["full-disk"]))

    together = databases(demand.server_cpu, demand.gb)
    apart = max(databases(demand.item_cpu, demand.item_gb), databases(demand.span_cpu, demand.span_gb))
    # As few machines as possible; where it makes no difference, as few installations.
    installations, of_each = (apart, 2) if 2 * apart <= together else (together, 1)
    busy = max(demand.server_cpu, demand.compare_cpu)
    of_one = count_servers(busy / installations, 1.0, utilisation=costs["full-cpu"])
    servers = servers or installations * of_one
    installations = min(installations, servers)
    return Deployment(
        store=store, servers=servers, databases=of_each * installations, installations=installations
    )


def serving_station(load: Load, deployment: Deployment, costs: UnitCosts, *, peak: float) -> Station:
    """Return the queue before one serving process, which takes batches of items and exports of spans.

    One process does one thing at a time: it is a single server, however many cores the machine has. Requests
    are divided evenly among the processes, each of which has a queue of its own.

    Args:
        peak: How many times the mean rate of the day comes.
    """
    name = "item-cpu-ms" if deployment.store == "sqlite" else "item-cpu-ms-postgresql"
    kinds = (
        (load.items, costs["items-per-request"], costs[name]),
        (load.spans, costs["spans-per-export"], costs["span-cpu-ms"]),
    )
    share = peak / SECONDS_PER_DAY / deployment.servers
    requests = [(count / batch * share, batch * cpu / 1000) for count, batch, cpu in kinds]
    rate = sum(each for each, _ in requests)
    if not rate:
        return Station(rate=0.0, service=costs["items-per-request"] * costs[name] / 1000)
    mean = sum(each * service for each, service in requests) / rate
    if deployment.store == "sqlite":
        # The unit costs are those of a busy server, in which requests share commits.
        grouped = GroupedService.of_measured(
            alone=mean * costs["lone-request-factor"], at_capacity=mean, clients=_CLIENTS
        )
        # One that cannot keep up has all of them waiting.
        longer = grouped.time(rate) / mean
        requests = [(each, service * longer) for each, service in requests]
        mean *= longer
    # The second moment of a mixture of two kinds of requests, each with the same variation around its mean.
    square = sum(each * service**2 for each, service in requests) / rate * (1 + costs["service-variation"])
    return Station(rate=rate, service=mean, service_variation=square / mean**2 - 1)


def judge_station(load: Load) -> Station:
    """Return the calls of judges at the peak: with so many at once that few wait for half a call."""
    rate, service = load.at_peak(load.judge_calls), load.judge_seconds
    station = Station(rate=rate, service=service, servers=int(rate * service) + 1)
    while station.wait_quantile(0.95) > service / 2:
        station = replace(station, servers=station.servers + 1)
    return station


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One thing that can run out."""

    name: ResourceName
    needed: float
    available: float
    """What may be used of it: a core is full at 70 %, a disk at 80 %."""
    unit: str
    remedy: str
    """What is added when it is used up."""
    loss: str
    """What happens where there is too little of it."""

    @property
    def used(self) -> float:
        """The share that is used; above 1 it is not enough."""
        return self.needed / self.available if self.needed else 0.0

    @property
    def growth(self) -> float | None:
        """How many times the load fits; None where the load takes nothing of it."""
        return 1 / self.used if self.used else None
