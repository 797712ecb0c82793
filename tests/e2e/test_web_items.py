"""The list of a run's items in a browser: exported as it is filtered, with the columns and rows that one wants."""

import csv
import json

import pytest
from tests.e2e.conftest import visits

from dokimos import Example, Experiment
from dokimos.client import push_result
from dokimos.evaluators import ExactMatch, Levenshtein


def shout(question):
    return "=1+1" if question.startswith("bad") else question.upper()


@pytest.fixture(scope="module")
def server(start_server):
    return start_server().address


@pytest.fixture(scope="module")
def run(server):
    data = [Example.of(f"good {number}", f"GOOD {number}", topic="fair") for number in range(30)]
    data += [Example.of(f"bad {number}", f"BAD {number}", topic="poor") for number in range(4)]
    experiment = Experiment(data, shout, [ExactMatch(), Levenshtein()], name="shouting", quiet=True)
    return push_result(experiment.run(), server_url=server, project_name="items")


@pytest.fixture
def visit(chromium, server):
    with visits(chromium, server) as open_page:
        yield open_page


def download(page, what, link):
    with page.expect_download() as began:
        page.get_by_role("group", name=what).get_by_role("link", name=link, exact=True).click()
    return began.value.path()


def test_items_are_exported_as_they_are_filtered_or_all_of_them(visit, find_barriers, run):
    page = visit(f"/runs/{run}")
    page.get_by_text("34 of 34").wait_for()
    menu = page.locator("summary", has_text="Export")
    menu.click()
    page.get_by_role("group", name="All 34 items").wait_for()
    assert page.get_by_role("group", name="of the list").count() == 0
    page.keyboard.press("Escape")
    page.get_by_role("group", name="All 34 items").wait_for(state="hidden")

    page.get_by_role("button", name="✗ Failed 4").click()
    page.get_by_text("4 of 34").wait_for()
    menu.click()
    page.get_by_role("group", name="The 4 items of the list").wait_for()
    assert find_barriers(page) == []

    with download(page, "The 4 items of the list", "CSV").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["actual_output"] for row in rows] == ["'=1+1"] * 4
    lines = download(page, "All 34 items", "JSONL").read_text().splitlines()
    assert [json.loads(line)["ordinal"] for line in lines] == list(range(34))
