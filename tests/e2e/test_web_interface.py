"""The web interface in a browser: every page by its address, with data that tries to get out of its place."""

import json
import time
import urllib.request

import pytest
from tests.e2e.conftest import noting_page
from tests.server.server_process import Process

from dokimos import Example, Experiment
from dokimos.client import push_result
from dokimos.evaluators import ExactMatch, Levenshtein

HOSTILE = '<img src=x onerror="window.pwned=1"><script>window.pwned=2</script>\u202ereversed\x1b[31m'
PAGES = ("/", "{project}", "{experiment}", "{run}", "{run}?item=0.0", "{diff}", "{three}")
TOPICS = ("tents", "stoves")


def answer_well(question):
    return question.upper()


def answer_badly(question):
    if "boom" in question:
        raise RuntimeError(HOSTILE)
    return question.upper() if "keep" in question else HOSTILE


def refuse_tents(question):
    kind, _, number = question.partition(" ")
    return "no" if kind == "keep" and int(number) % 2 == 0 else question.upper()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    pytest.importorskip("fastapi", reason="the extra server is not installed")
    process = Process({"data_dir": tmp_path_factory.mktemp("server")})
    yield process.address
    process.process.terminate()
    process.process.communicate()


@pytest.fixture(scope="module")
def addresses(server):
    """The addresses of the pages of three runs: the second has an item that errored, the last is bad."""
    data = [Example.of(f"keep {number}", f"KEEP {number}", topic=TOPICS[number % 2]) for number in range(60)]
    data += [Example.of(HOSTILE, HOSTILE.upper(), topic=HOSTILE), Example.of("boom", "BOOM")]
    project = 'a/b % "<i>'
    runs = []
    for task in (answer_well, answer_badly, refuse_tents):
        experiment = Experiment(data, task, [ExactMatch(), Levenshtein()], name=f"{HOSTILE} 1/2", quiet=True)
        runs.append(push_result(experiment.run(), server_url=server, project_name=project))
    with urllib.request.urlopen(f"{server}/api/v1/runs/{runs[1]}?size=1", timeout=60) as reply:
        experiment = json.load(reply)["experimentId"]
    return {
        "project": "/projects/a%2Fb%20%25%20%22%3Ci%3E",
        "experiment": f"/experiments/{experiment}",
        "run": f"/runs/{runs[1]}",
        "worst_run": f"/runs/{runs[2]}",
        "diff": f"/experiments/{experiment}/runs/{runs[1]}/diff?baselineRunId={runs[0]}",
        "worst": f"/experiments/{experiment}/runs/{runs[2]}/diff?baselineRunId={runs[0]}",
        "three": f"/experiments/{experiment}/runs/{runs[1]}/diff?baselineRunId={runs[0]}&also={runs[2]}",
    }


@pytest.fixture
def visit(chromium, server, addresses):
    """A function that opens a page; at the end nothing foreign ran, was asked for or stuck out."""
    opened = []

    def open_page(address, *, width=1280, scheme="light", settles=True):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = noting_page(context, server)
        page.asked = []
        page.on("request", lambda asked: page.asked.append(asked.url))
        opened.append(page)
        page.goto(server + address.format(**addresses))
        if settles:
            page.wait_for_load_state("networkidle")
        return page

    yield open_page
    for page in opened:
        assert page.complaints == []
        assert page.evaluate("window.pwned") is None
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(overflow) <= 0
        page.context.close()


@pytest.mark.parametrize("address", PAGES)
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_each_page_opens_by_its_address_and_has_no_barriers(visit, find_barriers, address, width, scheme):
    page = visit(address, width=width, scheme=scheme)

    page.wait_for_selector("main h1")
    assert page.title().endswith(" · dokimos")
    page.locator('main [aria-label="Loading"]').first.wait_for(state="detached")
    assert page.locator("main .state").all_inner_texts() == []
    assert find_barriers(page) == []


def test_home_says_first_what_needs_attention(visit, server, addresses):
    while True:  # the gate judges a run soon after it has ended
        with urllib.request.urlopen(f"{server}/api/v1/projects", timeout=60) as reply:
            verdicts = [one["status"] for project in json.load(reply) for one in project["verdicts"]]
        if "FAIL" in verdicts:
            break
        time.sleep(0.2)
    page = visit("/")
    attention = page.locator(".attention")
    attention.get_by_text("items wait for a verdict").wait_for()

    attention.locator("li", has_text="✗ gate failed").get_by_role("link").first.click()

    page.get_by_role("heading", name="Compare").wait_for()
    assert page.locator(".verdict").inner_text().startswith("✗ Pass rate fell")


def test_a_run_says_first_that_it_failed_and_lists_the_worst_items_first(visit):
    page = visit("{run}")

    assert page.locator(".verdict").inner_text().startswith("✗ 98.4 % passed (60/61)")
    assert "1 item errored" in page.locator("main").inner_text()
    rows = page.locator(".rows .row")
    assert rows.nth(0).inner_text().startswith("✗ fail")
    assert rows.nth(1).inner_text().startswith("! error")
    assert "⟨U+202E⟩" in rows.nth(0).inner_text()
    assert rows.count() < 40  # of 62: only those in sight are in the page


def test_a_run_says_by_metadata_where_it_is_weak_and_lists_those_items(visit):
    page = visit("{worst_run}")
    page.locator("summary", has_text="Pass rate by metadata").click()
    table = page.locator("details[open] table")
    row = table.get_by_role("row").nth(1)
    assert row.inner_text().split() == ["tents", "30", "0.0", "%"]
    row.get_by_role("button", name="tents").click()
    page.get_by_role("button", name="topic: tents ×").wait_for()
    page.wait_for_url("**slice=topic&value=tents")
    page.get_by_text("30 of 62").wait_for()


def test_filters_stand_in_the_address_and_stay_when_the_page_is_loaded_again(visit):
    page = visit("{run}")
    page.get_by_role("button", name="! Errored 1").click()
    page.wait_for_url("**outcome=error**")
    assert page.locator(".rows .row").count() == 1

    page.reload()

    page.wait_for_selector(".rows .row")
    assert page.locator(".rows .row").count() == 1
    assert page.get_by_role("button", name="! Errored 1").get_attribute("aria-pressed") == "true"


def test_a_search_finds_items_by_their_texts(visit):
    page = visit("{run}")

    page.get_by_label("Search items").fill("keep 17")

    page.get_by_text("1 of 62").wait_for()
    page.locator(".rows .row").get_by_text("keep 17").first.wait_for()
    assert page.locator(".rows .row").count() == 1
    assert page.url.endswith("?search=keep+17")


def test_an_item_opens_by_keyboard_and_closes_back_to_its_row(visit):
    page = visit("{run}")
    page.locator(".rows .row").nth(0).focus()
    page.keyboard.press("j")
    page.locator(".rows .row:focus").get_by_text("boom").first.wait_for()
    page.keyboard.press("k")
    page.locator(".rows .row:focus").get_by_text("window.pwned=1").first.wait_for()
    page.keyboard.press("Enter")
    drawer = page.locator(".drawer")
    drawer.get_by_text("Exact Match", exact=True).wait_for()
    assert "window.pwned=1" in drawer.inner_text()

    page.keyboard.press("Escape")

    drawer.wait_for(state="detached")
    assert "item=" not in page.url
    assert page.evaluate("document.activeElement.classList.contains('row')")


def test_an_item_is_annotated_and_promoted_from_its_drawer(visit, server):
    page = visit("{run}?item=61.0")
    drawer = page.locator(".drawer")
    drawer.get_by_role("button", name="✗ Incorrect").click()
    page.get_by_text("Marked as incorrect").wait_for()
    drawer.locator(".chip[aria-pressed=true]", has_text="✗ Incorrect").wait_for()

    page.get_by_role("button", name="Undo").click()

    drawer.locator(".chip[aria-pressed=false]", has_text="✗ Incorrect").wait_for()
    drawer.get_by_role("button", name="Promote").click()
    dataset = drawer.get_by_label("Dataset", exact=True)
    gap = dataset.evaluate(
        "one => one.getBoundingClientRect().left - one.previousSibling.getBoundingClientRect().right"
    )
    assert gap >= 4  # its styles do not come with the review queue alone
    page.keyboard.press("Escape")
    page.locator("button:focus").get_by_text("Promote").wait_for()  # else the keys of the drawer are dead
    page.keyboard.press("Enter")
    dataset.fill("from the drawer")
    drawer.get_by_role("button", name="Make the dataset and promote").click()
    page.get_by_text("In from the drawer since version 1").wait_for()
    with urllib.request.urlopen(f"{server}/api/v1/datasets/from%20the%20drawer", timeout=60) as reply:
        assert json.load(reply)["latestItemCount"] == 1


def test_a_run_is_described_and_pinned_as_baseline(visit):
    page = visit("{worst}")
    page.get_by_text("Open item").last.click()
    page.locator(".drawer").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Tags").fill("bad, <b>")
    page.get_by_label("Notes").fill(HOSTILE)
    page.get_by_role("button", name="Save description").click()

    page.locator(".facts .tag", has_text="<b>").wait_for()
    assert "window.pwned=1" in page.locator(".notes").inner_text()
    page.get_by_role("button", name="Pin as baseline").click()
    page.get_by_role("button", name="Unpin as baseline").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("button", name="Pin as baseline").wait_for()


def test_a_run_that_goes_on_grows_as_the_server_tells_of_its_items(visit, server):
    def add(ordinal, *results, **fields):
        item = {
            "ordinal": ordinal,
            "inputs": {"q": "?"},
            "actualOutputs": {},
            "evalResults": results,
            **fields,
        }
        call(server, "POST", f"/runs/{run}/items", {"items": [item]})

    passed = {"name": "exact", "score": 1.0, "threshold": 0.5, "success": True}
    failed = passed | {"score": 0.0, "success": False}
    run = call(server, "POST", "/projects/live/runs", {"experimentName": "going on", "plannedItems": 3})[
        "runId"
    ]
    page = visit(f"/runs/{run}", settles=False)
    page.get_by_text("The run has begun").wait_for()
    add(0, passed)
    page.get_by_text("Running: 1/3 items").wait_for()
    page.locator(".rows .row", has_text="✓ pass").wait_for()
    add(1, failed)
    page.locator(".rows .row", has_text="✗ fail").wait_for()
    traceback = {"dokimos": {"errorDetail": {"traceback": "in line 8 of evals.py"}}}
    add(2, error="ValueError: no", metadata=traceback)

    call(server, "PATCH", f"/runs/{run}", {"status": "SUCCESS"})

    page.get_by_text("✗ 50.0 % passed").wait_for()
    assert "1 item errored and is left out of this rate" in page.locator(".sentence").inner_text()
    page.locator(".rows .row", has_text="! error").click()
    page.get_by_text("Traceback", exact=True).click()
    page.get_by_text("in line 8 of evals.py").first.wait_for()
    assert f"{server}/api/v1/events?run={run}" in page.asked


def test_runs_of_odd_shapes_have_their_page(visit, server, find_barriers):
    def push(name, items):
        run = call(server, "POST", "/projects/odd/runs", {"experimentName": name})["runId"]
        call(server, "POST", f"/runs/{run}/items", {"items": items})
        call(server, "PATCH", f"/runs/{run}", {"status": "SUCCESS"})
        return run

    empty = call(server, "POST", "/projects/odd/runs", {"experimentName": "empty"})["runId"]
    call(server, "PATCH", f"/runs/{empty}", {"status": "SUCCESS"})
    page = visit(f"/runs/{empty}")
    page.get_by_text("This run has no items").wait_for()
    nothing = {"inputs": {"q": None}, "actualOutputs": {}, "evalResults": [], "error": "x" * 5_000}
    page = visit(f"/runs/{push('errors', [nothing] * 3)}")
    page.get_by_text("! Nothing was judged").wait_for()
    assert find_barriers(page) == []
    scores = [
        {"name": f"evaluator {n}", "score": n - 200, "threshold": 0, "success": n > 199} for n in range(300)
    ]
    item = {
        "inputs": {"q": "w" * 1_000_000},
        "actualOutputs": {"a": "line\n" * 50_000},
        "evalResults": scores,
    }
    runs = [push("many", [item]) for _ in range(2)]
    page = visit(f"/runs/{runs[0]}?item=0.0", width=360)
    page.locator(".drawer").get_by_text("evaluator 299", exact=True).wait_for()
    page.keyboard.press("Escape")
    table = page.locator("table", has=page.get_by_role("columnheader", name="Evaluator"))
    assert table.locator("tbody tr").count() == 50
    page.get_by_role("button", name="188 more that failed").wait_for()
    page.get_by_role("button", name="Show all 300").click()
    assert table.locator("tbody tr").count() == 300
    with urllib.request.urlopen(f"{server}/api/v1/runs/{runs[0]}?size=1", timeout=60) as reply:
        experiment = json.load(reply)["experimentId"]
    page = visit(f"/experiments/{experiment}/runs/{runs[1]}/diff?baselineRunId={runs[0]}")
    page.get_by_text("8 of 300 evaluators, those that changed most").wait_for()
    page.get_by_text("276 more evaluators changed less").wait_for()


def call(server, method, path, body):
    request = urllib.request.Request(f"{server}/api/v1{path}", json.dumps(body).encode(), method=method)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def test_the_runs_of_an_experiment_are_sorted_filtered_and_chosen_to_compare(visit):
    page = visit("{experiment}")
    table = page.locator("table").last
    rows = table.locator("tbody tr")
    assert rows.count() == 3
    assert page.locator(".spark").count() > 0

    page.get_by_role("button", name="Pass rate").click()
    page.wait_for_url("**sort=passRate%2Cdesc**")
    rows.first.get_by_text("100.0 %").wait_for()  # the oldest one, so far the last
    rates = [float(text.split()[0]) for text in rows.locator("td:nth-child(4)").all_inner_texts()]
    assert rates == sorted(rates, reverse=True)
    page.get_by_text("Columns").click()
    page.get_by_label("Tokens").check()
    table.get_by_role("columnheader", name="Tokens").wait_for()
    page.get_by_text("Columns").click()

    status = page.get_by_role("combobox", name="Status")
    status.select_option("CANCELLED")
    page.get_by_text("No run is found").wait_for()
    page.reload()
    page.get_by_text("No run is found").wait_for()
    status.select_option("")
    for row in range(3):
        rows.nth(row).get_by_role("checkbox").check()
    page.get_by_role("link", name="Compare 3 runs").click()
    page.wait_for_url("**/diff?**also=**")
    page.get_by_role("heading", name="Compare").wait_for()


def test_a_comparison_says_in_one_sentence_what_changed_and_shows_it_side_by_side(visit):
    page = visit("{diff}")

    assert "– Pass rate fell 3.2 points, from 100.0 % to 96.8 %" in page.locator(".verdict").inner_text()
    sentence = page.locator(".sentence").inner_text()
    assert "2 items changed their outcome: 1 ✗ newly failed, 1 ! newly errored." in sentence
    assert "With 62 items a drop of" in sentence
    rows = page.locator(".grid-body .grid-row")
    assert "⟨U+202E⟩" in rows.nth(0).inner_text()
    assert rows.count() < 60  # of 62: only those in sight are in the page
    rows.nth(0).get_by_role("button").focus()
    page.keyboard.press("j")
    sides = page.locator(".sides > div")
    sides.nth(2).get_by_text("RuntimeError").first.wait_for()
    page.keyboard.press("k")
    sides.nth(2).get_by_text("window.pwned=1").first.wait_for()
    sides.nth(2).get_by_text("Open item").click()
    page.locator(".drawer").wait_for()


def test_a_comparison_says_where_it_fell_and_shows_the_items_of_a_slice(visit):
    page = visit("{worst}")

    assert "✗ Pass rate fell 48.4 points" in page.locator(".verdict").inner_text()
    assert "with a probability of less than 0.001" in page.locator(".sentence").inner_text()
    slices = page.locator("table", has_text="tents").locator("tbody tr")
    assert slices.nth(0).inner_text().split("\t")[:4] == ["tents", "30", "100.0 %", "0.0 %"]
    assert "✗ −100.0" in slices.nth(0).inner_text()
    slices.nth(1).get_by_role("button", name="stoves").click()
    page.get_by_role("button", name="Changed 0").wait_for()
    page.get_by_role("button", name="topic: stoves ×").click()

    page.get_by_role("button", name="✗ Newly failed 30").click()

    page.get_by_text("30 of 62 items").wait_for()
    assert page.url.endswith("status=REGRESSED")


def test_further_runs_are_compared_with_the_same_baseline(visit):
    page = visit("{three}")

    verdicts = page.locator("table", has_text="Verdict").locator("tbody tr")
    verdicts.nth(1).wait_for()
    assert [row.split("\t")[-1] for row in verdicts.all_inner_texts()] == ["– no clear change", "✗ regressed"]
    assert page.get_by_role("button", name="✗ Newly failed 31").count() == 1
    page.get_by_role("button", name="Remove Candidate 1").click()

    page.get_by_text("✗ Pass rate fell 48.4 points").wait_for()
    assert "also" not in page.url


def test_what_is_not_there_says_what_to_do(visit):
    page = visit("/")
    page.goto(page.url + "runs/00000000-0000-7000-8000-000000000000")
    page.get_by_text("It is not here").wait_for()
    assert "It may have been deleted" in page.locator("main .state").inner_text()
    page.complaints[:] = [text for text in page.complaints if "404" not in text]


def test_a_page_that_cannot_be_loaded_says_so_and_comes_back(visit):
    page = visit("/")
    link = page.get_by_role("link", name="a/b").first
    link.wait_for()
    page.context.set_offline(True)
    link.click()
    page.get_by_text("A part of this page could not be loaded").wait_for(timeout=60_000)

    page.context.set_offline(False)
    page.get_by_role("button", name="Load the page again").click()

    page.get_by_role("heading", name="Experiments").wait_for(timeout=60_000)
    assert page.locator("main .state").count() == 0
    forget_lost_connections(page)


def test_what_was_read_stays_in_sight_when_the_server_goes_away(visit):
    page = visit("{run}")
    page.locator(".rows .row").first.wait_for()
    page.context.set_offline(True)
    # As somebody comes back to the tab, again and again: what has just been read is not read anew.
    come_back = "setInterval(() => window.dispatchEvent(new Event('visibilitychange')), 500)"
    timer = page.evaluate(come_back)
    page.get_by_text("! Not up to date. The server does not answer").wait_for(timeout=60_000)
    assert page.locator(".rows .row").count() > 5
    page.evaluate(f"clearInterval({timer})")
    page.get_by_role("status").get_by_role("button", name="Try again").click()  # in vain
    page.get_by_text("! Not up to date. The server does not answer").wait_for()

    # By itself once the server answers, maybe before anybody could press the button.
    page.context.set_offline(False)
    page.evaluate(come_back)
    page.get_by_text("! Not up to date").wait_for(state="detached")
    forget_lost_connections(page)


def forget_lost_connections(page):
    expected = ("DISCONNECTED", "imported module")
    page.complaints[:] = [text for text in page.complaints if not any(word in text for word in expected)]
