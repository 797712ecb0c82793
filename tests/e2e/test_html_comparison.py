"""The comparison report in a real browser: readable without script or network, on any width."""

import os
from pathlib import Path

import pytest

from dokimos import Dataset, Example, compare_runs, evaluate, on_input
from dokimos.comparison.reports import export_comparison
from dokimos.evaluators import ExactMatch

CHROMIUM = os.environ.get("DOKIMOS_CHROMIUM", "/usr/bin/chromium")
SWITCHES = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-dev-shm-usage --disable-sync "
    "--disable-background-networking --disable-component-update"
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"no browser at {CHROMIUM}; set DOKIMOS_CHROMIUM"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    examples = [Example.of(f"question {i} <b>bold</b>", f"answer {i}", id=f"q-{i}") for i in range(12)]
    right = {example.input: example.expected_output for example in examples}

    def run(name, wrong):
        answers = {text: "no idea" if int(text.split()[1]) < wrong else right[text] for text in right}
        data = Dataset(examples, name="faq")
        return evaluate(data, on_input(answers.get), [ExactMatch()], name=name, journal=False, progress=False)

    comparison = compare_runs(run("before", 0), run("after", 8))
    return export_comparison(comparison, tmp_path_factory.mktemp("report") / "diff.html")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=CHROMIUM, args=SWITCHES.split())
        yield found
        found.close()


@pytest.fixture(params=[1280, 390], ids=["desktop", "phone"])
def page(browser, report, request):
    context = browser.new_context(java_script_enabled=False, viewport={"width": request.param, "height": 900})
    opened = context.new_page()
    opened.problems = []
    opened.on("console", lambda message: opened.problems.append(message.text))
    opened.on("requestfailed", lambda failed: opened.problems.append(failed.url))
    opened.goto(report.as_uri())
    yield opened
    context.close()


def test_an_item_opens_and_shows_both_outputs_without_script(page):
    item = page.locator("section.items details.item").first
    assert not item.locator("pre.text").first.is_visible()

    item.locator("summary").click()

    assert item.locator("del").all_inner_texts() == ["answer", "0"]
    assert item.locator("ins").all_inner_texts() == ["no", "idea"]
    assert "question 0 <b>bold</b>" in item.inner_text()
    assert page.problems == []


def test_the_style_is_applied_and_nothing_runs_over_the_side(page):
    assert page.locator(".verdict.fail").evaluate("node => getComputedStyle(node).fontWeight") == "650"
    width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert width <= 0
