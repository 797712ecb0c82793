"""What judges cost is shown apart from what the task costs, wherever a result is shown."""

import io
import json

import pytest
from rich.console import Console

from dokimos import CallMetrics, EvalResult, Example, ExperimentResult, ItemResult, RunResult, render
from dokimos._core.results import RunStatus
from dokimos._core.summary import RunSummary
from dokimos.reporting._console import print_result

TASK = CallMetrics(10, 1, cost_usd=0.5)


def result(*metrics, status=RunStatus.COMPLETED):
    items = tuple(
        ItemResult(
            index,
            Example.of("x"),
            eval_results=(EvalResult("Judge", 1.0, success=True, metrics=found), EvalResult("Plain", 1.0)),
            metrics=TASK,
        )
        for index, found in enumerate(metrics)
    )
    return ExperimentResult(name="shown", runs=(RunResult(item_results=items),), status=status)


PRICED = result(CallMetrics(100, 20, cost_usd=0.0156), CallMetrics(100, 20, cost_usd=0.0156))
PARTLY = result(CallMetrics(100, 20, cost_usd=0.0156), CallMetrics(100, 20))
UNPRICED = result(CallMetrics(1000, 200), CallMetrics(1000, 200))
NONE = result(None, None)

SHOWN = [
    (PRICED, "$0.0312"),
    (PARTLY, "$0.0156 (1/2 priced)"),
    (UNPRICED, "2,400 tokens, unpriced"),
]


def printed(shown):
    console = Console(file=io.StringIO(), width=100, highlight=False)
    print_result(shown, console)
    return console.file.getvalue()


@pytest.mark.parametrize(("shown", "cost"), SHOWN)
def test_the_terminal_shows_it_in_the_first_line(shown, cost):
    assert f"judge {cost}" in printed(shown).splitlines()[0]


@pytest.mark.parametrize(("shown", "cost"), SHOWN)
def test_the_markdown_and_html_reports_show_it(shown, cost):
    assert f"**Judge:** {cost}" in render(shown, "markdown")
    assert f"judge {cost}" in render(shown, "html")


def test_the_json_report_has_it_in_a_block_of_its_own():
    summary = json.loads(render(PARTLY, "json"))["summary"]

    assert summary["cost"]["totalUsd"] == 1.0
    assert summary["judge"] == {
        "totalUsd": 0.0156,
        "priced": 1,
        "tokenized": 2,
        "tokens": {"in": 200, "out": 40},
        "evaluators": {"Judge": 0.0156},
    }


def test_without_a_judge_nothing_is_said():
    assert "judge" not in printed(NONE)
    assert "Judge:" not in render(NONE, "markdown")
    assert json.loads(render(NONE, "json"))["summary"]["judge"]["totalUsd"] is None


def test_the_costs_of_several_runs_add_up():
    merged = RunSummary.merge([PRICED.summary, PARTLY.summary])

    assert merged.judging.metrics.cost_usd == pytest.approx(0.0468)
    assert (merged.judging.priced, merged.judging.tokenized) == (3, 4)


def test_a_run_whose_budget_was_spent_is_shown_as_such():
    spent = result(None, status=RunStatus.BUDGET_SPENT)

    assert "budget spent" in printed(spent)
    assert "**Status:** budget spent" in render(spent, "markdown")
    assert "Budget spent" in render(spent, "html")
