from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from dokimos._core.example import Example
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult
from dokimos.exporters._base import render

# What the usual schemas allow: attributes and children, in order.
ALLOWED = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, ["testsuite"]),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"},
        ["properties", "testcase"],
    ),
    "properties": (set(), ["property"]),
    "property": ({"name", "value"}, []),
    "testcase": ({"name", "classname", "time"}, ["skipped", "error", "failure", "system-out"]),
    "skipped": ({"message"}, []),
    "error": ({"type", "message"}, []),
    "failure": ({"type", "message"}, []),
    "system-out": (set(), []),
}


def check(element):
    attributes, children = ALLOWED[element.tag]
    assert set(element.attrib) <= attributes
    order = [children.index(child.tag) for child in element]
    assert order == sorted(order)
    for child in element:
        check(child)


def parsed(result):
    return ET.fromstring(render(result, "junit").encode())


def test_it_has_the_usual_shape(make_result):
    root = parsed(make_result(runs=3))
    check(root)
    assert [suite.get("name") for suite in root] == [f"support-bot run {number}" for number in (1, 2, 3)]


def test_totals_equal_what_is_inside(make_result):
    for suite in parsed(make_result(runs=2)):
        for attribute, tag in (
            ("tests", None),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ):
            cases = [case for case in suite.iter("testcase") if tag is None or case.find(tag) is not None]
            assert int(suite.get(attribute)) == len(cases)


def test_errors_and_failures_are_told_apart(make_result):
    cases = {case.get("name"): case for case in parsed(make_result()).iter("testcase")}
    assert cases["qa-004"].find("failure").get("message").startswith("Exact Match 0.00: Compared")
    assert cases["qa-006"].find("error").get("message") == "Faithfulness: JudgeUnavailableError: 503"
    assert cases["qa-007"].find("error").get("message") == "TimeoutError: no answer within 30 s"
    assert cases["qa-000"].find("failure") is None
    assert "warning: Faithfulness: JudgeReplyError" in cases["qa-003"].findtext("system-out")


def test_what_nothing_judged_is_skipped():
    item = ItemResult(0, Example.of("q"), eval_results=(EvalResult("E", skipped="no context"),))
    case = parsed(ExperimentResult(runs=(RunResult(item_results=(item,)),))).find("*/testcase")
    assert case.find("skipped").get("message") == "Nothing judged this item. E: no context"


@pytest.mark.parametrize(
    "hostile", ["\x00\x08\x0b\x1f", "\ud800", "\ufffe\uffff", "]]><x/>&amp;", "</testcase>"]
)
def test_any_text_gives_readable_xml(hostile):
    item = ItemResult(
        0,
        Example.of(hostile, hostile, id=f"id{hostile}"),
        actual_outputs={"output": hostile},
        eval_results=(EvalResult.failed(f"E{hostile}", reason=hostile),),
    )
    root = parsed(ExperimentResult(name=f"n{hostile}", runs=(RunResult(item_results=(item,)),)))
    assert len(list(root.iter("testcase"))) == 1
