"""The list of the items of a run in a browser: exported, chosen columns, and the traces of items."""

import csv
import json
import re
import time

import pytest
from tests.e2e.conftest import visits
from tests.e2e.trace_spans import send, span

from dokimos import Example, Experiment
from dokimos.client import push_result
from dokimos.evaluators import ExactMatch, Levenshtein

TRACE = "a" * 32


def shout(question):
    return "=1+1" if question.startswith("bad") else question.upper()


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(traces={"creates_projects": True}).address


@pytest.fixture(scope="module")
def run(server):
    data = [Example.of(f"good {number}", f"GOOD {number}", topic="fair") for number in range(30)]
    data += [Example.of(f"bad {number}", f"BAD {number}", topic="poor") for number in range(3)]
    data.append(Example.of("bad 3", "BAD 3", topic="poor", traceId=TRACE, spanId=f"{2:016x}"))
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
    page.get_by_text("4 of 34", exact=True).wait_for()
    menu.click()
    page.get_by_role("group", name="The 4 items of the list").wait_for()
    assert find_barriers(page) == []

    with download(page, "The 4 items of the list", "CSV").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["actual_output"] for row in rows] == ["'=1+1"] * 4
    lines = download(page, "All 34 items", "JSONL").read_text().splitlines()
    assert [json.loads(line)["ordinal"] for line in lines] == list(range(34))


def test_an_item_leads_to_its_span_and_the_trace_leads_back(visit, find_barriers, server, run):
    now = time.time_ns()
    send(
        server,
        "items",
        [span("a", 1, None, "answer", now, now + 10**9), span("a", 2, 1, "say", now, now + 10**8)],
    )
    page = visit(f"/runs/{run}?item=33.0")

    page.locator(".drawer").get_by_role("link", name="its span in the trace").click()

    page.locator(".drawer").get_by_role("heading", name="say").wait_for()
    page.keyboard.press("Escape")
    page.locator(".drawer").wait_for(state="detached")
    assert find_barriers(page) == []
    page.locator(".head").get_by_role("link", name="item #33").click()
    page.wait_for_url(re.compile(f"/runs/{run}"))
    page.locator(".drawer").get_by_text("bad 3").first.wait_for()
    page.goto(f"{server}/traces/{TRACE}?run={run}&item=32.0")  # an item that names no trace
    page.get_by_role("heading", name="Waterfall").wait_for()
    page.wait_for_load_state("networkidle")
    assert page.locator(".head").get_by_text("of run").count() == 0


def test_columns_and_height_are_chosen_by_keyboard_and_kept_in_the_browser(visit, find_barriers, server, run):
    page = visit(f"/runs/{run}")
    row = page.locator(".rows .row").first
    row.get_by_text("want").wait_for()
    page.locator("summary", has_text="Columns").focus()
    page.keyboard.press("Enter")
    page.get_by_role("group", name="Columns").wait_for()
    page.get_by_label("Expected output").focus()
    page.keyboard.press("Space")
    row.get_by_text("want").wait_for(state="detached")
    page.get_by_label("Tokens", exact=True).check()
    row.get_by_text("tokens", exact=True).wait_for()
    page.get_by_label("Usual").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_url(re.compile("rows=high"))
    assert find_barriers(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("group", name="Columns").wait_for(state="hidden")
    assert page.evaluate("document.activeElement.innerText") == "Columns"

    page.goto(f"{server}/runs/{run}")  # an address that says nothing of it

    row.get_by_text("tokens", exact=True).wait_for()
    assert row.get_by_text("want").count() == 0
    page.goto(f"{server}/runs/{run}?columns=want&rows=low")
    page.locator(".rows .row.low").first.wait_for()
    assert row.evaluate("row => row.offsetHeight") == 36
    assert row.get_by_text("tokens", exact=True).count() == 0


def test_a_graph_of_calls_leads_to_the_spans_of_a_node(visit, find_barriers, server):
    now = time.time_ns()
    agent = {"gen_ai__operation__name": "invoke_agent"}
    tool = {"gen_ai__operation__name": "execute_tool"}
    model = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "gpt-5"}
    send(server, "items", [
        span("b", 1, None, "invoke_agent support", now, now + 10**9, **agent),
        span("b", 2, 1, "chat gpt-5", now, now + 10**8, **model),
        span("b", 3, 1, "execute_tool get_order", now, now + 2 * 10**8, "timed out",
             **tool, **{f"shop__fact_{number}": f"order {48210 + number}" for number in range(7)}),
        span("b", 4, 1, "execute_tool get_order", now, now + 10**8, **tool),
    ])  # fmt: skip
    page = visit(f"/traces/{'b' * 32}")
    page.get_by_role("button", name="Graph", exact=True).click()

    page.get_by_role("img", name="3 nodes and the calls between them, 1 failed").wait_for()
    row = page.get_by_role("row", name="get_order")
    assert row.inner_text().split() == ["support", "get_order", "tool", "2", "✗", "1", "300", "ms"]
    assert find_barriers(page) == []
    row.get_by_role("button", name="get_order").press("Enter")

    page.get_by_text("2 of 4 spans").wait_for()
    page.get_by_role("button", name="✗ execute_tool get_order").click()
    drawer = page.locator(".drawer")
    drawer.get_by_label("Search attributes").fill("order 48213")
    drawer.get_by_role("status").get_by_text("1 of 8", exact=True).wait_for()
    page.wait_for_url(re.compile("attribute=order"))
    assert find_barriers(page) == []
    field = drawer.get_by_label("Search attributes")
    field.fill("")
    field.press_sequentially("jk refund")  # letters, and not the keys that lead to other spans
    drawer.get_by_text("No attribute of this span has that.").wait_for()
    page.keyboard.press("Escape")  # which clears the field first
    drawer.get_by_role("status").get_by_text("8", exact=True).wait_for()
    page.keyboard.press("Escape")
    drawer.wait_for(state="detached")
    page.go_back()  # to before the span was opened
    page.wait_for_url(lambda url: "attribute" not in url)
    page.go_back()
    page.get_by_role("img", name="3 nodes").wait_for()
    send(server, "items", [span("c", 1, None, "GET /", now, now + 1)])
    page.goto(f"{server}/traces/{'c' * 32}?show=graph")  # without a single call
    page.get_by_role("heading", name="Waterfall").wait_for()
    assert page.get_by_role("button", name="Graph", exact=True).count() == 0
