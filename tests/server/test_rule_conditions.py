"""Conditions and sampling of rules, without a server."""

import pytest

from dokimos.errors import EvaluationError
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.online import rule_conditions
from dokimos.server._services.online.estimates import estimate_mean
from dokimos.server._services.online.rule_conditions import (
    MAX_DEPTH,
    SpanFacts,
    parse_condition,
    parse_conditions,
)
from dokimos.server._services.online.rule_sampling import is_sampled, parse_sampling

SPAN = SpanFacts("chat gpt-4o", {"env": "prod", "tries": 3, "tags": ["a", "é"], "ok": True})


def name(kind, value):
    return parse_condition(kind, None, value).holds(SPAN)


@pytest.mark.parametrize(
    ("key", "value"), [("env", "prod"), ("tries", "3"), ("tags", '["a", "é"]'), ("ok", "true")]
)
def test_values_of_attributes_are_compared_as_text(key, value):
    assert parse_condition("ATTRIBUTE", key, value).holds(SPAN)
    assert not parse_condition("ATTRIBUTE", key, f"{value} ").holds(SPAN)


def test_an_attribute_that_is_not_there_is_equal_to_nothing():
    assert not parse_condition("ATTRIBUTE", "missing", "None").holds(SPAN)
    assert not parse_condition("WILDCARD", "missing", "*").holds(SPAN)


@pytest.mark.parametrize(
    ("value", "fits"),
    [("chat *", True), ("chat ?pt-4o", True), ("chat", False), ("Chat *", False), ("chat [g]*", False)],
)
def test_wildcards_fit_the_whole_name(value, fits):
    assert name("WILDCARD", value) is fits


def test_a_pattern_is_searched_and_one_that_never_ends_does_not_match(monkeypatch):
    monkeypatch.setattr("dokimos._core.patterns.LIMIT_SECONDS", 0.1)
    hostile = SpanFacts("a" * 5000 + "!", {})

    assert name("PATTERN", "gpt-[0-9]o$")
    assert not parse_condition("PATTERN", None, "^(a+)+$").holds(hostile)


def test_a_pattern_that_takes_too_long_again_and_again_keeps_no_other_rule_waiting(monkeypatch):
    time = [0.0]
    monkeypatch.setattr(rule_conditions, "SLOW", rule_conditions.SlowPatterns(lambda: time[0]))
    searched = []

    def search(pattern, text):
        searched.append(pattern.pattern)
        if pattern.pattern == "slow":
            raise EvaluationError("stopped")

    monkeypatch.setattr(rule_conditions, "search_within_limit", search)

    def count_searches(pattern, spans=50):
        searched.clear()
        assert not any(parse_condition("PATTERN", None, pattern).holds(SPAN) for _ in range(spans))
        return len(searched)

    assert count_searches("slow") == 3
    assert count_searches("quick") == 50
    time[0] += 599
    assert count_searches("slow") == 0
    time[0] += 2
    assert count_searches("slow") == 1  # one that has rested before is not given as many chances again
    time[0] += 3 * 600
    assert count_searches("slow") == 3


def test_conditions_are_limited_in_depth():
    conditions = {"matchType": "SPAN_NAME", "matchValue": "chat"}
    for _ in range(MAX_DEPTH):
        conditions = {"all": [conditions]}

    with pytest.raises(InvalidRequestError):
        parse_conditions(conditions, "conditions")


def test_about_the_rate_is_sampled_and_a_higher_rate_adds_to_it():
    keys = [f"tenant/{number:032x}" for number in range(10_000)]

    few = {key for key in keys if is_sampled(key, 0.1)}
    more = {key for key in keys if is_sampled(key, 0.3)}

    assert 850 < len(few) < 1150
    assert few < more
    assert all(is_sampled(key, 1.0) for key in keys)


def test_the_first_stratum_that_fits_says_the_rate():
    def stratum(rate, value):
        condition = {"matchType": "ATTRIBUTE", "matchKey": "env", "matchValue": value}
        return {"name": f"{value} {rate}", "conditions": condition, "rate": rate}

    strata = [stratum(0.9, "dev"), stratum(0.5, "prod"), stratum(0.7, "prod")]
    sampling = parse_sampling({"rate": 0.1, "strata": strata})

    assert sampling.probability_of(SPAN) == (0.5, "prod 0.5")
    assert sampling.probability_of(SpanFacts("other", {})) == (0.1, None)


def test_scores_of_one_trace_are_one_observation():
    scores = [("a", 1.0, 0.5)] * 10 + [("b", 0.0, 0.5), ("c", 1.0, 1.0)]

    estimate = estimate_mean(scores, within=(0.0, 1.0))

    assert estimate.n == 3
    assert estimate.value == pytest.approx(21 / 23)
    assert estimate.sampled_share == pytest.approx(12 / 23)
    assert estimate_mean(scores[:10], within=(0.0, 1.0)) is None
