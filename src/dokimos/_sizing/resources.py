"""What a load leaves of each resource of an installation, and what is added where one runs out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from dokimos._sizing.deployment import Demand, Deployment
from dokimos._sizing.load import Load, Machine
from dokimos._sizing.unit_costs import UnitCosts

ResourceName: TypeAlias = Literal[
    "server CPU",
    "database CPU",
    "ClickHouse CPU",
    "disk",
    "ClickHouse disk",
    "SQLite file",
    "comparison CPU",
    "comparison memory",
    "server memory",
    "machine cores",
    "judge calls",
]
ROUNDING: Final = 1e-9
_CONSTANT: Final = ("comparison memory", "server memory", "machine cores")
_HELPFUL_SHARE: Final = 0.8
"""Traces get a database of their own where that leaves each with at most so much of what one has now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One thing that can run out, of each installation; judge calls are those of all."""

    name: ResourceName
    needed: float
    usable: float
    """What is to be used of it: 70 % of a core, 80 % of a disk."""
    whole: float
    """What there is of it, its reserve included."""
    unit: str
    grows: bool
    """Whether it grows with the load; what a run of the mean size, or a server, takes does not."""
    remedy: str
    """What is added when it is used up."""
    loss: str
    """What happens where the whole of it is too little."""

    @property
    def used(self) -> float:
        """The share of what is usable; above 1 it is not enough."""
        return self.needed / self.usable

    @property
    def is_enough(self) -> bool:
        return self.used <= 1 + ROUNDING

    @property
    def growth(self) -> float | None:
        """How many times the load fits; None where it does not depend on the load."""
        return 1 / self.used if self.needed and self.grows else None


_SERVER_REMEDY: Final = {
    "sqlite": "PostgreSQL instead of SQLite, and a second server",
    "postgresql": "another server behind the load balancer",
    "clickhouse": "another server behind the load balancer",
}
_APART: Final = "a PostgreSQL for traces alone (DOKIMOS_TRACE_DATABASE_URL)"
_REMEDIES: Final[dict[ResourceName, str]] = {
    "ClickHouse CPU": "a ClickHouse machine with more cores, or another installation",
    "ClickHouse disk": "a larger disk or a shorter retention of traces",
    "SQLite file": "a shorter retention, or PostgreSQL",
    "comparison memory": "a larger DOKIMOS_COMPARISON_MEMORY_MIB",
    "server memory": "a machine with more memory",
    "machine cores": "a machine with more cores",
    "judge calls": "a higher limit at the provider, or fewer judged items",
}
_LOSSES: Final[dict[ResourceName, str]] = {
    "server CPU": "items wait in their runs, and spans beyond what may wait get 503",
    "database CPU": "requests wait for PostgreSQL, and in the end get 503; clients send them again",
    "ClickHouse CPU": "exports wait for ClickHouse, and in the end get 503; clients send them again",
    "ClickHouse disk": "once it is full, exports get 503, and spans are lost",
    "disk": "once it is full, what writes gets 503: runs keep their items in spool files, and spans are lost",
    "SQLite file": "nothing stops, but the file is larger than the one that is proposed: "
    "copies and backups of it take long",
    "comparison CPU": "gates and differences wait; where more than 20 do, further ones get 503",
    "comparison memory": "comparisons of such runs get 409",
    "server memory": "the operating system may end the process that compares, or the server",
    "machine cores": "requests and pages are slower while runs are compared",
    "judge calls": "the provider answers 429, which runs wait for: they take longer, and nothing is lost",
}


def list_resources(load: Load, deployment: Deployment, machine: Machine, costs: UnitCosts) -> list[Resource]:
    """Return what each installation has of each resource, the one that runs out first in front."""
    share = deployment.take_share(load)
    demand = Demand.of(share, costs, machine, deployment.store)
    amounts = (
        *_list_cpu(demand, deployment, machine, costs),
        *_list_disk(demand, deployment, costs),
        *_list_machine(demand, machine),
        *_list_judge_calls(load),
    )
    resources = (
        Resource(
            name=name,
            needed=needed,
            usable=whole * usable_share,
            whole=whole,
            unit=unit,
            grows=name not in _CONSTANT,
            remedy=_find_remedy(name, demand, deployment),
            loss=_LOSSES[name],
        )
        for name, needed, whole, usable_share, unit in amounts
    )
    return sorted(resources, key=_rank)


_Amount: TypeAlias = tuple[ResourceName, float, float, float, str]
"""A name, what is needed, what there is, the share of it that may be used, and the unit."""


def _list_cpu(
    demand: Demand, deployment: Deployment, machine: Machine, costs: UnitCosts
) -> Iterator[_Amount]:
    full = costs["full-cpu"]
    yield "server CPU", demand.server_cpu, deployment.servers, full, "cores"
    yield "comparison CPU", demand.compare_cpu, deployment.servers, full, "cores"
    if deployment.databases:
        yield "database CPU", demand.database_cpu, machine.cores, full, "cores"
    if deployment.clickhouses:
        yield "ClickHouse CPU", demand.clickhouse_cpu, machine.cores, full, "cores"


def _list_disk(demand: Demand, deployment: Deployment, costs: UnitCosts) -> Iterator[_Amount]:
    yield "disk", demand.gb, deployment.disk_gb, costs["full-disk"], "GB"
    if deployment.clickhouses:
        yield (
            "ClickHouse disk",
            demand.clickhouse_gb,
            deployment.clickhouse_disk_gb,
            costs["full-disk"],
            "GB",
        )
    if deployment.store == "sqlite":
        yield "SQLite file", demand.gb, costs["sqlite-disk-gb"], 1.0, "GB"


def _list_machine(demand: Demand, machine: Machine) -> Iterator[_Amount]:
    yield "comparison memory", demand.compare_mib, machine.comparison_memory_mib, 1.0, "MiB"
    yield "server memory", demand.server_gib, machine.memory_gib, 1.0, "GiB"
    if demand.server_cores > machine.cores:
        yield "machine cores", demand.server_cores, machine.cores, 1.0, "cores"


def _list_judge_calls(load: Load) -> Iterator[_Amount]:
    if load.judge_calls_per_minute is not None:
        yield (
            "judge calls",
            load.at_peak(load.judge_calls) * 60,
            load.judge_calls_per_minute,
            1.0,
            "calls/min",
        )


def _rank(resource: Resource) -> tuple[bool, float]:
    """Sort what is too little in front, then by what the load may grow to."""
    return resource.is_enough, -resource.used if not resource.is_enough else resource.growth or math.inf


def _find_remedy(name: ResourceName, demand: Demand, deployment: Deployment) -> str:
    if name in ("server CPU", "comparison CPU"):
        return _SERVER_REMEDY[deployment.store]
    if name == "disk":
        parts = ["a larger disk", "a shorter retention"]
        if _is_divided_well(demand.item_gb, demand.span_gb) and deployment.store == "postgresql":
            parts.append(_APART)
        return f"{', '.join(parts[:-1])} or {parts[-1]}"
    if name == "database CPU":
        is_divided = deployment.store == "postgresql" and _is_divided_well(demand.item_cpu, demand.span_cpu)
        apart = f", or {_APART}" if is_divided else ""
        return f"a database machine with more cores{apart}"
    return _REMEDIES[name]


def _is_divided_well(items: float, spans: float) -> bool:
    return max(items, spans) <= _HELPFUL_SHARE * (items + spans)
