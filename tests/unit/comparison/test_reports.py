"""A comparison as JSON, Markdown, HTML and on the terminal."""

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.console import Console

from dokimos._core.error_detail import ErrorDetail, Frame
from dokimos._core.provenance import Provenance
from dokimos.comparison import compare_runs
from dokimos.comparison._console import print_comparison
from dokimos.comparison._html import html_of
from dokimos.comparison._html_items import mark_changes
from dokimos.comparison._markdown import markdown_of
from dokimos.comparison._reports import export_comparison
from dokimos.comparison._tree import comparison_tree
from dokimos.comparison._wording import verdict_text
from dokimos.errors import ConfigurationError


@pytest.fixture
def comparison(result):
    before = result(
        {"Match": [1] * 12, "WER": [0.2] * 12}, lower=["WER"], name="before", output="Yes, 28 days."
    )
    now = result(
        {"Match": [0] * 7 + [1] * 6, "WER": [0.2] * 13}, lower=["WER"], name="now", output="Yes, 29 days."
    )
    return compare_runs(before, now)


class Text(HTMLParser):
    """Collects the tags and the text of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_the_json_has_the_documented_summary_and_cases(comparison):
    tree = json.loads(json.dumps(comparison_tree(comparison)))

    assert tree["summary"] | {"baselinePassRate": 1.0, "candidatePassRate": 0.416667} == tree["summary"]
    assert tree["summary"]["passRateDelta"] == -0.583333
    assert tree["summary"]["significant"] is True
    assert (tree["summary"]["regressedCount"], tree["summary"]["addedCount"]) == (7, 1)
    assert tree["summary"]["allItems"]["candidatePassRate"] == 0.461538
    assert tree["summary"]["pairing"] == "dataset_item_id"
    first = tree["cases"][0]
    assert (first["status"], first["passFlip"], first["datasetItemId"]) == ("REGRESSED", True, "q-0")
    assert first["evaluators"][0] == {
        "name": "Match", "baselineMean": 1.0, "candidateMean": 0.0, "delta": -1.0, "status": "REGRESSED",
        "significant": True,
    }  # fmt: skip
    assert [case["status"] for case in tree["cases"]] == ["REGRESSED"] * 7 + ["UNCHANGED"] * 5 + ["ADDED"]


def test_the_markdown_has_verdict_metrics_and_items(comparison):
    text = markdown_of(comparison)

    assert "# Comparison: before → now" in text
    assert "**Worse: pass rate, Match**" in text
    assert re.search(r"\| pass rate \| 100\.0 % \| 41\.7 % \| -58\.3 pts ✗ \|", text)
    assert "- `q-0` question 0: passed 100.0 % → 0.0 %, Match 1.00 → 0.00" in text


def data_of(html):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(found[1])


def test_the_html_loads_nothing_and_needs_no_script_for_what_changed(comparison):
    html = html_of(comparison)
    page = Text(html)

    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert not [tag for tag, _ in page.tags if tag in ("link", "img", "iframe")]
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert "Worse: pass rate, Match" in page.text
    fallback = Text(re.search("<noscript>(.*?)</noscript>", html, re.DOTALL)[1])
    assert "13 of 13 items" in fallback.text
    assert "Match is 0." in fallback.text


def test_the_html_has_every_item_with_scores_and_both_outputs(comparison):
    data = data_of(html_of(comparison))

    assert [one["name"] for one in data["evaluators"]] == ["Match", "WER"]
    assert [one["lower"] for one in data["evaluators"]] == [False, True]
    assert len(data["items"]) == 13
    key, _, change, (before, now), flip, counts, *_, scores = data["items"][0]
    assert (key, change, flip, counts) == ("q-0", 0, 1, 0)
    assert (before[0], data["strings"][before[1]]) == (1.0, "Yes, 28 days.")
    assert (now[0], data["strings"][now[1]]) == (0.0, "Yes, 29 days.")
    assert scores[0][:3] == [0, 1.0, 0.0]
    assert data["items"][-1][3][0] == 0  # an added item has no baseline
    assert len(set(data["strings"])) == len(data["strings"])


def test_the_sides_are_called_by_name_and_not_by_run_id(item, joined):
    def side(name, run_id, **about):
        source = Provenance(run_id=run_id, started_at=about.pop("started", None))
        return replace(joined(item(0, {"Match": 1}), name=name), provenance=source, metadata=about)

    def heading(before, now):
        return Text(re.search("<h1>.*?</h1>", html_of(compare_runs(before, now)))[0]).text

    assert (
        heading(side("faq v1", "20261123-0101-aaaa"), side("faq v2", "20261123-0102-bbbb"))
        == "faq v1 → faq v2"
    )
    same = (side("faq", "r-1", model="a", started="2026-11-22T10:00:01"), side("faq", "r-2", model="b"))
    assert heading(*same) == "faq (a) → faq (b)"
    later = (
        side("faq", "r-1", started="2026-11-22T10:00:01"),
        side("faq", "r-2", started="2026-11-23T11:30:00"),
    )
    assert heading(*later) == "faq (2026-11-22 10:00) → faq (2026-11-23 11:30)"
    assert heading(side("faq", "r-1"), side("faq", "r-2")) == "faq (r-1) → faq (r-2)"
    assert heading(side("faq", None), side("faq", None)) == "faq (baseline) → faq (candidate)"
    assert "r-1" in Text(html_of(compare_runs(*same))).text  # the id stands where the sides are described


def test_terminal_and_markdown_call_the_sides_by_name_and_tell_the_ids_beside_it(item, joined):
    def side(name, run_id):
        return replace(joined(item(0, {"Match": 1}), name=name), provenance=Provenance(run_id=run_id))

    def printed(found):
        console = Console(file=io.StringIO(), width=100, color_system=None)
        print_comparison(found, console)
        return console.file.getvalue()

    named = compare_runs(side("faq v1", "r-1"), side("faq v2", "r-2"))
    assert printed(named).startswith("faq v1 -> faq v2\n  r-1 -> r-2\n")
    assert markdown_of(named).startswith("# Comparison: faq v1 → faq v2\n")
    assert "**Runs:** `r-1` → `r-2`" in markdown_of(named)
    same = compare_runs(side("faq", "r-1"), side("faq", "r-2"))
    assert printed(same).startswith("faq (r-1) -> faq (r-2)\n\n")
    assert "**Runs:**" not in markdown_of(same)
    assert "faq v1 -&gt; faq v2" in named._repr_html_()


def test_the_html_marks_the_words_that_differ(comparison):
    html = html_of(comparison)

    assert "<del>28</del> days." in html
    assert "<ins>29</ins> days." in html


def test_words_are_marked_and_markup_is_text():
    old, new = mark_changes("a <b> c", "a <i> c")

    assert old.markup == "a &lt;<del>b</del>&gt; c"
    assert new.markup == "a &lt;<ins>i</ins>&gt; c"


def test_very_long_texts_are_shown_without_marks():
    assert mark_changes("a " * 2000, "b " * 2000) == ("a " * 2000, "b " * 2000)


def test_foreign_text_stays_text_in_html_and_markdown(item, joined):
    evil = '"><script>alert(1)</script> **x** | y'
    one = item(0, {"Match": 1}, output=evil)
    named = replace(one, example=replace(one.example, id=evil, inputs={"input": evil}))
    failed = replace(
        named, eval_results=(replace(named.eval_results[0], score=0.0, success=False, reason=evil),)
    )

    found = compare_runs(joined(named, name=evil), joined(failed, name=evil))

    html = html_of(found)
    assert [tag for tag, _ in Text(html).tags].count("script") == 2
    assert data_of(html)["items"][0][0] == evil
    assert "<script>" not in re.sub(r"(`+).*?\1", "", markdown_of(found))


def test_errors_are_shown_on_their_side(item, joined):
    found = compare_runs(joined(item(0, {"Match": 1})), joined(item(0, {}, error="TimeoutError: 30 s")))

    assert "Candidate error" in html_of(found)
    assert "TimeoutError: 30 s" in html_of(found)


def test_errors_are_shown_with_their_place(item, joined):
    broken = item(0, {}, error="KeyError: 'x'")
    detail = ErrorDetail("KeyError", "'x'", (Frame("app.py", 41, "answer"),))

    found = compare_runs(joined(item(0, {"Match": 1})), joined(replace(broken, error_detail=detail)))

    assert "KeyError: 'x' (app.py:41 in answer)" in Text(html_of(found)).text
    data = data_of(html_of(found))
    (_, position) = data["items"][0][3][1][2][0]
    assert data["strings"][position] == "KeyError: 'x' (app.py:41 in answer)"
    assert found.to_rows()[0]["error.now"] == "KeyError: 'x' (app.py:41 in answer)"


def test_an_unchanged_comparison_says_so(result):
    same = result({"A": [1, 0.5]})

    assert verdict_text(compare_runs(same, same)) == "No significant change"


def test_a_collapse_of_too_few_items_is_not_called_unchanged(result):
    found = compare_runs(result({"A": [1, 1, 1, 1, 0]}), result({"A": [0, 0, 0, 0, 0]}))

    assert verdict_text(found) == (
        "Too few items to tell: 4 of 5 got worse and 0 better (pass rate); it takes at least 7 items"
    )
    assert "it could see no drop at all; that takes at least 7 items." in markdown_of(found)
    page = Text(html_of(found)).text
    assert "? Too few items to tell" in page
    assert "Got worse4of 5 items (pass rate); too few to tell: it takes 7" in page
    assert "Smallest drop it seesnoneit takes 7 items" in page
    assert "4 without a clear change · 1 unchanged" in markdown_of(found)


def test_the_terminal_shows_verdict_metrics_and_the_items_to_look_at(comparison):
    console = Console(file=io.StringIO(), width=100, color_system=None)

    print_comparison(comparison, console)

    printed = console.file.getvalue()
    assert "Worse: pass rate, Match" in printed
    assert re.search(r"pass rate +100\.0 % +41\.7 % +-58\.3 pts", printed)
    assert "q-0" in printed
    assert "7 regressed, 5 unchanged, 1 added; paired by dataset item id" in printed


def test_the_ending_of_the_file_chooses_the_format(comparison, tmp_path):
    for ending in ("json", "html", "md"):
        assert export_comparison(comparison, tmp_path / "deep" / f"c.{ending}").stat().st_size > 500
    with pytest.raises(ConfigurationError, match=r"c\.csv"):
        export_comparison(comparison, tmp_path / "c.csv")
