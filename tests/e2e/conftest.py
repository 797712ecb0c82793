"""A browser for the tests of the pages, and a page that notes whatever it should not do."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from tests.server.server_process import Process

CHROMIUM = os.environ.get("DOKIMOS_CHROMIUM", "/usr/bin/chromium")
PATIENCE = 60_000
"""Milliseconds for what a page does in a moment, however busy the machine is."""
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


@pytest.fixture(scope="session", autouse=True)
def _patience():
    """Wait for what is expected of a page, too: by itself, `expect` gives up after five seconds."""
    with contextlib.suppress(ImportError):
        from playwright.sync_api import expect

        expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no browser at {CHROMIUM}; set DOKIMOS_CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def find_barriers():
    """A function that returns what keeps people from using a page, by axe's rules for WCAG 2.2 AA."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe-playwright-python is not installed")
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

    def find(page):
        page.locator("main h1").first.wait_for()
        page.evaluate(axe.AXE_SCRIPT)
        found = page.evaluate("rules => axe.run({runOnly: rules})", rules)["violations"]
        return [f"{page.url}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in found]

    return find


def noting_page(context, origin="file:"):
    """Return a page that notes in its `complaints` whatever it should not do, such as asking elsewhere."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.complaints = []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (page.complaints.append("dialog"), dialog.dismiss()))
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(origin) else page.complaints.append(asked.url),
    )
    return page


@pytest.fixture
def open_page(chromium):
    """A function that opens a file, and at the end sees that nothing foreign ran or was asked for."""
    opened = []

    def do(path, *, width=1280, scheme="light", fragment=""):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = noting_page(context)
        opened.append(page)
        page.goto(f"{path.as_uri()}{fragment}")
        return page

    yield do
    for page in opened:
        assert page.complaints == []
        assert page.evaluate("window.pwned") is None
        assert (
            page.locator(
                "main img, main iframe, main a[href], .drawer img, .drawer a, .drawer script"
            ).count()
            == 0
        )
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(overflow) <= 0
        page.context.close()


def expect_answer(page, button, text):
    """Wait until what a button started is said to those who do not see it; the button has kept the focus."""
    page.locator(".unseen[role=status]").get_by_text(text).wait_for(state="attached")
    page.locator("button:focus").get_by_text(button, exact=True).wait_for()


# Parts of tables that are laid out as something else: browsers take them for a table where they say so.
LOST_ROLES = """() => [...document.querySelectorAll('table, thead, tbody, tr, th, td')]
    .filter(one => !getComputedStyle(one.closest('table').querySelector('tr')).display.startsWith('table'))
    .filter(one => !one.hasAttribute('role'))
    .map(one => one.outerHTML.slice(0, 200))"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@contextlib.contextmanager
def visits(chromium, server, *expected):
    """Yield a function that opens a page; at the end nothing foreign ran, was asked for or stuck out.

    Complaints with one of the expected texts are none.
    """
    opened = []

    def open_page(address, *, width=1280, scheme="light", context=None):
        context = context or chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        page = noting_page(context, server)
        page.asked = []
        page.on("request", lambda asked: page.asked.append(asked.url))
        opened.append(page)
        page.goto(server + address)
        return page

    yield open_page
    for page in opened:
        assert [text for text in page.complaints if not any(each in text for each in expected)] == []
        assert page.evaluate("window.pwned") is None
        assert page.evaluate(OVERFLOW) <= 0
    for page in opened:
        page.context.close()


@pytest.fixture(scope="module")
def start_server(tmp_path_factory):
    """A function that starts a server of its own for a module, with settings; it stops at the end."""
    pytest.importorskip("fastapi", reason="the extra server is not installed")
    started = []

    def start(**settings):
        process = Process({"data_dir": tmp_path_factory.mktemp("server"), **settings})
        started.append(process)
        return process

    yield start
    for process in started:
        process.stop()
