"""What a load leaves of each resource of a deployment, and what is added where one runs out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from dokimos._sizing.deployment import Demand, Deployment, Resource, ResourceName
from dokimos._sizing.load import Load, Machine
from dokimos._sizing.unit_costs import UnitCosts

_MIB: Final = 2**20

_REMEDIES: Final[dict[tuple[ResourceName, str], str]] = {
    ("server CPU", "sqlite"): "PostgreSQL instead of SQLite, and a second server",
    ("server CPU", "postgresql"): "another server behind the load balancer",
    ("disk", "sqlite"): "a shorter retention or a larger disk; beyond one file, PostgreSQL",
    ("disk", "postgresql"): "a PostgreSQL for traces alone (DOKIMOS_TRACE_DATABASE_URL)",
    (
        "disk",
        "apart",
    ): "a shorter retention, sampled traces, or another installation for some of the projects",
    ("database CPU", "postgresql"): "a PostgreSQL for traces alone (DOKIMOS_TRACE_DATABASE_URL)",
    ("database CPU", "apart"): "a larger database machine, or another installation for some of the projects",
    ("comparison CPU", "sqlite"): "PostgreSQL instead of SQLite, and a second server",
    ("comparison CPU", "postgresql"): "another server behind the load balancer",
}
_REMEDY: Final[dict[ResourceName, str]] = {
    "comparison memory": "a larger DOKIMOS_COMPARISON_MEMORY_MIB",
    "CPU of runs": "more machines for runs: --processes, shards, or --on ray",
    "judge calls": "a higher limit at the provider, or fewer judged items",
}
_LOSSES: Final[dict[ResourceName, str]] = {
    "server CPU": "items wait in their runs, and spans beyond what may wait get 503",
    "database CPU": "requests wait for PostgreSQL, and in the end get 503; clients send them again",
    "disk": "once it is full, what writes gets 503; runs keep their items in spool files, and spans are lost",
    "comparison CPU": "gates and differences wait; where more than 20 do, further ones get 503",
    "comparison memory": "comparisons of such runs get 409",
    "CPU of runs": "runs take longer, and nothing is lost",
    "judge calls": "the provider answers 429, which runs wait for: they take longer, and nothing is lost",
}


def list_resources(
    load: Load, deployment: Deployment, machine: Machine, costs: UnitCosts, *, run_cores: int
) -> list[Resource]:
    """Return what a deployment has of each resource, the one that runs out first in front."""
    demand = Demand.of(load, costs, deployment.store)
    amounts = _amounts(load, demand, deployment, machine, costs, run_cores)
    resources = (
        Resource(
            name=name,
            needed=needed,
            available=available,
            unit=unit,
            remedy=_remedy(name, deployment),
            loss=_LOSSES[name],
        )
        for name, needed, available, unit in amounts
    )
    return sorted(resources, key=lambda each: each.growth or math.inf)


def _amounts(
    load: Load, demand: Demand, deployment: Deployment, machine: Machine, costs: UnitCosts, run_cores: int
) -> Iterator[tuple[ResourceName, float, float, str]]:
    cpu, disk = costs["full-cpu"], costs["full-disk"]
    yield "server CPU", demand.server_cpu, deployment.servers * cpu, "cores"
    yield "comparison CPU", demand.compare_cpu, deployment.servers * cpu, "cores"
    yield "CPU of runs", demand.run_cpu, run_cores * cpu, "cores"
    if deployment.store == "sqlite":
        yield "disk", demand.gb, min(machine.disk_gb * disk, costs["sqlite-disk-gb"]), "GB"
    else:
        kinds = [(demand.server_cpu, demand.gb)]
        if deployment.traces_apart:
            kinds = [(demand.item_cpu, demand.item_gb), (demand.span_cpu, demand.span_gb)]
        each = deployment.installations
        # Of two databases, the one with more to do counts.
        yield (
            "database CPU",
            max(one for one, _ in kinds) * demand.database_factor,
            each * machine.cores * cpu,
            "cores",
        )
        yield "disk", max(gb for _, gb in kinds), each * machine.disk_gb * disk, "GB"
    compared = load.items_per_run * costs["compare-item-bytes"] / _MIB
    yield "comparison memory", compared, machine.comparison_memory_mib, "MiB"
    if load.judge_calls_per_minute is not None:
        calls = load.at_peak(load.judge_calls) * 60
        yield "judge calls", calls, load.judge_calls_per_minute, "calls/min"


def _remedy(name: ResourceName, deployment: Deployment) -> str:
    is_divided = deployment.traces_apart or deployment.installations > 1
    kind = "apart" if is_divided and name in ("disk", "database CPU") else deployment.store
    return _REMEDIES.get((name, kind)) or _REMEDY[name]
