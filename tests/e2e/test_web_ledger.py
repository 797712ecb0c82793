"""Pages of what is counted and not overwritten: judge calls, users of a dataset, reviewers, alerts."""

import json
import time
import uuid
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from tests.e2e.conftest import noting_page
from tests.server.counting_endpoint import CountingEndpoint
from tests.server.server_process import Process, execute, wait_until

from dokimos.server._services.trace_alerts.alert_config import AlertConfig, AlertKind, Direction, Metric
from dokimos.server._services.trace_alerts.change_watch import ChangeWatch
from dokimos.server._services.trace_alerts.observations import Observation

HOSTILE = '<img src=x onerror="window.pwned=1">\u202ereversed'
PROJECT = f'{HOSTILE} a/b % "'
OWN = f"/projects/{quote(PROJECT, safe='')}"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def server(folder):
    """An open server of this machine alone, so that it may call this machine."""
    pytest.importorskip("fastapi", reason="the extra server is not installed")
    process = Process(
        {"data_dir": folder, "encryption_keys": ["passphrase"], "judging": {"poll_seconds": 0.05}}
    )
    yield process
    process.stop()


@pytest.fixture(scope="module")
def judged(server, folder):
    """A run that a model has judged, with one call that failed and one of which nobody knows how it ended."""
    run = server.call("POST", f"{OWN}/runs", {"experimentName": "answers", "name": HOSTILE})[1]["runId"]
    items = [{"inputs": {"q": f"{n}"}, "actualOutputs": {"a": f"{HOSTILE} {n}"}} for n in range(3)]
    server.call("POST", f"/runs/{run}/items", {"items": items})
    server.call("PATCH", f"/runs/{run}", {"status": "SUCCESS"})
    with CountingEndpoint('{"reason": "fine", "score": 1}') as endpoint:
        connection = server.call("POST", "/llm-connections", {
            "name": HOSTILE, "baseUrl": endpoint.url, "model": "judge-1", "protocol": "CHAT_COMPLETIONS",
            "apiKey": "sk-not-real-123", "inputPricePerMillion": 1000, "outputPricePerMillion": 1000,
        })[1]  # fmt: skip
        job = server.call("POST", f"/runs/{run}/judge-jobs", {
            "evaluatorName": "polite", "connectionId": connection["id"], "criteria": "Is it polite?",
            "evaluationParams": ["ACTUAL_OUTPUT"], "minScore": 0, "maxScore": 1,
            "budget": {"maxCalls": 50},
        })[1]  # fmt: skip
        path = f"/runs/{run}/judge-jobs/{job['id']}"
        wait_until(lambda: server.call("GET", path)[1]["completedAt"] is not None, "the job is over")
    for status in ("FAILED", "LOST"):
        execute({"data_dir": folder}, f"""
            INSERT INTO judge_calls (id, job_id, project_id, key, identity, status, calls, tokens, nano_usd,
                problem, lease, created_at, answered_at)
            SELECT x'{uuid.uuid4().hex}', job_id, project_id, '{status}', identity, '{status}', 1, 0, 0,
                '500 {HOSTILE}', lease, created_at - 1, created_at FROM judge_calls LIMIT 1""")  # fmt: skip
    return {"run": run, "job": job["id"], "connection": connection["id"]}


@pytest.fixture
def visit(chromium, server):
    """A function that opens a page; at the end nothing foreign ran, was asked for or stuck out."""
    opened = []

    def open_page(address, *, width=1280, scheme="light", expects=()):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = noting_page(context, server.address)
        page.expects = expects
        opened.append(page)
        page.goto(server.address + address)
        page.locator("main h1").first.wait_for()
        return page

    yield open_page
    for page in opened:
        assert [text for text in page.complaints if not any(word in text for word in page.expects)] == []
        assert page.evaluate("window.pwned") is None
        assert page.evaluate(OVERFLOW) <= 0
        page.context.close()


def test_judge_calls_are_reached_from_their_job_filtered_in_the_address_and_summed(
    visit, judged, find_barriers
):
    page = visit(f"/runs/{judged['run']}", scheme="dark")
    page.get_by_role("link", name="3 judge calls").click()
    page.get_by_role("heading", name="Judge calls").wait_for()
    calls = page.get_by_role("region", name="Calls")
    calls.get_by_text("5 calls shown").wait_for()
    assert parse_qs(urlsplit(page.url).query)["job"] == [judged["job"]]
    assert page.get_by_role("img", name="Spent on each of the last 30 days: $0.0270 today").count() == 1
    assert page.get_by_text("$0.0270 spent today").count() == 1
    assert page.get_by_role("row").filter(has_text="50 calls").get_by_text("succeeded").count() == 1

    calls.get_by_role("button", name="! lost").click()
    calls.get_by_text("1 call shown").wait_for()
    assert "⟨U+202E⟩reversed" in calls.get_by_role("row").last.inner_text()
    assert parse_qs(urlsplit(page.url).query)["state"] == ["LOST"]
    page.reload()
    calls.get_by_text("1 call shown").wait_for()
    calls.get_by_label("Connection").select_option(judged["connection"])
    calls.get_by_role("button", name="✗ failed").click()
    calls.get_by_text("Calls, of these").wait_for()
    page.get_by_role("button", name="Tokens").click()
    page.get_by_role("img", name="27 tokens today").wait_for()
    assert find_barriers(page) == []
    calls.get_by_role("button", name="… in flight").click()
    calls.get_by_text("No call is like this").wait_for()
    calls.get_by_role("button", name="Show all calls").click()
    calls.get_by_text("5 calls shown").wait_for()
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate(OVERFLOW) <= 0


def test_a_dataset_names_the_runs_that_used_it_or_one_version_of_it(visit, server):
    server.call("POST", "/datasets", {"name": "orders"})
    for _ in range(2):
        server.call("POST", "/datasets/orders/versions", {"items": [{"inputs": {"q": "?"}}]})
    body = {"experimentName": "answers", "datasetName": "orders", "datasetVersion": 1}
    run = server.call("POST", f"{OWN}/runs", body)[1]["runId"]
    page = visit("/datasets/orders")
    page.get_by_text("Runs that used it").click()
    page.get_by_text("1 run shown").wait_for()
    page.get_by_role("button", name="Version 2 only").click()
    page.get_by_text("No run has used this version").wait_for()
    page.get_by_role("button", name="All versions").click()
    link = page.locator(f"a[href='/runs/{run}']")
    link.wait_for()
    assert link.count() == 1
    link.click()
    page.wait_for_url(f"**/runs/{run}")


def test_the_review_queue_says_what_each_reviewer_has_done_and_what_is_left(visit, server, judged):
    (first, *_) = server.call("GET", f"/review-queue?runId={judged['run']}")[1]["content"]
    path = f"/runs/{judged['run']}/items/{first['itemId']}/review"
    assert server.call("PUT", path, {"verdict": "CORRECT"})[0] == 200
    page = visit(f"/review-queue?runId={judged['run']}", width=360, scheme="dark")
    page.get_by_role("button", name="Reviewers").click()
    panel = page.get_by_role("region", name="Reviewers")
    panel.get_by_text("1 item reviewed, 2 left").wait_for()
    assert panel.get_by_role("row").last.inner_text().split("\n")[:2] == ["system", "you"]
    panel.get_by_role("button", name="Last 30 days").click()
    page.wait_for_url("**reviewers=30**")
    page.reload()
    panel.get_by_text("1 item reviewed, 2 left").wait_for()
    panel.get_by_role("button", name="Close").click()
    panel.wait_for(state="detached")


def store_evidence(folder, alert):
    """Let an alert have seen a change half an hour ago, without the traces of it."""
    config = AlertConfig(
        kind=AlertKind.CHANGE, metric=Metric.ERROR_RATE, direction=Direction.RISE, reference=0.1
    )
    watch, now = ChangeWatch(config, None, 1.0), int(time.time() * 1e6)
    for place in range(300):
        watch.add(
            Observation(now - (300 - place) * 60_000_000, float(place % (10 if place < 200 else 2) == 0))
        )
    execute({"data_dir": folder}, f"""
        UPDATE trace_alerts SET state = '{json.dumps(watch.state())}', status = '{watch.status}',
            observation_count = 300 WHERE id = x'{alert.replace("-", "")}'""")  # fmt: skip
    return watch


def test_an_alert_draws_how_its_evidence_went(visit, server, folder, judged, find_barriers):
    project = next(each["id"] for each in server.call("GET", "/projects")[1] if each["name"] == PROJECT)
    body = {"name": "more errors", "kind": "CHANGE", "metric": "ERROR_RATE", "reference": 0.1}
    alert = server.call("POST", f"/projects/{project}/trace-alerts", body)[1]["id"]
    address = f"/trace-alerts?project={quote(PROJECT, safe='')}&alert={alert}"
    page = visit(address, scheme="dark")
    page.get_by_text("There is a line as soon as two traces were seen").wait_for()
    watch = store_evidence(folder, alert)
    page.reload()
    picture = page.get_by_role("img", name="Evidence from")
    picture.wait_for()
    assert watch.status == "FIRING"
    assert "it fires at 365.25" in picture.get_attribute("aria-label")
    assert picture.locator("circle").count() == sum(point.is_firing for point in watch.history)
    assert find_barriers(page) == []
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate(OVERFLOW) <= 0


def test_a_form_that_somebody_else_has_overtaken_says_so_and_keeps_what_is_typed(visit, server, judged):
    project = next(each["id"] for each in server.call("GET", "/projects")[1] if each["name"] == PROJECT)
    connection = {
        "name": "shared judge",
        "baseUrl": "http://127.0.0.1:9",
        "model": "m",
        "apiKey": "sk-not-real",
    }
    stored = server.call("POST", "/llm-connections", connection)[1]
    hooks = f"/projects/{project}/alert-webhooks"
    hook = server.call("POST", hooks, {"url": "http://127.0.0.1:9/first"})[1]
    rules = f"/projects/{project}/trace-eval-rules"
    body = {
        "name": "short", "enabled": False, "matchType": "SPAN_NAME", "matchValue": "a",
        "evaluatorName": "Length", "evaluator": {"type": "length", "params": {"max": 20}},
    }  # fmt: skip
    rule = server.call("POST", rules, body)[1]
    of_rule = f"/trace-eval-rules?project={quote(PROJECT, safe='')}&rule={rule['id']}&edit=true"
    for address, label, path, theirs, field in (
        (f"/llm-connections?edit={stored['id']}", "Model", f"/llm-connections/{stored['id']}",
         {**connection, "model": "theirs"}, "model"),
        (f"{OWN}/alerts?edit={hook['id']}", "URL", f"{hooks}/{hook['id']}",
         {"url": "http://127.0.0.1:9/theirs"}, "url"),
        (of_rule, "Value", f"{rules}/{rule['id']}", {**body, "matchValue": "theirs"}, "matchValue"),
    ):  # fmt: skip
        page = visit(address, expects=("status of 412",))
        typed = page.get_by_label(label, exact=True)
        typed.wait_for()
        assert server.call("PUT", path, theirs)[0] == 200
        mine = "http://127.0.0.1:9/mine"
        typed.fill(mine)
        page.get_by_role("button", name="Save").click()
        page.get_by_text("somebody else has changed it since you opened it").wait_for()
        assert typed.input_value() == mine
        assert "theirs" in server.call("GET", path)[1][field]
        overwrite = page.get_by_role("button", name="Save mine over it")
        with page.expect_response(lambda answer: answer.request.method == "PUT" and answer.status == 200):
            overwrite.click()
        assert server.call("GET", path)[1][field] == mine
