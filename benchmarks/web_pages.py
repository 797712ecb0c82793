"""How fast the large pages of the web interface are, in a browser.

Run with `python benchmarks/web_pages.py [--items 100000] [--spans N]`; it needs Playwright and a Chromium
(`DOKIMOS_CHROMIUM`), and says so if it finds none. It fills a server and opens

- the page of a trace of 30,000 spans: until its first rows answer, until all spans are there, a search, the
  frames while it scrolls, and the memory of its scripts;
- the page of a run of 10,000 items: until its rows are there, and until a filter has been applied;
- with `--items 100000`, the page of a run of as many: the frames while it scrolls, and its memory.

Times are medians of five loads until the frame is drawn; the CPU is that of the main thread of the page.
Budgets are in brackets.

On two quiet cores: 658 ms until a trace of 30,000 spans answers (1,247 before the pages read ahead what they
show, and before they waited for no placeholder), 92 ms for a search in it; 708 ms for the rows of a run of
10,000 items and 33 ms for a filter, 1,614 and 27 ms with 100,000; the longest of 180 frames 23 to 38 ms.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from _server_process import ServerProcess, start_dokimos

LOADS: Final = 5
_AT_ONCE: Final = 1000
_SWITCHES: Final = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--enable-precise-memory-info",
]
_SCROLL: Final = """async () => {
  const box = document.querySelector('.rows');
  const frames = [];
  let last = performance.now();
  for (let step = 0; step < 180; step += 1) {
    box.scrollTop += 1500;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    frames.push(now - last);
    last = now;
  }
  frames.sort((a, b) => a - b);
  return [frames[90], frames[171], frames[179], document.querySelectorAll('.rows .row').length];
}"""
_WAIT: Final = """async ([press, wanted]) => {
  const start = press === null ? 0 : performance.now();
  const buttons = [...document.querySelectorAll('button')];
  if (press !== null) buttons.find((one) => one.textContent === press).click();
  const isThere = new Function(`return ${wanted}`);
  while (!isThere()) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now() - start;
}"""
"""Presses a button, if one is named; returns after how many ms the frame with what is wanted was drawn.

Without a button, that is since the page was asked for. Playwright itself looks only every 100 to 500 ms.
"""
_MEMORY: Final = "performance.memory.usedJSHeapSize / 1e6"


def call(server: ServerProcess, method: str, path: str, body: Any = None) -> Any:
    connection = server.connect()
    connection.request(
        method, f"/api/v1{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status >= 300:
        raise SystemExit(f"{method} {path}: {answer.status} {content[:300]!r}")
    return json.loads(content) if content else None


def send_run(server: ServerProcess, count: int) -> str:
    """Send a run of items with five scores each, and return its id."""
    rng = random.Random(1)
    run: str = call(server, "POST", "/projects/large/runs", {"experimentName": f"{count} items"})["runId"]
    for first in range(0, count, _AT_ONCE):
        items = [_make_item(number, rng) for number in range(first, min(count, first + _AT_ONCE))]
        call(server, "POST", f"/runs/{run}/items", {"items": items})
    call(server, "PATCH", f"/runs/{run}", {"status": "SUCCESS"})
    return run


def _make_item(number: int, rng: random.Random) -> dict[str, Any]:
    return {
        "ordinal": number,
        "inputs": {"question": f"question {number} " + "lorem ipsum " * 8},
        "expectedOutputs": {"output": "an answer"},
        "actualOutputs": {"output": f"answer {number} " + "dolor sit " * 10},
        "latencyMs": rng.randint(100, 9000),
        "evalResults": [
            {"name": f"metric {k}", "score": rng.random(), "threshold": 0.1, "success": rng.random() > 0.05}
            for k in range(5)
        ],
    }


def send_trace(server: ServerProcess, count: int) -> str:
    """Send a trace of so many spans, six below each, and return its id."""
    trace, start = "5" * 32, time.time_ns() - 120 * 10**9
    for first in range(1, count + 1, _AT_ONCE):
        last = min(count + 1, first + _AT_ONCE)
        spans = [_make_span(trace, number, start, count) for number in range(first, last)]
        resource = {"resource": {"attributes": []}, "scopeSpans": [{"spans": spans}]}
        call(server, "POST", "/traces", {"resourceSpans": [resource]})
    return trace


def _make_span(trace: str, number: int, start: int, count: int) -> dict[str, Any]:
    began = start + number * 3_000_000
    texts = {
        "input": f"input {number} " + "lorem ipsum " * 12,
        "output": f"output {number} " + "dolor sit " * 12,
        "gen_ai.operation.name": "chat" if number % 3 else "execute_tool",
    }
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        **({} if number == 1 else {"parentSpanId": f"{(number + 4) // 6:016x}"}),
        "name": f"step {number}",
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(began + (count - number + 1) * 1_000_000 // (1 + number // 50)),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in texts.items()],
        **({"status": {"code": 2, "message": "boom"}} if number % 4999 == 7 else {}),
    }


def clock(action: Callable[[], object]) -> float:
    """Return how many milliseconds something takes."""
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def show(what: str, times: list[float], budget: str = "") -> None:
    print(f"{what:<44} {statistics.median(times):6.0f} ms (worst {max(times):.0f}){budget}")


class MainThread:
    """The CPU that the main thread of a page takes, which other programs of the machine do not change."""

    def __init__(self, page: Any) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def milliseconds(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        seconds: float = next(each["value"] for each in metrics if each["name"] == "TaskDuration")
        return seconds * 1000


def scroll(page: Any, what: str, thread: MainThread) -> None:
    """Print how long frames take while a page scrolls, and how its memory grows."""
    before, start = page.evaluate(_MEMORY), thread.milliseconds()
    middle, slow, worst, rows = page.evaluate(_SCROLL)
    after, busy = page.evaluate(_MEMORY), (thread.milliseconds() - start) / 180
    print(
        f"{what:<44} frames p50 {middle:.0f}, p95 {slow:.0f}, worst {worst:.0f} ms (budget 50), "
        f"{busy:.1f} ms of CPU each; {rows} rows in the page; memory {before:.0f} to {after:.0f} MB"
    )


def measure_trace(browser: Any, address: str, trace: str, count: int) -> None:
    first, whole, found, busy = [], [], [], []
    for _ in range(LOADS):
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        thread = MainThread(page)
        start = time.perf_counter()
        page.goto(f"{address}/traces/{trace}", wait_until="commit")
        # A row that answers a click: the page is not only drawn.
        page.locator(".span-row .fold[aria-expanded]").nth(1).click()
        page.locator(".span-row .fold[aria-expanded=false]").first.wait_for()
        first.append((time.perf_counter() - start) * 1000)
        busy.append(thread.milliseconds())
        page.get_by_role("status").get_by_text(f"{count:,} spans", exact=True).wait_for()
        whole.append((time.perf_counter() - start) * 1000)
        page.get_by_role("button", name="Expand all").click()
        search = page.get_by_label("Search spans")
        wanted = page.get_by_text(f"1 of {count:,} spans")

        def look(search: Any = search, wanted: Any = wanted) -> None:
            search.fill(f"step {count}")
            wanted.wait_for()

        found.append(clock(look))
        search.fill("")
        if len(first) == LOADS:
            scroll(page, f"trace of {count:,} spans: scrolling", thread)
        page.close()
    show(f"trace of {count:,} spans: interactive", first, " (budget 1500)")
    show(f"trace of {count:,} spans: CPU until then", busy)
    show(f"trace of {count:,} spans: all read", whole)
    show(f"trace of {count:,} spans: first search", found)


def measure_run(browser: Any, address: str, run: str, count: int) -> None:
    loads, filters, busy = [], [], []
    for _ in range(LOADS):
        page = browser.new_page(viewport={"width": 1360, "height": 900})
        thread = MainThread(page)
        page.goto(f"{address}/runs/{run}", wait_until="commit")
        texts = "document.querySelector('.rows .row')?.textContent.includes('want')"
        loads.append(page.evaluate(_WAIT, [None, texts]))
        busy.append(thread.milliseconds())
        chip = page.get_by_role("button", name="failed metric 1")
        before = page.locator(".rows .row").first.inner_text()
        changed = f"document.querySelector('.rows .row').innerText !== {json.dumps(before)}"
        is_filtered = f"document.querySelector('.chip[aria-pressed=true]') && {changed}"
        filters.append(page.evaluate(_WAIT, [chip.inner_text(), is_filtered]))
        chip.click()
        if len(loads) == LOADS:
            scroll(page, f"run of {count:,} items: scrolling", thread)
        page.close()
    budgets = (" (budget 1000)", " (budget 100)") if count <= 10_000 else ("", "")
    show(f"run of {count:,} items: rows with texts", loads, budgets[0])
    show(f"run of {count:,} items: CPU until then", busy)
    show(f"run of {count:,} items: filter", filters, budgets[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--spans", type=int, default=30_000)
    arguments = parser.parse_args()
    chromium = os.environ.get("DOKIMOS_CHROMIUM", "/usr/bin/chromium")
    if importlib.util.find_spec("playwright") is None or not Path(chromium).exists():
        print("not measured: Playwright or a Chromium is missing")
        return
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = start_dokimos(DOKIMOS_DATA_DIR=folder, LOG_LEVEL="ERROR")
        browser = playwright.chromium.launch(executable_path=chromium, args=_SWITCHES)
        address = f"http://127.0.0.1:{server.port}"
        try:
            measure_trace(browser, address, send_trace(server, arguments.spans), arguments.spans)
            for count in sorted({min(10_000, arguments.items), arguments.items}):
                measure_run(browser, address, send_run(server, count), count)
        finally:
            browser.close()
            server.stop()


if __name__ == "__main__":
    main()
