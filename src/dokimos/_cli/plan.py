"""`dokimos plan`: what a data set can show, before money is spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dokimos._cli.options import complete_runs, run_dir_option

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult
    from dokimos.comparison._planning import Assumption, Plan

_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@click.argument("result", required=False, shell_complete=complete_runs)
@click.option("--drop", type=_SHARE, default=0.05, show_default=True, help="The drop to detect.")
@click.option("--power", type=_SHARE, default=0.8, show_default=True, help="The chance to detect it (power).")
@click.option(
    "--alpha",
    type=_SHARE,
    default=0.05,
    show_default=True,
    help="How often a run without a change may seem changed.",
)
@click.option("--items", type=click.IntRange(min=1), metavar="N", help="The number of items available.")
@click.option("--data", metavar="FILE", help="Count the items of this data set.")
@click.option(
    "--repeats", multiple=True, type=click.IntRange(min=1), metavar="N",
    help="Plan for so many runs on each side. Repeatable.  [default: 1, 2, 3]",
)  # fmt: skip
@click.option("--pass-rate", type=_SHARE, help="Without RESULT: the expected pass rate.  [default: 0.8]")
@click.option(
    "--noise", type=click.FloatRange(0, 1), default=0.2, show_default=True,
    help="Share of the variance that is chance, where no repeats measure it.",
)  # fmt: skip
@click.option(
    "--affected", type=click.FloatRange(0, 1, min_open=True), default=0.1, show_default=True,
    help="Share of the items that a drop of scores falls on.",
)  # fmt: skip
@click.option(
    "--metrics", type=click.IntRange(min=1), metavar="N", help="Pass rate and evaluators that share alpha."
)
@click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False), help="Write it as .json.")
@run_dir_option
def plan(
    result: str | None,
    items: int | None,
    data: str | None,
    repeats: Sequence[int],
    output: str | None,
    run_dir: str | None,
    **options: Any,
) -> int:
    """Say how many items and repeats it takes to see a drop, and what the items at hand can show.

    RESULT is a past run, whose variance is used; without it, the assumptions are.
    """
    from dokimos.comparison._planning import REPEATS
    from dokimos.comparison._planning import plan as make

    if result is not None and options["pass_rate"] is not None:
        raise click.UsageError("--pass-rate is an assumption; a RESULT has its own.")
    if items is not None and data is not None:
        raise click.UsageError("Give --items or --data, not both.")
    past = None if result is None else _past(result, run_dir)
    made = make(
        _assumptions(past, options),
        items=_items(items, data, past),
        drop=options["drop"],
        power=options["power"],
        alpha=options["alpha"],
        metrics=options["metrics"],
        repeats=repeats or REPEATS,
        cost_usd=None if past is None else _cost(past),
    )
    made.print()
    if output is not None:
        _write(made, output)
    return 0


def _past(result: str, run_dir: str | None) -> ExperimentResult:
    from dokimos._cli.options import load_result_argument
    from dokimos.errors import ConfigurationError

    past = load_result_argument(result, run_dir)
    if past.provenance.partial is not None:
        raise ConfigurationError(
            f"{result} is a part of a run ({past.provenance.partial}), and a plan needs a whole one."
        )
    return past


def _assumptions(past: ExperimentResult | None, options: dict[str, Any]) -> list[Assumption]:
    from dokimos.comparison._planning import PASS_SHARE, Assumption, assumptions_of

    if past is not None:
        return assumptions_of(past, noise_share=options["noise"], affected=options["affected"])
    assumed = Assumption.of_verdicts(options["pass_rate"] or PASS_SHARE, options["noise"])
    return [replace(assumed, affected=options["affected"])]


def _items(items: int | None, data: str | None, past: ExperimentResult | None) -> int | None:
    if items is not None:
        return items
    if data is not None:
        from dokimos.datasets._dataset import Dataset

        return sum(1 for _ in Dataset.stream(data))
    return None if past is None else past.total_count


def _cost(past: ExperimentResult) -> float | None:
    """What one repeat of one item cost, task and judges together; None where it is not known."""
    summary = past.summary
    costs = [cost for cost in (summary.metrics.cost_usd, summary.judging.metrics.cost_usd) if cost]
    return sum(costs) / summary.total if costs and summary.total else None


def _write(found: Plan, output: str) -> None:
    import json
    from dataclasses import asdict
    from pathlib import Path

    from dokimos._core.jsonable import camel_case
    from dokimos.exporters._base import write_report

    if not output.lower().endswith(".json"):
        raise click.UsageError(f"-o {output}: a plan is written as .json.")

    def camel(value: object) -> Any:
        if isinstance(value, dict):
            return {camel_case(key): camel(content) for key, content in value.items()}
        return [camel(content) for content in value] if isinstance(value, list | tuple) else value

    write_report(Path(output), json.dumps(camel(asdict(found)), indent=2) + "\n")
