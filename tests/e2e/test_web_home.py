"""Home and project pages in a browser: every experiment is there, and no rate of what nobody judged."""

import time

import pytest
from tests.e2e.conftest import visits

ITEM = {"inputs": {"q": "?"}, "actualOutputs": {"a": "!"}}
PASSED = {**ITEM, "evalResults": [{"name": "exact", "score": 1.0, "success": True}]}
ERRORED = {**ITEM, "evalResults": [], "error": "the model is down"}


@pytest.fixture(scope="module")
def server(start_server):
    return start_server()


@pytest.fixture
def visit(chromium, server):
    with visits(chromium, server.address) as open_page:
        yield open_page


def push(server, project, experiment, *items, status=None, **options):
    body = {"experimentName": experiment, **options}
    run = server.call("POST", f"/projects/{project}/runs", body)[1]["runId"]
    if items:
        server.call("POST", f"/runs/{run}/items", {"items": list(items)})
    if status is not None:
        server.call("PATCH", f"/runs/{run}", {"status": status})
    return run


def read_project(server, name):
    return next(one for one in server.call("GET", "/projects")[1] if one["name"] == name)


def wait_for_verdicts(server, project, count):
    while len(read_project(server, project)["verdicts"]) < count:
        time.sleep(0.1)


def cells(place, experiment):
    found = place.locator(f'tr:has(th :text-is("{experiment}")) td')
    return [" ".join(text.split()) for text in found.all_inner_texts()]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_home_has_experiments_without_a_verdict_and_says_so(visit, server, find_barriers, width, scheme):
    project = f"home-{width}"
    push(server, project, "ended", PASSED, status="SUCCESS")
    wait_for_verdicts(server, project, 1)
    push(server, project, "ended", PASSED, ERRORED)
    push(server, project, "going", PASSED)
    push(server, project, "stopped", ERRORED, status="CANCELLED")

    page = visit("/", width=width, scheme=scheme)
    section = page.locator("section", has=page.get_by_role("heading", name=project))
    section.get_by_role("row").nth(3).wait_for()

    of_an_earlier_run = cells(section, "ended")[:2]
    assert of_an_earlier_run == ["– no baseline of an earlier run", "100.0 % n = 1 so far, 1 errored"]
    assert cells(section, "going")[:2] == ["· running", "100.0 % n = 1 so far"]
    assert cells(section, "stopped")[:2] == ["– no verdict", "not judged 1 errored"]
    assert find_barriers(page) == []


def test_home_has_the_newest_experiments_of_a_project_and_the_way_to_the_others(visit, server):
    for number in range(12):
        push(server, "many", f"experiment {number}", PASSED)

    page = visit("/")
    section = page.locator("section", has=page.get_by_role("heading", name="many", exact=True))
    section.get_by_text("The 10 with the newest runs").wait_for()
    assert section.locator("tbody tr").count() == 10
    assert section.get_by_role("rowheader").first.inner_text() == "experiment 11"
    section.get_by_role("link", name="All 12 experiments").click()
    page.get_by_role("heading", name="many").wait_for()
    page.get_by_role("rowheader", name="experiment 0", exact=True).wait_for()


def test_no_page_shows_a_rate_of_a_run_that_judged_nothing(visit, server):
    server.call("POST", "/datasets", {"name": "capitals"})
    server.call("POST", "/datasets/capitals/versions", {"items": [{"inputs": {"q": "?"}}]})
    run = push(
        server, "down", "all errored", ERRORED, status="FAILED", datasetName="capitals", datasetVersion=1
    )
    experiment = server.call("GET", f"/runs/{run}")[1]["experimentId"]

    page = visit("/projects/down")
    page.get_by_role("rowheader", name="all errored").wait_for()
    assert "not judged 1 errored" in cells(page, "all errored")
    page.goto(f"{server.address}/experiments/{experiment}")
    page.get_by_role("cell", name="not judged").wait_for()
    page.goto(f"{server.address}/datasets/capitals")
    page.locator("summary", has_text="Runs that used it").click()
    page.get_by_role("cell", name="not judged").wait_for()
    page.goto(f"{server.address}/runs/{run}")
    page.locator(".verdict", has_text="Nothing was judged").wait_for()
    assert "0.0 %" not in page.locator(".verdict, .cards").all_inner_texts()[0]
