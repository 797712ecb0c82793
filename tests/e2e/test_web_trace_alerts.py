"""Alerts on traces in a browser: made, tried, changed, paused and deleted."""

import time
import urllib.request

import pytest
from tests.e2e.conftest import expect_answer, visits
from tests.e2e.trace_spans import call, send, span
from tests.server.server_process import wait_until

HOSTILE = '<img src=x onerror="window.pwned=1">\u202ereversed'
PROJECT = "shop"
TRACES = 60


@pytest.fixture(scope="module")
def server(start_server):
    traces, online = {"creates_projects": True}, {"quiet_seconds": 0.0}
    server = start_server(traces=traces, online=online).address
    now = time.time_ns() // 1000 * 1000
    for number in range(TRACES):
        error = ["boom"] if number % 6 == 0 else []
        root = span("0", 1, None, "answer", now, now + 2 * 10**9 * (1 + number % 2), *error)
        send(server, PROJECT, [{**root, "traceId": f"{number + 1:032x}"}])
    for name in ("empty", "sirens", "learners"):
        send(server, name, [span("e", 1, None, "answer", now, now + 10**9)])
    return server


def find_project(server, name):
    return next(one["id"] for one in call(server, "GET", "/projects") if one["name"] == name)


@pytest.fixture(scope="module")
def project(server):
    return find_project(server, PROJECT)


@pytest.fixture
def visit(chromium, server):
    with visits(chromium, server) as open_page:
        yield open_page


@pytest.fixture
def add_alert(server, project):
    """A function that adds an alert; at the end all alerts go."""

    projects = {project}

    def add(of=project, **fields):
        projects.add(of)
        body = {"kind": "CHANGE", "metric": "ERROR_RATE", "reference": 0.1, **fields}
        return call(server, "POST", f"/projects/{of}/trace-alerts", body)

    yield add
    for each in projects:
        delete_all(server, f"/projects/{each}/trace-alerts")


def delete_all(server, path):
    for one in call(server, "GET", path):
        delete(server, f"{path}/{one['id']}")


def delete(server, path):
    request = urllib.request.Request(f"{server}/api/v1{path}", method="DELETE")
    with urllib.request.urlopen(request, timeout=60):
        pass


def only_alert(server, project):
    (alert,) = call(server, "GET", f"/projects/{project}/trace-alerts")
    return alert


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (360, "dark")])
def test_where_nothing_is_watched_an_alert_is_offered(visit, find_barriers, width, scheme):
    page = visit("/trace-alerts?project=empty", width=width, scheme=scheme)
    page.get_by_text("Nothing is watched in this project").wait_for()
    assert find_barriers(page) == []

    page.get_by_role("button", name="New alert").click()

    page.get_by_role("heading", name="New alert").wait_for()
    page.get_by_text("Nobody is called").wait_for()
    assert find_barriers(page) == []
    for kind in ("THRESHOLD", "CHANGE"):
        page.get_by_label("Detection method").select_option(kind)
        for metric in ("LATENCY", "SCORE", "ERROR_RATE"):
            page.get_by_label("Metric", exact=True).select_option(metric)
            assert find_barriers(page) == []
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Nothing is watched in this project").wait_for()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/trace-alerts", "Nothing is watched in this project"),
        ("/trace-eval-rules", "No rule scores the traces"),
    ],
)
def test_the_only_project_need_not_be_chosen(visit, address, words):
    def list_one(route):
        route.fulfill(json=[one for one in route.fetch().json() if one["name"] == "empty"])

    page = visit("/validity")
    page.route("**/api/v1/projects", list_one)
    page.goto(page.url.replace("/validity", address))
    page.get_by_text(words).wait_for()
    assert page.get_by_text("Choose one above").count() == 0

    page.unroute_all(behavior="wait")
    page.reload()
    page.get_by_text("Choose one above").wait_for()


@pytest.mark.parametrize("width", [1280, 360])
def test_a_limit_is_tried_on_what_is_stored_and_made(visit, server, project, add_alert, find_barriers, width):
    page = visit("/trace-alerts?project=shop&edit=true", width=width)
    page.get_by_label("Metric", exact=True).select_option("LATENCY")
    page.get_by_label("Statistic").select_option("share")
    page.get_by_label("Traces above, in seconds").fill("3.5")
    page.get_by_text("Filter traces").click()
    page.get_by_label("Name of the root span").fill("answer")
    page.get_by_label("Detection method").select_option("THRESHOLD")
    page.get_by_label("Limit, in percent").fill("55")
    page.get_by_label("How many traces").fill("")
    page.get_by_role("button", name="Try it on the last 30 days").click()
    page.wait_for_function("() => document.activeElement === document.querySelector('input:invalid[min]')")
    page.get_by_label("How many traces").fill("10")

    page.get_by_role("button", name="Try it on the last 30 days").click()  # it needs no name yet
    told = page.get_by_role("region", name="Back-test")
    told.get_by_text(
        f"It would have fired 0 times on {TRACES} traces. If nothing changed, it would fire"
    ).wait_for()
    assert find_barriers(page) == []
    page.get_by_label("Limit, in percent").fill("45")
    page.get_by_role("button", name="Try it on the last 30 days").click()
    told.get_by_text("It would have fired 1 time").wait_for()
    expect_answer(page, "Try it on the last 30 days", "It would have fired 1 time")
    told.locator("tbody tr").get_by_text("50.0 %").wait_for()
    page.get_by_label("Name of the alert").fill(HOSTILE)
    page.get_by_role("button", name="Create the alert").click()

    page.get_by_role("heading", name="⟨U+202E⟩reversed").wait_for()
    assert "fires beyond a limit" in page.locator(".facts").inner_text()
    alert = only_alert(server, project)
    assert f"alert={alert['id']}" in page.url
    wanted = {
        "name": HOSTILE, "kind": "THRESHOLD", "metric": "LATENCY", "over": 3500, "limit": 0.45,
        "direction": "RISE", "window": {"traces": 10, "minutes": None},
        "filter": {"model": None, "rootName": "answer", "userId": None},
    }  # fmt: skip
    assert {name: alert[name] for name in wanted} == wanted


RULE = {
    "name": HOSTILE, "matchType": "SPAN_NAME", "matchValue": "never", "evaluatorName": "Length",
    "evaluator": {"type": "length", "params": {"max": 20}},
}  # fmt: skip


@pytest.fixture
def rule(server, project):
    """A rule of the project; at the end it goes."""
    yield call(server, "POST", f"/projects/{project}/trace-eval-rules", RULE)
    delete_all(server, f"/projects/{project}/trace-eval-rules")


@pytest.fixture
def hook(server, project):
    """A webhook of the project; at the end it goes."""
    yield call(server, "POST", f"/projects/{project}/alert-webhooks", {"url": "http://127.0.0.1:9"})
    delete_all(server, f"/projects/{project}/alert-webhooks")


@pytest.mark.usefixtures("hook", "add_alert")
def test_a_change_of_a_rules_scores_is_watched(visit, server, project, rule):
    page = visit("/trace-alerts?project=shop&edit=true")
    page.get_by_text("When it fires, the webhook of the project is called.").wait_for()
    page.get_by_label("Name of the alert").fill("worse")
    page.get_by_label("Metric", exact=True).select_option("SCORE")
    page.get_by_label("Rule", exact=True).select_option(rule["id"])
    page.get_by_label("Baseline", exact=True).select_option("value")
    page.get_by_label("Value, on the scale of the rule").fill("0.9")
    page.get_by_label("Tolerance").fill("0.05")
    page.get_by_label("Weight among").fill("2.5")

    page.get_by_role("button", name="Try it on the last 30 days").click()
    told = page.get_by_role("region", name="Back-test")
    told.get_by_text("It would have seen no trace").wait_for()
    told.get_by_text("Its part of the false alarms of the project: at most once in a year.").wait_for()
    page.get_by_role("button", name="Create the alert").click()

    page.get_by_role("heading", name="worse").wait_for()
    alert = only_alert(server, project)
    wanted = {
        "metric": "SCORE", "ruleId": rule["id"], "reference": 0.9, "tolerance": 0.05, "importance": 2.5,
        "direction": "DROP", "baseline": None, "filter": None,
    }  # fmt: skip
    assert {name: alert[name] for name in wanted} == wanted


def test_an_alert_whose_rule_was_changed_is_paused_as_it_is_and_begun_anew_on_request(
    visit, server, project, add_alert, rule, find_barriers
):
    alert = add_alert(name="scores", metric="SCORE", ruleId=rule["id"], reference=0.5)
    call(
        server,
        "PUT",
        f"/projects/{project}/trace-eval-rules/{rule['id']}",
        {**RULE, "sampling": {"rate": 0.5}},
    )
    page = visit(f"/trace-alerts?project=shop&alert={alert['id']}", width=360)
    page.get_by_text("Its rule was changed.").wait_for()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Watch again").click()
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_text("Its rule was changed.").wait_for()
    assert find_barriers(page) == []

    page.get_by_role("button", name="Begin anew …").click()
    page.get_by_role("button", name="Begin anew", exact=True).click()

    page.get_by_text("Its rule was changed.").wait_for(state="detached")


def test_an_alert_that_has_learned_a_baseline_is_paused_and_edited_without_beginning_anew(
    visit, server, add_alert
):
    project = find_project(server, "learners")
    alert = add_alert(of=project, name="learned", reference=None, baseline={"count": 30}, importance=2)
    now = time.time_ns()
    for number in range(30):
        root = span("0", 1, None, "answer", now, now + 10**9)
        send(server, "learners", [{**root, "traceId": f"{number + 1_000:032x}"}])
    path = f"/projects/{project}/trace-alerts/{alert['id']}"
    wait_until(lambda: call(server, "GET", path)["status"] == "WATCHING", "the baseline is learned")
    page = visit(f"/trace-alerts?project=learners&alert={alert['id']}")

    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Watch again").click()
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="Edit").click()
    assert page.get_by_label("Baseline", exact=True).input_value() == "count"
    page.get_by_label("Weight among").fill("3")
    page.get_by_label("Name of the alert").fill("learned well")
    anew = page.get_by_text("It begins anew.")
    assert anew.count() == 0
    page.get_by_label("Tolerance").fill("0.5")
    anew.wait_for()
    page.get_by_label("Tolerance").fill("0")
    anew.wait_for(state="detached")
    page.get_by_role("button", name="Save the alert").click()

    page.get_by_role("heading", name="learned well").wait_for()
    saved = call(server, "GET", path)
    assert (saved["importance"], saved["status"]) == (3, "WATCHING")
    assert saved["baseline"]["count"] == 30
    assert saved["observationCount"] == 30


def test_who_comes_second_is_told_and_keeps_what_they_typed(
    chromium, server, project, add_alert, find_barriers
):
    alert = add_alert(name="errors")
    add_alert(name="taken")
    path = f"/projects/{project}/trace-alerts/{alert['id']}"
    with visits(chromium, server, "status of 412", "status of 409", "status of 400") as open_page:
        address = f"/trace-alerts?project=shop&alert={alert['id']}&edit=true"
        page = open_page(address, width=360, scheme="dark")
        name, save = page.get_by_label("Name of the alert"), page.get_by_role("button", name="Save the alert")
        name.fill("taken")
        save.click()
        page.get_by_role("alert").get_by_text("'taken' exists already").wait_for()
        name.fill("mine")
        page.get_by_label("Value, in percent").fill("90")
        page.get_by_label("Tolerance").fill("10")
        save.click()
        page.get_by_role("alert").get_by_text("not at an end").wait_for()
        page.get_by_label("Tolerance").fill("0")
        page.get_by_label("Value, in percent").fill("20")
        theirs = {"name": "theirs", "kind": "CHANGE", "metric": "ERROR_RATE", "reference": 0.1}
        call(server, "PUT", path, theirs)
        save.click()
        page.get_by_text("somebody else has changed it since you opened it").wait_for()
        assert name.input_value() == "mine"
        assert find_barriers(page) == []

        page.get_by_label("Value, in percent").fill("")
        page.get_by_role("button", name="Save mine over it").click()
        assert call(server, "GET", path)["name"] == "theirs"  # the browser says what is missing
        page.get_by_label("Value, in percent").fill("20")
        page.get_by_role("button", name="Save mine over it").click()

        page.get_by_role("heading", name="mine").wait_for()
    saved = call(server, "GET", path)
    assert (saved["name"], saved["reference"]) == ("mine", 0.2)


def test_an_alert_is_deleted_once_that_is_confirmed(visit, server, project, add_alert, find_barriers):
    alert = add_alert(name="errors")
    page = visit(f"/trace-alerts?project=shop&alert={alert['id']}", width=360)
    page.get_by_role("button", name="Delete …").click()
    page.get_by_role("group", name="Delete it with all that it has seen?").wait_for()
    assert find_barriers(page) == []
    page.get_by_role("button", name="Keep").click()
    page.get_by_role("button", name="Delete …").click()
    page.get_by_role("button", name="Delete", exact=True).click()

    page.get_by_text("Nothing is watched in this project").wait_for()
    assert call(server, "GET", f"/projects/{project}/trace-alerts") == []


def test_home_leads_to_the_alert_that_fires(visit, server, add_alert):
    project = find_project(server, "sirens")  # its trace is none of those that other tests count
    alert = add_alert(
        of=project,
        name="loud",
        kind="THRESHOLD",
        reference=None,
        metric="LATENCY",
        limit=1,
        window={"traces": 1},
    )
    path = f"/projects/{project}/trace-alerts/{alert['id']}"
    now = time.time_ns()
    send(server, "sirens", [{**span("0", 1, None, "answer", now, now + 10**9), "traceId": "f" * 32}])
    wait_until(lambda: call(server, "GET", path)["status"] == "FIRING", "the alert fires")
    page = visit("/")
    page.get_by_role("link", name="loud").click()

    page.get_by_role("heading", name="loud").wait_for()
    page.get_by_role("button", name="Edit").wait_for()
    assert f"alert={alert['id']}" in page.url


def test_who_may_only_look_is_told_so_and_offered_no_change(chromium, start_server, find_barriers):
    key = "a-key-of-thirty-two-characters-1"
    auth = {"Authorization": f"Bearer {key}"}
    server = start_server(api_key=key, require_auth_for_reads=True)
    server.call("POST", "/projects/shop/runs", {"experimentName": "answers"}, headers=auth)
    project = server.call("GET", "/projects", headers=auth)[1][0]["id"]
    body = {"name": "errors", "kind": "CHANGE", "metric": "ERROR_RATE", "reference": 0.1}
    alert = server.call("POST", f"/projects/{project}/trace-alerts", body, headers=auth)[1]["id"]
    viewer = server.call("POST", "/api-keys", {"name": "eve", "role": "VIEWER"}, headers=auth)[1]["key"]
    with visits(chromium, server.address, "status of 401") as open_page:
        page = open_page(f"/trace-alerts?project=shop&alert={alert}", width=360, scheme="dark")
        page.get_by_label("API key").fill(viewer)
        page.keyboard.press("Enter")
        page.get_by_text("Changing alerts needs the role editor.").wait_for()
        assert find_barriers(page) == []
        for name in ("Pause", "Edit", "Delete …", "New alert"):
            assert page.get_by_role("button", name=name).count() == 0
        page.goto(f"{server.address}/trace-alerts?project=shop&edit=true")
        page.get_by_text("Making alerts needs the role editor.").wait_for()
        assert page.get_by_label("Name of the alert").count() == 0
