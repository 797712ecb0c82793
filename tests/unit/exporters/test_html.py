from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from dokimos._core.agent import ToolCall
from dokimos._core.contexts import NAMES
from dokimos._core.example import Example
from dokimos._core.provenance import EvaluatorInfo, Provenance
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult, RunStatus
from dokimos.exporters._base import export, render
from dokimos.exporters._html_page import asset


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]


def data_of(text):
    return json.loads(
        re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1]
    )


def test_the_first_screen_needs_no_script(make_result):
    text = render(make_result(), "html")
    static = text[: text.index("<noscript>")]
    assert "50.0 % passed" in static
    assert "95 % interval 31.4 to 68.6 %" in static
    assert "21/24 priced" in static
    assert "at most 0.60 · lower is better" in static


def test_without_script_the_worst_items_are_listed(make_result):
    text = render(make_result(items=100), "html")
    fallback = re.search("<noscript>(.*?)</noscript>", text, re.DOTALL)[1]
    assert "20 worst of 100 items" in fallback
    assert "qa-006" in fallback


def test_nothing_is_loaded_or_styled_from_elsewhere(make_result):
    tags = Tags(render(make_result(runs=3), "html"))
    assert {"img", "link", "iframe", "object", "base", "form"}.isdisjoint(tags.tags)
    names = {name for _, name, _ in tags.attributes}
    assert {"src", "style", "action"}.isdisjoint(names)
    assert not any(name.startswith("on") for name in names)
    assert [value for _, name, value in tags.attributes if name == "href"] == ["#items"]


def test_foreign_text_never_becomes_markup(make_result):
    hostile = '"><script>alert(1)</script><!--</style><svg onload=alert(1)>'
    item = ItemResult(
        0,
        Example.of(hostile, hostile, id=hostile, category=hostile),
        actual_outputs={hostile: hostile, "toolCalls": [{"name": hostile}]},
        eval_results=(EvalResult.failed(hostile, reason=hostile),),
    )
    result = ExperimentResult(
        name=hostile,
        description=hostile,
        metadata={hostile: hostile},
        runs=(RunResult(item_results=(item,)),),
        warnings=(hostile,),
    )
    text = render(result, "html")
    plain = Tags(render(make_result(items=1), "html"))
    assert Tags(text).tags.count("script") == plain.tags.count("script") == 2
    assert "<svg onload" not in text
    assert data_of(text)["items"][0][0] == hostile


def test_arguments_that_are_no_json_object_or_were_not_recorded_are_told_as_such():
    calls = [
        ToolCall("known", {"q": "rain"}),
        ToolCall("unknown", metadata={"unknownArguments": True}),
        ToolCall.of_text("invalid", '{"q":'),
    ]
    item = ItemResult(0, Example.of("q"), actual_outputs={"toolCalls": calls})

    data = data_of(render(ExperimentResult(name="x", runs=(RunResult(item_results=(item,)),)), "html"))

    (run,) = data["items"][0][-1]
    shown = [data["strings"][arguments] for _, arguments, _ in run[2]]
    assert shown == ['{"q":"rain"}', "not recorded", '{"q":']


def test_every_text_is_embedded_once():
    example = Example.of("same question", "same answer")
    items = tuple(ItemResult(i, example, actual_outputs={"output": "same answer"}) for i in range(50))
    data = data_of(render(ExperimentResult(runs=(RunResult(item_results=items),)), "html"))
    assert len(data["items"]) == 50
    assert data["strings"].count("same answer") == 1


def test_big_numbers_are_shown_to_the_last_digit():
    item = ItemResult(0, Example.of("q"), actual_outputs={"output": 2**60 + 1})
    assert (
        str(2**60 + 1)
        in data_of(render(ExperimentResult(runs=(RunResult(item_results=(item,)),)), "html"))["strings"]
    )


@pytest.mark.parametrize("status", [RunStatus.INTERRUPTED, RunStatus.STOPPED, RunStatus.BROKEN])
def test_a_run_that_did_not_complete_says_so_first(make_result, status):
    text = render(make_result(status=status), "html").partition("<main>")[2]
    assert text.index(f"{status.value.capitalize()}:") < text.index("passed")


def test_a_run_without_kept_items_explains_the_empty_list(make_result):
    full = make_result()
    bare = ExperimentResult(name="bare", runs=(RunResult(summary=full.runs[0].summary),))
    text = render(bare, "html")
    assert "50.0 % passed" in text
    assert "keep_results=False" in text


def test_nothing_judged_is_said_in_words():
    item = ItemResult(0, Example.of("q"))
    assert "Not judged" in render(ExperimentResult(runs=(RunResult(item_results=(item,)),)), "html")


def test_items_with_one_id_are_told_apart():
    items = tuple(ItemResult(i, Example.of("q", id="same")) for i in range(3))
    data = data_of(render(ExperimentResult(runs=(RunResult(item_results=items),)), "html"))
    assert [item[0] for item in data["items"]] == ["same", "same (item 1)", "same (item 2)"]


def test_what_to_look_at_first_names_different_problems(make_result):
    text = render(make_result(items=100), "html")
    first = re.search('<section class="first">(.*?)</section>', text, re.DOTALL)[1]
    assert re.findall("<bdi>(qa-...)</bdi>", first) == ["qa-006", "qa-007", "qa-004"]
    assert re.findall('data-place="(.*?)"', first) == ["6", "7", "4"]


def test_a_run_that_passed_has_nothing_to_look_at(make_result):
    assert 'class="first"' not in render(make_result(items=1), "html")


def test_breakdowns_are_means_over_the_runs_like_the_verdict(make_result):
    text = render(make_result(items=24, runs=3), "html")
    by_category = text[text.index("By category") :]
    assert re.findall(r'class="num error" data-sort="[\d.]+">(\d+) !', by_category)[:3] == ["2", "2", "2"]


def test_the_page_knows_every_name_of_what_was_retrieved():
    names = re.search(r"const CONTEXT_KEYS = (\[.*?\]);", asset("report_retrieval.js"))
    assert set(json.loads(names[1])) == NAMES


HOSTILE = (
    "</script><script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "<!--<script>",
    "nul \x00 escape \x1b[2J next line \x85",
    "override \u202e isolate \u2066",
    "separators \u2028 \u2029",
    "lone surrogate \ud800",
    "unfinished &lt; &amp &#0;",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_every_page_can_be_written_and_holds_no_foreign_element(text, tmp_path):
    example = Example({"input": text, text: text}, {"output": text}, metadata={"tag": text}, id=text)
    results = (EvalResult.failed(text, reason=text), EvalResult("error", error=text))
    items = tuple(
        ItemResult(index, example, actual_outputs={"output": text, "context": [text]}, eval_results=results)
        for index in range(2)
    )
    info = EvaluatorInfo(name=text, parameters={text: text, "judge": text})
    result = ExperimentResult(
        name=text,
        description=text,
        metadata={text: text, "model": text},
        runs=(RunResult(item_results=items),),
        evaluators=(info,),
        warnings=(text,),
        provenance=Provenance(run_id="r", dataset_name=text, command=(text,)),
    )
    page = export(result, tmp_path / "report.html").read_text(encoding="utf-8")
    tags = Tags(page)
    assert tags.tags.count("script") == 2
    assert {"img", "iframe"}.isdisjoint(tags.tags)
    assert tags.tags.count("a") == 1
    outside = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", outside)
    assert len(data_of(page)["items"]) == 2
