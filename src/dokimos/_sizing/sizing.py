"""`size_load`: from what comes in a day to machines, disk, memory and money."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from dokimos._core.printable import Printable
from dokimos._sizing.deployment import (
    Demand,
    Deployment,
    find_clickhouse_bytes,
    find_span_bytes,
    plan_deployment,
)
from dokimos._sizing.load import HOURS_PER_DAY, Load, Machine, Store
from dokimos._sizing.losses import PeakOutcome, find_peak_outcome
from dokimos._sizing.queueing import count_needed, find_call_queue
from dokimos._sizing.resources import Resource, list_resources
from dokimos._sizing.unit_costs import UnitCost, UnitCosts
from dokimos.errors import ConfigurationError

_GROWTH: Final = 10
_SHARE: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """The calls of judges at the peak, which runs wait for."""

    in_flight: float
    """Calls under way on average."""
    at_once: int
    """The sum of `parallelism` over all runs with which calls do not queue for long."""
    p95_wait_seconds: float
    """How long 95 % of the calls then wait for their turn at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """The machines of all installations."""

    total: int
    for_servers_and_runs: int
    for_databases: int
    cores: int
    """Cores of servers, databases and runs, each rounded up."""
    memory_gib: float
    """Memory of the serving and comparing processes; a PostgreSQL takes what it is given."""
    disk_gb: float
    """Disk when the retention has filled it, that of ClickHouse included."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sizing(Printable):
    """What a load takes, what runs out first, and what is lost at its peak."""

    __dokimos_view__ = "dokimos._sizing.sizing_view:VIEW"

    name: str
    """The preset; empty where there is none."""
    load: Load
    machine: Machine
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
    at_ten_times: Deployment | None
    """What ten times the load takes; None where the deployment is a given one."""
    would_be_enough: Deployment | None
    """What would be planned, where the deployment is a given one and not enough."""
    spans_beyond_measured: float
    """How many times more spans are stored in one database than lists and searches were measured with."""
    items_beyond_measured: float
    unit_costs: tuple[UnitCost, ...]

    @property
    def is_enough(self) -> bool:
        """Whether nothing runs out."""
        return all(each.is_enough for each in self.resources)

    @property
    def first(self) -> Resource | None:
        """What is too little, or runs out first; None where nothing does."""
        return next((each for each in self.resources if each.growth or not each.is_enough), None)


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
        name: Of the load.
        costs: The unit costs, where some are others than `UNIT_COSTS`.
        store, servers: What there is, in one installation. By default it is planned.

    Raises:
        ConfigurationError: for a load of nothing.

    Example:
        >>> size_load(Load(items=10_000, runs=50, spans=1e6)).deployment.store
        'sqlite'
    """
    if load.is_empty:
        raise ConfigurationError("The load is empty: give runs, items, judge_calls or spans of a day.")
    machine, costs = machine or Machine(), costs or UnitCosts()
    deployment = plan_deployment(load, machine, costs, store=store, servers=servers)
    share, price = deployment.take_share(load), machine.usd_per_hour
    machines = _count_machines(Demand.of(share, costs, machine, deployment.store), deployment, machine, costs)
    is_given = store is not None or servers is not None
    return Sizing(
        name=name,
        load=load,
        machine=machine,
        deployment=deployment,
        machines=machines,
        judge_usd_per_day=load.judge_usd,
        machine_usd_per_day=None if price is None else machines.total * price * HOURS_PER_DAY,
        resources=tuple(list_resources(load, deployment, machine, costs)),
        peak=find_peak_outcome(load, deployment, costs),
        judging=_size_judging(load),
        days_until_disk_full=_find_full_day(share, deployment, costs),
        at_ten_times=None if is_given else _plan_growth(load, machine, costs),
        would_be_enough=_plan_instead(load, deployment, machine, costs) if is_given else None,
        spans_beyond_measured=share.spans * load.trace_days / _find_measured_spans(deployment, costs),
        items_beyond_measured=share.items * load.run_days / costs["measured-items"],
        unit_costs=costs.figures,
    )


def _count_machines(demand: Demand, deployment: Deployment, machine: Machine, costs: UnitCosts) -> Machines:
    """Count machines of which servers, also those of several installations, and runs share the cores.

    A server is on one machine; each PostgreSQL has a machine of its own.

    Args:
        demand: That of one installation.
    """
    servers, installations, full = deployment.all_servers, deployment.installations, costs["full-cpu"]
    run_cpu = demand.run_cpu * installations
    run_cores = count_needed(run_cpu, full) if run_cpu else 0
    server_cores = servers * demand.server_cores
    # At least one, even where a server does not fit: `list_resources` says that.
    on_one = max(1, min(machine.cores // demand.server_cores, int(machine.memory_gib / demand.server_gib)))
    shared = max(math.ceil(servers / on_one), math.ceil((server_cores + run_cores) / machine.cores))
    database_cores = deployment.databases * count_needed(demand.database_cpu, full)
    if deployment.clickhouses:
        database_cores += deployment.clickhouses * count_needed(demand.clickhouse_cpu, full)
    for_databases = deployment.databases + deployment.clickhouses
    return Machines(
        total=shared + for_databases,
        for_servers_and_runs=shared,
        for_databases=for_databases,
        cores=server_cores + run_cores + database_cores,
        memory_gib=servers * demand.server_gib,
        disk_gb=(demand.gb + demand.clickhouse_gb) * installations,
    )


def _size_judging(load: Load) -> Judging | None:
    """Return how many calls are to be at once so that 95 % of them wait for at most half a call."""
    if not load.judge_calls or not load.judge_seconds:
        return None
    rate, wait = load.at_peak(load.judge_calls), load.judge_seconds / 2
    queue = find_call_queue(rate, load.judge_seconds, share=_SHARE, wait=wait)
    return Judging(
        in_flight=queue.offered_load, at_once=queue.servers, p95_wait_seconds=queue.wait_quantile(_SHARE)
    )


def _find_full_day(load: Load, deployment: Deployment, costs: UnitCosts) -> float | None:
    """Return the day on which a disk is full; None where it holds all that is kept.

    Runs and traces grow each day until their retention removes as much as comes.
    """
    apart_gb = load.spans * find_clickhouse_bytes(load, costs, deployment.store) / 1e9
    days = [_find_database_full_day(load, deployment, costs)]
    if apart_gb * load.trace_days > deployment.clickhouse_disk_gb:
        days.append(deployment.clickhouse_disk_gb / apart_gb)
    return min((day for day in days if day is not None), default=None)


def _find_database_full_day(load: Load, deployment: Deployment, costs: UnitCosts) -> float | None:
    store, disk_gb = deployment.store, deployment.disk_gb
    item_gb = load.items * (costs.on("item-disk-bytes", store) + load.item_bytes) / 1e9
    span_gb = load.spans * find_span_bytes(load, costs, store) / 1e9
    (first, first_gb), (last, last_gb) = sorted(((load.run_days, item_gb), (load.trace_days, span_gb)))
    if first * first_gb + last * last_gb <= disk_gb:
        return None
    day = disk_gb / (first_gb + last_gb)
    return day if day <= first else (disk_gb - first * first_gb) / last_gb


def _find_measured_spans(deployment: Deployment, costs: UnitCosts) -> float:
    return costs["measured-spans-clickhouse" if deployment.clickhouses else "measured-spans"]


def _plan_growth(load: Load, machine: Machine, costs: UnitCosts) -> Deployment | None:
    """Return what ten times the load takes; None where no such load is accepted."""
    try:
        grown = load.multiply(_GROWTH)
    except ConfigurationError:
        return None
    return plan_deployment(grown, machine, costs, store=None, servers=None)


def _plan_instead(load: Load, given: Deployment, machine: Machine, costs: UnitCosts) -> Deployment | None:
    """Return a deployment that is enough, where the given one is not and there is one."""
    if _is_enough(load, given, machine, costs):
        return None
    planned = plan_deployment(load, machine, costs, store=None, servers=None)
    return planned if _is_enough(load, planned, machine, costs) else None


def _is_enough(load: Load, deployment: Deployment, machine: Machine, costs: UnitCosts) -> bool:
    return all(each.is_enough for each in list_resources(load, deployment, machine, costs))
