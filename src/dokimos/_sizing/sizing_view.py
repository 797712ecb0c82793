"""A size on the terminal: whether it is enough, what it takes, what runs out first, what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from dokimos._core.number_format import UNKNOWN, duration, percent
from dokimos._core.text import pluralize
from dokimos._sizing.deployment import Deployment, Resource
from dokimos._sizing.sizing import Sizing
from dokimos.reporting._blocks import Block, Detail, Line, View, blocks_html, print_blocks
from dokimos.reporting._console import Signs, signs_for
from dokimos.reporting._tables import Column, Table

if TYPE_CHECKING:
    from rich.console import Console

_RESOURCES: Final = (
    Column("resource", left=True),
    Column("takes"),
    Column("usable"),
    Column("used"),
    Column("full at"),
)
_COSTS: Final = (
    Column("unit cost", left=True, whole=True),
    Column("value"),
    Column("is"),
    Column("from", left=True, rest=True),
)
_MANY_TIMES: Final = 10
_LEAST: Final = 0.01
_TOO_MANY: Final = 1.05
"""How far beyond what was measured is told."""


def sizing_blocks(sizing: Sizing, detail: Detail, signs: Signs) -> Iterator[Block]:
    """Yield the lines and tables of a size."""
    yield Line(_load(sizing, signs), fit="wrap")
    yield Line()
    sign, word, style = (
        (signs.passed, "enough", "blue") if sizing.is_enough else (signs.failed, "not enough", "dark_orange")
    )
    yield Line(f"  {sign} {word}: {format_deployment(sizing.deployment)}", f"bold {style}", fit="wrap")
    for text in _takes(sizing):
        yield Line(f"    {text}", fit="wrap")
    yield Line()
    yield Table(_RESOURCES, [_resource_row(each) for each in sizing.resources if each.growth is not None])
    yield Line()
    for text in (*_growth(sizing), *_peak(sizing), *_describe_losses(sizing), *_judging(sizing)):
        yield Line(f"  {text}", fit="wrap")
    for text in _warnings(sizing):
        yield Line(f"  ! {text}", "yellow", fit="wrap")
    if detail == "verbose":
        yield Line()
        yield Table(_COSTS, _cost_rows(sizing))


def _load(sizing: Sizing, signs: Signs) -> str:
    load = sizing.load
    counts = (
        (load.runs, "runs"),
        (load.items, "items"),
        (load.judge_calls, "judge calls"),
        (load.spans, "spans"),
    )
    parts = [f"{count:,.0f} {noun}" for count, noun in counts if count]
    parts = [*([sizing.name] if sizing.name else []), *parts]
    return f" {signs.dot} ".join([*parts[:-1], f"{parts[-1]} a day", f"peak {load.peak:g} times the mean"])


def format_deployment(made: Deployment) -> str:
    if made.store == "sqlite":
        return "one server on SQLite"
    databases = pluralize(made.databases, "PostgreSQL", "PostgreSQL machines")
    apart = ", one for traces alone" if made.databases == 2 and made.traces_apart else ""
    many = (
        ""
        if made.installations == 1
        else f", in {made.installations:,} installations that share the projects"
    )
    return f"{pluralize(made.servers, 'server')} on {databases}{apart}{many}"


def _takes(sizing: Sizing) -> Iterator[str]:
    made, load = sizing.machines, sizing.load
    apart = f" ({made.for_servers_and_runs:,} for servers and runs, {made.for_databases:,} for databases)"
    yield f"machines  {made.total:,}{apart if made.for_databases else ''}"
    yield f"cores     {made.cores:,} at the peak"
    yield f"memory    {format_number(made.memory_gib)} GiB for the serving processes"
    yield (
        f"disk      {format_disk(made.disk_gb)} once it holds {load.run_days:g} days of runs "
        f"and {load.trace_days:g} days of traces"
    )
    judges, machines = _money(sizing.judge_usd_per_day), _money(sizing.machine_usd_per_day)
    yield f"money     {judges} for judges, {machines} for machines, a day"


def _resource_row(resource: Resource) -> list[str]:
    growth = UNKNOWN if resource.growth is None else f"{format_number(resource.growth)} times"
    if resource.unit == "GB":
        takes, usable = format_disk(resource.needed), format_disk(resource.available)
    else:
        takes = f"{format_number(resource.needed)} {resource.unit}"
        usable = f"{format_number(resource.available)} {resource.unit}"
    return [resource.name, takes, usable, _used(resource.used), growth]


def _title(resource: Resource) -> str:
    return resource.name[0].upper() + resource.name[1:]


def _used(share: float) -> str:
    return percent(share) if share < _MANY_TIMES else f"{format_number(share)} times"


def _growth(sizing: Sizing) -> Iterator[str]:
    first = sizing.first
    if first is None or first.growth is None:
        return
    if first.used > 1:
        yield f"{_title(first)} is too little: it takes {format_number(first.used)} times what is usable."
    else:
        yield f"{_title(first)} runs out first, at {format_number(first.growth)} times this load."
    yield f"Then add: {first.remedy}."
    if sizing.disk_gb_for_one is not None:
        yield f"With a disk of {format_disk(sizing.disk_gb_for_one)}, one database would do."
    if sizing.at_ten_times is not None:
        yield f"Ten times this load takes {format_deployment(sizing.at_ten_times)}."


def _peak(sizing: Sizing) -> Iterator[str]:
    peak = sizing.peak
    if peak.p95_wait_seconds is not None and peak.mean_wait_seconds is not None:
        mean, p95 = _wait(peak.mean_wait_seconds), _wait(peak.p95_wait_seconds)
        most = f"for at most {p95}" if peak.p95_wait_seconds else "not at all"
        yield f"At the peak, a request waits {mean} on average, and 95 % of them {most}. Nothing is refused."
        return
    yield (
        f"At the peak, {format_number(peak.utilisation)} times as much comes as a server can take. "
        f"Items wait in their runs, or in spool files: after {sizing.load.peak_hours:g} h they are "
        f"{duration(peak.delay_seconds * 1000)} behind, {_describe_recovery(sizing)}. None is lost."
    )
    if sizing.load.spans and peak.seconds_until_refused is not None:
        yield (
            f"After {duration(peak.seconds_until_refused * 1000)} of it, {percent(peak.refused_share)} of "
            "the spans get 503. Exporters send them again, and lose what their own queues cannot hold."
        )


def _describe_losses(sizing: Sizing) -> Iterator[str]:
    """Say what happens where another resource than the servers is too little; `_peak` has these."""
    for each in sizing.resources:
        if each.used > 1 and not sizing.is_enough and each.name != "server CPU":
            yield f"Too little {each.name}: {each.loss}."
    if sizing.days_until_disk_full is not None:
        yield f"The disk is full after {format_number(sizing.days_until_disk_full)} days."


def _describe_recovery(sizing: Sizing) -> str:
    seconds = sizing.peak.seconds_until_drained
    if seconds is None:
        return "and never up to date again: the mean of the day is too much as well"
    return f"and up to date {duration(seconds * 1000)} later"


def _judging(sizing: Sizing) -> Iterator[str]:
    judging = sizing.judging
    if judging is not None:
        yield (
            f"Judges: {format_number(judging.in_flight)} calls in flight at the peak; with "
            f"{judging.at_once:,} at once (parallelism, over all runs) few of them wait for their turn."
        )


def _warnings(sizing: Sizing) -> Iterator[str]:
    kinds = (
        (sizing.spans_beyond_measured, "spans", "lists and searches of traces"),
        (sizing.items_beyond_measured, "items", "pages of runs"),
    )
    for times, noun, pages in kinds:
        if times > _TOO_MANY:
            yield (
                f"A database holds {format_number(times)} times as many {noun} as {pages} were measured "
                "with: how quick they are then is not known."
            )
    if sizing.judge_usd_per_day is None:
        yield "The judges are unpriced: give --judge-price IN,OUT (US dollars for a million tokens)."


def _cost_rows(sizing: Sizing) -> list[list[str]]:
    return [
        [each.name, f"{each.value:,g} {each.unit}".strip(), each.origin, each.command or each.meaning]
        for each in sizing.unit_costs
    ]


def format_number(value: float) -> str:
    """Write about three digits of a number."""
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    if 0 < value < _LEAST:
        return f"<{_LEAST}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def format_disk(gigabytes: float) -> str:
    if gigabytes >= 1000:
        return f"{format_number(gigabytes / 1000)} TB"
    return f"{format_number(gigabytes)} GB"


def _wait(seconds: float) -> str:
    return "less than 0.01 ms" if seconds * 1000 < _LEAST else duration(seconds * 1000)


def _money(usd: float | None) -> str:
    return "unpriced" if usd is None else f"${usd:,.2f}"


def _headline(sizing: Sizing) -> str:
    return f"{'enough' if sizing.is_enough else 'not enough'}: {format_deployment(sizing.deployment)}"


def _print_on(sizing: Sizing, console: Console, detail: Detail) -> None:
    print_blocks(sizing_blocks(sizing, detail, signs_for(console)), console)


VIEW: Final = View(_headline, _print_on, lambda sizing: blocks_html(sizing_blocks(sizing, "full", Signs())))
