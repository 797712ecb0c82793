"""What works on every page of the web interface: the command palette, saved views, keys."""

import json
import urllib.parse
import urllib.request

import pytest
from tests.e2e.conftest import visits

HOSTILE = '<img src=x onerror="window.pwned=1"> \u202ereversed'
RTL = "שלום עולם!"
PROJECT = 'shop / 1 % "<i>'


def call(server, method, path, body=None):
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{server}/api/v1{path}", content, {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.loads(reply.read() or b"null")


@pytest.fixture(scope="module")
def server(start_server):
    return start_server().address


@pytest.fixture(scope="module")
def run(server):
    """The id of a run with two items, one of which failed; its names try to get out of their place."""
    body = {"experimentName": HOSTILE, "name": "nightly", "gitBranch": "retry-links"}
    run = call(server, "POST", f"/projects/{urllib.parse.quote(PROJECT, safe='')}/runs", body)["runId"]
    items = [
        {
            "ordinal": number,
            "inputs": {"q": f"question {number}" if number else RTL},
            "actualOutputs": {"a": "?"},
            "evalResults": [{"name": "exact", "score": number, "threshold": 0.5, "success": bool(number)}],
        }
        for number in range(2)
    ]
    call(server, "POST", f"/runs/{run}/items", {"items": items})
    call(server, "PATCH", f"/runs/{run}", {"status": "SUCCESS"})
    call(server, "POST", "/datasets", {"name": f"{HOSTILE} set"})
    return run


@pytest.fixture
def visit(chromium, server, run):
    with visits(chromium, server) as open_page:
        yield open_page


def open_palette(page, text=""):
    page.locator("main h1").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search or jump to").wait_for()
    page.keyboard.type(text)
    return page.get_by_role("dialog", name="Search or jump to")


def test_everything_is_reached_from_the_palette_by_the_keyboard_alone(visit, run, find_barriers):
    page = visit("/")
    palette = open_palette(page, "revers")
    for kind in ("Experiments", "Datasets"):
        option = palette.get_by_role("group", name=kind).get_by_role("option").first
        option.get_by_text("⟨U+202E⟩").wait_for()
    assert find_barriers(page) == []
    page.keyboard.press("Enter")
    page.wait_for_url("**/experiments/**")
    page.locator("table").get_by_role(
        "link", name="nightly"
    ).wait_for()  # its runs are known to the palette now

    palette = open_palette(page, "retry-")
    option = palette.get_by_role("group", name="Runs").get_by_role("option", name="nightly")
    option.wait_for()
    assert option.get_attribute("id") == palette.get_by_role("combobox").get_attribute(
        "aria-activedescendant"
    )
    page.keyboard.press("ArrowUp")  # around the end
    assert palette.get_by_role("option", selected=True).inner_text() == "Traces with “retry-”"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{run}")

    palette = open_palette(page, "compare with")
    palette.get_by_role("option", name="Compare with baseline").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/diff")

    palette = open_palette(page, run)
    palette.get_by_role("option", name="nightly").click()
    page.wait_for_url(f"**/runs/{run}")


TYPE_AND_ENTER = """async (input) => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(input, 'audit');
    input.dispatchEvent(new Event('input', {bubbles: true}));
    await null; // React has the text, and has not drawn the list for it
    input.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true, cancelable: true}));
}"""


def test_enter_chooses_what_is_typed_even_before_the_list_shows_it(visit):
    palette = open_palette(visit("/"), "datas")
    palette.get_by_role("option", name="Datasets").wait_for()
    page = palette.page

    palette.get_by_role("combobox").evaluate(TYPE_AND_ENTER)

    page.wait_for_url("**/audit-log")
    assert palette.count() == 0


def test_a_palette_opened_before_its_page_learns_what_the_page_can_do(visit, run):
    page = visit("/")
    page.locator("main h1").wait_for()
    held = []
    page.route(f"**/api/v1/runs/{run}*", lambda route: held.append(route))
    with page.expect_request(f"**/api/v1/runs/{run}*"):
        page.goto(page.url + f"runs/{run}", wait_until="commit")
    page.get_by_role("button", name="Search or jump to").first.click()
    page.get_by_role("combobox", name="Search or jump to").fill("compare with")
    palette = page.get_by_role("dialog", name="Search or jump to")
    palette.get_by_role("option", name="Traces with “compare with”").wait_for()
    assert palette.get_by_role("option", name="Compare with baseline").count() == 0

    for route in held:
        route.continue_()

    palette.get_by_role("option", name="Compare with baseline").wait_for()


def test_what_is_typed_about_one_run_is_not_saved_for_another(visit, run, server):
    body = {"experimentName": "other", "name": "weekly"}
    other = call(server, "POST", "/projects/other/runs", body)["runId"]
    page = visit(f"/runs/{other}")
    page.get_by_role("heading", name="weekly").wait_for()
    for name, address in (("nightly", run), ("weekly", other), ("nightly", run)):  # the last one is known
        page.get_by_role("button", name="Edit").click()
        page.get_by_label("Notes").fill("of the run before")
        palette = open_palette(page, address)
        palette.get_by_role("option", name=name).click()
        page.get_by_role("heading", name=name).wait_for()
        page.get_by_role("button", name="Edit").wait_for()
        assert page.get_by_label("Notes").count() == 0


def test_a_dialog_that_cannot_be_loaded_says_so_and_leaves_the_page(visit):
    page = visit("/")
    page.locator("main h1").wait_for()
    page.route("**/assets/key-help*", lambda route: route.abort())
    page.keyboard.press("?")
    page.get_by_text("This could not be loaded").wait_for()
    assert page.locator("main h1").is_visible()
    page.complaints.clear()  # of the file that was refused


def test_the_palette_gives_the_focus_back_and_changes_the_theme(visit):
    page = visit("/", width=360)
    button = page.get_by_role("button", name="Search or jump to")
    button.click()
    page.get_by_role("combobox").fill("zzz")
    page.get_by_text("Nothing is found for “zzz”").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert button.evaluate("one => one === document.activeElement")

    open_palette(page, "switch to dark")
    page.keyboard.press("Enter")

    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_what_cannot_be_searched_hides_nothing_else(visit):
    page = visit("/")
    page.route(
        "**/api/v1/datasets?*", lambda route: route.fulfill(status=400, json={"message": "too <b> busy"})
    )
    palette = open_palette(page, "shop")
    palette.get_by_text("! Datasets could not be searched: too <b> busy").wait_for()
    palette.get_by_role("option", name=PROJECT).wait_for()
    assert palette.get_by_role("group", name="Datasets").count() == 0
    page.keyboard.press("Escape")

    page.route("**/api/v1/**", lambda route: route.abort())
    palette = open_palette(page, "validity")
    palette.get_by_text("! The server does not answer").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/validity")

    page.unroute_all()
    page.complaints = [one for one in page.complaints if "Failed to load resource" not in one]


def test_filters_are_kept_under_a_name_by_the_server(visit, run, server, find_barriers):
    page = visit(f"/runs/{run}?outcome=fail")
    page.get_by_role("button", name="Save view").click()
    views = page.get_by_role("region", name="Saved views")
    views.get_by_label("Save these filters as").fill(HOSTILE)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Views (1)").wait_for()
    assert find_barriers(page) == []
    views.get_by_role("button", name="Rename").click()
    views.get_by_label("New name").fill("failed ones")
    with page.expect_response(lambda answer: answer.request.method == "PATCH"):
        page.keyboard.press("Enter")
    page.goto(page.url.split("?")[0])
    page.get_by_role("button", name="failed ones").click()
    page.wait_for_url("**?outcome=fail")
    page.locator(".rows .row").nth(0).wait_for()
    assert page.locator(".rows .row").count() == 1

    page.goto(page.url.split("/runs")[0])
    palette = open_palette(page, "failed on")
    palette.get_by_role("group", name="Saved views").get_by_role("option").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{run}?outcome=fail")

    page.get_by_role("button", name="Views (1)").click()
    views.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Save view").first.wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Views (1)").wait_for()

    other = visit(f"/runs/{run}")  # another browser
    other.get_by_role("button", name="failed ones").wait_for()
    same = {"area": "items", "name": "failed ones", "path": f"/runs/{run}", "query": "outcome=fail"}
    mine = {**same, "name": "passed ones", "query": "outcome=pass"}
    other.evaluate("all => localStorage.setItem('dokimos-views', all)", json.dumps([same, mine]))
    other.reload()
    other.get_by_role("button", name="Views (3)").click()
    other.get_by_role("button", name="Move the 2 of this browser to the server").click()
    other.get_by_text("They are on the server now").wait_for()
    other.get_by_role("button", name="Views (2)").wait_for()
    assert other.evaluate("localStorage.getItem('dokimos-views')") == "[]"
    for view in call(server, "GET", "/views"):
        call(server, "DELETE", f"/views/{view['id']}")


def test_views_of_other_versions_and_a_browser_that_stores_nothing_break_no_page(visit, run):
    page = visit(f"/runs/{run}")
    stranger = {"isAuthenticated": False, "needsKey": True, "id": "anonymous", "role": "VIEWER"}
    stranger |= {"tenantId": None, "projects": [], "signInWays": ["key"]}
    page.route("**/api/v1/session", lambda route: route.fulfill(json=stranger))
    view = {"area": "items", "name": "old", "path": f"/runs/{run}", "query": "shape=round&search=question+1"}
    page.evaluate("views => localStorage.setItem('dokimos-views', views)", json.dumps([7, view]))
    page.reload()
    page.get_by_role("button", name="old").click()
    page.get_by_text("does not understand all of the view: shape is left out").wait_for()
    page.wait_for_url("**?search=question+1")
    assert page.get_by_label("Search items").input_value() == "question 1"

    page.evaluate(
        "() => { Storage.prototype.setItem = () => { throw new DOMException('no', 'QuotaExceededError') } }"
    )
    page.get_by_role("button", name="Views (1)").click()
    page.get_by_label("Save once more, as").fill("new")
    page.keyboard.press("Enter")

    page.get_by_role("alert").get_by_text("The storage of this browser is full").wait_for()
    assert page.get_by_label("Save once more, as").input_value() == "new"


def test_every_page_shows_its_keys_but_never_while_somebody_types(visit, run, find_barriers):
    page = visit(f"/runs/{run}")
    page.get_by_label("Search items").fill("")
    page.keyboard.type("?")
    assert page.get_by_label("Search items").input_value() == "?"
    page.get_by_label("Search items").fill("")
    page.locator(".rows .row").first.focus()
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    keys.get_by_role("region", name="In the list of items").get_by_text("next, previous row").wait_for()
    keys.get_by_role("region", name="Anywhere").get_by_text("search or jump to").wait_for()
    assert find_barriers(page) == []
    page.keyboard.press("Escape")
    keys.wait_for(state="detached")
    assert page.evaluate("document.activeElement.dataset.index") == "0"

    page.keyboard.press("Enter")
    page.locator(".drawer").wait_for()
    page.keyboard.press("?")
    keys.get_by_role("region", name="In what is open beside the page").wait_for()
    page.keyboard.press("Escape")
    keys.wait_for(state="detached")
    assert page.locator(".drawer").count() == 1


def test_a_run_prints_light_and_whole_and_texts_keep_their_direction(visit, run):
    page = visit(f"/runs/{run}", scheme="dark")
    text = page.locator(".rows .row bdi", has_text="עולם")
    text.wait_for()
    lefts = text.evaluate(
        """one => [0, one.firstChild.length - 1].map(at => {
             const range = document.createRange();
             range.setStart(one.firstChild, at);
             range.setEnd(one.firstChild, at + 1);
             return range.getBoundingClientRect().left;
           })"""
    )
    assert lefts[1] < lefts[0]  # the mark stands at the end of what it ends: to its left

    page.emulate_media(media="print")
    page.set_viewport_size({"width": 703, "height": 1000})  # A4 within its margins

    page.locator(".print-foot", has_text=f"/runs/{run}").wait_for()
    assert page.locator(".side").is_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    boxes = [row.bounding_box() for row in page.locator(".rows .row").all()]
    assert len(boxes) == 2
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"] - 1
    assert page.evaluate("document.querySelector('.rows').scrollHeight") <= page.evaluate(
        "document.querySelector('.rows').clientHeight + 1"
    )


def test_a_trend_near_100_percent_is_zoomed_and_says_so_and_marks_changed_evaluators(visit, server):
    passed = {"inputs": {"q": "?"}, "actualOutputs": {}}
    passed["evalResults"] = [{"name": "exact", "score": 1, "threshold": 0.5, "success": True}]
    for fingerprint in ("1", "2"):
        run = call(server, "POST", "/projects/near/runs", {"experimentName": "near 100"})["runId"]
        call(server, "POST", f"/runs/{run}/items", {"items": [passed] * 60})
        ended = {"status": "SUCCESS", "evaluators": [{"name": "exact", "fingerprint": fingerprint}]}
        call(server, "PATCH", f"/runs/{run}", ended)
    (experiment,) = call(server, "GET", "/projects/near/experiments")
    page = visit(f"/experiments/{experiment['id']}")
    page.get_by_text("Zoomed: the axis begins at 90 %, not at 0").wait_for()
    chart = page.locator("svg.chart")
    assert "the axis begins at 90.0 %" in chart.get_attribute("aria-label")
    assert chart.locator("title").first.text_content() == "evaluator changed: exact"

    page.get_by_role("button", name="Show 0 to 100 %").click()

    page.wait_for_url("**?zoom=off")
    chart.get_by_text("25", exact=True).wait_for()


def test_what_has_no_room_for_all_evaluators_says_so_and_shows_them(visit, server):
    run = call(server, "POST", "/projects/many/runs", {"experimentName": "many"})["runId"]
    names = [f"evaluator {number}" for number in range(44)] + [f"{HOSTILE} evaluator"]
    results = [{"name": name, "score": 0, "threshold": 0.5, "success": False} for name in names]
    item = {"inputs": {"q": "?"}, "actualOutputs": {}, "evalResults": results}
    call(server, "POST", f"/runs/{run}/items", {"items": [item]})
    call(server, "PATCH", f"/runs/{run}", {"status": "SUCCESS"})
    page = visit(f"/runs/{run}?evaluator=evaluator+40")
    page.get_by_text("The first 40 of 45 evaluators").wait_for()
    page.get_by_text("scores of 4 of 45 evaluators").wait_for()
    page.locator(".rows .row .score", has_text="evaluator 40").wait_for()

    page.get_by_role("button", name="Show all 45").click()

    page.locator("svg.heat title", has_text="evaluator").first.wait_for(state="attached")
    assert page.locator("svg.heat g").count() == 45
    assert "⟨U+202E⟩" in page.locator("svg.heat").text_content()
    page.get_by_label("Order").select_option("score:evaluator 3")
    page.get_by_label("scores from").fill("0.5")
    page.get_by_text("No item is found").wait_for()
    page.wait_for_url("**low=0.5**")


def test_back_leaves_the_drawer_however_many_items_were_read_in_it(visit, run):
    page = visit(f"/runs/{run}")
    page.locator(".rows .row").first.click()
    drawer = page.get_by_role("complementary", name="Item")
    drawer.wait_for()
    addresses = [page.url]
    for key in "jkj":
        page.keyboard.press(key)
        page.wait_for_function("address => location.href !== address", arg=addresses[-1])
        addresses.append(page.url)
    assert addresses[0] == addresses[2] != addresses[1]

    page.go_back()

    drawer.wait_for(state="detached")
    page.wait_for_url(f"**/runs/{run}")


def test_what_is_done_to_an_item_or_typed_about_a_run_touches_nothing_else(visit, run, server):
    page = visit(f"/runs/{run}?item=0.0")
    drawer = page.get_by_role("complementary", name="Item")
    page.route("**/review", lambda route: route.fulfill(status=500, json={"message": "full"}))
    drawer.get_by_role("button", name="✓ Correct").click()
    drawer.get_by_role("alert").get_by_text("The verdict was not saved").wait_for()
    drawer.get_by_role("button", name="Next item").click()
    drawer.get_by_role("heading", name="#1").wait_for()
    assert drawer.get_by_role("alert").count() == 0  # it would be sent for the other item
    page.keyboard.press("k")
    drawer.get_by_role("heading", name="#0").wait_for()
    page.keyboard.press("Escape")
    page.complaints[:] = [text for text in page.complaints if "status of 500" not in text]

    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Notes").fill("mine")
    call(server, "PATCH", f"/runs/{run}/description", {"tags": ["theirs"]})
    page.get_by_role("button", name="Save description").click()
    page.locator(".notes", has_text="mine").wait_for()
    described = call(server, "GET", f"/runs/{run}?size=1")
    assert (described["notes"], described["tags"]) == ("mine", ["theirs"])


def test_what_is_changed_in_one_tab_is_seen_in_the_other(visit, run):
    page = visit(f"/runs/{run}")
    other = visit(f"/runs/{run}", context=page.context)
    other.get_by_role("heading", name="nightly").wait_for()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Tags").fill("from the first tab")
    page.get_by_role("button", name="Save description").click()

    other.locator(".facts .tag", has_text="from the first tab").wait_for()
    assert other.url.endswith(f"/runs/{run}")  # without a visit to it
