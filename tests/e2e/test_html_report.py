"""The HTML report in a real browser: nothing in it runs, everything in it works."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from tests.e2e.conftest import noting_page

from dokimos._core.agent import ToolCall
from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.provenance import EvaluatorInfo, Provenance
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos.exporters._base import export

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.browser

HOSTILE = (
    "<script>window.pwned=1;alert(1)</script>",
    "</script><script>window.pwned=1</script>",
    "<img src=http://127.0.0.1:9/x onerror='window.pwned=1'>",
    "<svg onload=window.pwned=1><animate onbegin=window.pwned=1 attributeName=x dur=1s>",
    "javascript:window.pwned=1",
    "<a href='javascript:window.pwned=1'>x</a><iframe srcdoc='<script>parent.pwned=1</script>'>",
    "{{constructor.constructor('window.pwned=1')()}} ${window.pwned=1} <%= 1 %>",
    "</style><style>*{display:none!important}</style><link rel=stylesheet href=//127.0.0.1:9/a.css>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'><base href=//127.0.0.1:9/>",
    "\u202eevil\u2066\u2028\u2029]]>--><!--<script>",
    "__proto__",
)


@pytest.fixture
def page(chromium):
    context = chromium.new_context()
    yield noting_page(context)
    context.close()


def hostile_result() -> ExperimentResult:
    items = []
    for index, text in enumerate(HOSTILE):
        outputs = {
            "output": f"not {text}",
            text: [text],
            "toolCalls": [ToolCall(text, {text: text}, result=text)],
        }
        results = (
            EvalResult(f"A {text}", 0.2, threshold=0.5, success=False, reason=text, metadata={text: text}),
            EvalResult("B", error=text, fail_on_error=False),
            EvalResult("C", skipped=text),
        )
        example = Example(
            {"input": text, text: text}, {"output": text, text: text}, metadata={"tag": text}, id=text
        )
        metrics = CallMetrics(1, 2, model=text)
        items.append(
            ItemResult(index, example, actual_outputs=outputs, eval_results=results, metrics=metrics)
        )
        items.append(ItemResult(index + len(HOSTILE), Example.of(text), error=text))
    return ExperimentResult(
        name=HOSTILE[0],
        description=HOSTILE[1],
        metadata={HOSTILE[2]: HOSTILE[2]},
        runs=(RunResult(item_results=tuple(items)), RunResult(index=1, item_results=tuple(items))),
        provenance=Provenance(dataset_name=HOSTILE[3], git_commit=HOSTILE[4], command=HOSTILE),
        warnings=HOSTILE,
    )


def plain_result(count: int = 40, runs: int = 1) -> ExperimentResult:
    infos = (EvaluatorInfo(name="Match", threshold=1.0), EvaluatorInfo(name="Quality", threshold=0.5))
    repeats = []
    for run in range(runs):
        items = tuple(plain_item(index, run) for index in range(count))
        repeats.append(RunResult(index=run, item_results=items))
    return ExperimentResult(name="plain", runs=tuple(repeats), evaluators=infos)


def plain_item(index: int, run: int) -> ItemResult:
    example = Example.of(
        f"question {index}", f"the answer is {index}", id=f"q{index}", kind=("even", "odd")[index % 2]
    )
    if index % 10 == 9:
        return ItemResult(index, example, error="TimeoutError: 30 s")
    match = index % 5 != (3 if run == 0 else 4)
    quality = 0.5 + (index % 7) / 20
    results = (
        EvalResult("Match", float(match), threshold=1.0, success=match, reason=f"Compared number {index}."),
        EvalResult("Quality", quality, threshold=0.5, success=True),
    )
    answer = f"the answer is {index if match else 'unknown'}"
    metrics = CallMetrics(10, 5, cost_usd=0.001, latency_ms=100.0 + index)
    return ItemResult(
        index, example, actual_outputs={"output": answer}, eval_results=results, metrics=metrics
    )


def keys(page) -> list[str]:
    return page.eval_on_selector_all(".list tbody tr", "rows => rows.map(row => row.dataset.key)")


def drawer(page):
    return page.locator(".drawer")


def test_hostile_text_is_shown_and_never_runs(page, tmp_path):
    page.goto(export(hostile_result(), tmp_path / "report.html").as_uri())
    rows = len(keys(page))
    assert rows == 2 * len(HOSTILE)
    page.locator(".open").first.click()
    seen = ""
    for _ in range(rows):
        seen += drawer(page).inner_text()
        page.keyboard.press("j")
    for text in HOSTILE[:9]:
        assert text in seen
    page.fill("input[type=search]", "<script>")
    sync_api.expect(page.locator(".summary-line")).not_to_contain_text(f"{rows} of {rows}")
    assert 0 < len(keys(page)) < rows
    assert page.evaluate("window.pwned") is None
    assert (
        page.locator("main img, main iframe, main a[href], .drawer img, .drawer iframe, .drawer a").count()
        == 0
    )
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).display") != "none"
    assert page.evaluate("Object.prototype.pwned === undefined && ({}).tags === undefined")
    assert page.complaints == []


def test_a_hostile_fragment_does_nothing(page, tmp_path):
    url = export(plain_result(), tmp_path / "report.html").as_uri()
    page.goto(
        f"{url}#q=%3Cimg%20src=x%20onerror=window.pwned=1%3E&tag.__proto__=x&show=constructor&by=toString&item=<b>"
    )
    assert page.locator(".empty-state").is_visible()
    assert page.evaluate("window.pwned") is None
    assert page.complaints == []


def test_the_worst_items_come_first(page, tmp_path):
    page.goto(export(plain_result(), tmp_path / "report.html").as_uri())
    assert keys(page)[:4] == ["q9", "q19", "q29", "q39"]
    assert keys(page)[4:7] == ["q3", "q8", "q13"]


def test_chips_filter_and_count(page, tmp_path):
    page.goto(export(plain_result(), tmp_path / "report.html").as_uri())
    for show, count in (("failed", 8), ("errored", 4), ("passed", 28), ("unjudged", 0), ("all", 40)):
        chip = page.locator(f"[data-show={show}]")
        assert chip.locator("b").inner_text() == str(count)
        chip.click()
        assert len(keys(page)) == count
        assert chip.get_attribute("aria-pressed") == "true"


def test_an_empty_list_offers_the_way_back(page, tmp_path):
    page.goto(export(plain_result(), tmp_path / "report.html").as_uri() + "#q=nowhere")
    assert page.locator(".empty-state").is_visible()
    page.get_by_role("button", name="Clear all filters").click()
    assert len(keys(page)) == 40


def test_search_looks_into_outputs_and_reasons(page, tmp_path):
    page.goto(export(plain_result(), tmp_path / "report.html").as_uri())
    page.keyboard.press("/")
    page.keyboard.type("UNKNOWN number 13")
    sync_api.expect(page.locator(".list tbody tr")).to_have_count(1)
    assert keys(page) == ["q13"]


def test_tags_and_evaluators_narrow_the_list(page, tmp_path):
    page.goto(export(plain_result(), tmp_path / "report.html").as_uri())
    page.locator(".toolbar select").nth(1).select_option("odd")
    assert len(keys(page)) == 20
    page.locator(".toolbar select").first.select_option("Quality")
    assert page.locator("[data-show=failed] b").inner_text() == "0"
    assert page.locator("[data-show=all] b").inner_text() == "16"
    assert keys(page)[0] == "q7"


def test_columns_sort_both_ways(page, tmp_path):
    page.goto(export(plain_result(), tmp_path / "report.html").as_uri())
    time_column = page.locator(".list th button", has_text="Time")
    time_column.click()
    assert keys(page)[0] == "q38"
    time_column.click()
    assert keys(page)[0] == "q0"
    page.locator(".list th button", has_text="Quality").click()
    assert keys(page)[0] == "q0"
    mean = page.locator(".evaluators th button", has_text="Mean")
    mean.click()
    mean.click()
    assert page.locator(".evaluators tbody th").first.inner_text().startswith("Match") is True


def test_the_drawer_shows_everything_and_follows_the_keys(page, tmp_path):
    page.goto(export(plain_result(), tmp_path / "report.html").as_uri())
    page.locator("tr[data-key=q3] .open").click()
    text = drawer(page).inner_text()
    for part in (
        "question 3",
        "the answer is 3",
        "the answer is unknown",
        "Compared number 3.",
        "103 ms",
        "$0.0010",
    ):
        assert part in text
    assert page.locator(".drawer del").all_inner_texts() == ["3"]
    assert page.locator(".drawer ins").all_inner_texts() == ["unknown"]
    page.keyboard.press("j")
    assert page.locator("#drawer-title").inner_text() == "q8"
    page.keyboard.press("k")
    assert page.locator("#drawer-title").inner_text() == "q3"
    page.keyboard.press("Escape")
    assert drawer(page).is_hidden()
    assert page.evaluate("document.activeElement.closest('tr').dataset.key") == "q3"
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert page.locator("#drawer-title").inner_text() == "q8"


def test_what_only_evaluators_look_at_is_no_missing_output(page, tmp_path):
    retrieval = Example({"input": "fines?"}, {"relevant": ["fees.md"]}, id="retrieval")
    two_parts = Example({"input": "classify"}, {"output": "a", "category": "money"}, id="two")
    items = (
        ItemResult(0, retrieval, actual_outputs={"retrieved": ["rules.md"]}),
        ItemResult(1, two_parts, actual_outputs={"output": "a", "category": "loans"}),
        ItemResult(2, replace(two_parts, id="half"), actual_outputs={"output": "a"}),
    )
    page.goto(export(ExperimentResult(runs=(RunResult(item_results=items),)), tmp_path / "r.html").as_uri())
    page.locator("tr[data-key=retrieval] .open").click()
    text = drawer(page).inner_text()
    assert "fees.md" in text
    assert "rules.md" in text
    assert "No such output" not in text
    page.keyboard.press("j")
    assert "No such output" not in drawer(page).inner_text()
    page.keyboard.press("j")
    assert drawer(page).inner_text().count("No such output") == 1
    assert page.complaints == []


def test_what_to_look_at_first_opens(page, tmp_path):
    page.goto(export(plain_result(), tmp_path / "report.html").as_uri())
    worst = page.locator("tr[data-key]").first.get_attribute("data-key")
    page.locator(".first .key").first.click()
    assert page.locator("#drawer-title").inner_text() == worst


def test_the_state_is_in_the_address(page, tmp_path):
    url = export(plain_result(runs=2), tmp_path / "report.html").as_uri()
    page.goto(url)
    page.locator("[data-show=changed]").click()
    page.locator("tr[data-key=q13] .open").click()
    page.get_by_role("button", name="Run 2").click()
    address = page.url
    assert "show=changed" in address
    page.goto("about:blank")
    page.goto(address)
    assert page.locator("#drawer-title").inner_text() == "q13"
    assert page.locator(".runs th.shown").inner_text() == "Run 2"
    assert all(int(key[1:]) % 5 in (3, 4) for key in keys(page))


def test_without_script_the_summary_is_there(chromium, tmp_path):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(export(plain_result(), tmp_path / "report.html").as_uri())
    assert "70.0 % passed" in page.inner_text("header")
    assert "worst of 40 items" in page.inner_text("#items")
    context.close()


CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const channels = (color, under) => {
    canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = getComputedStyle(document.documentElement);
  const token = (name) => style.getPropertyValue(name).trim();
  const worst = [];
  for (const fore of ['--fg', '--muted', '--accent', '--pass', '--fail', '--warn'])
    for (const back of ['--bg', '--surface', '--sunk']) {
      const [a, b] = [light(channels(token(fore), '#000')), light(channels(token(back), '#000'))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < 4.5) worst.push(`${fore} on ${back}: ${ratio.toFixed(2)}`);
    }
  return worst;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(page, tmp_path, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(export(plain_result(), tmp_path / "report.html").as_uri())
    assert page.evaluate(CONTRAST) == []


def test_a_narrow_window_does_not_scroll_sideways(page, tmp_path):
    page.set_viewport_size({"width": 380, "height": 800})
    page.goto(export(plain_result(runs=3), tmp_path / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    page.locator(".open").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 380


@pytest.mark.slow
def test_ten_thousand_items_open_and_filter_quickly(page, tmp_path):
    path = export(plain_result(10_000), tmp_path / "report.html")
    started = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_selector(".list tbody tr")
    assert time.perf_counter() - started < 20
    started = time.perf_counter()
    page.fill("input[type=search]", "number 9998")
    sync_api.expect(page.locator(".list tbody tr")).to_have_count(1)
    assert time.perf_counter() - started < 20
    page.locator("[data-show=failed]").click()
    page.fill("input[type=search]", "")
    sync_api.expect(page.locator(".summary-line")).to_contain_text("2,000 of 10,000")
    page.locator(".more").scroll_into_view_if_needed()
    sync_api.expect(page.locator(".list tbody tr")).not_to_have_count(100)
    assert 100 < len(keys(page)) < 1_000
    assert page.complaints == []
