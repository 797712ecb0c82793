"""What is typed into forms of settings, rules and alerts waits in the page until it is saved."""

import pytest
from tests.e2e.conftest import visits

KEY = "a-key-of-thirty-two-characters-1"
AUTH = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def server(start_server):
    server = start_server(api_key=KEY, require_auth_for_reads=True)
    server.call("POST", "/projects/shop/runs", {"experimentName": "answers"}, headers=AUTH)
    return server


@pytest.fixture
def visit(chromium, server):
    """A function that opens a page of somebody who has signed in with a key."""
    with visits(chromium, server.address, "status of 401") as open_page:

        def sign_in(address, **options):
            page = open_page(f"/login?returnTo={address.replace('?', '%3F').replace('&', '%26')}", **options)
            give_key(page, KEY)
            page.locator(".account").get_by_text("admin").wait_for(state="attached")
            return page

        yield sign_in


def give_key(place, key):
    place.get_by_label("API key").fill(key)
    place.get_by_label("API key").press("Enter")


def go_elsewhere_and_back(page, heading):
    """By a link of the menu, which loads nothing anew, and the browser's way back."""
    burger = page.get_by_role("button", name="Menu")
    if burger.is_visible():
        burger.click()
    page.get_by_role("navigation").get_by_role("link", name="Datasets").click()
    page.get_by_role("heading", name="Datasets", level=1).wait_for()
    page.go_back()
    page.get_by_role("heading", name=heading).wait_for()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (360, "light")])
def test_instructions_wait_until_they_are_saved_or_given_up(visit, server, find_barriers, width, scheme):
    page = visit("/projects/shop/settings", width=width, scheme=scheme)
    text = page.get_by_role("form", name="Instructions for reviewers").get_by_label("Text")
    days = page.get_by_label("Run retention")
    text.fill("half a thought")
    days.fill("30")
    go_elsewhere_and_back(page, "Settings of shop")
    text.wait_for()
    assert (text.input_value(), days.input_value()) == ("half a thought", "30")
    assert page.get_by_text("Not saved yet").count() == 2
    assert find_barriers(page) == []

    with page.expect_event("dialog") as asked:
        page.evaluate("location.reload()")
    assert asked.value.type == "beforeunload"  # the test says no
    page.complaints.remove("dialog")
    assert text.input_value() == "half a thought"
    for undo in page.get_by_role("button", name="Undo the changes").all()[::-1]:
        undo.click()
    page.reload()
    text.wait_for()
    assert (text.input_value(), days.input_value()) == ("", "")


def test_a_save_that_is_answered_elsewhere_keeps_what_is_typed_meanwhile(visit, server):
    page = visit("/projects/shop/settings")
    form = page.get_by_role("form", name="Instructions for reviewers")
    held = []
    page.route(
        "**/review-instructions",
        lambda route: held.append(route) if route.request.method == "PUT" else route.continue_(),
    )
    form.get_by_label("Text").fill("saved")
    form.get_by_role("button", name="Save instructions").click()
    form.get_by_role("button", name="Saving…").wait_for()
    form.get_by_label("Text").fill("saved, and more")
    page.get_by_role("link", name="Datasets").first.click()
    page.get_by_role("heading", name="Datasets", level=1).wait_for()
    with page.expect_response("**/review-instructions"):
        held[0].continue_()
    page.get_by_text("The instructions for reviewers are saved").wait_for()
    page.unroute("**/review-instructions")

    page.go_back()
    page.get_by_role("heading", name="Settings of shop").wait_for()
    assert form.get_by_label("Text").input_value() == "saved, and more"
    form.get_by_role("button", name="Save instructions").click()
    page.get_by_text("Not saved yet").wait_for(state="detached")
    answer = server.call("GET", "/projects/shop/review-instructions", headers=AUTH)[1]
    assert answer["text"] == "saved, and more"
    server.call("PUT", "/projects/shop/review-instructions", {"text": ""}, headers=AUTH)


def test_what_is_typed_waits_for_the_one_who_signed_out_and_for_nobody_else(visit, server):
    second = server.call("POST", "/api-keys", {"name": "ben", "role": "EDITOR"}, headers=AUTH)[1]["key"]
    page = visit("/trace-alerts?project=shop&edit=true")
    name = page.get_by_label("Name of the alert")
    name.fill("half an alert")

    def sign_out_and_in(key):
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/login")
        give_key(page, key)
        page.wait_for_url(f"{server.address}/")
        page.get_by_role("navigation").get_by_role("link", name="Alerts", exact=True).click()
        page.get_by_label("Project").select_option("shop")
        page.get_by_role("button", name="New alert").click()
        page.get_by_role("heading", name="New alert").wait_for()

    sign_out_and_in(KEY)
    assert name.input_value() == "half an alert"
    page.get_by_text("This is what you typed before.").wait_for()

    sign_out_and_in(second)
    assert name.input_value() == ""
    assert page.get_by_text("This is what you typed before.").count() == 0


def test_a_session_that_ends_while_an_alert_is_typed_loses_nothing(visit, server):
    page = visit("/trace-alerts?project=shop&edit=true")
    page.get_by_label("Name of the alert").fill("late")
    server.call("DELETE", "/sessions", headers=AUTH)
    page.get_by_role("button", name="Create the alert").click()
    page.get_by_role("alert").get_by_text("nobody is signed in any more").wait_for()

    give_key(page.get_by_role("region", name="Sign in"), KEY)
    page.get_by_role("region", name="Sign in").wait_for(state="detached")
    page.get_by_role("button", name="Save again").click()

    page.get_by_role("heading", name="late").wait_for()
    assert "alert=" in page.url, "it has been created, so that its page is shown"


def test_an_alert_that_is_saved_meanwhile_does_not_call_back_who_went_elsewhere(visit, server):
    page = visit("/trace-alerts?project=shop&edit=true")
    held = []
    page.route(
        "**/trace-alerts",
        lambda route: held.append(route) if route.request.method == "POST" else route.continue_(),
    )
    page.get_by_label("Name of the alert").fill("slow to be saved")
    page.get_by_role("button", name="Create the alert").click()
    page.get_by_role("button", name="Saving …").wait_for()
    page.get_by_role("navigation").get_by_role("link", name="Datasets").click()
    page.get_by_role("heading", name="Datasets", level=1).wait_for()
    held[0].continue_()

    page.get_by_text("The alert slow to be saved is saved.").wait_for()
    assert page.url == f"{server.address}/datasets"
    page.go_back()
    page.get_by_role("heading", name="New alert").wait_for()
    assert page.get_by_label("Name of the alert").input_value() == ""


def test_a_rule_waits_until_it_is_given_up(visit):
    page = visit("/trace-eval-rules?project=shop&edit=true")
    name, criteria = page.get_by_label("Name of the rule"), page.get_by_label("Criteria")
    kept = page.get_by_text("This is what you typed before.")
    name.fill("polite")
    criteria.fill("It greets.")
    go_elsewhere_and_back(page, "New rule")
    assert (name.input_value(), criteria.input_value()) == ("polite", "It greets.")
    kept.wait_for()

    page.get_by_role("button", name="Discard it").click()
    assert (name.input_value(), kept.count()) == ("", 0)
    name.fill("again")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="New rule").click()
    assert (name.input_value(), kept.count()) == ("", 0)


@pytest.mark.parametrize(
    ("address", "heading", "field", "text", "secret"),
    [
        ("/llm-connections?edit=new", "LLM connections", "Name", "judge", "API key of the model"),
        ("/projects/shop/alerts?edit=new", "Alert webhooks", "URL", "https://hooks.example", "Secret"),
        ("/api-keys?make=yes", "API keys", "Name", "ci", None),
    ],
)
def test_forms_of_settings_wait_without_their_secrets(visit, address, heading, field, text, secret):
    page = visit(address)
    form = page.locator("main form.set-form")
    form.get_by_label(field, exact=True).fill(text)
    if secret is not None:
        form.get_by_label(secret, exact=True).fill("not to be kept")
    go_elsewhere_and_back(page, heading)

    form.get_by_text("This is what you typed before.").wait_for()
    assert form.get_by_label(field, exact=True).input_value() == text
    if secret is not None:
        assert form.get_by_label(secret, exact=True).input_value() == ""
    form.get_by_role("button", name="Cancel").click()
    form.wait_for(state="detached")


def test_a_webhook_is_not_saved_unsigned_where_its_secret_was_typed_before(visit, server, find_barriers):
    page = visit("/projects/shop/alerts?edit=new", width=360)
    form = page.locator("main form.set-form")
    form.get_by_label("URL").fill("https://hooks.example")
    form.get_by_label("Secret", exact=True).fill("not to be kept")
    go_elsewhere_and_back(page, "Alert webhooks")
    form.get_by_text("Give the secret again.").wait_for()
    assert find_barriers(page) == []

    form.get_by_role("button", name="Save webhook").click()
    assert form.get_by_label("Secret", exact=True).evaluate("field => field.validity.valueMissing")
    form.get_by_label("Save it without a secret").check()
    assert form.get_by_label("Secret", exact=True).evaluate("field => field.validity.valid")
    form.get_by_label("Secret", exact=True).fill("again")
    form.get_by_text("Give the secret again.").wait_for(state="detached")
    form.get_by_role("button", name="Cancel").click()
    form.wait_for(state="detached")


def test_the_draft_of_an_alert_that_is_deleted_asks_for_nothing(visit, server):
    (project,) = server.call("GET", "/projects", headers=AUTH)[1]
    body = {"name": "brief", "kind": "CHANGE", "metric": "ERROR_RATE", "reference": 0.1}
    path = f"/projects/{project['id']}/trace-alerts"
    alert = server.call("POST", path, body, headers=AUTH)[1]["id"]
    page = visit(f"/trace-alerts?project=shop&alert={alert}&edit=true")
    more = page.get_by_text("Filter traces")
    more.click()
    page.get_by_label("Model").fill("m")
    page.get_by_label("Model").fill("")
    assert page.get_by_label("Model").is_visible()
    page.get_by_label("Name of the alert").fill("half a name")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Alerts", exact=True).click()
    page.get_by_label("Project").select_option("shop")
    page.get_by_role("link", name="brief").click()
    page.get_by_role("button", name="Delete …").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_text("is deleted, with its history").wait_for()

    page.reload()  # a dialog would be a complaint
    page.get_by_role("heading", name="Alerts on traces").wait_for()


def test_what_is_typed_is_out_of_sight_of_who_looks_without_a_key(chromium, start_server):
    server = start_server(api_key=KEY)
    server.call("POST", "/projects/shop/runs", {"experimentName": "answers"}, headers=AUTH)
    with visits(chromium, server.address, "status of 401") as open_page:
        page = open_page("/login?returnTo=%2Fprojects%2Fshop%2Fsettings")
        give_key(page, KEY)
        days = page.get_by_label("Run retention")
        days.fill("30")
        page.get_by_text("Not saved yet").wait_for()
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url("**/login")
        page.go_back()
        page.get_by_role("heading", name="Settings of shop").wait_for()
        page.get_by_role("button", name="Sign out").wait_for(state="detached")
        assert days.input_value() == ""

        page = open_page("/trace-eval-rules?project=shop&edit=true")
        page.get_by_text("Making rules needs the role editor.").wait_for()
        assert page.get_by_label("Name of the rule").count() == 0


def offer_provider(page, signed_in_with="oidc"):
    """Let the page think that people can sign in through a provider, and how somebody did."""

    def answer(route):
        if route.request.method == "DELETE":
            route.fulfill(status=204)
            return
        session = route.fetch()
        ways = {"signInWays": ["key", "oidc"], "signedInWith": signed_in_with}
        route.fulfill(response=session, json={**session.json(), **ways})

    page.route("**/api/v1/session", answer)


@pytest.mark.parametrize("width", [1280, 360])
def test_signing_out_through_a_provider_asks_for_what_is_typed_before_the_session_ends(
    visit, server, find_barriers, width
):
    page = visit("/login", width=width)
    calls = []

    def end_session(route):
        calls.append(route.request.method)
        route.fulfill(json={"redirectTo": f"{server.address}/openapi.json"})

    offer_provider(page)
    page.route("**/session/oidc/sign-out", end_session)
    page.goto(f"{server.address}/projects/shop/settings")
    page.get_by_label("Run retention").fill("30")
    if width == 360:
        page.get_by_role("button", name="Menu").click()
    page.get_by_role("button", name="Sign out").click()
    asked = page.get_by_role("group", name="what you typed and did not save is lost")
    page.locator("button:focus").get_by_text("Stay").wait_for()
    assert find_barriers(page) == []
    assert calls == []
    page.keyboard.press("Enter")
    page.locator("button:focus").get_by_text("Sign out").wait_for()
    assert page.get_by_label("Run retention").input_value() == "30"

    page.keyboard.press("Enter")
    asked.get_by_role("button", name="Sign out and discard it").click()
    page.wait_for_url("**/openapi.json")  # a question of the browser would be a complaint
    assert calls == ["POST"]


def test_signing_out_with_a_key_asks_nothing_though_others_sign_in_through_a_provider(visit, server):
    page = visit("/login")
    offer_provider(page, signed_in_with="key")
    page.goto(f"{server.address}/projects/shop/settings")
    page.get_by_label("Run retention").fill("30")
    with page.expect_request(lambda asked: asked.method == "DELETE") as asked:
        page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login")

    assert asked.value.url.endswith("/api/v1/session")  # nothing to ask: what is typed waits in the page
    page.unroute_all(behavior="wait")


def test_signing_out_through_a_provider_asks_nothing_where_nothing_is_typed(visit, server):
    page = visit("/login")
    page.route("**/session/oidc/sign-out", lambda route: route.fulfill(json={"redirectTo": None}))

    offer_provider(page)
    page.goto(f"{server.address}/datasets")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/login")
    assert page.get_by_role("dialog").count() == 0
    page.unroute_all(behavior="wait")
