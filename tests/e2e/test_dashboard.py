"""The page of stored runs in a real browser: nothing foreign runs, and every state has an address."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dokimos._dashboard.page import dashboard
from dokimos.suites import load_suite

CHROMIUM = os.environ.get("DOKIMOS_CHROMIUM", "/usr/bin/chromium")
SWITCHES = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-dev-shm-usage --disable-sync "
    "--disable-background-networking --disable-component-update"
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"no browser at {CHROMIUM}; set DOKIMOS_CHROMIUM"),
]
sync_api = pytest.importorskip("playwright.sync_api")

HOSTILE = "</script><script>window.pwned = 1</script><img src=x onerror=window.pwned=1>"
APP = f"""
import os

HOSTILE = {HOSTILE!r}

def answer(question, turn_index=0):
    wrong = question[-1] in os.environ["WRONG"]
    call = {{"name": "lookup", "arguments": {{"q": question, "x": HOSTILE}}, "result": HOSTILE}}
    if question == "turn 1":
        call["metadata"] = {{"unknownArguments": True}}
    metrics = {{"tokens_in": 10, "tokens_out": 2, "latency_ms": 50 + len(question)}}
    if os.environ["PRICED"] == "1":
        metrics["cost_usd"] = 0.001
    if question.startswith("boom"):
        raise ValueError(HOSTILE)
    reply = HOSTILE if wrong else "right"
    return {{"output": reply, "tool_calls": [call], "retrieval_context": [HOSTILE], "metrics": metrics}}
"""
RUNS = (("", "v1", "1"), ("12345", "v1", "0"), ("1", "v2 " + HOSTILE, "1"))
"""Of each run: the questions that it gets wrong, its prompt version, and whether its cost is known."""


def write_suite(folder):
    questions = [
        {"name": f"case-{number}", "input": f"question {number}", "ground_truth": "right", "tags": ["short"]}
        for number in range(10)
    ]
    questions[3]["tags"] = [HOSTILE]
    talk = {"name": "talk", "turns": [
        {"input": "turn a", "ground_truth": "right", "expected_tools": ["lookup", "subtract"]},
        {"input": "turn 1", "ground_truth": "right"},
    ]}  # fmt: skip
    metrics = [
        {"type": "standard", "metric": "equality"},
        {"type": "standard", "metric": "f1_score", "name": HOSTILE},
    ]
    suite = {
        "name": f"desk {HOSTILE}", "agent": "app:answer", "evaluations": {"metrics": metrics},
        "test_cases": [*questions, talk, {"name": HOSTILE, "input": "boom"}],
    }  # fmt: skip
    (folder / "app.py").write_text(APP)
    (folder / "agent.yaml").write_text(yaml.safe_dump(suite, allow_unicode=True))


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dashboard")
    write_suite(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for wrong, version, priced in RUNS:
            patch.setenv("WRONG", wrong)
            patch.setenv("PRICED", priced)
            experiment = load_suite("agent.yaml").experiment()
            about = {**experiment.metadata, "promptVersion": version}
            replace(experiment, metadata=about).run(progress=False, run_dir=folder / "runs")
        broken = folder / "runs" / "broken"
        broken.mkdir()
        (broken / "run.json").write_text("{")
    page = folder / "runs.html"
    page.write_text(dashboard(folder / "runs"), encoding="utf-8")
    return page.as_uri()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES.split())
        yield found
        found.close()


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["desktop", "phone"])
def page(browser, request):
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened = context.new_page()
    opened.complaints = []
    opened.on("console", lambda message: opened.complaints.append(message.text))
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.on(
        "request", lambda asked: opened.complaints.append(asked.url) if "runs.html" not in asked.url else None
    )
    yield opened
    assert opened.evaluate("window.pwned") is None
    assert opened.complaints == []
    assert opened.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert opened.locator("#app img, #app iframe, #app a[href], .drawer img, .drawer script").count() == 0
    context.close()


def at(page, address, fragment=""):
    page.goto("about:blank")
    page.goto(f"{address}#{fragment}" if fragment else address)
    page.wait_for_selector("#content > *")


def test_the_summary_tells_how_the_runs_developed(page, address):
    at(page, address)

    text = page.inner_text("#content")
    assert page.locator(".point").count() == 3
    assert page.locator("path.fell").count() == 1
    assert page.locator("svg .boundary").count() == 1
    assert page.locator(".runs-table tbody tr").count() == 3
    assert "2 of 3 runs priced" in text
    assert "unpriced" in page.inner_text(".runs-table tbody tr:nth-child(2)")
    assert page.locator(".kind[data-kind=standard] .spark-card").count() == 2
    assert "1 runs could not be read" in page.inner_text("#app")


def test_filters_are_in_the_address_and_survive_a_reload(page, address):
    at(page, address)
    page.locator("[data-filter=version]").select_option("v1")
    page.locator("[data-filter=kind]").select_option("tools")
    sync_api.expect(page.locator(".point")).to_have_count(2)

    page.reload()

    sync_api.expect(page.locator(".point")).to_have_count(2)
    assert page.locator(".kind").count() == 1
    assert page.locator("[data-filter=version]").input_value() == "v1"
    page.get_by_role("button", name="Clear filters").click()
    sync_api.expect(page.locator(".point")).to_have_count(3)


def test_typing_into_a_filter_keeps_the_cursor(page, address):
    at(page, address)
    page.locator("[data-filter=min]").click()
    page.keyboard.type("8")
    page.wait_for_timeout(350)
    page.keyboard.type("0")

    sync_api.expect(page.locator(".runs-table tbody tr")).to_have_count(1)
    assert page.evaluate("document.activeElement.dataset.filter") == "min"


def test_a_tag_shows_its_own_pass_rate(page, address):
    at(page, address, "tag=short")

    assert "n = 9" in page.inner_text(".runs-table tbody tr:nth-child(1)")


def test_a_filter_that_leaves_nothing_says_so(page, address):
    at(page, address, "find=nowhere")

    assert page.locator(".empty-state").is_visible()


def test_a_point_opens_its_run_and_back_returns(page, address):
    at(page, address)
    page.locator(".point").nth(1).press("Enter")
    sync_api.expect(page.locator(".run-head")).to_be_visible()
    assert "view=run" in page.url
    assert "6 ✗ failed" in page.inner_text(".run-head")

    page.go_back()

    sync_api.expect(page.locator(".trend")).to_be_visible()


def test_a_conversation_shows_its_turns_tools_and_reasons(page, address):
    at(page, address, "view=run&item=talk")

    drawer = page.locator(".drawer")
    sync_api.expect(drawer).to_be_visible()
    text = drawer.inner_text()
    assert drawer.locator(".thread > li").count() == 2
    assert drawer.locator(".thread .timeline .tool").all_inner_texts() == ["lookup", "lookup"]
    assert "subtract was not called" in text
    assert text.count("not recorded") == 1
    assert "Conversation (2 turns)" in text
    assert HOSTILE in text


def test_expected_tools_are_told_one_by_one(page, address):
    at(page, address, "view=run&item=talk")

    verdicts = page.locator(".turn-verdicts").first.inner_text()
    assert "✗ Expected Tools 0.00" in verdicts


def test_hostile_cases_are_shown_as_text(page, address):
    at(page, address, "view=run")
    for _ in range(4):
        page.keyboard.press("j")
        page.keyboard.press("Enter")
    assert HOSTILE in page.locator(".drawer").inner_text()
    page.keyboard.press("Escape")
    page.locator(".provenance summary").click()
    assert HOSTILE in page.inner_text(".provenance")


def test_three_runs_are_compared_case_by_case(page, address):
    at(page, address)
    for row in range(3):
        page.locator(".runs-table input[type=checkbox]").nth(row).click()
    page.locator(".compare-button").click()

    sync_api.expect(page.locator(".matrix")).to_be_visible()
    assert page.locator(".verdict").inner_text().startswith("5 regressed, 0 improved")
    assert page.locator(".deltas tbody tr").first.locator("td").count() == 5
    assert page.locator(".matrix tbody tr").first.get_attribute("class") == "regressed"
    page.locator("[data-only=same]").click()
    sync_api.expect(page.locator(".matrix tbody tr")).to_have_count(7)
    page.reload()
    sync_api.expect(page.locator(".matrix tbody tr")).to_have_count(7)


def test_a_case_opens_from_the_comparison(page, address):
    at(page, address, "view=compare&only=improved")
    page.locator(".matrix .sign").last.click()

    sync_api.expect(page.locator(".drawer")).to_be_visible()
    assert page.locator("#drawer-title").inner_text() == page.evaluate(
        "new URLSearchParams(location.hash.slice(1)).get('item')"
    )


def test_an_unknown_cost_is_never_compared(page, address):
    at(page, address, "view=compare")

    row = page.locator(".deltas tr", has_text="Cost")
    assert row.locator("td").all_inner_texts() == ["unpriced", "$0.0120", "–"]


def test_a_hostile_fragment_does_nothing(page, address):
    at(
        page,
        address,
        "view=__proto__&suite=<img src=x onerror=window.pwned=1>&with=constructor,toString&only=x",
    )

    assert page.locator(".trend").is_visible()


def test_without_script_the_runs_are_listed(browser, address):
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(address)
    assert opened.locator("table tbody tr").count() == 3
    context.close()
