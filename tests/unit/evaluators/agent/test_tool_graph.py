import pytest

from dokimos import EvalTestCase, ToolCall
from dokimos.errors import ConfigurationError
from dokimos.evaluators import ToolGraph
from dokimos.evaluators.registry import build


def made(text):
    """`"a b!"`: a call of a, and one of b that failed."""
    calls = [
        ToolCall(word.rstrip("!"), result='{"error": "x"}' if word.endswith("!") else None)
        for word in text.split()
    ]
    return EvalTestCase({}, {"toolCalls": calls})


@pytest.mark.parametrize(
    ("rule", "kept", "broken"),
    [
        ({"before": ["a", "b"]}, ["", "a", "a b", "a b b", "a x b a"], ["b", "b a", "x b"]),
        ({"before": ["a", "b", "c"]}, ["a b c", "a b"], ["a c", "b a c"]),
        ({"never_after": ["a", "b"]}, ["", "b", "b a", "a a"], ["a b", "b a b"]),
        ({"never_after": ["a", "b", "c"]}, ["b c a"], ["a c"]),
        ({"leads_to": ["a", "b"]}, ["", "b", "a b", "a a x b"], ["a", "a b a", "b a"]),
        ({"called": ["a", "b"]}, ["b a", "a b c"], ["", "a"]),
        ({"after_error": ["retry"]}, ["", "a b", "a! a", "a! a! a"], ["a!", "a! b", "a a! b a"]),
        ({"after_error": ["give_up"]}, ["a!", "a b!"], ["a! a", "a! b"]),
        ({"after_error": ["retry", "give_up"]}, ["a! a", "a!"], ["a! b"]),
        ({"after_error": ["b"]}, ["a! b"], ["a! a", "a!", "a! c"]),
        ({"after_error": ["retry"], "tools": ["a"]}, ["b! c", "a! a"], ["a! b"]),
        (
            {"after_error": ["retry", "give_up"], "max_retries": 1},
            ["a! a", "a!", "a! a!", "a! a b b! b"],
            ["a! a! a", "a! a! a!"],
        ),
        ({"after_error": ["give_up"], "max_retries": 0}, ["a!"], ["a! a"]),
    ],
)
def test_each_rule(rule, kept, broken):
    evaluator = ToolGraph(rules=[rule])
    assert {text: evaluator.evaluate(made(text)).score for text in kept} == dict.fromkeys(kept, 1.0)
    assert {text: evaluator.evaluate(made(text)).score for text in broken} == dict.fromkeys(broken, 0.0)


def test_edges_say_what_may_come_right_after_what():
    evaluator = ToolGraph(
        edges={"search": ["search", "book"], "book": ["pay"]}, start=["search"], end=["pay"]
    )
    assert evaluator.evaluate(made("search search book pay")).score == 1
    assert evaluator.evaluate(made("search pay")).score == pytest.approx(2 / 3)
    assert evaluator.evaluate(made("book search")).score == 0
    assert evaluator.evaluate(made("")).score == pytest.approx(1 / 3)


def test_the_score_is_the_share_of_rules_kept():
    result = ToolGraph(
        rules=[{"before": ["a", "b"]}, {"called": ["c"]}, {"never_after": ["b", "a"]}]
    ).evaluate(made("b a"))
    assert result.score == 0
    result = ToolGraph(rules=[{"before": ["a", "b"]}, {"called": ["c"]}]).evaluate(made("a b"))
    assert (result.score, result.success) == (0.5, False)
    assert result.reason == "1 of 2 rules kept; 'c' was not called."
    assert result.metadata["rules"] == [
        {"rule": '{"before": ["a", "b"]}', "kept": True, "reason": ""},
        {"rule": '{"called": ["c"]}', "kept": False, "reason": "'c' was not called"},
    ]


@pytest.mark.parametrize(
    ("options", "text", "reason"),
    [
        ({"rules": [{"before": ["a", "b"]}]}, "b a", "'b' was called before 'a'"),
        ({"rules": [{"never_after": ["a", "b"]}]}, "a b", "'b' was called after 'a'"),
        ({"rules": [{"leads_to": ["a", "b"]}]}, "a", "'a' was not followed by 'b'"),
        ({"rules": [{"called": ["a", "b"]}]}, "", "'a', 'b' were not called"),
        ({"rules": [{"after_error": ["retry"]}]}, "a!", "the failed call of 'a' was followed by no other"),
        (
            {"rules": [{"after_error": ["retry"]}]},
            "a! b",
            "the failed call of 'a' was followed by one of 'b'",
        ),
        (
            {"rules": [{"after_error": ["retry"], "max_retries": 1}]},
            "a! a! a",
            "'a' was retried more than 1 time",
        ),
        ({"edges": {"a": ["b"]}}, "a c", "'c' must not come right after 'a'"),
        ({"start": ["a"]}, "b", "the first call is of 'b'"),
        ({"end": ["a"]}, "b", "the last call is of 'b'"),
        ({"end": ["a"]}, "", "there are no calls"),
    ],
)
def test_the_reason_names_what_broke_the_rule(options, text, reason):
    assert ToolGraph(**options).evaluate(made(text)).reason == f"0 of 1 rule kept; {reason}."


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rules": [{}]},
        {"rules": [{"before": ["a"]}]},
        {"rules": [{"before": "ab"}]},
        {"rules": [{"befor": ["a", "b"]}]},
        {"rules": [{"before": ["a", "b"], "called": ["a"]}]},
        {"rules": ["before"]},
        {"rules": [{"after_error": []}]},
        {"rules": [{"after_error": ["retry"], "tools": "a"}]},
        {"rules": [{"after_error": ["retry"], "max_retries": -1}]},
        {"rules": [{"after_error": ["retry"], "max_retries": True}]},
        {"rules": [{"after_error": ["retry"], "retries": 1}]},
        {"start": "search"},
        {"end": [1]},
        {"edges": {"a": "search"}},
        {"edges": ["a"]},
    ],
)
def test_wrong_rules_are_refused(options):
    with pytest.raises(ConfigurationError):
        ToolGraph(**options)


def test_it_is_built_from_data():
    params = {"rules": [{"before": ["a", "b"]}], "edges": {"a": ["b"]}, "threshold": 0.5}
    assert build("tool_graph", params).evaluate(made("a b a")).success is True
