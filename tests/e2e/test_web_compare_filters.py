"""The items of a comparison of two runs, filtered by what an evaluator sees changed."""

import pytest
from tests.e2e.conftest import visits


@pytest.fixture(scope="module")
def server(start_server):
    return start_server()


@pytest.fixture
def visit(chromium, server):
    with visits(chromium, server.address) as open_page:
        yield open_page


def push_run(server, *scores):
    """A run with an item for each pair of scores: of `exact`, whose threshold is 0.5, and of `tone`."""
    run = server.call("POST", "/projects/filters/runs", {"experimentName": "answers"})[1]
    items = [
        {
            "inputs": {"input": f"question {number}"},
            "actualOutputs": {"output": "yes"},
            "evalResults": [
                {"name": "exact", "score": exact, "threshold": 0.5, "success": exact >= 0.5},
                {"name": "tone", "score": tone, "threshold": 0.0, "success": True},
            ],
        }
        for number, (exact, tone) in enumerate(scores)
    ]
    server.call("POST", f"/runs/{run['runId']}/items", {"items": items})
    server.call("PATCH", f"/runs/{run['runId']}", {"status": "SUCCESS"})
    return server.call("GET", f"/runs/{run['runId']}?size=1")[1]["experimentId"], run["runId"]


@pytest.fixture(scope="module")
def address(server):
    _, baseline = push_run(server, (1, 1), (0.4, 1), (0.9, 0.2), (0.8, 0.8), (1, 1))
    experiment, candidate = push_run(server, (0, 1), (0.6, 1), (0.8, 0.9), (0.8, 0.75), (1, 1))
    return f"/experiments/{experiment}/runs/{candidate}/diff?baselineRunId={baseline}"


@pytest.mark.parametrize("width", [1280, 360])
def test_items_are_filtered_by_what_an_evaluator_sees_changed(visit, address, find_barriers, width):
    page = visit(address, width=width)
    table = page.get_by_role("table", name="Items of the runs")
    table.get_by_text("question 4").wait_for()
    filters = page.get_by_role("group", name="Filters by change")

    def expect(*numbers):
        page.get_by_text(f"{len(numbers)} of 5 items").wait_for()
        rows = table.get_by_role("rowheader")
        for number in numbers:
            rows.filter(has_text=f"question {number}").wait_for()
        assert rows.count() == len(numbers)

    filters.get_by_label("Change").select_option("Verdict crossed the threshold")
    expect(0, 1)
    page.get_by_role("button", name="All 2").wait_for()
    filters.get_by_label("Evaluator").select_option("By tone")
    page.get_by_text("No such item").wait_for()
    filters.get_by_label("Change").select_option("Any change")
    expect(2, 3)
    filters.get_by_label("score moved by at least").press_sequentially("0.1")
    expect(2)
    assert find_barriers(page) == []
    page.reload()
    expect(2)
    assert filters.get_by_label("score moved by at least").input_value() == "0.1"
    filters.get_by_label("Evaluator").select_option("By any evaluator")
    filters.get_by_label("Change").select_option("Score got worse")
    expect(0, 2)
    page.get_by_role("button", name="✗ Newly failed 1").click()
    expect(0)
    filters.get_by_role("button", name="Clear").click()
    expect(0)
    page.get_by_role("button", name="All 5").click()
    expect(0, 1, 2, 3, 4)
    assert page.url.endswith(address)
