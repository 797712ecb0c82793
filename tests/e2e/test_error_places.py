"""The place and the traceback of an error in the HTML report, in a real browser."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dokimos._core.error_detail import ErrorDetail, Frame
from dokimos._core.example import Example
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos.exporters._base import export

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = os.environ.get("DOKIMOS_CHROMIUM", "/usr/bin/chromium")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"no browser at {CHROMIUM}; set DOKIMOS_CHROMIUM"),
]

HOSTILE = "</script><script>window.pwned=1</script><img src=x onerror='window.pwned=1'>"


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def detail(line):
    return ErrorDetail(
        "KeyError",
        "'city'",
        (Frame("evals.py", 3, "answer", HOSTILE), Frame("app.py", line, "look_up", 'cities["city"]')),
        f"Traceback (most recent call last):\n  {HOSTILE}\nKeyError: 'city'",
    )


def conversation():
    turn = {
        "input": "hello",
        "error": "KeyError: 'city'",
        "errorDetail": {"type": "KeyError", "frames": [{"file": "bot.py", "line": 7, "function": "reply"}]},
    }
    return ItemResult(
        2,
        Example({"input": "hello"}, id="talk"),
        actual_outputs={"output": "", "turns": [turn]},
        eval_results=(EvalResult.failed("Turns Answered", reason="turn 1"),),
    )


def test_the_drawer_shows_the_places_and_folds_the_traceback(browser, tmp_path):
    items = (
        ItemResult(0, Example({"input": "a"}, id="a"), error="KeyError: 'city'", error_detail=detail(41)),
        ItemResult(
            1,
            Example({"input": "b"}, id="b"),
            actual_outputs={"output": "x"},
            eval_results=(EvalResult("Picky", error="KeyError: 'city'", error_detail=detail(52)),),
        ),
        conversation(),
    )
    path = export(
        ExperimentResult(name="x", runs=(RunResult(index=0, item_results=items),)), tmp_path / "r.html"
    )
    page = browser.new_page()
    page.goto(path.as_uri())

    row = page.locator("tr[data-key='a']")
    assert "KeyError: 'city' (app.py:41 in look_up)" in row.inner_text()
    row.click()
    drawer = page.locator("dialog, .drawer").first
    assert "app.py:41 in look_up  cities" in drawer.inner_text()
    assert "evals.py:3 in answer" in drawer.inner_text()
    assert "Traceback (most recent" not in drawer.inner_text()
    drawer.get_by_text("Whole traceback").first.click()
    assert "Traceback (most recent" in drawer.inner_text()

    page.keyboard.press("Escape")
    page.locator("tr[data-key='b']").click()
    assert "app.py:52 in look_up" in drawer.inner_text()
    page.keyboard.press("Escape")
    page.locator("tr[data-key='talk']").click()
    assert "bot.py:7 in reply" in drawer.inner_text()
    page.keyboard.press("Escape")
    page.get_by_role("searchbox").first.fill("evals.py")
    sync_api.expect(page.locator("tr[data-key]")).to_have_count(2)
    assert page.evaluate("window.pwned") is None
    page.close()
