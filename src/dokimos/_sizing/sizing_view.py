"""A size on the terminal: whether it is enough, what it takes, what runs out first, what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from dokimos._core.number_format import UNKNOWN, percent
from dokimos._sizing.deployment import Deployment
from dokimos._sizing.resources import Resource
from dokimos._sizing.sizing import Sizing
from dokimos._sizing.unit_costs import UnitCost
from dokimos.reporting._blocks import Block, Detail, Line, View, blocks_html, print_blocks
from dokimos.reporting._console import Signs, signs_for
from dokimos.reporting._tables import Column, Table

if TYPE_CHECKING:
    from rich.console import Console

_RESOURCES: Final = (
    Column("resource", left=True, whole=True),
    Column("takes"),
    Column("usable"),
    Column("used"),
    Column("full at"),
)
_MANY_TIMES: Final = 10
_TENTH: Final = 0.001
_LEAST: Final = 0.01
_TOO_MANY: Final = 1.05
"""How far beyond what was measured is told."""


def list_blocks(sizing: Sizing, detail: Detail, signs: Signs) -> Iterator[Block]:
    """Yield the lines and tables of a size."""
    yield Line(_format_load(sizing, signs), fit="wrap")
    yield Line()
    sign, word, style = (
        (signs.passed, "enough", "blue") if sizing.is_enough else (signs.failed, "not enough", "dark_orange")
    )
    yield Line(f"  {sign} {word}: {format_deployment(sizing.deployment)}", f"bold {style}", fit="wrap")
    for text in _describe_needs(sizing):
        yield Line(f"    {text}", fit="wrap")
    yield Line()
    yield from _list_resource_blocks(sizing)
    yield Line()
    for describe in (_describe_growth, _describe_peak, _describe_losses, _describe_judging):
        yield from (Line(f"  {text}", fit="wrap") for text in describe(sizing))
    for text in _list_warnings(sizing):
        yield Line(f"  ! {text}", "yellow", fit="wrap")
    if detail == "verbose":
        yield Line()
        yield Line("  Unit costs:")
        yield from (Line(f"    {_format_cost(cost)}", fit="wrap") for cost in sizing.unit_costs)


def _list_resource_blocks(sizing: Sizing) -> Iterator[Block]:
    if sizing.deployment.installations > 1:
        has_limit = sizing.load.judge_calls_per_minute is not None
        yield Line(f"  Each installation{' (judge calls: all together)' if has_limit else ''}:", fit="wrap")
    yield Table(_RESOURCES, [_list_cells(each) for each in sizing.resources if each.needed])


def _format_load(sizing: Sizing, signs: Signs) -> str:
    load = sizing.load
    counts = (
        (load.runs, "run"),
        (load.items, "item"),
        (load.judge_calls, "judge call"),
        (load.spans, "span"),
    )
    parts = [format_count(count, noun) for count, noun in counts if count]
    parts = [*([sizing.name] if sizing.name else []), *parts]
    peak = f"peak {format_exactly(load.peak)} times the mean for {format_exactly(load.peak_hours)} h"
    return f" {signs.dot} ".join([*parts[:-1], f"{parts[-1]} a day", peak])


def format_deployment(made: Deployment) -> str:
    if made.store == "sqlite":
        return "one server on SQLite"
    servers = format_count(made.servers, "server")
    databases = "one PostgreSQL and one ClickHouse for spans" if made.clickhouses else "one PostgreSQL"
    if made.installations == 1:
        return f"{servers} on {databases}"
    divided = f"{made.installations:,} installations that divide the projects"
    return f"{divided}, each with {servers} on {databases}"


def _describe_needs(sizing: Sizing) -> Iterator[str]:
    made, load = sizing.machines, sizing.load
    apart = f" ({made.for_servers_and_runs:,} for servers and runs, {made.for_databases:,} for databases)"
    yield f"machines  {made.total:,}{apart if made.for_databases else ''}"
    yield f"cores     {made.cores:,} to provide, those of runs included"
    yield f"memory    {format_number(made.memory_gib)} GiB for servers, without PostgreSQL and runs"
    yield (
        f"disk      {format_disk(made.disk_gb)} after {format_count(load.run_days, 'day')} of runs "
        f"and {format_count(load.trace_days, 'day')} of traces"
    )
    if sizing.deployment.disk_gb > sizing.machine.disk_gb:
        planned, has = format_disk(sizing.deployment.disk_gb), format_disk(sizing.machine.disk_gb)
        yield f"          so a database has a disk of {planned}; that of a machine (--disk-gb) is {has}"
    if sizing.deployment.clickhouse_disk_gb > sizing.machine.disk_gb:
        planned, has = format_disk(sizing.deployment.clickhouse_disk_gb), format_disk(sizing.machine.disk_gb)
        yield f"          so a ClickHouse has a disk of {planned}; that of a machine (--disk-gb) is {has}"
    judges = _format_money(sizing.judge_usd_per_day, "judges", "--judge-price")
    yield f"money     {judges}, {_format_money(sizing.machine_usd_per_day, 'machines', '--usd-per-hour')}"


def _list_cells(resource: Resource) -> list[str]:
    growth = UNKNOWN if resource.growth is None else f"{format_number(resource.growth)}x"
    if resource.unit == "GB":
        takes, usable = format_disk(resource.needed), format_disk(resource.usable)
    else:
        takes = f"{format_number(resource.needed)} {resource.unit}"
        usable = f"{format_exactly(resource.usable)} {resource.unit}"
    return [resource.name, takes, usable, _format_used(resource.used), growth]


def _format_used(share: float) -> str:
    return percent(share) if share < _MANY_TIMES else f"{format_number(share)} times"


def _capitalize(name: str) -> str:
    return name[0].upper() + name[1:]


def _describe_growth(sizing: Sizing) -> Iterator[str]:
    first = sizing.first
    if first is not None and not first.is_enough:
        yield f"{_capitalize(first.name)}: {format_number(first.used)} times what is usable is needed."
    elif first is not None and first.growth is not None:
        yield f"{_capitalize(first.name)} runs out first, at {format_number(first.growth)} times this load."
    if first is not None:
        yield f"Then add: {first.remedy}."
        if first.is_enough:
            yield f"Without that: {first.loss}."
    if sizing.would_be_enough is not None:
        planned = sizing.would_be_enough
        yield f"Enough would be: {format_deployment(planned)}, with {format_disk(planned.disk_gb)} of disk."
    if sizing.deployment.installations > 1:
        yield (
            "An installation has whole projects. Larger disks (--disk-gb) or a shorter retention "
            "(--trace-days, --run-days) may take fewer installations."
        )
    if sizing.at_ten_times is not None:
        ten = sizing.at_ten_times
        yield f"Ten times this load takes {format_deployment(ten)}, with {format_disk(ten.disk_gb)} of disk."


def _describe_peak(sizing: Sizing) -> Iterator[str]:
    peak, load = sizing.peak, sizing.load
    if peak.utilisation < 1:
        if peak.p95_answer_seconds is not None:
            p95 = _format_roughly(peak.p95_answer_seconds)
            yield f"At the peak, 95 % of the requests take about {p95} of waiting and CPU at the server."
        if peak.refused_share:
            share = percent(peak.refused_share) if peak.refused_share >= _TENTH else "Less than 0.1 %"
            yield f"{share} of the exports of spans get 503, and are sent again."
        elif sizing.is_enough:
            yield "Nothing is refused."
        return
    yield f"At the peak, {format_number(peak.utilisation)} times as much comes as a server can do."
    if load.items:
        hours, delay = format_exactly(load.peak_hours), _format_roughly(peak.delay_seconds)
        yield (
            "Items wait in their runs, or in spool files, and none is lost: at the end of the peak "
            f"({hours} h) they are about {delay} behind."
        )
    if peak.seconds_until_refused is not None:
        yield (
            f"After about {_format_roughly(peak.seconds_until_refused)}, {percent(peak.refused_share)} of "
            "the spans get 503. Exporters send them again, and lose what their own queues cannot hold."
        )
    if peak.seconds_until_drained is None:
        yield "The mean of the day is too much as well: it does not end with the peak."
    else:
        yield f"What waits is stored about {_format_roughly(peak.seconds_until_drained)} after the peak."


def _describe_losses(sizing: Sizing) -> Iterator[str]:
    """Say what happens where something is too little; what overloaded servers do is in `_describe_peak`."""
    for each in sizing.resources:
        if each.is_enough:
            continue
        name = _capitalize(each.name)
        if each.needed <= each.whole:
            reserve = percent(1 - each.usable / each.whole)
            yield f"{name}: this takes part of its reserve ({reserve}), and nothing stops yet."
        elif each.name != "server CPU":
            yield f"{name}, not enough: {each.loss}."
    if sizing.days_until_disk_full is not None:
        yield f"The disk is full after about {format_number(sizing.days_until_disk_full)} days."


def _describe_judging(sizing: Sizing) -> Iterator[str]:
    judging = sizing.judging
    if judging is not None:
        yield (
            f"Judges: {_format_calls(judging.in_flight)} in flight at the peak. With "
            f"{judging.at_once:,} at once (parallelism, over all runs), 95 % of them wait at most "
            f"{_format_roughly(judging.p95_wait_seconds)} for their turn."
        )


def _list_warnings(sizing: Sizing) -> Iterator[str]:
    load = sizing.load
    if load.items and not load.runs:
        yield "Items without runs (--runs): comparisons of runs are not counted."
    elif load.runs > load.items:
        yield (
            f"There are more runs ({format_exactly(load.runs)}) than items ({format_exactly(load.items)}): "
            "--items are those of all runs of a day together."
        )
    if load.judge_calls and not load.items:
        yield "Calls of judges without items (--items): what stores their scores is not counted."
    place, pages = "A database", "lists and searches of traces"
    if sizing.deployment.clickhouses:
        place, pages = "A ClickHouse", "its figures"
    kinds = (
        (place, sizing.spans_beyond_measured, "spans", pages),
        ("A database", sizing.items_beyond_measured, "items", "pages of runs"),
    )
    for place, times, noun, pages in kinds:
        if times > _TOO_MANY:
            quick = "searches are" if sizing.deployment.clickhouses and noun == "spans" else "they are"
            yield (
                f"{place} holds {format_number(times)} times as many {noun} as {pages} were measured "
                f"with: how quick {quick} then is not known."
            )


def _format_cost(cost: UnitCost) -> str:
    origin = f"{cost.origin}: {cost.command}" if cost.command else cost.origin
    return f"{cost.name} = {format_exactly(cost.value)} {cost.unit}".rstrip() + f": {cost.meaning} ({origin})"


def format_number(value: float) -> str:
    """Write about three digits of a number."""
    if not value:
        return "0"
    if value >= 100:
        return f"{float(f'{value:.3g}'):,.0f}"
    if 0 < value < _LEAST:
        return f"<{_LEAST}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def format_exactly(value: float) -> str:
    """Write a number as it was entered: 2,048 and 0.7."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.12g}"


def format_count(count: float, noun: str) -> str:
    return f"{format_exactly(count)} {noun}{'' if count == 1 else 's'}"


def format_disk(gigabytes: float) -> str:
    if gigabytes >= 1000:
        return f"{format_number(gigabytes / 1000)} TB"
    return f"{format_number(gigabytes)} GB"


def _format_calls(count: float) -> str:
    return (
        f"about {count:,.0f} call{'' if round(count) == 1 else 's'}" if count >= 1 else "less than one call"
    )


def _format_roughly(seconds: float) -> str:
    """Write a time with two digits, which is what a model is good for."""
    milliseconds = float(f"{seconds * 1000:.2g}")
    if not milliseconds:
        return "0 ms"
    for limit, unit, factor in ((1e3, "ms", 1.0), (6e4, "s", 1e3), (3.6e6, "min", 6e4)):
        if milliseconds < limit:
            return f"{float(f'{seconds * 1000 / factor:.2g}'):g} {unit}"
    hours = seconds / 3600
    return f"{float(f'{hours:.2g}'):,g} h" if hours < 48 else f"{float(f'{hours / 24:.2g}'):,.0f} days"


def _format_money(usd: float | None, what: str, option: str) -> str:
    return f"{what} unpriced ({option})" if usd is None else f"${usd:,.2f} a day for {what}"


def _format_headline(sizing: Sizing) -> str:
    return f"{'enough' if sizing.is_enough else 'not enough'}: {format_deployment(sizing.deployment)}"


def _print_on(sizing: Sizing, console: Console, detail: Detail) -> None:
    print_blocks(list_blocks(sizing, detail, signs_for(console)), console)


VIEW: Final = View(
    _format_headline, _print_on, lambda sizing: blocks_html(list_blocks(sizing, "full", Signs()))
)
