"""Runs of a grid of prompts and providers as one table, in a browser."""

import json
import urllib.request

import pytest
from tests.e2e.conftest import visits

HOSTILE = "<img src=x onerror='window.pwned=1'>\u202e{{question}}"
PROMPTS = ("Answer in one word: {{question}}", "Think first, then answer: {{question}}", HOSTILE)
PROVIDERS = ("openai:gpt-5-mini", "ollama:llama3.2")
PHONE = 360
ITEMS = 30
"""Of each run; the first errors with the first prompt, and one run lacks the last."""


def send(server, method, path, body):
    request = urllib.request.Request(
        f"{server}/api/v1{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def read(server, path):
    with urllib.request.urlopen(f"{server}/api/v1{path}", timeout=60) as reply:
        return json.load(reply)


def item(number, passed, **fields):
    score = {"name": "exact", "score": float(passed), "threshold": 1.0, "success": passed}
    return {
        "inputs": {"input": f"What is the capital of country {number}?"},
        "expectedOutputs": {"output": f"City {number}"},
        "actualOutputs": {"output": f"City {number}" if passed else f"<b>Town</b> {number}"},
        "evalResults": [score],
        "metadata": {"dokimos": {"id": f"capital-{number:03}"}},
        "ordinal": number,
        "success": passed,
        "latencyMs": 100 + number,
        **fields,
    }


def store(server, experiment, metadata, items, *, status="SUCCESS"):
    body = {"experimentName": experiment, "metadata": metadata, "name": f"run of {experiment}"}
    run = send(server, "POST", "/projects/geo/runs", body)["runId"]
    send(server, "POST", f"/runs/{run}/items", {"items": items})
    send(server, "PATCH", f"/runs/{run}", {"status": status})
    return run


@pytest.fixture(scope="module")
def server(start_server):
    return start_server().address


@pytest.fixture(scope="module")
def grid(server):
    """An experiment with six combinations, and the run of each."""
    runs = {}
    for a, prompt in enumerate(PROMPTS):
        for b, provider in enumerate(PROVIDERS):
            items = [item(n, n % 3 >= a and (n + b) % 7 != 0) for n in range(ITEMS)]
            if a == 0:
                items[0] = item(0, False, error="the model did not answer", evalResults=[], actualOutputs={})
            if (a, b) == (1, 1):
                items.pop()
            metadata = {"matrix": ["prompt", "provider"], "prompt": prompt, "provider": provider}
            runs[prompt, provider] = store(server, "Capitals", metadata, items)
    return read(server, f"/runs/{next(iter(runs.values()))}?size=1")["experimentId"], runs


@pytest.fixture(scope="module")
def wide(server):
    """An experiment with twenty-five combinations of two hundred items, one more than a matrix shows."""
    items = [item(n, n % 5 > 0) for n in range(200)]
    for n in range(25):
        run = store(server, "Models", {"model": f"model-{n}"}, items)
    return read(server, f"/runs/{run}?size=1")["experimentId"]


@pytest.fixture
def visit(chromium, server):
    with visits(chromium, server) as open_page:
        yield open_page


def cells(page):
    return page.locator("[data-cell]")


def open_matrix(visit, experiment, query="", **options):
    page = visit(f"/experiments/{experiment}/matrix{query}", **options)
    page.get_by_role("row").get_by_text("What is the capital").first.wait_for()
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, PHONE])
def test_a_matrix_has_a_column_for_each_combination_and_keeps_nobody_out(
    visit, grid, find_barriers, width, scheme
):
    page = open_matrix(visit, grid[0], width=width, scheme=scheme)

    assert find_barriers(page) == []
    if width == PHONE:
        assert page.get_by_label("Column", exact=True).locator("option").count() == 6
        return
    assert page.get_by_role("grid").get_attribute("aria-colcount") == "7"
    heads = page.locator(".matrix-runs [role=columnheader]").all_inner_texts()
    assert len(heads) == 7
    # The errors of a run have a count of their own, and are in no rate.
    short = next(head for head in heads if "Answer in one word" in head)
    assert "25/29" in short
    assert "1 error" in short
    assert "114 ms median" in short
    groups = page.locator(".matrix-groups [role=columnheader]").all_inner_texts()
    assert groups[1:] == sorted(PROVIDERS)
    assert page.locator(".matrix img, .matrix b b").count() == 0
    assert any("<img src=x" in head and "⟨U+202E⟩" in head for head in heads)


def test_the_grouping_is_swapped_and_stands_in_the_address(visit, grid):
    page = open_matrix(visit, grid[0])

    page.get_by_role("button", name="Swap").click()

    page.locator(".matrix-groups").get_by_text("Think first").wait_for()
    assert "group=prompt" in page.url
    assert "by=provider" in page.url
    page.reload()
    page.locator(".matrix-groups").get_by_text("Think first").wait_for()
    assert page.get_by_label("Grouped by").input_value() == "prompt"


def test_filters_and_search_leave_rows_and_stand_in_the_address(visit, grid):
    page = open_matrix(visit, grid[0])
    rows = page.locator(".matrix-body [role=row]")
    # Neither an error nor a missing item makes a difference between cells: the first is failed by all others.
    page.get_by_role("button", name="Errors").click()
    page.wait_for_function("() => document.querySelectorAll('.matrix-body [role=row]').length === 1")
    assert "capital-000" in rows.first.inner_text()
    page.get_by_role("button", name="Errors").click()
    page.get_by_role("button", name="Cells differ").click()
    page.wait_for_function("() => !document.querySelector('.matrix-body').innerText.includes('capital-000')")
    assert "show=differ" in page.url

    page.get_by_label("Search items").fill("country 22")

    page.wait_for_function("() => document.querySelectorAll('.matrix-body [role=row]').length === 1")
    assert "capital-022" in rows.first.inner_text()
    assert "search=" in page.url
    page.get_by_label("Search items").fill("nobody said this")
    page.get_by_text("No such item").wait_for()


def test_the_keyboard_moves_between_cells_opens_one_and_comes_back(visit, grid):
    page = open_matrix(visit, grid[0])
    cells(page).first.focus()
    for key, cell in (
        ("ArrowRight", "0:1"),
        ("j", "1:1"),
        ("l", "1:2"),
        ("End", "1:5"),
        ("h", "1:4"),
        ("k", "0:4"),
    ):
        page.keyboard.press(key)
        page.locator(f"[data-cell='{cell}']:focus").wait_for()
    # One cell alone is reached by the tab key.
    assert page.locator("[data-cell][tabindex='0']").count() == 1

    page.keyboard.press("Enter")

    drawer = page.get_by_label("Item", exact=True)
    drawer.get_by_role("heading", name="Input").wait_for()
    column = page.url.split("column=")[1].split("&")[0]
    assert column in grid[1].values()
    first = drawer.get_by_role("heading").first.inner_text()
    page.keyboard.press("j")
    page.wait_for_function("text => document.querySelector('.drawer h2').innerText !== text", arg=first)
    assert f"column={column}" in page.url
    page.keyboard.press("Escape")
    page.locator("[data-cell='0:4']:focus").wait_for()
    assert "item=" not in page.url


def test_an_item_that_a_run_does_not_have_is_said_and_does_not_open(visit, grid):
    page = open_matrix(visit, grid[0], "?show=missing")
    missing = page.get_by_role("gridcell").get_by_text("not in this run")
    missing.first.wait_for()
    assert missing.count() == 1

    missing.click(force=True)

    assert "item=" not in page.url
    assert page.locator(".drawer").count() == 0


def test_a_cell_of_the_address_is_open(visit, grid):
    run = grid[1][PROMPTS[0], PROVIDERS[0]]
    page = open_matrix(visit, grid[0], f"?item=capital-000&column={run}")

    page.locator(".drawer").get_by_text("the model did not answer").first.wait_for()
    assert f"column={run}" in page.url
    assert page.locator(".drawer").count() == 1


def test_of_many_columns_only_those_in_sight_are_asked_for(visit, wide):
    page = open_matrix(visit, wide)
    page.get_by_text("24 of 25 combinations are shown").wait_for()
    page.get_by_text("Too close to call").wait_for()
    assert page.get_by_role("grid").get_attribute("aria-colcount") == "25"
    assert page.locator(".matrix-groups").count() == 0
    assert cells(page).count() < 24 * 20
    runs = {url.split("/runs/")[1].split("?")[0] for url in page.asked if "ordinal=" in url}
    assert 0 < len(runs) < 10

    page.locator(".matrix").evaluate("box => box.scrollTo(box.scrollWidth, box.scrollHeight)")

    page.locator("[data-cell='199:23']").get_by_text("City").wait_for()
    assert cells(page).count() < 24 * 20
    for url in page.asked:
        assert url.count("ordinal=") <= 20
    page.get_by_role("grid").evaluate("box => box.scrollTo(0, 0)")
    page.locator("[data-cell='0:0']").focus()
    page.keyboard.press("End")
    page.locator("[data-cell='0:23']:focus").wait_for()


def test_on_a_phone_one_column_is_shown_with_a_switch(visit, grid):
    page = open_matrix(visit, grid[0], width=PHONE)
    assert {cell.get_attribute("data-cell").split(":")[1] for cell in cells(page).all()} == {"0"}
    column = page.get_by_label("Column", exact=True)
    page.get_by_text("column 1 of 6").wait_for()

    page.get_by_role("button", name="Next column").click()

    page.get_by_text("column 2 of 6").wait_for()
    assert "column=" in page.url
    column.select_option("5")
    page.get_by_text("column 6 of 6").wait_for()
    assert page.get_by_role("button", name="Next column").is_disabled()
    cells(page).first.click()
    page.get_by_label("Item", exact=True).get_by_role("heading", name="Input").wait_for()
    page.get_by_role("button", name="Close").click()
    page.get_by_text("column 6 of 6").wait_for()


def test_the_ways_to_a_matrix(visit, grid, wide):
    page = visit(f"/experiments/{wide}")
    boxes = page.get_by_role("checkbox", name="Compare run of Models")
    boxes.nth(5).wait_for()
    for place in range(6):
        boxes.nth(place).check()
    assert page.get_by_role("link", name="Compare 6 runs").count() == 0
    page.get_by_role("link", name="Show 6 runs as matrix").click()
    page.get_by_role("grid").wait_for()
    assert page.get_by_role("grid").get_attribute("aria-colcount") == "7"
    assert page.get_by_text("chosen runs").count() == 1

    experiment, runs = grid
    baseline, candidate, *_ = runs.values()
    page = visit(f"/experiments/{experiment}/runs/{candidate}/diff?baselineRunId={baseline}")
    page.get_by_role("link", name="Show as matrix").click()
    page.get_by_role("grid").wait_for()
    assert page.get_by_role("grid").get_attribute("aria-colcount") == "3"

    page = visit(f"/experiments/{experiment}")
    page.get_by_role("link", name="Show as matrix").click()
    page.get_by_role("grid").wait_for()
    assert page.get_by_role("grid").get_attribute("aria-colcount") == "7"


def test_runs_that_name_no_parameters_make_no_matrix_by_themselves(visit, server):
    run = store(server, "plain", {}, [item(0, True)])
    experiment = read(server, f"/runs/{run}?size=1")["experimentId"]
    page = visit(f"/experiments/{experiment}/matrix")

    page.get_by_text("The runs of this experiment name no parameters").wait_for()
    page.get_by_role("link", name="Choose runs").click()
    page.get_by_role("heading", name="Runs").wait_for()
    assert page.get_by_role("link", name="Show as matrix").count() == 0


def test_a_run_of_a_matrix_is_compared_with_the_one_before_of_its_combination(visit, server):
    runs = [
        store(server, "again", {"matrix": "prompt", "prompt": prompt}, [item(0, True)])
        for prompt in ("short", "long", "short")
    ]
    experiment = read(server, f"/runs/{runs[0]}?size=1")["experimentId"]
    page = visit(f"/experiments/{experiment}")

    compare = page.get_by_role("table").get_by_role("link", name="Compare")
    compare.wait_for()  # the others are the first of their combinations
    assert compare.get_attribute("href").endswith(f"{runs[2]}/diff?baselineRunId={runs[0]}")


def test_trends_of_a_matrix_are_of_one_combination_that_the_address_names(visit, server):
    passes = {"short": (10, 5), "long": (2, 1, 0)}
    for prompt, counts in passes.items():
        for passed in counts:
            items = [item(number, number < passed) for number in range(10)]
            store(server, "trends", {"matrix": "prompt", "prompt": prompt}, items)
    experiment = read(server, "/projects/geo/experiments?search=trends")[0]["id"]
    page = visit(f"/experiments/{experiment}")

    chosen = page.get_by_label("Combination")
    chosen.wait_for()
    assert chosen.locator("option").all_inner_texts() == ["prompt: long (3 runs)", "prompt: short (2 runs)"]
    page.get_by_text("Over 3 runs").wait_for()
    page.get_by_role("img", name="exact: mean score 0.20, 0.10, 0.00").wait_for()

    chosen.select_option("prompt: short (2 runs)")
    page.get_by_text("Over 2 runs").wait_for()
    page.reload()
    page.get_by_role("img", name="exact: mean score 1.00, 0.50").wait_for()
    assert "combination=" in page.url
    chosen.select_option("prompt: long (3 runs)")
    page.get_by_text("Over 3 runs").wait_for()
    assert "combination=" not in page.url


def test_a_run_that_is_gone_has_no_column(chromium, server, grid):
    experiment, runs = grid
    ids = [*list(runs.values())[:2], "00000000-0000-7000-8000-000000000000"]
    with visits(chromium, server, "404") as visit:
        page = open_matrix(visit, experiment, f"?runs={','.join(ids)}")
        page.get_by_text("1 run of this address is not here any more").wait_for()
        assert page.get_by_role("grid").get_attribute("aria-colcount") == "3"


def test_the_best_column_is_marked_where_it_is_more_than_chance(visit, server):
    for model, good in (("good", 40), ("bad", 5), ("worse", 3)):
        run = store(server, "clear", {"model": model}, [item(n, n < good) for n in range(40)])
    experiment = read(server, f"/runs/{run}?size=1")["experimentId"]
    page = open_matrix(visit, experiment)

    assert page.locator(".verdict").inner_text().startswith("★ good")
    assert page.locator(".matrix-runs .tag.best").count() == 1


def test_few_items_make_no_column_the_best_and_the_page_says_why(visit, server):
    for model, good in (("lucky", 3), ("unlucky", 0)):
        run = store(server, "few", {"model": model}, [item(n, n < good) for n in range(3)])
    page = open_matrix(visit, read(server, f"/runs/{run}?size=1")["experimentId"])

    page.get_by_text("Too close to call").wait_for()
    assert page.locator(".matrix-runs .tag.best").count() == 0
    said = page.locator(".sentence").inner_text()
    assert "over 3 items that both judged" in said
    assert "better on 3 items and worse on 0, too few to rule out chance (exact test, p = 0.250)" in said


def test_runs_that_judged_nothing_have_no_best_and_no_rate(visit, server):
    for model in ("one", "other"):
        items = [item(n, True, evalResults=[], success=None) for n in range(3)]
        run = store(server, "unjudged", {"model": model}, items)
    page = open_matrix(visit, read(server, f"/runs/{run}?size=1")["experimentId"])

    page.get_by_text("Fewer than two of these runs judged any item").wait_for()
    assert "%" not in page.locator(".matrix-runs").inner_text()
    assert page.get_by_text("3 not judged").count() == 2


def test_a_row_says_that_two_prompts_ask_its_item_otherwise(visit, server):
    for prompt in ("Think first.", "One word."):
        items = [item(0, True), item(1, True, inputs={"input": f"{prompt} What is the capital?"})]
        run = store(server, "asked", {"prompt": prompt}, items)
    page = open_matrix(visit, read(server, f"/runs/{run}?size=1")["experimentId"])

    page.get_by_text("inputs differ by column").wait_for()
    heads = page.get_by_role("rowheader").all_inner_texts()
    assert ["differ" in head for head in heads] == [False, True]


def test_two_prompts_on_two_models_fit_a_page_without_scrolling(visit, server):
    for prompt in ("short", "careful"):
        for model in ("small", "large"):
            metadata = {"prompt": prompt, "model": model}
            run = store(server, "four", metadata, [item(n, True) for n in range(20)])
    page = open_matrix(visit, read(server, f"/runs/{run}?size=1")["experimentId"])

    for part in (".matrix-runs", ".matrix-row"):
        last = page.locator(f"{part} > *:last-child").first.bounding_box()
        box = page.get_by_role("grid").bounding_box()
        # The columns share the whole width, but for what the scroll bar takes.
        assert 0 <= box["x"] + box["width"] - last["x"] - last["width"] <= 20
    assert page.get_by_role("grid").evaluate("box => box.scrollWidth - box.clientWidth") <= 0


def test_what_an_address_may_not_say_is_not_there(visit, grid):
    bad = "?group=__proto__&by=constructor&show=most&scores=<b>&search=[1]&item=nobody&column=none"
    page = open_matrix(visit, grid[0], bad)

    assert "show=" not in page.url
    page.get_by_text(f"{ITEMS} of {ITEMS} items in 6 runs").wait_for()
    assert page.locator(".drawer").count() == 0
    page = visit(f"/runs/{next(iter(grid[1].values()))}?outcome=most&order=most&rows=most")
    page.get_by_text("What is the capital").first.wait_for()
    assert "most" not in page.url
