"""The comparison report in a real browser: both sides next to each other, with and without script."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from dokimos import Dataset, Example, compare_runs, evaluate
from dokimos.comparison._reports import export_comparison
from dokimos.evaluators import ExactMatch

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = os.environ.get("DOKIMOS_CHROMIUM", "/usr/bin/chromium")
SWITCHES = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-dev-shm-usage --disable-sync "
    "--disable-background-networking --disable-component-update"
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"no browser at {CHROMIUM}; set DOKIMOS_CHROMIUM"),
]
HOSTILE = "</script><script>window.pwned = 1</script><img src=x onerror=window.pwned=1>"


def run(name, examples, wrong, reply="no idea"):
    def answer(example: Example):
        number = int(example.input.split()[1])
        return reply if number < wrong else example.expected_output

    data = Dataset(examples, name="faq")
    return evaluate(data, answer, [ExactMatch()], name=name, journal=False, progress=False)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    examples = [Example.of(f"question {i} <b>bold</b>", f"answer {i}", id=f"q-{i}") for i in range(12)]
    examples[11] = replace(examples[11], id=f"q {HOSTILE}")
    comparison = compare_runs(
        run("before", examples, 0), run(f"after {HOSTILE}", examples, 8, f"no idea {HOSTILE}")
    )
    return export_comparison(comparison, tmp_path_factory.mktemp("report") / "diff.html")


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as running:
        found = running.chromium.launch(executable_path=CHROMIUM, args=SWITCHES.split())
        yield found
        found.close()


def opened(browser, report, width, *, script):
    context = browser.new_context(
        java_script_enabled=script, viewport={"width": width, "height": 900}, color_scheme="dark"
    )
    page = context.new_page()
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("requestfailed", lambda failed: page.problems.append(failed.url))
    page.goto(report.as_uri())
    return page


@pytest.fixture(params=[1280, 390], ids=["desktop", "phone"])
def page(browser, report, request):
    page = opened(browser, report, request.param, script=True)
    yield page
    assert page.problems == []
    assert page.evaluate("window.pwned") is None
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    page.context.close()


def keys(page):
    return page.eval_on_selector_all(".list tbody tr", "rows => rows.map(row => row.dataset.key)")


def test_names_stand_above_and_what_regressed_comes_first(page):
    assert page.locator("h1").inner_text() == f"before → after {HOSTILE}"
    assert "✗ Worse: pass rate, Exact Match" in page.locator(".verdict").inner_text()
    assert keys(page)[:8] == [f"q-{i}" for i in range(8)]


def test_a_closed_row_has_both_outputs_and_the_scores(page):
    row = page.locator(".list tbody tr").first.inner_text()
    for part in ("✗ regressed", "✓ → ✗", "q-0", "answer 0", "no idea", "1.00 → 0.00"):
        assert part in row


def test_an_open_item_shows_both_sides_with_their_differences(page):
    page.locator("tr[data-key=q-0] .open").click()

    drawer = page.locator(".drawer")
    assert "".join(drawer.locator("del").all_inner_texts()) == "answer0"
    assert drawer.locator("ins").first.inner_text() == "no"
    assert drawer.locator(".pair pre").nth(1).inner_text() == f"no idea {HOSTILE}"
    assert "question 0 <b>bold</b>" in drawer.inner_text()
    left, right = (drawer.locator(".pair pre").nth(place).bounding_box() for place in (0, 1))
    assert (left["y"] == right["y"]) is (page.viewport_size["width"] > 640)


def test_the_keys_are_those_of_the_run_report(page):
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert page.locator("#drawer-title").inner_text() == "q-0"
    page.keyboard.press("j")
    assert page.locator("#drawer-title").inner_text() == "q-1"
    page.keyboard.press("Escape")
    assert page.locator(".drawer").is_hidden()
    page.keyboard.press("/")
    page.keyboard.type("question 9")
    sync_api.expect(page.locator(".list tbody tr")).to_have_count(1)


def test_chips_filter_by_change_and_the_address_keeps_it(page):
    for show, count in (("regressed", 8), ("improved", 0), ("unchanged", 4), ("flipped", 8), ("all", 12)):
        chip = page.locator(f"[data-show={show}]")
        assert chip.locator("b").inner_text() == str(count)
        chip.click()
        assert len(keys(page)) == count
    page.locator("[data-show=unchanged]").click()
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    assert len(keys(page)) == 4


def test_without_script_the_items_that_changed_are_listed(browser, report):
    page = opened(browser, report, 390, script=False)
    item = page.locator("details.static-item").first
    assert not item.locator("pre.text").first.is_visible()
    item.locator("summary").click()
    assert item.locator("del").all_inner_texts() == ["answer", "0"]
    assert "question 0 <b>bold</b>" in item.inner_text()
    assert page.problems == []
    page.context.close()
