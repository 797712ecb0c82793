"""Comparisons of two to four runs on a phone: cards, in which nothing is cut or scrolls sideways."""

import itertools
import json
import urllib.parse
import urllib.request

import pytest
from tests.e2e.conftest import LOST_ROLES, visits

from dokimos import Example, Experiment
from dokimos.client import push_result
from dokimos.evaluators import ExactMatch, Levenshtein

LONG = "x" * 70
QUESTION = f"what is in {LONG} and why would anybody ask for it on a telephone?"
PHONE = 360
SIDEWAYS = """() => [...document.querySelectorAll('main *')]
    .filter(one => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== 'visible')
    .filter(one => !one.closest('select, .text, .unseen'))
    .map(one => one.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def server(start_server):
    return start_server().address


@pytest.fixture(scope="module")
def ids(server):
    """An experiment with four runs whose names, evaluators and slices are long."""
    data = [
        Example.of(f"{number} {QUESTION}", f"{number} yes", topic=("tents", LONG)[number % 2])
        for number in range(30)
    ]
    evaluators = [ExactMatch(), Levenshtein(name=f"Levenshtein {LONG}")]
    runs = []
    for worst in (0, 10, 20, 30):

        def answer(question, worst=worst):
            number = int(question.split()[0])
            return f"{number} no" if number < worst else f"{number} yes"

        result = Experiment(data, answer, evaluators, name="answers", quiet=True).run()
        runs.append(push_result(result, server_url=server, project_name="narrow"))
    with urllib.request.urlopen(f"{server}/api/v1/runs/{runs[0]}?size=1", timeout=60) as reply:
        experiment = json.load(reply)["experimentId"]
    return experiment, runs


def address(ids, number):
    experiment, (baseline, first, *others) = ids
    also = urllib.parse.quote(json.dumps(others[: number - 2]))
    return f"/experiments/{experiment}/runs/{first}/diff?baselineRunId={baseline}&also={also}"


@pytest.fixture
def visit(chromium, server):
    with visits(chromium, server) as open_page:
        yield open_page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("number", [2, 3, 4])
def test_on_a_phone_a_comparison_does_not_scroll_sideways(visit, ids, find_barriers, number, scheme):
    page = visit(address(ids, number), width=PHONE, scheme=scheme)
    rows = page.locator(".grid-body .grid-row")
    rows.nth(1).get_by_text(QUESTION[:20]).wait_for()

    assert page.evaluate(SIDEWAYS) == []
    assert page.evaluate(LOST_ROLES) == []
    assert page.get_by_role("rowheader").count() > 0
    assert page.evaluate("document.querySelectorAll('.versus .picker').length") >= number
    assert find_barriers(page) == []
    words = ["baseline", *(f"candidate {place}" for place in range(1, number))]
    shown = rows.nth(0).locator("[role=cell][data-label]")
    labels = [cell.get_attribute("data-label") for cell in shown.all()]
    assert labels == words if number > 2 else labels == ["Exact Match", f"Levenshtein {LONG}"]
    for cell in shown.all():
        box = cell.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE
    assert QUESTION in rows.nth(0).inner_text()


def test_cards_stand_one_below_the_other_however_high_they_are(visit, ids):
    page = visit(address(ids, 4), width=PHONE)
    rows = page.locator(".grid-body .grid-row")
    rows.nth(1).get_by_text(QUESTION[:20]).wait_for()
    box = page.get_by_role("table", name="Items of the runs")
    for _ in range(3):
        boxes = page.evaluate(
            "[...document.querySelectorAll('.grid-body .grid-row')].map(one => one.getBoundingClientRect())"
            ".map(({top, bottom}) => [top, bottom]).sort((a, b) => a[0] - b[0])"
        )
        gaps = [below[0] - above[1] for above, below in itertools.pairwise(boxes)]
        assert all(abs(gap) < 1 for gap in gaps)
        box.evaluate("box => box.scrollBy(0, 900)")
        page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    box.evaluate("box => box.scrollTo(0, 0)")
    rows.first.get_by_role("button").focus()
    page.keyboard.press("j")
    page.wait_for_function("document.activeElement.getAttribute('aria-current') === 'true'")
    assert "item=" in page.url

    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("columnheader", name="candidate 3").wait_for()
    page.wait_for_function("document.querySelector('.grid-body .grid-row').offsetHeight === 38")


@pytest.mark.parametrize("width", [1280, PHONE])
def test_who_chooses_an_item_is_brought_to_it(visit, ids, width):
    page = visit(address(ids, 2), width=width)
    rows = page.locator(".grid-body .grid-row")
    rows.nth(2).get_by_text(QUESTION[:20]).wait_for()
    heading = page.get_by_role("heading", name="Side by side")
    rows.nth(2).evaluate("one => one.scrollIntoView({block: 'end'})")
    assert heading.evaluate("one => one.getBoundingClientRect().top >= innerHeight")

    rows.nth(2).get_by_role("button").click()

    page.wait_for_function("() => document.querySelector('.sides').getBoundingClientRect().top < innerHeight")
    assert "item=" in page.url
