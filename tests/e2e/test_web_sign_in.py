"""Signing in to the web interface, in place and on its page, and a page from before an upgrade."""

import pytest
from tests.e2e.conftest import noting_page

KEY = "a-key-of-thirty-two-characters-1"
AUTH = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(api_key=KEY, require_auth_for_reads=True)


@pytest.fixture
def page(chromium, server):
    """A page that notes whatever it should not do; refusals of the server are expected here."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = noting_page(context, server.address)
    page.set_default_timeout(60_000)
    yield page
    assert [text for text in page.complaints if "status of 401" not in text] == []
    context.close()


def test_a_refused_page_asks_for_a_key_in_place_and_goes_on_with_it(page, server):
    server.call("POST", "/projects/support/runs", {"experimentName": "answers"}, headers=AUTH)
    page.goto(f"{server.address}/projects/support")
    form = page.get_by_role("region", name="Sign in")

    form.get_by_label("API key").fill("a wrong one")
    page.keyboard.press("Enter")
    form.get_by_role("alert").get_by_text("does not know this key").wait_for()
    form.get_by_label("API key").fill(KEY)
    page.keyboard.press("Enter")

    page.get_by_role("heading", name="support").wait_for()
    assert form.count() == 0
    assert page.url == f"{server.address}/projects/support"
    page.locator(".account").get_by_text("admin").wait_for()


def sign_in(place, key):
    place.get_by_label("API key").fill(key)
    place.get_by_label("API key").press("Enter")


def test_signing_out_leads_to_the_page_for_it_and_from_there_back(page, server):
    page.goto(f"{server.address}/login?returnTo=//evil.example")
    page.get_by_label("API key").fill(KEY)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server.address}/")

    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login")

    page.goto(f"{server.address}/")
    page.get_by_role("region", name="Sign in").wait_for()
    assert page.get_by_role("heading", name="Projects", exact=True, level=1).count() == 0


def test_what_is_typed_waits_for_the_one_who_signed_out_in_another_tab_and_for_nobody_else(page, server):
    run = server.call("POST", "/projects/tabs/runs", {"experimentName": "answers"}, headers=AUTH)[1]["runId"]
    item = {"inputs": {"input": "a question"}, "actualOutputs": {"output": "an answer"}}
    server.call("POST", f"/runs/{run}/items", {"items": [item]}, headers=AUTH)
    second = server.call("POST", "/api-keys", {"name": "ben", "role": "EDITOR"}, headers=AUTH)[1]["key"]
    page.goto(f"{server.address}/login")
    sign_in(page, KEY)
    page.locator(".account").get_by_text("admin").wait_for()
    other = page.context.new_page()
    other.set_default_timeout(60_000)
    other.goto(f"{server.address}/review-queue?project=tabs")
    comment = other.get_by_label("Comment")
    comment.fill("half a thought")

    page.get_by_role("button", name="Sign out").click()
    dialog = other.get_by_role("dialog", name="Signed out in another tab")
    dialog.get_by_text("with what you have typed").wait_for()
    assert comment.is_hidden()
    other.keyboard.press("Escape")
    other.keyboard.press("Escape")
    dialog.wait_for()
    sign_in(dialog, KEY)
    dialog.wait_for(state="detached")
    assert comment.input_value() == "half a thought"
    other.locator("input[aria-label=Comment]:focus").wait_for()

    page.goto(f"{server.address}/")
    page.get_by_role("button", name="Sign out").click()
    dialog.wait_for()
    sign_in(page, second)
    page.wait_for_url(f"{server.address}/")
    other.wait_for_url(f"{server.address}/review-queue")  # without the filters of the first one, too
    other.locator(".account").get_by_text("editor").wait_for()
    other.get_by_role("region", name="Item to review").wait_for()
    assert comment.input_value() == ""
    assert dialog.count() == 0


def test_a_page_from_before_an_upgrade_offers_to_load_it_again(page, server):
    page.goto(f"{server.address}/login")
    page.get_by_label("API key").fill(KEY)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Projects", level=1).wait_for()

    answer = {"status": 204, "headers": {"X-Dokimos-Build": "another"}}
    page.route("**/api/v1/session", lambda route: route.fulfill(**answer))
    page.get_by_role("button", name="Sign out").click()

    page.get_by_text("The server was updated.").wait_for()
    page.unroute("**/api/v1/session")
    page.get_by_role("button", name="Reload").click()
    page.get_by_role("heading", name="Sign in", exact=True).wait_for()
    assert page.get_by_text("The server was updated.").count() == 0


def test_a_session_that_ends_in_the_middle_of_an_edit_loses_nothing(page, server):
    run = server.call("POST", "/projects/edits/runs", {"experimentName": "answers"}, headers=AUTH)[1]["runId"]
    item = {"inputs": {"input": "a question"}, "actualOutputs": {"output": "an answer"}}
    server.call("POST", f"/runs/{run}/items", {"items": [item]}, headers=AUTH)
    page.goto(f"{server.address}/login?returnTo=/review-queue%3Fproject%3Dedits")
    page.get_by_label("API key").fill(KEY)
    page.keyboard.press("Enter")
    page.get_by_label("Comment").fill("half a thought")
    page.keyboard.press("Enter")
    server.call("DELETE", "/sessions", headers=AUTH)

    page.keyboard.press("2")
    form = page.get_by_role("region", name="Sign in")
    form.get_by_label("API key").fill(KEY)
    with page.expect_response(lambda answer: answer.request.method == "PUT") as saved:
        page.keyboard.press("Enter")

    form.wait_for(state="detached")
    assert page.get_by_label("Comment").input_value() == "half a thought"
    assert saved.value.json()["note"] == "half a thought"
    waiting = server.call("GET", f"/review-queue?runId={run}", headers=AUTH)[1]
    assert waiting["totalElements"] == 0
