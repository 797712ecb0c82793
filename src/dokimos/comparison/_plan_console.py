"""A plan on the terminal: what is asked, a row for each metric and number of runs, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dokimos._core.number_format import UNKNOWN, format_score, round_half_up, usd
from dokimos._core.text import pluralize
from dokimos.comparison._diff import title
from dokimos.comparison._planning import Assumption, Plan, PlanRow
from dokimos.comparison._wording import points, share
from dokimos.reporting._blocks import Block, Detail, Line, View
from dokimos.reporting._tables import Cell, Column, Table

_COLUMNS: Final = (
    Column("metric", left=True, most=34),
    Column("mean"),
    Column("noise"),
    Column("runs"),
    Column("uneven", group="sees"),
    Column("even", group="sees"),
    Column("uneven", group="items"),
    Column("even", group="items"),
    Column("answers"),
    Column("cost"),
)


def plan_blocks(plan: Plan, detail: Detail) -> Iterator[Block]:
    """Yield the lines and tables of a plan."""
    here = "" if plan.items is None else f"{pluralize(plan.items, 'item')} at hand. "
    metrics = pluralize(len(plan.assumptions), "metric")
    yield Line(f"{here}{_goal(plan)} ({metrics}):", fit="wrap")
    yield Line()
    yield Table(_COLUMNS, [_row(plan, row) for row in plan.rows])
    yield Line()
    if detail != "summary":
        yield Line(_legend(plan), fit="wrap")
    for text in (plan.advice, *plan.notes):
        yield Line(text, fit="wrap")


def _goal(plan: Plan) -> str:
    return f"To see a drop of {points(plan.drop)} with {share(plan.power)} power at alpha = {plan.alpha:g}"


def _legend(plan: Plan) -> str:
    seen = "" if plan.items is None else "sees: the smallest drop that these items show, in points. "
    affected = share(plan.assumptions[0].affected)
    return (
        f"{seen}items: how many show the drop asked for; answers: times runs. uneven: scores fall on "
        f"{affected} of the items (on more where so few cannot fall as far), a pass rate on as few as can "
        "take it; even: on all items alike, which is easier to see. Plan for uneven."
    )


def _row(plan: Plan, row: PlanRow) -> list[Cell]:
    seen = (row.detectable_drop, row.even_detectable_drop)
    return [
        *_metric_cells(plan, row),
        f"{row.repeats}",
        *("" if plan.items is None else _points(drop) for drop in seen),
        _number(row.items_needed),
        _number(row.even_items_needed),
        _number(row.answers_needed),
        _price(plan, row.answers_needed),
    ]


def _metric_cells(plan: Plan, row: PlanRow) -> tuple[str, str, str]:
    """Say what is assumed of a metric, in the first of its rows."""
    if row.repeats != plan.repeats[0]:
        return "", "", ""
    one: Assumption = next(one for one in plan.assumptions if one.name == row.metric)
    return title(one.name), format_score(one.mean), share(one.noise_share) + ("" if one.measured else "*")


def _points(drop: float | None) -> str:
    return UNKNOWN if drop is None else f"{round_half_up(drop * 100, 1):.1f}"


def _number(items: int | None) -> str:
    return UNKNOWN if items is None else f"{items:,}"


def _price(plan: Plan, answers: int | None) -> str:
    if plan.cost_usd is None:
        return ""
    return UNKNOWN if answers is None else usd(plan.cost_usd * answers)


VIEW: Final = View.of_blocks(lambda plan: f"{_goal(plan)}: {plan.advice}", plan_blocks)
