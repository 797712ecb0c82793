"""What the run report and the gate's page show of an item, in a real browser."""

from __future__ import annotations

import time

import pytest

from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos.comparison import Snapshot
from dokimos.exporters._base import export
from dokimos.gate import RegressionGate

pytestmark = pytest.mark.browser

HOSTILE = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>"
MARKDOWN = f"""# Returns {HOSTILE}

You can return it **within 30 days**, see [the policy](javascript:window.pwned=1) ![x](http://127.0.0.1:9/x.png):

- it is *clean* and `complete`
- you have the receipt {HOSTILE}

| Item | Days |
|---|---|
| Tent | <b>30</b> |

```html
{HOSTILE}
```
"""
JUDGE = "OpenAIResponses gpt-5-mini at https://api.openai.com/v1 (temperature=0.0)"
INFOS = (
    EvaluatorInfo(name="Match", registry_name="exact_match", threshold=1.0),
    EvaluatorInfo(
        name="Faithfulness", registry_name="faithfulness", threshold=0.8, parameters={"judge": JUDGE}
    ),
    EvaluatorInfo(
        name="Recall", registry_name="recall", threshold=0.5, parameters={"matching": "ignore_case", "k": 3}
    ),
)


def result_of(*items, **fields):
    return ExperimentResult(
        name="support", runs=(RunResult(item_results=items),), **({"evaluators": INFOS} | fields)
    )


def judged(index, *, passed, output, expected="48,200", **outputs):
    example = Example({"input": f"question {index}"}, {"output": expected}, id=f"q{index}")
    result = EvalResult("Match", float(passed), threshold=1.0, success=passed, reason="Compared.")
    return ItemResult(index, example, actual_outputs={"output": output, **outputs}, eval_results=(result,))


def opened(open_page, tmp_path, result, **options):
    return open_page(export(result, tmp_path / "report.html"), **options)


@pytest.mark.parametrize("width", [1280, 390])
def test_rows_show_what_it_got_and_what_was_wanted(open_page, tmp_path, width):
    page = opened(open_page, tmp_path, result_of(judged(0, passed=False, output="13")), width=width)
    lines = page.locator("tr[data-key=q0] .open > span").all_inner_texts()
    assert [line.split() for line in lines] == [
        ["q0", "question", "0"],
        ["got", "13"],
        ["want", "48,200"],
        ["Match", "0.00", "Compared."],
    ]


def test_what_passed_is_not_painted_as_wrong_until_someone_asks(open_page, tmp_path):
    result = result_of(judged(0, passed=True, output='{"answer": "48200"}'))
    page = opened(open_page, tmp_path, result, fragment="#item=q0")
    drawer = page.locator(".drawer")
    assert drawer.locator("del, ins").count() == 0
    assert "It passed as it is." in drawer.inner_text()
    drawer.get_by_role("button", name="mark the differences").click()
    assert drawer.locator("del").count() > 0


def test_only_the_turn_that_failed_is_painted(open_page, tmp_path):
    turns = [
        {"input": "How much?", "output": '{"answer": "48200"}'},
        {"input": "And before?", "output": "12"},
    ]
    rows = [{"turn": 0, "score": 1.0, "success": True}, {"turn": 1, "score": 0.0, "success": False}]
    item = ItemResult(
        0,
        Example({"input": "How much?"}, {"turns": ["48,200", "13"]}, id="talk"),
        actual_outputs={"turns": turns},
        eval_results=(EvalResult("Match", 0.5, threshold=1.0, success=False, metadata={"turns": rows}),),
    )
    page = opened(open_page, tmp_path, result_of(item), fragment="#item=talk")
    first, second = page.locator(".thread > li").all()
    assert first.locator("del, ins").count() == 0
    assert second.locator("del").all_inner_texts() == ["13"]
    assert second.locator("ins").all_inner_texts() == ["12"]


def test_markdown_is_readable_and_does_nothing(open_page, tmp_path):
    page = opened(
        open_page, tmp_path, result_of(judged(0, passed=True, output=MARKDOWN)), fragment="#item=q0"
    )
    prose = page.locator(".drawer .prose")
    assert prose.locator(".heading").inner_text() == f"Returns {HOSTILE}"
    assert prose.locator("strong").inner_text() == "within 30 days"
    assert prose.locator("li").count() == 2
    assert prose.locator("td").all_inner_texts() == ["Tent", "<b>30</b>"]
    assert HOSTILE in prose.locator("pre").inner_text()
    assert "the policy (javascript:window.pwned=1)" in prose.inner_text()
    assert prose.locator("a, img, script, b").count() == 0
    page.get_by_role("button", name="show as written").click()
    assert page.locator(".drawer pre.text:visible").nth(2).inner_text().startswith("# Returns")


@pytest.mark.parametrize(
    "text", ["plain text with 2 * 3 * 4 and a_b_c", '{"list": ["**x**"]}', "1. only one", "* one star", "**"]
)
def test_texts_that_are_no_markdown_stay_as_they_are(open_page, tmp_path, text):
    page = opened(open_page, tmp_path, result_of(judged(0, passed=True, output=text)), fragment="#item=q0")
    assert page.locator(".drawer .prose").count() == 0
    assert text in page.locator(".drawer pre.text").all_inner_texts()


def test_hard_markdown_is_formatted_in_no_time(open_page, tmp_path):
    hard = "**a** " + "[" * 4000 + "*_" * 2000 + "`" * 999 + "\n" + "> " * 500 + "\n|" * 300
    started = time.perf_counter()
    page = opened(open_page, tmp_path, result_of(judged(0, passed=True, output=hard)), fragment="#item=q0")
    assert page.locator(".drawer .prose").count() == 1
    assert time.perf_counter() - started < 20


def test_chunks_are_listed_once_as_found_or_missed(open_page, tmp_path):
    example = Example(
        {"input": "q"}, {"output": "a", "relevant": ["TENTS: 30 DAYS.", f"Zips {HOSTILE}"]}, id="rag"
    )
    chunks = ["Tents: 30 days.", "Stoves."]
    recall = EvalResult("Recall", 0.5, threshold=0.5, success=True)
    outputs = {"output": "a", "retrieved": chunks, "context": [*chunks, {"id": "d3", "text": "Fees."}]}
    item = ItemResult(0, example, actual_outputs=outputs, eval_results=(recall,))
    page = opened(open_page, tmp_path, result_of(item), fragment="#item=rag")
    drawer = page.locator(".drawer")
    assert "Retrieved (1 of 2 relevant found)" in drawer.inner_text()
    signs = [line.split("\n")[0] for line in drawer.locator(".chunk .sign").all_inner_texts()]
    assert signs == ["✓ found", "· not relevant", "· not relevant", "✗ missed"]
    assert drawer.inner_text().count("Stoves.") == 1
    assert "d3" in drawer.locator(".chunk").nth(2).inner_text()
    assert f"Zips {HOSTILE}" in drawer.locator(".missed").inner_text()


def test_claims_are_a_list_with_what_is_said_of_each(open_page, tmp_path):
    claims = [
        {"claim": "Refunds are full.", "verdict": "no", "reason": f"A fee is kept {HOSTILE}."},
        {"claim": "Tents can be returned.", "verdict": "yes", "reason": "Chunk 1."},
        {"claim": "Shipping is free.", "verdict": "idk", "reason": ""},
    ]
    faithful = EvalResult("Faithfulness", 0.33, threshold=0.8, success=False, metadata={"claims": claims})
    item = ItemResult(0, Example.of("q", id="q0"), actual_outputs={"output": "a"}, eval_results=(faithful,))
    page = opened(open_page, tmp_path, result_of(item), fragment="#item=q0")
    rows = page.locator(".drawer .verdicts li").all_inner_texts()
    assert "✗ contradicted" in rows[0]
    assert "Refunds are full." in rows[0]
    assert f"A fee is kept {HOSTILE}." in rows[0]
    assert "✓ supported" in rows[1]
    assert "? not in the context" in rows[2]
    assert "1 of 3 claims: supported" in page.locator(".drawer").inner_text()


def test_judges_settings_and_the_model_are_named(open_page, tmp_path):
    result = result_of(judged(0, passed=True, output="x"), metadata={"model": f"gpt-5 {HOSTILE}"})
    faithful = EvalResult("Faithfulness", 1.0, threshold=0.8, success=True)
    recall = EvalResult("Recall", 1.0, threshold=0.5, success=True)
    item = result.runs[0].item_results[0]
    both = ItemResult(0, item.example, actual_outputs={}, eval_results=(faithful, recall))
    page = opened(open_page, tmp_path, result_of(both, metadata=result.metadata))
    assert f"gpt-5 {HOSTILE}" in page.locator("header .facts").inner_text()
    names = page.locator(".evaluators tbody th").all_inner_texts()
    assert "gpt-5-mini · at least 0.80" in names[0]
    assert "matching: ignore_case · k: 3" in names[1]


def test_columns_without_content_are_not_there(open_page, tmp_path):
    page = opened(open_page, tmp_path, result_of(judged(0, passed=True, output="x")))
    heads = page.locator(".evaluators thead th").all_inner_texts()
    assert heads == ["Evaluator", "Mean", "Pass rate", "Passed", "Scores 0 to 1"]
    heads = [head.strip(" ↑") for head in page.locator(".list thead th").all_inner_texts()]
    assert heads == ["Outcome", "Item", "Match"]


def mapped(count=12):
    items = []
    for index in range(count):
        results = [EvalResult("Match", float(index > 2), threshold=1.0, success=index > 2)]
        if index % 2:
            results.append(EvalResult("Faithfulness", 0.9, threshold=0.8, success=True))
        example = Example.of(f"question {index}", id=f"q{index}")
        items.append(ItemResult(index, example, actual_outputs={"output": "x"}, eval_results=tuple(results)))
    items.append(ItemResult(count, Example.of("boom", id="boom"), error="KeyError: 'x'"))
    return result_of(*items)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_map_is_read_and_opened_with_the_keyboard(open_page, tmp_path, width, scheme):
    page = opened(open_page, tmp_path, mapped(), width=width, scheme=scheme)
    rows = page.locator(".heat th").all_inner_texts()
    assert rows == ["whole item", "Match", "Faithfulness"]
    page.locator(".map").focus()
    tell = page.locator(".tell")
    assert tell.inner_text() == "boom · whole item: ! error"
    page.keyboard.press("ArrowDown")
    assert tell.inner_text() == "boom · Match: not applied"
    page.keyboard.press("ArrowRight")
    assert tell.inner_text() == "q0 · Match: ✗ fail 0.00"
    page.keyboard.press("End")
    assert tell.inner_text() == "q10 · Match: ✓ pass 1.00"
    page.keyboard.press("Enter")
    assert page.locator("#drawer-title").inner_text() == "q10"


def test_a_click_in_the_map_opens_the_item(open_page, tmp_path):
    page = opened(open_page, tmp_path, mapped())
    picture = page.locator(".heat svg").nth(1)
    box = picture.bounding_box()
    picture.click(position={"x": box["width"] / 13 * 1.5, "y": box["height"] / 2})
    assert page.locator("#drawer-title").inner_text() == "q0"


def test_shapes_in_the_map_tell_outcomes_apart_without_colour(open_page, tmp_path):
    page = opened(open_page, tmp_path, mapped())
    heights = page.evaluate(
        "Object.fromEntries(['errored', 'failed', 'passed'].map(kind => "
        "[kind, document.querySelector(`.legend path.${kind}`).getAttribute('d')]))"
    )
    assert len(set(heights.values())) == 3


def many(evaluators, items):
    infos = tuple(EvaluatorInfo(name=f"Evaluator {e}", threshold=0.5) for e in range(evaluators))
    results = tuple(
        EvalResult(info.name, (e % 11) / 10, threshold=0.5, success=e % 11 >= 5, reason="Counted.")
        for e, info in enumerate(infos)
    )
    found = [
        ItemResult(
            index, Example.of(f"question {index}", id=f"q{index}"), actual_outputs={"output": "x"},
            eval_results=results, metrics=CallMetrics(latency_ms=100.0),
        )
        for index in range(items)
    ]  # fmt: skip
    return result_of(*found, evaluators=infos)


@pytest.mark.slow
def test_five_thousand_evaluators_open_quickly(open_page, tmp_path):
    path = export(many(5_000, 4), tmp_path / "report.html")
    started = time.perf_counter()
    page = open_page(path)
    page.wait_for_selector(".list tbody tr")
    assert time.perf_counter() - started < 15  # 1 to 2 s on a machine that does nothing else
    assert page.locator(".evaluators").first.locator("tbody tr").count() == 100
    page.locator("details.more-rows > summary").click()
    assert page.locator("details.more-rows .name").count() == 0  # they are links now
    page.locator("details.more-rows .link").first.click()
    assert page.evaluate("location.hash.includes('by=')")


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_gates_page_has_the_verdict_first_and_the_items_that_count(open_page, tmp_path, width, scheme):
    infos = INFOS[:1]
    good = result_of(*(judged(i, passed=True, output=f"Yes {HOSTILE}") for i in range(12)), evaluators=infos)
    bad = result_of(*(judged(i, passed=i > 7, output="No") for i in range(12)), evaluators=infos)
    (tmp_path / "pyproject.toml").write_text("")
    verdict = RegressionGate(root=tmp_path).check_against(bad, Snapshot.of(good))
    path = tmp_path / "gate.html"
    path.write_text(verdict.to_html(), encoding="utf-8")
    page = open_page(path, width=width, scheme=scheme)

    assert "✗ The gate failed" in page.locator("header .verdict").inner_text()
    assert page.locator("header").bounding_box()["y"] < page.locator(".guards").bounding_box()["y"]
    assert "1 · Broad regression" in page.locator(".guards").inner_text()
    page.locator("[data-show=counts]").click()
    assert page.locator(".list tbody tr").count() == 8
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    assert page.locator(".drawer .pair pre").all_inner_texts() == [f"Yes {HOSTILE}", "No"]


def test_chunks_under_a_key_of_the_users_own_are_found_by_the_evaluators_settings(open_page, tmp_path):
    settings = {"contexts_key": "hits", "expected_key": "gold", "matching": {"field": "id"}}
    infos = (EvaluatorInfo(name="Recall", registry_name="recall", parameters=settings),)
    example = Example({"input": "q"}, {"gold": [{"id": "a"}, {"id": "z"}]}, id="own")
    hits = [{"id": "a", "text": "Tents."}, {"id": "b", "text": "Stoves."}]
    recall = EvalResult("Recall", 0.5, threshold=0.5, success=True)
    item = ItemResult(0, example, actual_outputs={"hits": hits}, eval_results=(recall,))
    page = opened(open_page, tmp_path, result_of(item, evaluators=infos), fragment="#item=own")
    assert page.locator(".drawer .chunk .sign").all_inner_texts() == ["✓ found", "· not relevant", "✗ missed"]


def test_what_only_a_judge_can_match_is_not_marked(open_page, tmp_path):
    infos = (EvaluatorInfo(name="Recall", registry_name="recall", threshold=0.5,
                           parameters={"matching": {"llm": "openai:gpt-5-mini"}}),)  # fmt: skip
    example = Example({"input": "q"}, {"relevant": ["Tents may be returned."]}, id="own")
    recall = EvalResult("Recall", 1.0, threshold=0.5, success=True)
    item = ItemResult(0, example, actual_outputs={"contexts": ["Return tents."]}, eval_results=(recall,))
    page = opened(open_page, tmp_path, result_of(item, evaluators=infos), fragment="#item=own")
    assert page.locator(".drawer .chunk").count() == 2
    assert page.locator(".drawer .chunk .sign").count() == 0


def test_chunks_of_the_data_set_are_shown_once_and_not_as_metadata(open_page, tmp_path):
    about = {"contexts": ["Tents."], "relevant": ["Tents.", "Zips."], "topic": "returns"}
    example = Example({"input": "q"}, {"output": "a"}, metadata=about, id="row")
    item = ItemResult(0, example, actual_outputs={"output": "a"})
    page = opened(open_page, tmp_path, result_of(item), fragment="#item=row")
    assert page.locator(".drawer .chunk .sign").all_inner_texts() == ["✓ found", "✗ missed"]
    assert page.locator(".drawer").inner_text().count("Tents.") == 1
    assert "topic: returns" in page.locator(".drawer").inner_text()
