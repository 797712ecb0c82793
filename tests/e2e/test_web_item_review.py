"""An item of a run in a browser: corrected, judged and promoted beside its run, without a mouse."""

import pytest
from tests.e2e.conftest import visits

from dokimos import Example, Experiment
from dokimos.client import push_result
from dokimos.evaluators import ExactMatch


@pytest.fixture(scope="module")
def server(start_server):
    return start_server()


@pytest.fixture
def visit(chromium, server):
    with visits(chromium, server.address, "404 (Not Found)") as open_page:
        yield open_page


def push_run(server, project, *expected):
    data = [Example.of(f"question {number}", value) for number, value in enumerate(expected or ("yes",))]
    result = Experiment(data, lambda question: "no", [ExactMatch()], name="answers", quiet=True).run()
    return push_result(result, server_url=server.address, project_name=project)


def read_reviews(server, run):
    [item, *_] = server.call("GET", f"/runs/{run}")[1]["items"]["content"]
    return server.call("GET", f"/runs/{run}/items/{item['id']}/reviews")[1]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_an_item_goes_from_a_failed_run_into_a_dataset_with_its_fix(
    visit, server, find_barriers, width, scheme
):
    run, dataset = push_run(server, f"fixes-{width}"), f"fixed-{width}"
    page = visit(f"/runs/{run}?item=0.0", width=width, scheme=scheme)
    drawer = page.get_by_role("complementary", name="Item")
    drawer.get_by_role("button", name="Correct expected").wait_for()
    page.keyboard.press("e")
    field = drawer.get_by_label("Expected output, corrected")
    page.locator("textarea:focus").wait_for()
    assert field.input_value() == "yes"
    field.fill("no")
    drawer.get_by_label("Comment").fill("the question is in Norwegian")
    assert find_barriers(page) == []

    page.keyboard.press("Escape")
    page.locator("button:focus", has_text="Correct expected").wait_for()
    with page.expect_response("**/review") as saved:
        page.keyboard.press("2")
    assert saved.value.ok
    page.get_by_text("Marked as incorrect").wait_for()
    drawer.get_by_role("heading", name="Expected, as a reviewer corrected it").wait_for()
    page.keyboard.press("p")
    page.locator("input:focus").fill(dataset)
    drawer.get_by_text("With the expected output as corrected above").wait_for()
    page.keyboard.press("Enter")
    page.get_by_text(f"In {dataset} since version 1").wait_for()

    [review] = read_reviews(server, run)
    assert (review["verdict"], review["note"]) == ("INCORRECT", "the question is in Norwegian")
    assert review["overriddenExpectedOutput"] == {"output": "no"}
    [item] = server.call("GET", f"/datasets/{dataset}/versions/1/items")[1]["content"]
    assert item["expectedOutputs"] == {"output": "no"}
    page.reload()  # a question of the browser would be a complaint
    drawer.get_by_role("button", name="Save with ✗ incorrect").wait_for()


def test_a_correction_that_was_promoted_is_not_lost_and_one_that_cannot_be_is_said(visit, server):
    run = push_run(server, "json", {"answer": "yes", "tone": "kind"})
    page = visit(f"/runs/{run}?item=0.0")
    drawer = page.get_by_role("complementary", name="Item")
    drawer.get_by_role("button", name="Correct expected").click()
    field = drawer.get_by_label("Expected output, corrected (as JSON)")
    field.fill('{"answer": "no"')
    drawer.get_by_role("button", name="Promote").click()
    form = drawer.get_by_role("form", name="Promote to a dataset")
    form.get_by_text("The corrected output cannot be promoted").wait_for()
    form.get_by_label("Dataset").fill("kind answers")
    assert form.get_by_role("button", name="promote").is_disabled()
    field.fill('{"answer": "no"}')
    form.get_by_role("button", name="promote").click()
    page.get_by_text("In kind answers since version 1").wait_for()

    [item] = server.call("GET", "/datasets/kind%20answers/versions/1/items")[1]["content"]
    assert item["expectedOutputs"] == {"answer": "no"}
    page.reload()  # a question of the browser would be a complaint
    drawer.get_by_role("button", name="Correct expected").wait_for()
    assert read_reviews(server, run) == []


def test_a_correction_is_the_same_in_the_drawer_and_in_the_review_queue(visit, server):
    run = server.call("POST", "/projects/both/runs", {"experimentName": "answers"})[1]["runId"]
    item = {"inputs": {"input": "?"}, "actualOutputs": {"output": "no"}}
    item["expectedOutputs"] = {"output": "yes", "relevant": ["card"]}
    server.call("POST", f"/runs/{run}/items", {"items": [item]})
    server.call("PATCH", f"/runs/{run}", {"status": "SUCCESS"})
    page = visit(f"/runs/{run}?item=0.0")
    page.get_by_role("button", name="Correct expected").click()
    field = page.get_by_label("Expected output, corrected; “relevant” stays as before")
    assert field.input_value() == "yes"
    field.fill("perhaps")
    page.get_by_role("complementary", name="Item").get_by_role("button", name="Close").first.click()
    page.get_by_role("link", name="Review items").click()

    card = page.get_by_role("region", name="Item to review")
    assert card.get_by_label("Expected output, corrected").input_value() == "perhaps"
    with page.expect_response("**/review"):
        card.get_by_role("button", name="Incorrect").click()
    [review] = read_reviews(server, run)
    assert review["overriddenExpectedOutput"] == {"output": "perhaps", "relevant": ["card"]}
    card.get_by_role("button", name="Edit all of it as JSON").click()
    card.get_by_label("Expected output, corrected (as JSON)").fill('{"output": "no"}')
    with page.expect_response("**/review"):
        card.get_by_role("button", name="Unsure").click()
    assert read_reviews(server, run)[0]["overriddenExpectedOutput"] == {"output": "no"}
    card.get_by_role("link", name="Open item").click()
    page.get_by_role("complementary", name="Item").get_by_text("item 0, repetition 0").wait_for()
    assert f"/runs/{run}" in page.url


def test_a_review_that_came_since_the_drawer_was_opened_is_shown_and_the_reviewer_decides(visit, server):
    run = push_run(server, "meanwhile")
    page = visit(f"/runs/{run}?item=0.0")
    drawer = page.get_by_role("complementary", name="Item")
    page.wait_for_load_state("networkidle")
    [item] = server.call("GET", f"/runs/{run}")[1]["items"]["content"]
    review = f"/runs/{run}/items/{item['id']}/review"
    server.call("PUT", review, {"verdict": "CORRECT", "note": "seen by another"})
    page.keyboard.press("e")
    drawer.get_by_label("Comment").fill("mine")
    page.keyboard.press("Escape")

    page.keyboard.press("2")

    problem = drawer.get_by_role("alert")
    problem.get_by_text("You chose ✗ incorrect; it is not saved.").wait_for()
    assert "marked this item as ✓ correct just now, “seen by another”." in problem.inner_text()
    assert [one["verdict"] for one in read_reviews(server, run)] == ["CORRECT"]
    problem.get_by_role("button", name="Take theirs").click()
    problem.wait_for(state="detached")
    assert drawer.get_by_label("Comment").input_value() == "mine"
    drawer.get_by_role("button", name="✓ Correct", pressed=True).wait_for()

    server.call("PUT", review, {"verdict": "UNSURE", "note": "seen once more"})
    drawer.get_by_role("button", name="✗ Incorrect").click()
    problem.get_by_text("seen once more").wait_for()
    with page.expect_response("**/review") as saved:
        problem.get_by_role("button", name="Keep mine").click()
    assert saved.value.ok
    page.get_by_text("Marked as incorrect").wait_for()
    [one] = read_reviews(server, run)
    assert (one["verdict"], one["note"]) == ("INCORRECT", "mine")


def test_what_is_typed_about_an_item_of_a_deleted_run_asks_no_more(visit, server):
    run = push_run(server, "deleted")
    page = visit("/")
    page.clock.install()
    page.goto(f"{server.address}/runs/{run}?item=0.0")
    page.get_by_role("button", name="Correct expected").click()
    page.get_by_label("Expected output, corrected").fill("perhaps")
    page.get_by_role("link", name="Home", exact=True).click()
    page.get_by_role("heading", name="Projects", level=1).wait_for()

    server.call("DELETE", f"/runs/{run}")
    with page.expect_response(f"**/runs/{run}?size=1") as looked:
        page.clock.fast_forward(61_000)
    assert looked.value.status == 404
    page.reload()  # a question of the browser would be a complaint
    page.get_by_role("heading", name="Projects", level=1).wait_for()
