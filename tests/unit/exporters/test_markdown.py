from __future__ import annotations

import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from dokimos._core.example import Example
from dokimos._core.provenance import Provenance
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult, RunStatus
from dokimos.exporters._base import render
from dokimos.exporters._markdown import MAX_LENGTH, code, fence_text, plain


def test_it_has_the_documented_sections_in_order(make_result):
    text = render(make_result(runs=3), "markdown")
    found = re.findall(r"^#{1,2} .*", text, re.MULTILINE)
    assert found == [
        "# Experiment: support-bot",
        "## Evaluator Summary",
        "## Runs",
        "## By category",
        "## Failed Examples",
        "## Errors",
        "## Warnings",
        "## Provenance",
    ]


def test_the_verdict_has_its_count_and_interval(make_result):
    text = render(make_result(), "markdown")
    assert "**Pass Rate:** 50.0 % (12/24), 95 % interval 31.4 % to 68.6 %" in text
    assert "24 in 1 run · 12 passed · 6 failed · 6 errored · 0 not judged" in text
    assert "(21/24 priced)" in text


def test_a_failed_example_shows_why(make_result):
    text = render(make_result(), "markdown")
    assert "### What is the return policy for order 4?" in text
    assert "**Actual:** `You can return it within 60 days of the order.`" in text
    assert "**Exact Match:** 0.00 (FAIL): Compared to the letter." in text


def test_an_unfinished_run_says_so(make_result):
    assert "**Status:** interrupted" in render(make_result(status=RunStatus.INTERRUPTED), "markdown")


def test_nothing_judged_is_no_hundred_percent():
    item = ItemResult(0, Example.of("q"))
    text = render(ExperimentResult(runs=(RunResult(item_results=(item,)),)), "markdown")
    assert "**Pass Rate:** not judged" in text


def test_it_stays_short_and_says_what_was_left_out():
    items = [
        ItemResult(
            index,
            Example.of("q" * 500, "e" * 5000),
            actual_outputs={"output": "line\n" * 5000},
            eval_results=(EvalResult.failed("E", reason="r" * 5000),),
        )
        for index in range(300)
    ]
    text = render(ExperimentResult(runs=(RunResult(item_results=tuple(items)),)), "markdown")
    assert len(text) < MAX_LENGTH
    shown = text.count("\n### ")
    assert shown >= 10
    assert f"… and {300 - shown} more" in text


HOSTILE = (
    "<script>alert(1)</script>",
    "![x](http://evil.example/p.png)",
    "[click](javascript:alert(1))",
    "https://evil.example @someone #12",
    "| a | b |",
    "```\n# heading\n```",
    "~~~\n<b>",
    "`` ` ```",
    "a\n\n---\n\n# big",
    "\\| \\` \\",
    "- [ ] item",
    "12. item",
    "=====",
)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_running_text_holds_no_markup(hostile):
    shown = plain(hostile, 200)
    assert "\n" not in shown
    if not shown.startswith("`"):
        assert not re.search(r"(?<!\\)(?:\\\\)*[<\[!|#*_`]", shown)
        assert not re.match(r"[-+=]|\d+[.)]", shown)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_code_span_cannot_be_closed_from_inside(hostile):
    shown = code(hostile)
    ticks = re.match("`+", shown)[0]
    assert shown.endswith(ticks)
    inside = shown[len(ticks) : -len(ticks)]
    assert len(ticks) not in {len(run) for run in re.findall("`+", inside)}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_block_cannot_be_closed_from_inside(hostile):
    first, *lines, last = fence_text(hostile).split("\n")
    assert first == f"{last}text"
    assert not any(line.strip().startswith(last) for line in lines)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_table_keeps_its_cells(hostile):
    item = ItemResult(0, Example.of("q"), eval_results=(EvalResult.of(hostile, 1.0),))
    text = render(ExperimentResult(name=hostile, runs=(RunResult(item_results=(item,)),)), "markdown")
    rows = [line for line in text.split("\n") if line.startswith("| ")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {8}


def test_text_that_turns_the_line_around_is_shown_by_its_code():
    assert "\\u202e" in code("a\u202eb")


def kinds(text):
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    return [
        kind for token in tokens for kind in (token.type, *(child.type for child in token.children or ()))
    ]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_markdown_reader_sees_only_our_own_structure(hostile):
    def report(text):
        results = (
            EvalResult.failed(f"E {text}", reason=text),
            EvalResult("S", error=text, fail_on_error=False),
        )
        item = ItemResult(
            0,
            Example({"input": text, "tag": text}, {"output": text}, metadata={"tag": text}, id=text),
            actual_outputs={"output": text},
            eval_results=results,
        )
        other = ItemResult(1, Example.of("q", tag="t"), error=text)
        third = ItemResult(2, Example.of("q", tag="t"))
        return ExperimentResult(
            name=text,
            description=text,
            warnings=(text,),
            runs=(RunResult(item_results=(item, other, third)),),
            provenance=Provenance(dataset_name=text),
        )

    foreign, plain_words = (
        kinds(render(report(hostile), "markdown")),
        kinds(render(report("words"), "markdown")),
    )
    assert {"html_block", "html_inline", "link_open", "image", "hr"}.isdisjoint(foreign)
    for kind in ("heading_open", "table_open", "tr_open", "td_open", "list_item_open", "blockquote_open"):
        assert foreign.count(kind) == plain_words.count(kind)


def test_sections_are_one_blank_line_apart(make_result):
    everything_passed = ExperimentResult(
        runs=(RunResult(item_results=(ItemResult(0, Example.of("q")),)),), provenance=Provenance(run_id="r")
    )
    for result in (make_result(runs=3), make_result(), everything_passed):
        text = render(result, "markdown")
        assert "\n\n\n" not in text
        assert re.search(r"[^\n]\n\n## Provenance\n\n\| \| \|\n", text)


def test_the_build_and_the_data_set_that_it_comes_from_are_shown(make_result):
    source = Provenance(
        git_branch="feature/x", target_branch="main", pull_request="7", trigger="pull_request",
        build_url="https://ci.example/7", dataset_uri="dataset://capitals@latest", dataset_version=3,
    )  # fmt: skip
    facts = (
        "feature/x",
        "7 into main",
        "pull_request",
        "https://ci.example/7",
        "capitals@latest (version 3)",
    )
    for format in ("markdown", "html"):
        text = render(replace(make_result(), provenance=source), format).replace("\\", "")
        assert [fact for fact in facts if fact not in text] == []
    properties = render(replace(make_result(), provenance=source), "junit")
    for name, value in (("git branch", "feature/x"), ("pull request", "7"), ("dataset version", "3")):
        assert f'name="{name}" value="{value}"' in properties
    alone = replace(source, target_branch=None, dataset_version=None)
    text = render(replace(make_result(), provenance=alone), "markdown")
    assert "into" not in text
    assert "(version" not in text


def test_where_it_comes_from_is_told_whole(make_result):
    source = Provenance(
        run_id="r1", resumed_at="2026-11-22T02:00:00+00:00", duplicate_ids=2, parallelism=4, git_commit="abc",
        git_dirty=True, command=("dokimos", "run", "evals.py"),
    )  # fmt: skip
    for format in ("markdown", "html"):
        text = render(replace(make_result(), provenance=source), format)
        for fact in ("Resumed", "2026-11-22T02:00:00+00:00", "Duplicate ids", "abc (with local changes)"):
            assert fact in text
        assert "dokimos run evals.py" in text
        assert "Dataset fingerprint" not in text
