"""The pages of production in a browser: traces, sessions, rules, alerts, the dashboard of a project."""

import json
import time
import urllib.parse

import pytest
from tests.e2e.conftest import expect_answer, noting_page
from tests.e2e.trace_spans import call, send, span
from tests.server.server_process import Process

MARKUP = '<img src=x onerror="window.pwned=1"><script>window.pwned=2</script>'
HOSTILE = MARKUP + "\u202ereversed\x1b[31m"
PROJECT = 'shop / 1 % "<i>'
SESSION = 'visit/7 % "?#'
START = 1_795_385_321_930_417_205
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
WIDE = 2_300
"""Spans of the large trace: more than the detail of a trace has."""

FAR = (1_500, 2_200)
"""Spans of it, not read with its detail, that have an attribute."""


def small_trace(now):
    chunks = json.dumps([{"id": "orders.md#lookup", "content": "By its number.", "score": 0.71}])
    return [
        span("a", 1, None, "answer", now, now + 3_400_000_017, input="Where is order 48213?",
             output=f"Not found. {HOSTILE}", session__id=SESSION, user__id=HOSTILE),
        span("a", 2, 1, "get_order", now + 10**9, now + 2 * 10**9, "timed out",
             gen_ai__operation__name="execute_tool", gen_ai__tool__name="get_order",
             gen_ai__tool__call__arguments='{"email": "a@b.example"}'),
        span("a", 3, 2, "POST /orders", now + 10**9, now + 2 * 10**9),
        span("a", 4, 1, "search_help", now + 2 * 10**9, now + 3 * 10**9,
             gen_ai__operation__name="retrieval", gen_ai__retrieval__documents=chunks),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pytest.importorskip("fastapi", reason="the extra server is not installed")
    settings = {"data_dir": tmp_path_factory.mktemp("server"), "traces": {"creates_projects": True}}
    process = Process(settings)
    yield process.address
    process.process.terminate()
    process.process.communicate()


@pytest.fixture(scope="module")
def ids(server):
    """What the server holds: a trace that failed, one of many spans, a rule that is off, an alert."""
    now = time.time_ns() // 1000 * 1000 + 205
    send(server, PROJECT, small_trace(now))
    send(server, PROJECT, [span("b", 1, None, "second", now, now + 10**9, input="And by name?", output="Yes.",
                       session__id=SESSION, gen_ai__usage__input_tokens=1200, gen_ai__usage__output_tokens=34,
                       gen_ai__usage__cost=0.0021)])  # fmt: skip
    children = [
        span(
            "c",
            place,
            max(1, place // 8),
            f"step {place}",
            now,
            now + place,
            *(["boom"] * (place == WIDE)),
            **({"order__id": f"A-{place}{HOSTILE}"} if place in FAR else {}),
        )
        for place in range(2, WIDE + 1)
    ]
    send(server, PROJECT, [span("c", 1, None, "many", now, now + 10**9), *children])
    project = next(one["id"] for one in call(server, "GET", "/projects") if one["name"] == PROJECT)
    rule = call(server, "POST", f"/projects/{project}/trace-eval-rules", {
        "name": MARKUP, "enabled": False, "matchType": "SPAN_NAME", "matchValue": "answer",
        "evaluatorName": "Length", "evaluator": {"type": "length", "params": {"max": 20}},
    })  # fmt: skip
    alert = call(server, "POST", f"/projects/{project}/trace-alerts", {
        "name": "more errors", "kind": "CHANGE", "metric": "ERROR_RATE", "reference": 0.01, "tolerance": 0.01,
    })  # fmt: skip
    return {
        "project": urllib.parse.quote(PROJECT, safe=""),
        "session": urllib.parse.quote(SESSION, safe=""),
        "rule": rule["id"],
        "alert": alert["id"],
        "start": now,
    }


@pytest.fixture
def visit(chromium, server, ids):
    """A function that opens a page; at the end nothing foreign ran, was asked for or stuck out."""
    opened = []

    def open_page(address, *, width=1280, scheme="light"):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = noting_page(context, server)
        opened.append(page)
        page.goto(server + address.format(**ids))
        page.wait_for_load_state("networkidle")
        return page

    yield open_page
    for page in opened:
        assert page.complaints == []
        assert page.evaluate("window.pwned") is None
        assert page.evaluate(OVERFLOW) <= 0
        page.context.close()


PAGES = (
    "/traces?project={project}&period=7d&filters=open",
    f"/traces/{'a' * 32}?span={1:016x}",
    f"/traces/{'a' * 32}?show=talk",
    f"/traces/{'a' * 32}?search=order&among=all&at={3:016x}",
    "/sessions",
    "/sessions/{session}?project={project}",
    "/trace-eval-rules?project={project}&rule={rule}",
    "/trace-alerts?project={project}",
    "/trace-alerts?project={project}&alert={alert}",
    "/projects/{project}/dashboard",
)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_each_page_opens_by_its_address_and_has_no_barriers(visit, server, ids, find_barriers, width, scheme):
    page = visit(PAGES[0], width=width, scheme=scheme)
    for address in PAGES:
        page.goto(server + address.format(**ids))
        page.locator("main h1").wait_for()
        page.locator('main [aria-label="Loading"]').first.wait_for(state="detached")
        assert page.title().endswith(" · dokimos")
        assert page.evaluate(OVERFLOW) <= 0
        assert find_barriers(page) == []


def test_the_list_filters_in_its_address_and_opens_a_trace_by_keyboard(visit):
    page = visit("/traces?project={project}")
    rows = page.locator(".rows .row")
    assert rows.count() == 3
    page.get_by_role("button", name="! With an error").click()
    page.wait_for_url("**status=error**")
    page.get_by_label("Search traces").fill("order 48213")
    page.get_by_text("1 found").wait_for()

    page.reload()
    rows.get_by_text("Where is order 48213?").wait_for()
    assert "⟨U+202E⟩" in rows.nth(0).inner_text()
    rows.nth(0).focus()
    page.keyboard.press("Enter")

    page.get_by_role("heading", name="Where is order 48213?").wait_for()
    page.go_back()
    rows.nth(0).wait_for()
    assert page.get_by_label("Search traces").input_value() == "order 48213"


def test_a_live_tail_shows_what_comes_while_it_is_open(visit, server, ids):
    page = visit("/traces?live=true&search=unheard")
    page.get_by_text("Nothing has come yet").wait_for()

    send(server, PROJECT, [span("d", 1, None, "unheard of", ids["start"], ids["start"] + 1)])

    page.locator(".rows .row").get_by_text("unheard of").wait_for()
    assert page.locator(".rows .row").count() == 1


def test_a_trace_shows_its_spans_collapsed_searched_and_one_by_one(visit, ids):
    page = visit(f"/traces/{'a' * 32}")
    assert page.locator(".verdict").inner_text().startswith("! 1 span failed · 3.40 s")
    rows = page.locator(".span-row")
    assert rows.count() == 4
    page.get_by_role("button", name="Collapse 1 span").click()
    assert rows.count() == 3
    page.get_by_role("button", name="✗ Failing 1").click()
    page.wait_for_url("**only=failing**")
    page.get_by_text("1 of 4 spans").wait_for()

    page.get_by_role("button", name="✗ get_order").focus()
    page.keyboard.press("Enter")
    drawer = page.locator(".drawer")
    drawer.get_by_text('{"email": "a@b.example"}').first.wait_for()
    assert "timed out" in drawer.inner_text()
    assert f"{ids['start'] + 10**9} ns" in drawer.inner_text()
    assert "1,000,000,000 ns" in drawer.inner_text()
    page.keyboard.press("j")
    page.keyboard.press("j")
    drawer.get_by_text("orders.md#lookup").first.wait_for()
    page.keyboard.press("Escape")
    drawer.wait_for(state="detached")
    assert "span=" not in page.url


def test_a_span_shows_its_tokens_and_what_they_cost_where_any_has_some(visit):
    page = visit(f"/traces/{'b' * 32}")
    usage = page.locator(".span-row .usage")
    assert usage.inner_text() == "1,234 · $0.0021"
    assert usage.get_attribute("title") == "1,200 tokens in, 34 out"
    assert visit(f"/traces/{'a' * 32}").locator(".usage").count() == 0


def test_a_span_without_tokens_shows_those_of_the_calls_below_it(visit, server):
    now = time.time_ns()
    call = {"gen_ai__operation__name": "chat", "gen_ai__usage__input_tokens": 600}
    spans = [
        span("e", 1, None, "answer", now, now + 10**9),
        span("e", 2, 1, "chat", now, now + 10**8, **call, gen_ai__usage__cost=0.0021),
        span("e", 3, 1, "chat again", now, now + 10**8, **call, gen_ai__usage__output_tokens=34),
    ]
    send(server, PROJECT, spans)

    page = visit(f"/traces/{'e' * 32}")

    usage = page.locator(".span-row .usage")
    usage.nth(2).wait_for()
    assert usage.all_inner_texts() == ["Σ 1,234 · ≥ $0.0021", "600 · $0.0021", "634 · unpriced"]
    title = "Model calls below: 1,200 tokens in, 34 out; 1 of 2 calls unpriced"
    assert usage.first.get_attribute("title") == title
    page.get_by_text("1,234 tokens · at least $0.0021 (1 of 2 calls unpriced)").wait_for()


def test_a_trace_of_many_spans_is_read_whole_and_searched(visit):
    page = visit(f"/traces/{'c' * 32}")
    page.get_by_text(f"{WIDE:,} spans", exact=True).nth(1).wait_for()
    assert page.locator(".span-row").count() < 60

    page.get_by_label("Search spans").fill(f"step {WIDE}")

    page.get_by_text(f"1 of {WIDE:,} spans").wait_for()
    page.get_by_role("button", name=f"✗ step {WIDE}").wait_for()


def test_a_search_finds_attributes_of_all_spans_and_keys_lead_from_hit_to_hit(visit):
    page = visit(f"/traces/{'c' * 32}?search=order.id&in=key")
    page.get_by_text(f"2 of {WIDE:,} spans").wait_for()
    rows = page.locator(".span-row:not(.dim)")
    assert rows.count() == 2
    page.get_by_label("Where to search").select_option("value")
    page.get_by_text("No span is found").wait_for()
    page.get_by_label("Search spans").fill("a-2200")
    page.get_by_text(f"1 of {WIDE:,} spans").wait_for()
    assert rows.locator(".found").inner_text().startswith("order.id: A-2200<img src=x")
    assert "⟨U+202E⟩" in rows.locator(".found").get_attribute("title")

    page.get_by_label("Where to search").select_option("anywhere")
    page.get_by_label("Search spans").fill("ORDER.ID")
    page.get_by_text(f"2 of {WIDE:,} spans").wait_for()
    page.get_by_label("Search spans").press("Enter")
    page.wait_for_url(f"**at={1_500:016x}**")
    page.get_by_role("button", name="Among all spans").click()
    page.locator("main h1").click()
    page.keyboard.press("n")
    page.wait_for_url(f"**at={2_200:016x}**")
    page.locator(".span-row.on").get_by_role("button", name="step 2200").wait_for()
    page.get_by_text(f"2 · 2 of {WIDE:,} spans").wait_for()
    page.keyboard.press("n")
    page.wait_for_url(f"**at={1_500:016x}**")
    page.keyboard.press("N")
    page.wait_for_url(f"**at={2_200:016x}**")
    page.reload()
    page.locator(".span-row.on").get_by_role("button", name="step 2200").wait_for()
    page.get_by_text(f"2 · 2 of {WIDE:,} spans").wait_for()  # until then, there is no hit to go to

    page.locator(".span-row.on .open").focus()
    page.keyboard.press("Enter")
    drawer = page.locator(".drawer")
    drawer.get_by_role("heading", name="step 2200").wait_for()
    page.keyboard.press("n")
    drawer.get_by_role("heading", name="step 1500").wait_for()
    page.keyboard.press("n")
    drawer.get_by_role("heading", name="step 2200").wait_for()
    drawer.get_by_text("order.id").wait_for()


def test_ids_in_capital_letters_lead_to_the_same_trace_and_span(visit):
    page = visit(f"/traces/{'A' * 32}?span={2:016X}&at={3:016X}")
    page.locator(".drawer").get_by_role("heading", name="get_order").wait_for()
    page.get_by_text("4 spans").first.wait_for()
    assert page.locator(".span-row").count() == 4


def test_a_search_that_stops_half_way_says_so_and_goes_on(visit):
    page = visit(f"/traces/{'a' * 32}")
    page.route(
        "**/span-matches?*", lambda route: route.fulfill(status=500, json={"message": "The disk is full."})
    )
    page.get_by_label("Search spans").fill("lookup")
    problem = page.get_by_role("alert")
    problem.get_by_text("The attributes could not be searched.").wait_for()
    page.unroute("**/span-matches?*")
    problem.get_by_role("button", name="Try again").click()
    page.get_by_text("1 of 4 spans").wait_for()
    page.get_by_role("button", name="search_help").wait_for()
    assert problem.count() == 0
    page.complaints[:] = [text for text in page.complaints if "status of 500" not in text]


def test_a_trace_becomes_an_item_of_a_dataset_and_gets_a_verdict(visit, server):
    page = visit(f"/traces/{'a' * 32}")
    page.get_by_role("button", name="Make dataset item").click()
    page.get_by_label("Expected output").fill("It was sent on Monday.")
    page.get_by_role("form").get_by_role("button", name="Make dataset item").click()
    page.get_by_text("Saved as version 1 of from-production.").wait_for()
    page.get_by_role("button", name="✗ Incorrect").click()
    page.locator('.chip[aria-pressed="true"]').get_by_text("✗ Incorrect").wait_for()

    items = call(server, "GET", "/datasets/from-production/versions/1/items")["content"]
    reviews = call(server, "GET", f"/traces/{'a' * 32}/reviews")["content"]

    assert [item["expectedOutputs"] for item in items] == [{"output": "It was sent on Monday."}]
    assert [review["verdict"] for review in reviews] == ["INCORRECT"]


def test_a_session_is_shown_as_its_turns(visit):
    page = visit("/sessions/{session}?project={project}")

    turns = page.locator(".turn")
    turns.nth(1).wait_for()
    assert "Where is order 48213?" in turns.nth(0).inner_text()
    assert "And by name?" in turns.nth(1).inner_text()
    assert "1 of 2 turns had an error" in page.locator(".verdict").inner_text()


def test_a_rule_previews_what_it_matches_and_is_enabled(visit):
    page = visit("/trace-eval-rules?project={project}")
    page.get_by_role("link", name="window.pwned").click()
    page.get_by_role("button", name="Preview matches and cost").click()
    page.get_by_role("link", name="a" * 32).wait_for()
    assert "evaluated on the server" in page.locator("main").inner_text()
    expect_answer(page, "Preview matches and cost", "1 sampled; ")

    page.get_by_role("button", name="Enable").click()

    page.get_by_role("button", name="Disable").wait_for()


def test_a_rule_is_made_after_a_look_at_what_it_matches(visit):
    page = visit("/trace-eval-rules?project={project}&edit=true")
    page.get_by_label("Name of the rule").fill("second")
    page.get_by_label("Value").fill("second")
    page.get_by_label("Evaluator", exact=True).select_option("evaluator")
    page.get_by_label("Parameters, as JSON").fill('{"max": 2}')
    page.get_by_role("button", name="Preview matches and cost").click()
    page.get_by_role("link", name="b" * 32).wait_for()
    page.get_by_label("Failed scores queued for review, in percent").fill("100")

    page.get_by_role("button", name="Make the rule").click()

    page.get_by_role("heading", name="second").wait_for()
    assert "rule=" in page.url
    assert '"failedRate": 1' in page.locator("main").inner_text()
    page.get_by_role("button", name="Delete …").click()
    page.get_by_role("button", name="Delete it with its results").click()
    page.get_by_role("heading", name="Trace eval rules").wait_for()


def test_an_alert_says_what_it_knows_and_is_tested_on_what_is_stored(visit):
    page = visit("/trace-alerts?project={project}")
    page.get_by_role("link", name="more errors").click()
    page.get_by_role("button", name="Run the back-test").click()

    page.get_by_role("main").get_by_text("It would have fired 0 times").wait_for()
    expect_answer(page, "Run the back-test", "It would have fired 0 times")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Watch again").wait_for()
    assert "Paused" in page.locator(".verdict").inner_text()
