"""The pages of settings in a browser: connections, keys, webhooks, the audit log."""

from urllib.parse import parse_qs, quote, urlsplit

import pytest
from tests.e2e.conftest import LOST_ROLES, expect_answer, noting_page, visits
from tests.server.server_process import Process

HOSTILE = '<img src=x onerror="window.pwned=1">\u202ereversed'
CLOSED = "http://127.0.0.1:9"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """An open server of this machine alone, so that it may call this machine."""
    pytest.importorskip("fastapi", reason="the extra server is not installed")
    process = Process({"data_dir": tmp_path_factory.mktemp("server")})
    yield process
    process.stop()


@pytest.fixture
def visit(chromium):
    """A function that opens a page; at the end nothing foreign ran, was asked for or stuck out."""
    opened = []

    def open_page(server, address, *, width=1280, scheme="light", expects_refusals=False):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = noting_page(context, server.address)
        page.expects_refusals = expects_refusals
        opened.append(page)
        page.set_default_timeout(60_000)
        page.goto(server.address + address)
        return page

    yield open_page
    for page in opened:
        # Where a test has a key, what the server refuses is expected.
        refusals = ("status of 401", "status of 403") if page.expects_refusals else ()
        assert [text for text in page.complaints if not any(word in text for word in refusals)] == []
        assert page.evaluate("window.pwned") is None
        assert page.evaluate(OVERFLOW) <= 0
        page.context.close()


@pytest.fixture
def admin_headers(server):
    """Headers that the test fills in with its first key; at the end all keys go, which opens the server."""
    headers = {}
    yield headers
    keys = server.call("GET", "/api-keys", headers=headers)[1]
    for key in sorted(keys, key=lambda one: one["role"] == "ADMIN"):  # itself last
        assert server.call("DELETE", f"/api-keys/{key['id']}", headers=headers)[0] == 204


def add_project(server, name):
    server.call("POST", f"/projects/{quote(name, safe='')}/runs", {"experimentName": "answers"})
    return next(each["id"] for each in server.call("GET", "/projects")[1] if each["name"] == name)


def test_each_page_opens_by_its_address_and_has_no_barriers(visit, server, find_barriers):
    name = f'{HOSTILE} a/b % "'
    project = add_project(server, name)
    body = {"baseUrl": f"{CLOSED}/v1", "model": "m" * 90, "credentialRef": "DOKIMOS_CRED_X"}
    server.call("POST", "/llm-connections", {"name": f"{HOSTILE}{'x' * 90}", **body})
    server.call("POST", f"/projects/{project}/alert-webhooks", {"url": f"{CLOSED}/{'x' * 300}"})
    own = f"/projects/{quote(name, safe='')}"
    page = visit(server, "/", scheme="dark")
    for address in (
        "/llm-connections?edit=new",
        "/api-keys?make=yes",
        "/audit-log",
        "/settings?all=yes",
        "/validity",
        f"{own}/alerts?edit=new",
        f"{own}/settings",
    ):
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(server.address + address)
        page.wait_for_load_state("networkidle")
        page.wait_for_selector("main h1")
        assert page.title().endswith(" · dokimos")
        assert page.locator("main .skeleton").count() == 0, address
        assert find_barriers(page) == []
        assert page.evaluate(OVERFLOW) <= 0, address
        page.set_viewport_size({"width": 360, "height": 800})
        assert page.evaluate(LOST_ROLES) == []
        assert find_barriers(page) == []
        assert page.evaluate(OVERFLOW) <= 0, address


def test_a_connection_is_added_tested_moved_to_another_host_and_deleted(visit, server):
    page = visit(server, "/llm-connections")
    page.get_by_role("button", name="Add connection").click()
    form = page.get_by_role("form", name="New connection")
    form.get_by_label("Name", exact=True).fill("judge")
    form.get_by_label("Model", exact=True).fill("gpt-x")
    form.get_by_label("Base URL").fill(f"{CLOSED}/v1")
    form.get_by_label("An environment variable of the server").check()
    form.get_by_label("Environment variable", exact=True).fill("DOKIMOS_CRED_JUDGE")
    form.get_by_role("button", name="Test connection").click()
    form.get_by_text("The test failed: the variable is not set, or not for this host.").wait_for()
    expect_answer(page, "Test connection", "The test failed: the variable is not set")
    form.get_by_role("button", name="Save connection").click()
    row = page.get_by_role("row").filter(has_text="gpt-x")
    row.get_by_text("DOKIMOS_CRED_JUDGE of the server is not set").wait_for()

    row.get_by_role("button", name="Edit").click()
    form = page.get_by_role("form", name="Change connection")
    form.get_by_label("Base URL").fill("http://127.0.0.1:10/v1")
    form.get_by_text("The stored one is for 127.0.0.1:9 and goes to no other host.").wait_for()
    assert form.get_by_role("button", name="Save connection").is_disabled()
    form.get_by_label("An environment variable of the server").check()
    form.get_by_text("Prices and limits").click()
    form.get_by_label("Input price").fill("0.5")
    form.get_by_label("Output price").fill("1")
    form.get_by_role("button", name="Save connection").click()
    row.get_by_text("$0.5 in, $1 out").wait_for()
    (stored,) = server.call("GET", "/llm-connections?search=judge")[1]
    assert (stored["baseUrl"], stored["credentialRef"]) == ("http://127.0.0.1:10/v1", "DOKIMOS_CRED_JUDGE")

    row.get_by_role("button", name="Delete").click()
    page.keyboard.press("Escape")
    row.get_by_role("button", name="Delete").click()
    row.get_by_role("group").get_by_role("button", name="Delete").click()
    page.get_by_role("status").get_by_text("judge is deleted").wait_for()
    assert server.call("GET", "/llm-connections?search=judge")[1] == []


def test_a_webhook_is_added_tried_and_deleted_with_its_log(visit, server):
    project = add_project(server, "called")
    page = visit(server, "/projects/called/alerts")
    page.get_by_role("button", name="Add webhook").click()
    form = page.get_by_role("form", name="New webhook")
    form.get_by_label("URL").fill(f"{CLOSED}/hook")
    form.get_by_label("Secret").fill("a secret")
    form.get_by_label("Payload format").select_option("generic")
    form.get_by_label("Key 1", exact=True).fill("content")
    form.get_by_role("button", name="Save webhook").click()
    row = page.get_by_role("row").filter(has_text="signed with a secret")
    row.get_by_role("button", name="Send test").click()
    page.get_by_role("main").get_by_text("The test did not arrive.").wait_for()
    expect_answer(page, "Send test", "The test did not arrive.")
    row.get_by_role("button", name="Log").click()
    log = page.get_by_role("region", name="Delivery log")
    log.get_by_text("✗ given up").wait_for()
    assert "1 attempt" in log.inner_text()
    log.get_by_role("button", name="Arrived").click()
    log.get_by_text("Nothing of this kind was sent").wait_for()
    assert parse_qs(urlsplit(page.url).query)["status"] == ["DELIVERED"]

    row.get_by_role("button", name="Disable").click()
    row.get_by_text("– disabled").wait_for()
    (stored,) = server.call("GET", f"/projects/{project}/alert-webhooks")[1]
    assert (stored["fields"], stored["hasSecret"], stored["enabled"]) == ({"content": "message"}, True, False)
    row.get_by_role("button", name="Delete").click()
    row.get_by_role("group").get_by_role("button", name="Delete").click()
    page.get_by_text("Nobody is called").wait_for()
    assert server.call("GET", f"/projects/{project}/alert-webhooks")[1] == []


def test_the_audit_log_keeps_its_filters_in_the_address(visit, server):
    server.call("DELETE", "/runs/00000000-0000-7000-8000-000000000000")
    page = visit(server, "/audit-log")
    page.get_by_role("button", name="✗ Refused").click()
    page.get_by_text("Who, what and when").click()
    page.get_by_label("Action").fill("run.delete")
    page.keyboard.press("Enter")
    page.wait_for_url("**action=run.delete**")
    page.reload()
    page.locator(".audit-row summary").click()
    facts = page.locator(".audit-row .facts-list").inner_text()
    assert "404" in facts
    assert "127.0.0.1" in facts
    export = page.get_by_role("link", name="Export CSV").get_attribute("href")
    assert export == "/api/v1/audit-log/export?outcome=refused&action=run.delete&format=csv"
    page.get_by_role("button", name="Clear all filters").click()
    page.locator(".audit-row").get_by_text("server.start").first.wait_for()
    assert urlsplit(page.url).query == ""


def test_settings_of_a_project_say_what_they_would_remove_and_change_only_what_was_changed(visit, server):
    add_project(server, "settled")
    page = visit(server, "/projects/settled/settings")
    form = page.get_by_role("form", name="Settings", exact=True)
    with page.expect_response("**/settings?runRetentionDays=30"):
        form.get_by_label("Run retention").fill("30")
    server.call("PATCH", "/projects/settled/settings", {"keepLatestRuns": 7})
    form.get_by_label("Show others’ verdicts to reviewers").select_option("true")
    form.get_by_role("button", name="Save settings").click()
    form.get_by_text("Nothing is changed.").wait_for()
    own = server.call("GET", "/projects/settled/settings")[1]["settings"]
    assert {name: value for name, value in own.items() if value is not None} == {
        "runRetentionDays": 30,
        "keepLatestRuns": 7,
        "blindReview": True,
    }


def test_the_first_key_closes_the_server_and_others_are_told_which_role_they_lack(
    visit, server, admin_headers
):
    page = visit(server, "/api-keys", expects_refusals=True)
    page.get_by_text("This server is open:").wait_for()
    page.get_by_role("button", name="Create key").click()
    page.get_by_role("form", name="New key").get_by_role("button", name="Create key").click()
    panel = page.get_by_role("dialog", name="New API key")
    admin = panel.locator("output").inner_text()
    admin_headers["Authorization"] = f"Bearer {admin}"
    panel.get_by_text("It is shown only once.").wait_for()
    panel.get_by_role("button", name="Sign in with it").click()
    page.locator(".account").get_by_text("admin", exact=True).first.wait_for()
    panel.get_by_role("button", name="I have saved it").click()
    assert admin not in page.content()
    page.reload()
    page.get_by_text("yours").wait_for()
    assert admin not in page.content()

    body = {"name": "reader", "role": "VIEWER", "expiresAt": "2099-01-01T00:00:00Z"}
    reader = server.call("POST", "/api-keys", body, headers=admin_headers)[1]
    page.reload()
    row = page.get_by_role("row").filter(has_text="reader")
    row.get_by_role("button", name="Disable").click()
    row.get_by_role("group").get_by_role("button", name="Disable").click()
    row.get_by_text("– disabled").wait_for()
    row.get_by_role("button", name="Enable").click()
    row.get_by_text("✓ accepted").wait_for()

    page.context.clear_cookies()
    page.goto(f"{server.address}/login?returnTo=/api-keys")
    page.get_by_label("API key").fill(reader["key"])
    page.keyboard.press("Enter")
    page.get_by_text("You may not see this page").wait_for()
    page.get_by_text("This needs the role admin.").wait_for()
    page.get_by_role("link", name="LLM connections").click()
    page.get_by_text(
        "Adding, changing and testing connections needs the role editor. Yours is viewer"
    ).wait_for()
    assert page.get_by_role("button", name="Add connection").count() == 0


def test_two_who_write_instructions_for_reviewers_do_not_overwrite_each_other_unseen(
    chromium, server, find_barriers
):
    add_project(server, "told")
    path = "/projects/told/review-instructions"
    with visits(chromium, server.address, "status of 412") as open_page:
        page = open_page("/projects/told/settings")
        form = page.get_by_role("form", name="Instructions for reviewers")
        text = form.get_by_label("Text")
        save = form.get_by_role("button", name="Save instructions")
        text.fill("**mine**")
        with page.expect_response(f"**{path}"):
            save.click()
        page.get_by_role("status").get_by_text("The instructions for reviewers are saved").wait_for()
        assert save.is_disabled()

        text.fill("mine, later")
        server.call("PUT", path, {"text": "theirs"})
        with page.expect_response(lambda answer: answer.status == 412):
            save.click()
        form.get_by_text("somebody else has changed it since you opened it").wait_for()
        form.get_by_text("What they have saved", exact=True).click()
        form.get_by_text("theirs", exact=True).wait_for()
        assert text.input_value() == "mine, later"
        assert find_barriers(page) == []
        assert server.call("GET", path)[1]["text"] == "theirs"
        with page.expect_response(f"**{path}"):
            form.get_by_role("button", name="Save mine over it").click()
        page.get_by_text("Save mine over it").wait_for(state="detached")
        assert server.call("GET", path)[1]["text"] == "mine, later"

        text.fill("x" * 20_003)
        form.get_by_text("3 characters too many: 20,000 are allowed.").wait_for()
        assert save.is_disabled()
        form.get_by_role("button", name="Undo the changes").click()
        assert text.input_value() == "mine, later"
