"""`dokimos plan`: what a data set can show, before money is spent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click

from dokimos.cli.echo import echo
from dokimos.cli.options import complete_runs, run_dir_option
from dokimos.core.figures import UNKNOWN
from dokimos.core.text import counted

if TYPE_CHECKING:
    from dokimos.comparison.planning import Assumption, Plan, PlanRow
    from dokimos.core.results import ExperimentResult

_WIDE: Final = 120
_SHORTEST_NAME: Final = 10
_GAP: Final = "  "
_SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command()
@click.argument("result", required=False, shell_complete=complete_runs)
@click.option("--drop", type=_SHARE, default=0.05, show_default=True, help="The drop that is to be seen.")
@click.option("--power", type=_SHARE, default=0.8, show_default=True, help="The chance to see it.")
@click.option(
    "--alpha", type=_SHARE, default=0.05, show_default=True, help="How often no change may seem a change."
)
@click.option("--items", type=click.IntRange(min=1), metavar="N", help="Items at hand.")
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
    **given: Any,
) -> int:
    """Say how many items and repeats it takes to see a drop, and what the items at hand can show.

    RESULT is a past run, whose variance is used; without it, the assumptions are.
    """
    from dokimos.comparison.planning import REPEATS
    from dokimos.comparison.planning import plan as make

    if result is not None and given["pass_rate"] is not None:
        raise click.UsageError("--pass-rate is an assumption; a RESULT has its own.")
    if items is not None and data is not None:
        raise click.UsageError("Give --items or --data, not both.")
    past = None if result is None else _past(result, run_dir)
    found = make(
        _assumptions(past, given),
        items=_items(items, data, past),
        drop=given["drop"],
        power=given["power"],
        alpha=given["alpha"],
        metrics=given["metrics"],
        repeats=repeats or REPEATS,
        cost_usd=None if past is None else _cost(past),
    )
    for line in _lines(found, _width()):
        echo(line)
    if output is not None:
        _write(found, output)
    return 0


def _past(result: str, run_dir: str | None) -> ExperimentResult:
    from dokimos.cli.options import load_result_argument

    return load_result_argument(result, run_dir)


def _assumptions(past: ExperimentResult | None, given: dict[str, Any]) -> list[Assumption]:
    from dokimos.comparison.planning import PASS_SHARE, Assumption, assumptions_of

    if past is not None:
        return assumptions_of(past, noise_share=given["noise"], affected=given["affected"])
    assumed = Assumption.of_verdicts(given["pass_rate"] or PASS_SHARE, given["noise"])
    return [replace(assumed, affected=given["affected"])]


def _items(items: int | None, data: str | None, past: ExperimentResult | None) -> int | None:
    if items is not None:
        return items
    if data is not None:
        from dokimos.datasets.dataset import Dataset

        return sum(1 for _ in Dataset.stream(data))
    return None if past is None else past.total_count


def _cost(past: ExperimentResult) -> float | None:
    """What one repeat of one item cost, task and judges together; None where it is not known."""
    summary = past.summary
    costs = [cost for cost in (summary.metrics.cost_usd, summary.judging.metrics.cost_usd) if cost]
    return sum(costs) / summary.total if costs and summary.total else None


def _width() -> int:
    """Return the columns of the terminal; a pipe has as many as the table likes."""
    import shutil

    return shutil.get_terminal_size((_WIDE, 0)).columns if sys.stdout.isatty() else _WIDE


def _lines(found: Plan, width: int) -> Iterator[str]:
    from dokimos.comparison.wording import points, share

    here = "" if found.items is None else f"{counted(found.items, 'item')} at hand. "
    metrics = counted(len(found.assumptions), "metric")
    yield from _wrapped(
        f"{here}To see a drop of {points(found.drop)} with {share(found.power)} power at alpha = "
        f"{found.alpha:g} ({metrics}):",
        width,
    )
    yield ""
    yield from _table_lines(found, width)
    yield ""
    seen = "" if found.items is None else "sees: the smallest drop that these items show, in points. "
    affected = share(found.assumptions[0].affected)
    texts = (
        f"{seen}items: how many show the drop asked for; answers: times runs. uneven: scores fall on "
        f"{affected} of the items (on more where so few cannot fall as far), a pass rate on as few as can "
        "take it; even: on all items alike, which is easier to see. Plan for uneven.",
        found.advice,
        *found.notes,
    )
    for text in texts:
        yield from _wrapped(text, width)


def _wrapped(text: str, width: int) -> list[str]:
    """Break a text where a terminal would break words; in a pipe it stays one line."""
    import textwrap

    return textwrap.wrap(text, width) if sys.stdout.isatty() else [text]


def _table_lines(found: Plan, width: int) -> Iterator[str]:
    """Yield one table of all metrics, with a row for each number of runs."""
    columns = [column for column in _columns(found) if any(cell for cell in column.cells)]
    names, *others = columns
    left = width - sum(len(_GAP) + column.width for column in others)
    table = [names.cut_to(max(_SHORTEST_NAME, left)), *others]
    for line in (0, 1):
        yield _GAP.join(column.aligned(column.head[line]) for column in table).rstrip()
    for row in range(len(found.rows)):
        yield _GAP.join(column.aligned(column.cells[row]) for column in table).rstrip()


@dataclass(frozen=True)
class _Column:
    """A column of the table; it is left out where all its cells are empty."""

    head: tuple[str, str]
    cells: Sequence[str]
    left: bool = False

    @property
    def width(self) -> int:
        return max(map(len, (*self.head, *self.cells)))

    def cut_to(self, width: int) -> _Column:
        from dokimos.core.figures import one_line

        return replace(self, cells=[one_line(cell, width) for cell in self.cells])

    def aligned(self, text: str) -> str:
        return f"{text:<{self.width}}" if self.left else f"{text:>{self.width}}"


def _columns(found: Plan) -> Iterator[_Column]:
    from dokimos.comparison.diff import title
    from dokimos.comparison.wording import share
    from dokimos.core.figures import half_up, score

    rows, first, by_name = found.rows, found.repeats[0], {one.name: one for one in found.assumptions}

    def of_metric(write: Callable[[Assumption], str]) -> list[str]:
        return [write(by_name[row.metric]) if row.repeats == first else "" for row in rows]

    def of_row(write: Callable[[PlanRow], str]) -> list[str]:
        return [write(row) for row in rows]

    def points(drop: float | None) -> str:
        return "" if found.items is None else UNKNOWN if drop is None else f"{half_up(drop * 100, 1):.1f}"

    def number(items: int | None) -> str:
        return UNKNOWN if items is None else f"{items:,}"

    yield _Column(("", "metric"), of_metric(lambda one: title(one.name)), left=True)
    yield _Column(("", "mean"), of_metric(lambda one: score(one.mean)))
    noise = of_metric(lambda one: share(one.noise_share) + ("" if one.measured else "*"))
    yield _Column(("", "noise"), noise)
    yield _Column(("", "runs"), of_row(lambda row: f"{row.repeats}"))
    yield _Column(("sees", "uneven"), of_row(lambda row: points(row.detectable_drop)))
    yield _Column(("sees", "even"), of_row(lambda row: points(row.even_detectable_drop)))
    yield _Column(("items", "uneven"), of_row(lambda row: number(row.items_needed)))
    yield _Column(("items", "even"), of_row(lambda row: number(row.even_items_needed)))
    yield _Column(("", "answers"), of_row(lambda row: number(row.answers_needed)))
    yield _Column(("", "cost"), of_row(lambda row: _price(found, row.answers_needed)))


def _price(found: Plan, answers: int | None) -> str:
    from dokimos.core.figures import usd

    if found.cost_usd is None:
        return ""
    return UNKNOWN if answers is None else usd(found.cost_usd * answers)


def _write(found: Plan, output: str) -> None:
    import json
    from dataclasses import asdict
    from pathlib import Path

    from dokimos.core.jsonable import camel_case
    from dokimos.exporters.base import write_report

    if not output.lower().endswith(".json"):
        raise click.UsageError(f"-o {output}: a plan is written as .json.")

    def camel(value: Any) -> Any:
        if isinstance(value, dict):
            return {camel_case(key): camel(content) for key, content in value.items()}
        return [camel(content) for content in value] if isinstance(value, list | tuple) else value

    write_report(Path(output), json.dumps(camel(asdict(found)), indent=2) + "\n")
