"""The review queue in a browser: with the keyboard alone, beside others, and from a run to a dataset."""

import pytest
from tests.e2e.conftest import visits

from dokimos import Example, Experiment
from dokimos.client import push_result
from dokimos.evaluators import ExactMatch

HOSTILE = '<img src=x onerror="window.pwned=1">\u202ereversed'


@pytest.fixture(scope="module")
def server(start_server):
    return start_server()


def push_run(server, project):
    data = [Example.of(f"question {number}", "yes") for number in range(4)] + [Example.of(HOSTILE, "yes")]
    result = Experiment(data, lambda question: "no", [ExactMatch()], name="answers", quiet=True).run()
    return push_result(result, server_url=server.address, project_name=project)


def list_queue(server, project):
    return server.call("GET", f"/review-queue?projectName={project}")[1]["content"]


def read_reviews(server, item):
    return server.call("GET", f"/runs/{item['runId']}/items/{item['itemId']}/reviews")[1]


@pytest.fixture
def visit(chromium, server):
    with visits(chromium, server.address) as open_page:
        yield open_page


def test_keys_judge_comment_label_and_undo(visit, server, find_barriers):
    push_run(server, "keys")
    server.call("PUT", "/projects/keys/label-schemas/tone", {"kind": "choice", "choices": ["kind", "rude"]})
    first, second = list_queue(server, "keys")[:2]
    page = visit("/review-queue?project=keys&order=oldest")
    card = page.get_by_role("region", name="Item to review")
    card.get_by_text("question 0").wait_for()
    assert find_barriers(page) == []
    page.get_by_label("tone").select_option("rude")

    page.locator("main h1").click()
    page.keyboard.press("c")
    page.keyboard.type("too 1 short")
    page.keyboard.press("Enter")
    for key, path, shown in (
        ("2", "**/review", "question 1"),
        ("1", "**/review", "question 2"),
        ("u", "**/undo", "question 1"),
    ):
        with page.expect_response(path):
            page.keyboard.press(key)
        card.get_by_text(shown).wait_for()
    page.get_by_text("1 done here").wait_for()
    page.keyboard.press("j")
    card.get_by_text("question 2").wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").get_by_text("undo the last verdict").wait_for()

    (review,) = read_reviews(server, first)
    assert (review["verdict"], review["note"]) == ("INCORRECT", "too 1 short")
    assert review["labels"] == {"tone": {"value": "rude", "version": 1}}
    assert read_reviews(server, second) == []


def test_a_comment_asks_before_it_is_lost_until_a_verdict_with_it_is_saved(visit, server):
    push_run(server, "typed")
    page = visit("/review-queue?project=typed&order=oldest")
    card = page.get_by_role("region", name="Item to review")
    card.get_by_text("question 0").wait_for()
    comment = card.get_by_label("Comment")
    comment.fill("half a thought")
    page.locator("main h1").click()
    page.keyboard.press("j")
    card.get_by_text("question 1").wait_for()

    with page.expect_event("dialog") as asked:
        page.evaluate("location.reload()")
    assert asked.value.type == "beforeunload"  # the test says no
    page.complaints.remove("dialog")
    page.keyboard.press("k")
    card.get_by_text("question 0").wait_for()
    assert comment.input_value() == "half a thought"
    with page.expect_response("**/review"):
        page.keyboard.press("2")
    card.get_by_text("question 1").wait_for()
    with page.expect_response("**/undo"):
        page.keyboard.press("u")
    card.get_by_text("question 0").wait_for()
    assert comment.input_value() == "half a thought"
    with page.expect_response("**/review"):
        page.keyboard.press("2")
    card.get_by_text("question 1").wait_for()
    page.reload()  # a question of the browser would be a complaint
    card.get_by_text("question 1").wait_for()


def test_the_next_item_is_shown_before_the_server_has_taken_the_verdict(visit, server):
    push_run(server, "ahead")
    page = visit("/review-queue?project=ahead&order=oldest", width=360)
    card = page.get_by_role("region", name="Item to review")
    card.get_by_text("question 0").wait_for()

    def answer_when_the_next_is_shown(route):
        card.get_by_text("question 1").wait_for()
        route.continue_()

    page.route("**/review", answer_when_the_next_is_shown)
    with page.expect_response("**/review") as answer:
        page.keyboard.press("1")
    assert answer.value.ok


def test_a_review_that_came_meanwhile_is_shown_rather_than_written_over(visit, server):
    push_run(server, "meanwhile")
    item = list_queue(server, "meanwhile")[0]
    page = visit("/review-queue?project=meanwhile&order=oldest")
    card = page.get_by_role("region", name="Item to review")
    card.get_by_text("question 0").wait_for()
    page.wait_for_load_state("networkidle")
    path = f"/runs/{item['runId']}/items/{item['itemId']}/review"
    server.call("PUT", path, {"verdict": "CORRECT", "note": "seen by another"})

    page.keyboard.press("2")

    problem = page.get_by_role("alert")
    problem.get_by_text("You chose ✗ incorrect; it is not saved.").wait_for()
    assert "as ✓ correct just now, “seen by another”." in problem.inner_text()
    assert read_reviews(server, item)[0]["verdict"] == "CORRECT"
    with page.expect_response("**/review"):
        problem.get_by_role("button", name="Keep mine").click()
    assert read_reviews(server, item)[0]["verdict"] == "INCORRECT"


def test_a_verdict_that_the_server_cannot_take_is_told_and_sent_again(visit, server):
    push_run(server, "refused")
    item = list_queue(server, "refused")[0]
    page = visit("/review-queue?project=refused&order=oldest")
    page.get_by_role("region", name="Item to review").get_by_text("question 0").wait_for()
    page.route("**/review", lambda route: route.fulfill(status=500, json={"message": "The disk is full."}))

    page.keyboard.press("2")

    problem = page.get_by_role("alert")
    problem.get_by_text("The verdict was not saved: the server answered 500. The disk is full.").wait_for()
    page.get_by_text("of 5 reviewed").get_by_text("0", exact=True).wait_for()
    page.unroute("**/review")
    with page.expect_response("**/review"):
        problem.get_by_role("button", name="Send again").click()
    assert read_reviews(server, item)[0]["verdict"] == "INCORRECT"
    page.complaints[:] = [text for text in page.complaints if "status of 500" not in text]


def test_a_verdict_of_one_tab_is_known_in_another_which_keeps_what_is_typed(visit, server):
    push_run(server, "tabs")
    page = visit("/review-queue?project=tabs&order=oldest")
    other = visit("/review-queue?project=tabs&order=oldest", context=page.context)
    for tab in (page, other):
        tab.get_by_role("region", name="Item to review").get_by_text("question 0").wait_for()
    other.get_by_label("Comment").fill("half a thought")

    page.keyboard.press("2")

    other.get_by_text("You have decided it already: ✗ incorrect.").wait_for()
    other.get_by_text("4 wait, 0 done here").wait_for()
    assert other.get_by_label("Comment").input_value() == "half a thought"
    other.get_by_role("region", name="Item to review").get_by_text("question 0").wait_for()
    page.get_by_role("region", name="Item to review").get_by_text("question 1").wait_for()
    page.keyboard.press("u")
    other.get_by_text("5 wait, 0 done here").wait_for()
    assert other.get_by_text("You have decided it already").count() == 0
    assert other.get_by_label("Comment").input_value() == "half a thought"


def test_claims_change_who_is_at_an_item_without_reading_the_queue_again(visit, server):
    push_run(server, "claims")
    page = visit("/review-queue?project=claims&order=oldest")
    card = page.get_by_role("region", name="Item to review")
    card.get_by_text("question 0").wait_for()

    page.get_by_role("button", name="Claim the next 10").click()
    page.wait_for_url("**assigned=me**")
    page.get_by_role("button", name="Give claims back").click()
    page.get_by_text("5 claims given back").wait_for()
    page.wait_for_function("!location.search.includes('assigned')")
    card.get_by_text("question 0").wait_for()

    lists = [url for url in page.asked if "/review-queue?" in url and "size=50" in url]
    assert len([url for url in lists if "assigned" not in url]) == 1


def press_until_focused(page, locator):
    """Go on with the tab key to what is meant, as somebody without a mouse does."""
    locator.wait_for()
    for _ in range(200):
        if locator.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError("The tab key does not lead there.")


def test_the_way_from_a_failed_run_to_a_case_of_a_dataset_needs_no_mouse(visit, server):
    run = push_run(server, "loop")
    page = visit(f"/runs/{run}")

    press_until_focused(page, page.locator(".rows .row").first)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.locator(".drawer").get_by_text("Exact Match", exact=True).wait_for()
    page.keyboard.press("Escape")
    page.locator(".drawer").wait_for(state="detached")
    press_until_focused(page, page.get_by_role("link", name="Review items"))
    page.keyboard.press("Enter")
    card = page.get_by_role("region", name="Item to review")
    card.get_by_text("1 of 5").wait_for()
    page.keyboard.press("e")
    page.locator("#corrected-output:focus").wait_for()
    page.keyboard.press("Control+a")
    page.keyboard.type("yes, within 30 days")
    page.keyboard.press("Control+Enter")
    page.keyboard.press("p")
    page.locator("#promote-dataset:focus").wait_for()
    page.keyboard.press("Control+a")
    page.keyboard.type("regressions")
    page.keyboard.press("Enter")
    page.get_by_text("In regressions since version 1").wait_for()
    with page.expect_response("**/review"):
        page.keyboard.press("2")
    card.get_by_text("2 of 5").wait_for()
    press_until_focused(page, page.get_by_role("link", name="Datasets"))
    page.keyboard.press("Enter")
    press_until_focused(page, page.get_by_role("link", name="regressions"))
    page.keyboard.press("Enter")

    page.locator(".row.case").get_by_text("yes, within 30 days").wait_for()
    page.locator(".foot-row").get_by_text("1 item", exact=True).wait_for()
    (item,) = server.call("GET", "/datasets/regressions/versions/latest/items")[1]["content"]
    assert item["source"]["runId"] == run
    (review,) = server.call("GET", f"/runs/{run}/items/{item['source']['itemResultId']}/reviews")[1]
    assert review["verdict"] == "INCORRECT"
    assert review["overriddenExpectedOutput"] == item["expectedOutputs"]


def test_instructions_stand_above_the_item_and_stay_folded_until_they_change(visit, server, find_barriers):
    push_run(server, "told")
    path = "/projects/told/review-instructions"
    text = f"# Tone\n\n- **polite** is correct\n- {HOSTILE}\n\n[more](javascript:alert)"
    server.call("PUT", path, {"text": text})
    page = visit("/review-queue?project=told&order=oldest")
    told = page.get_by_role("region", name="Instructions for reviewers")
    told.get_by_text("**polite** is correct").wait_for()
    assert find_barriers(page) == []

    told.get_by_role("button", name="Show formatted").click()
    assert told.locator("strong").inner_text() == "polite"
    assert told.locator("li").nth(1).inner_text() == '<img src=x onerror="window.pwned=1">⟨U+202E⟩reversed'
    assert told.locator("a, img").count() == 0
    assert find_barriers(page) == []
    page.keyboard.press("j")
    page.get_by_role("region", name="Item to review").get_by_text("question 1").wait_for()
    assert told.locator("strong").inner_text() == "polite"

    page.keyboard.press("i")
    told.locator("strong").wait_for(state="detached")
    page.reload()
    button = told.get_by_role("button", name="Instructions of told")
    button.wait_for()
    assert button.get_attribute("aria-expanded") == "false"

    server.call("PUT", path, {"text": "Something else counts now."})
    page.reload()
    told.get_by_text("Something else counts now.").wait_for()
    told.get_by_text("changed since you folded them").wait_for()
    page.set_viewport_size({"width": 360, "height": 800})
    assert find_barriers(page) == []


def test_a_project_without_instructions_leads_to_where_they_are_written(visit, server):
    push_run(server, "untold")
    page = visit("/review-queue?project=untold&order=oldest")
    page.get_by_role("link", name="Write some").click()
    page.wait_for_url("**/projects/untold/settings**")
    form = page.get_by_role("form", name="Instructions for reviewers")
    form.wait_for()
    assert form.get_by_role("textbox").input_value() == ""


def test_a_reply_in_markdown_is_formatted_when_asked_for(visit, server):
    data = [Example.of("question", "yes")]
    reply = "## Answer\n\n1. **first**\n2. `second`"
    result = Experiment(data, lambda question: reply, [ExactMatch()], name="answers", quiet=True).run()
    push_result(result, server_url=server.address, project_name="formatted")
    page = visit("/review-queue?project=formatted&order=oldest")
    card = page.get_by_role("region", name="Item to review")
    card.locator("mark").get_by_text("## Answer").wait_for()
    card.get_by_role("button", name="Show formatted").click()
    assert card.locator(".prose ol li").all_inner_texts() == ["first", "second"]
    assert card.get_by_role("heading", name="Answer", exact=True).count() == 0
    card.get_by_role("button", name="Show as written").click()
    card.locator("mark").get_by_text("## Answer").wait_for()
