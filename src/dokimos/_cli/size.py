"""`dokimos size`: machines, disk, memory and money for what comes in a day."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from dokimos._cli.exit_codes import EXIT_BELOW

if TYPE_CHECKING:
    from dokimos._sizing.load import Load, Machine
    from dokimos._sizing.sizing import Sizing

PRESETS: Final = ("laptop", "team", "company", "internet")
_FACTORS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_COUNT: Final = re.compile(
    r"((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*)(?:\.[0-9]+)?)\s*([kmg]?)", re.IGNORECASE
)
_MOST_COUNT: Final = 1e15
_MOST_BYTES: Final = 1e9
_MOST_DAYS: Final = 36_500
_MOST_PRICE: Final = 1e6


def parse_count(text: str) -> float:
    """Read a number that may be written as `250k`, `1M` or `10G`."""
    return _parse_count(text, _MOST_COUNT)


def parse_bytes(text: str) -> float:
    """Read a size, at most a gigabyte."""
    return _parse_count(text, _MOST_BYTES)


def _parse_count(text: str, most: float) -> float:
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r:.80} is not a number such as 5000, 5,000, 250k, 1M or 10G.")
    number = float(re.sub("[_,]", "", match[1])) * _FACTORS[match[2].lower()]
    if number > most:
        raise click.BadParameter(f"{text!r:.80} is too large: at most {most:,.0f}.")
    return number


def parse_prices(text: str) -> tuple[float, float]:
    """Read two prices for a million tokens, such as `0.15,0.60`."""
    try:
        prices = [float(part) for part in text.split(",")]
    except ValueError:
        prices = []
    if len(prices) != 2 or not all(0 <= each <= _MOST_PRICE for each in prices):
        raise click.BadParameter(f"{text!r:.80} is not two prices such as 0.15,0.60: input and output.")
    return prices[0], prices[1]


class FiniteRange(click.FloatRange):
    """A number in a range, which NaN is not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r:.80} is not a number.", param, ctx)
        return number


_DAYS: Final = FiniteRange(min=0, max=_MOST_DAYS)
_LOAD_OPTIONS: Final = (
    click.option("--runs", type=parse_count, metavar="N", help="Runs a day."),
    click.option("--items", type=parse_count, metavar="N", help="Items of all runs of a day."),
    click.option(
        "--judge-calls", type=parse_count, metavar="N",
        help="Calls of judges a day; of a preset as many for each item as it has, unless given.",
    ),
    click.option("--spans", type=parse_count, metavar="N", help="Spans of traces a day, such as 1M."),
    click.option(
        "--peak", type=FiniteRange(min=1, max=1440), metavar="TIMES",
        help="How many times the mean of the day comes at the peak.",
    ),
    click.option(
        "--peak-hours", type=FiniteRange(min=0, max=24, min_open=True), metavar="HOURS",
        help="How long the peak lasts; times --peak at most 24.",
    ),
    click.option("--run-days", type=_DAYS, metavar="DAYS", help="Days that runs are kept."),
    click.option("--trace-days", type=_DAYS, metavar="DAYS", help="Days that traces are kept."),
    click.option("--item-bytes", type=parse_bytes, metavar="BYTES", help="Mean size of an item's texts."),
    click.option("--span-bytes", type=parse_bytes, metavar="BYTES", help="Mean size of a span as protobuf."),
    click.option(
        "--judge-seconds", type=FiniteRange(min=0, max=86_400, min_open=True), metavar="SECONDS",
        help="What a call of a judge takes.",
    ),
    click.option("--judge-tokens-in", type=parse_count, metavar="N", help="Input tokens of a call."),
    click.option("--judge-tokens-out", type=parse_count, metavar="N", help="Output tokens of a call."),
    click.option(
        "--judge-price", type=parse_prices, metavar="IN,OUT",
        help="US dollars for a million input and output tokens.",
    ),
    click.option(
        "--judge-calls-per-minute", type=parse_count, metavar="N", help="Calls that the provider admits."
    ),
)  # fmt: skip
_SIZE: Final = FiniteRange(min=0, max=1e9, min_open=True)
_MACHINE_OPTIONS: Final = (
    click.option("--cores", type=click.IntRange(1, 100_000), metavar="N", help="Cores of a machine."),
    click.option("--memory-gib", type=_SIZE, metavar="GIB", help="Memory of a machine."),
    click.option("--disk-gb", type=_SIZE, metavar="GB", help="Disk of a machine."),
    click.option(
        "--usd-per-hour", type=FiniteRange(min=0, max=_MOST_PRICE), metavar="USD",
        help="Price of a machine for an hour.",
    ),
    click.option(
        "--comparison-memory-mib", type=_SIZE, metavar="MIB",
        help="DOKIMOS_COMPARISON_MEMORY_MIB of the server.",
    ),
)  # fmt: skip
_MACHINE: Final = ("cores", "memory_gib", "disk_gb", "usd_per_hour", "comparison_memory_mib")
_DAILY: Final = ("runs", "items", "judge_calls", "spans")


def add_size_options(command: Any) -> Any:
    """Add the options that say what comes, and on what machines."""
    for option in reversed((*_LOAD_OPTIONS, *_MACHINE_OPTIONS)):
        command = option(command)
    return command


@click.command()
@click.argument("preset", required=False, type=click.Choice(PRESETS))
@add_size_options
@click.option(
    "--store",
    type=click.Choice(["sqlite", "postgresql", "clickhouse"]),
    help="The database that there is; with ClickHouse it has the spans, and a PostgreSQL the rest.",
)
@click.option(
    "--servers", type=click.IntRange(1, 1_000_000), metavar="N",
    help="Serving processes that there are.",
)  # fmt: skip
@click.option(
    "--cost", "costs", multiple=True, metavar="NAME=VALUE",
    help="Another value of a unit cost, such as span-cpu-ms=0.05; -v lists them. Repeatable.",
)  # fmt: skip
@click.option(
    "-v", "--verbose", is_flag=True, help="List the unit costs, what they mean, and where each is from."
)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def size(
    preset: str | None,
    store: Any,
    servers: int | None,
    costs: Sequence[str],
    verbose: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Say which machines, how much disk, memory and money a load takes, and what runs out first.

    PRESET is a load to start from; options replace parts of it. Without one, what is not given does not come.
    --store and --servers say what there is: one installation, with the disk of the machine. Otherwise one
    that is enough is planned. The exit code is 1 where the load takes more of something than is usable, and 0
    otherwise.
    """
    from dokimos._sizing.sizing import size_load
    from dokimos._sizing.unit_costs import UnitCosts

    if store == "sqlite" and servers is not None and servers > 1:
        raise click.UsageError("--store sqlite has one server; several of them need --store postgresql.")
    load, machine = _read_load(preset, {name: value for name, value in options.items() if value is not None})
    sized = size_load(
        load,
        machine,
        name=preset or "",
        costs=UnitCosts().with_values(_read_costs(costs)),
        store=store,
        servers=servers,
    )
    if as_json:
        _print_json(sized)
    else:
        sized.print(verbose=verbose)
    return 0 if sized.is_enough else EXIT_BELOW


def _read_load(preset: str | None, options: dict[str, Any]) -> tuple[Load, Machine]:
    from dataclasses import replace

    from dokimos._sizing.load import PRESETS as KNOWN
    from dokimos._sizing.load import Load, Machine

    if preset is None and not any(options.get(name) for name in _DAILY):
        raise click.UsageError(
            f"Name a load ({', '.join(PRESETS)}), or say what comes in a day, such as --items 10k --spans 1M."
        )
    load, machine = (Load(), Machine()) if preset is None else (KNOWN[preset].load, KNOWN[preset].machine)
    if load.items and "items" in options:
        options.setdefault("judge_calls", load.judge_calls / load.items * options["items"])
    if "judge_price" in options:
        options["judge_usd_in"], options["judge_usd_out"] = options.pop("judge_price")
    machine = replace(machine, **{name: options.pop(name) for name in _MACHINE if name in options})
    return replace(load, **options), machine


def _read_costs(costs: Sequence[str]) -> dict[str, float]:
    values = {}
    for text in costs:
        name, _, value = text.partition("=")
        try:
            values[name.strip()] = float(value)
        except ValueError:
            raise click.UsageError(
                f"--cost {text!r:.80} is not NAME=VALUE, such as span-cpu-ms=0.05."
            ) from None
    return values


def _print_json(sized: Sizing) -> None:
    from dokimos._cli.echo import echo
    from dokimos._core.wire import to_json
    from dokimos._sizing.sizing_tree import build_tree

    echo(to_json(build_tree(sized), indent=2))
