"""`size_load`: from what comes in a day to machines, disk, memory and money."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from dokimos._core.printable import Printable
from dokimos._sizing.deployment import (
    CORES_OF_A_SERVER,
    Demand,
    Deployment,
    Resource,
    judge_station,
    plan_deployment,
)
from dokimos._sizing.load import Load, Machine, Store
from dokimos._sizing.losses import PeakOutcome, find_peak_outcome
from dokimos._sizing.queueing import count_servers
from dokimos._sizing.resources import list_resources
from dokimos._sizing.unit_costs import UnitCost, UnitCosts

_MIB_PER_GIB: Final = 1024
_HOURS: Final = 24
_ROUNDING: Final = 1e-9
_GROWTH: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """The calls of judges at the peak, which runs wait for."""

    in_flight: float
    """Calls under way on average."""
    at_once: int
    """The sum of `parallelism` over all runs with which calls do not queue for long."""
    p95_wait_seconds: float | None
    """How long a call then waits for its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """The machines of a deployment."""

    total: int
    for_servers_and_runs: int
    for_databases: int
    cores: int
    """Cores that servers, databases and runs take at the peak, each rounded up."""
    memory_gib: float
    """Memory of the serving processes; a PostgreSQL takes what it is given."""
    disk_gb: float
    """Disk when the retention has filled it, all databases together."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sizing(Printable):
    """What a load takes, what runs out first, and what is lost at its peak."""

    __dokimos_view__ = "dokimos._sizing.sizing_view:VIEW"

    name: str
    """The preset; empty where there is none."""
    load: Load
    deployment: Deployment
    machines: Machines
    judge_usd_per_day: float | None
    """None where the price of the judge is not known."""
    machine_usd_per_day: float | None
    resources: tuple[Resource, ...]
    """The one that runs out first in front."""
    peak: PeakOutcome
    judging: Judging | None
    """None where no judge is called."""
    days_until_disk_full: float | None
    """Where the disk is too small for what is to be kept."""
    disk_gb_for_one: float | None
    """The disk with which one database would do, where only their disks make it several."""
    at_ten_times: Deployment | None
    """What ten times the load takes; None where the deployment is a given one."""
    spans_beyond_measured: float
    """How many times more spans are stored in one database than lists and searches were measured with."""
    items_beyond_measured: float
    unit_costs: tuple[UnitCost, ...]

    @property
    def is_enough(self) -> bool:
        """Whether nothing runs out."""
        return all(each.used <= 1 + _ROUNDING for each in self.resources)

    @property
    def first(self) -> Resource | None:
        """What runs out first; None where nothing comes."""
        return next((each for each in self.resources if each.growth is not None), None)


def size_load(
    load: Load,
    machine: Machine | None = None,
    *,
    name: str = "",
    costs: UnitCosts | None = None,
    store: Store | None = None,
    servers: int | None = None,
) -> Sizing:
    """Say what a load takes.

    Args:
        load: What comes in a day.
        machine: The kind of machine that there is.
        name: What the load is called.
        costs: The unit costs, where some are others than `UNIT_COSTS`.
        store: A kind of database, and
        servers: a number of serving processes that there are; by default as many as it takes. What is lost
            where they are too few is in `peak`.

    Example:
        >>> size_load(Load(items=10_000, runs=50, spans=1e6)).deployment.store
        'sqlite'
    """
    machine, costs = machine or Machine(), costs or UnitCosts()
    deployment = plan_deployment(load, machine, costs, store=store, servers=servers)
    demand = Demand.of(load, costs, deployment.store)
    machines, run_cores = _count_machines(demand, deployment, machine, costs)
    resources = list_resources(load, deployment, machine, costs, run_cores=run_cores)
    price, installations = machine.usd_per_hour, deployment.installations
    return Sizing(
        name=name,
        load=load,
        deployment=deployment,
        machines=machines,
        judge_usd_per_day=load.judge_usd,
        machine_usd_per_day=None if price is None else machines.total * price * _HOURS,
        resources=tuple(resources),
        peak=find_peak_outcome(load, deployment, costs),
        judging=_judging(load),
        days_until_disk_full=_days_until_disk_full(demand, load, resources),
        disk_gb_for_one=_disk_gb_for_one(demand, deployment, machine, costs),
        at_ten_times=_grow(load, machine, costs) if store is None and servers is None else None,
        spans_beyond_measured=load.spans * load.trace_days / installations / costs["measured-spans"],
        items_beyond_measured=load.items * load.run_days / installations / costs["measured-items"],
        unit_costs=costs.figures,
    )


def _count_machines(
    demand: Demand, deployment: Deployment, machine: Machine, costs: UnitCosts
) -> tuple[Machines, int]:
    """Return the machines, and the cores that runs have."""
    full = costs["full-cpu"]
    run_cores = count_servers(demand.run_cpu, 1.0, utilisation=full) if demand.run_cpu else 0
    server_cores = deployment.servers * CORES_OF_A_SERVER
    memory = deployment.servers * costs["server-memory-mib"] / _MIB_PER_GIB
    by_cores = math.ceil((server_cores + run_cores) / machine.cores)
    shared = max(by_cores, math.ceil(memory / machine.memory_gib), deployment.installations)
    database_cores = 0
    if deployment.databases:
        needed = count_servers(demand.database_cpu, 1.0, utilisation=full)
        database_cores = max(deployment.databases, needed)
    return Machines(
        total=shared + deployment.databases,
        for_servers_and_runs=shared,
        for_databases=deployment.databases,
        cores=server_cores + run_cores + database_cores,
        memory_gib=memory,
        disk_gb=demand.gb,
    ), run_cores


def _judging(load: Load) -> Judging | None:
    if not load.judge_calls:
        return None
    station = judge_station(load)
    return Judging(
        in_flight=station.load, at_once=station.servers, p95_wait_seconds=station.wait_quantile(0.95)
    )


def _days_until_disk_full(demand: Demand, load: Load, resources: Sequence[Resource]) -> float | None:
    disk = next(each for each in resources if each.name == "disk")
    if disk.used <= 1 + _ROUNDING:
        return None
    kinds = ((demand.item_gb, load.run_days), (demand.span_gb, load.trace_days))
    daily = sum(gb / days for gb, days in kinds if days)
    return disk.available / daily


def _disk_gb_for_one(
    demand: Demand, deployment: Deployment, machine: Machine, costs: UnitCosts
) -> float | None:
    is_cpu_enough = demand.database_cpu <= machine.cores * costs["full-cpu"]
    return demand.gb / costs["full-disk"] if deployment.databases > 1 and is_cpu_enough else None


def _grow(load: Load, machine: Machine, costs: UnitCosts) -> Deployment:
    names = ("runs", "items", "judge_calls", "spans")
    grown = replace(load, **{name: _GROWTH * getattr(load, name) for name in names})
    return plan_deployment(grown, machine, costs, store=None, servers=None)
