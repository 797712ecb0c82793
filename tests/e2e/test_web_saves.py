"""What is typed while a save is under way is neither lost nor taken for saved, and refusals lose nothing."""

import pytest
from tests.e2e.conftest import visits

LARGE = "larger than the server takes"


@pytest.fixture(scope="module")
def server(start_server):
    server = start_server()
    server.call("POST", "/projects/shop/runs", {"experimentName": "answers"})
    return server


@pytest.fixture(scope="module")
def project(server):
    return server.call("GET", "/projects")[1][0]["id"]


@pytest.fixture
def visit(chromium, server):
    with visits(chromium, server.address, "status of 413", "status of 500", "status of 409") as open_page:
        yield open_page


def hold_changes(page, path):
    """Return a list that gets each changing request to a path; the test lets it go on."""
    held = []

    def hold(route):
        if route.request.method == "GET":
            route.continue_()
        else:
            held.append(route)

    page.route(path, hold)
    return held


CONNECTION = {"baseUrl": "https://models.example/v1", "model": "m", "credentialRef": "DOKIMOS_CRED_X"}
ALERT = {"name": "first", "kind": "CHANGE", "metric": "ERROR_RATE", "reference": 0.1}


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "changed"])
@pytest.mark.parametrize(
    ("made_at", "page_of", "path", "body", "label", "button", "saving", "name"),
    [
        (
            "/projects/{project}/trace-alerts", "/trace-alerts?project=shop&{edit}", "**/trace-alerts**",
            ALERT, "Name of the alert", "the alert", "Saving …", "name",
        ),
        (
            "/llm-connections", "/llm-connections?{edit}", "**/llm-connections**",
            {"name": "first", **CONNECTION}, "Name", "Save connection", "Saving…", "name",
        ),
        (
            "/projects/{project}/alert-webhooks", "/projects/shop/alerts?{edit}", "**/alert-webhooks**",
            {"url": "https://first.example/hook"}, "URL", "Save webhook", "Saving…", "url",
        ),
    ],
    ids=["alert", "connection", "webhook"],
)  # fmt: skip
def test_what_is_typed_while_a_form_is_saved_stays_in_it_and_is_not_saved(
    visit, server, project, is_new, made_at, page_of, path, body, label, button, saving, name
):
    made_at = made_at.format(project=project)
    if is_new:
        edit = "edit=true" if "alerts?p" in page_of else "edit=new"
    else:
        made = server.call("POST", made_at, body)[1]["id"]
        edit = f"alert={made}&edit=true" if "alerts?p" in page_of else f"edit={made}"
    page = visit(page_of.format(edit=edit))
    form = page.locator("main form").first
    field = form.get_by_label(label, exact=True)
    sent, typed = (
        ("https://sent.example/", "https://sent.example/more") if name == "url" else ("sent", "sent more")
    )
    field.fill(sent)
    if is_new and label == "Name":
        form.get_by_label("Model", exact=True).fill("m")
        form.get_by_label("Base URL").fill("https://models.example/v1")
        form.get_by_label("An environment variable of the server").check()
        form.get_by_label("Environment variable", exact=True).fill("DOKIMOS_CRED_X")
    held = hold_changes(page, path)
    form.get_by_role("button", name=button).click()
    form.get_by_role("button", name=saving).wait_for()
    field.fill(typed)
    with page.expect_response(lambda answer: answer.request.method in {"POST", "PUT"}):
        held[0].continue_()
    page.get_by_role("status").get_by_text("saved").first.wait_for()
    page.unroute(path)

    form.get_by_role("button", name=saving).wait_for(state="detached")
    assert field.input_value() == typed
    assert sent in [one[name] for one in server.call("GET", made_at)[1]], "only what was sent is stored"
    form.get_by_role("button", name=button).click()
    form.wait_for(state="detached")
    (stored,) = [one for one in server.call("GET", made_at)[1] if one[name].startswith(sent)]
    assert stored[name] == typed, "it replaces what was saved before, rather than a second one"
    server.call("DELETE", f"{made_at}/{stored['id']}")


def test_a_secret_that_is_typed_while_a_webhook_is_saved_is_not_lost(visit, server, project):
    path = f"/projects/{project}/alert-webhooks"
    made = server.call("POST", path, {"url": "https://hooks.example/", "secret": "before"})[1]["id"]
    page = visit(f"/projects/shop/alerts?edit={made}")
    form = page.get_by_role("form", name="Change webhook")
    secret = form.get_by_label("Secret", exact=True)
    secret.fill("half")
    held = hold_changes(page, "**/alert-webhooks/*")
    form.get_by_role("button", name="Save webhook").click()
    form.get_by_role("button", name="Saving…").wait_for()
    secret.fill("half and whole")
    held[0].continue_()

    page.get_by_role("status").get_by_text("The webhook is saved").wait_for()
    form.get_by_role("button", name="Save webhook").click()
    form.get_by_role("button", name="Saving…").wait_for()
    assert held[1].request.post_data_json["secret"] == "half and whole"
    held[1].continue_()
    form.wait_for(state="detached")
    server.call("DELETE", f"{path}/{made}")


def test_a_key_that_is_typed_while_a_connection_is_saved_is_not_lost(visit, server):
    made = server.call("POST", "/llm-connections", {"name": "judge", **CONNECTION})[1]["id"]
    page = visit(f"/llm-connections?edit={made}")
    form = page.get_by_role("form", name="Change connection")
    form.get_by_label("Another key, kept on the server").check()
    form.get_by_label("API key of the model").fill("half")
    answer = server.call("GET", f"/llm-connections/{made}")[1]
    held = hold_changes(page, "**/llm-connections/*")
    form.get_by_role("button", name="Save connection").click()
    form.get_by_role("button", name="Saving…").wait_for()
    form.get_by_label("API key of the model").fill("half and whole")
    held[0].fulfill(json=answer)  # the server of the test has nothing to encrypt a key with

    page.get_by_role("status").get_by_text("judge is saved").wait_for()
    form.get_by_role("button", name="Save connection").click()
    form.get_by_role("button", name="Saving…").wait_for()
    assert held[1].request.post_data_json["apiKey"] == "half and whole"
    held[1].fulfill(json=answer)
    form.wait_for(state="detached")
    server.call("DELETE", f"/llm-connections/{made}")


@pytest.mark.parametrize(
    ("status", "said"),
    [(409, "not saved. At most so much."), (413, LARGE), (500, "the server answered 500")],
)
def test_what_the_server_refuses_stays_as_it_is_typed_and_is_sent_again(visit, server, status, said):
    page = visit("/projects/shop/settings")
    form = page.get_by_role("form", name="Instructions for reviewers")
    text = form.get_by_label("Text")
    refusal = {"status": status, "json": {"message": "At most so much."}}
    path = "**/review-instructions"
    page.route(
        path,
        lambda route: route.fulfill(**refusal) if route.request.method == "PUT" else route.continue_(),
    )
    text.fill(f"refused with {status}")
    form.get_by_role("button", name="Save instructions").click()

    form.get_by_role("alert").get_by_text(said).wait_for()
    assert text.input_value() == f"refused with {status}"
    form.get_by_text("Not saved yet").wait_for()
    page.unroute(path)
    form.get_by_role("alert").get_by_role("button").first.click()
    page.get_by_role("status").get_by_text("The instructions for reviewers are saved").wait_for()
    assert server.call("GET", "/projects/shop/review-instructions")[1]["text"] == f"refused with {status}"


def test_a_file_that_is_too_large_is_refused_with_the_reason_and_stays_chosen(visit, server):
    server.call("POST", "/datasets", {"name": "large"})
    page = visit("/datasets/large")
    refusal = {"status": 413, "json": {"message": "At most 1 MiB."}}
    page.route(
        "**/datasets/large/versions*",
        lambda route: route.fulfill(**refusal) if route.request.method == "POST" else route.continue_(),
    )
    page.get_by_role("button", name="Upload a version").click()
    form = page.get_by_role("form", name="Upload a version")
    row = b'{"inputs": {"input": "a question"}}\n'
    form.get_by_label("File").set_input_files({"name": "a.jsonl", "mimeType": "", "buffer": row})
    form.get_by_label("Description").fill("a note")
    form.get_by_role("button", name="Upload", exact=True).click()

    form.get_by_role("alert").get_by_text(f"{LARGE}. At most 1 MiB.").wait_for()
    assert form.get_by_label("Description").input_value() == "a note"
    assert form.get_by_label("File").evaluate("field => field.files[0].name") == "a.jsonl"


def test_a_stream_of_events_that_ends_in_the_middle_leaves_the_page_to_look_by_itself(visit, server):
    run = server.call("POST", "/projects/live/runs", {"experimentName": "answers"})[1]["runId"]
    calls = []

    def answer(route):
        calls.append(route.request.url)
        half = 'event: ready\nid: 1\ndata: {}\n\nevent: run.items\ndata: {"runI'
        if len(calls) == 1:
            route.fulfill(status=200, content_type="text/event-stream", body=half)
        else:
            route.fulfill(status=204)  # which browsers do not ask again

    page = visit("/")
    page.route("**/api/v1/events**", answer)
    page.goto(f"{server.address}/runs/{run}")
    page.get_by_role("heading", level=1).wait_for()
    item = {"inputs": {"input": "a question"}, "actualOutputs": {"output": "an answer"}}
    server.call("POST", f"/runs/{run}/items", {"items": [item]})

    page.get_by_text("a question").first.wait_for(timeout=20_000)
    assert len(calls) <= 2
