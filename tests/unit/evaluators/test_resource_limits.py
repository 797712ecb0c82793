from __future__ import annotations

import pytest

from dokimos._core.metrics import CallMetrics
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._resource_limits import Cost, Latency, Length, Tokens

MEASURED = EvalTestCase(
    metrics=CallMetrics(
        tokens_in=100,
        tokens_out=20,
        cost_usd=0.002,
        latency_ms=1500.0,
        first_chunk_ms=200.0,
        cached_tokens_in=60,
        reasoning_tokens_out=5,
    )
)


class TestLength:
    @pytest.mark.parametrize(
        ("options", "text", "score"),
        [
            ({"min": 1}, "", 0.0),
            ({"min": 1}, "a", 1.0),
            ({"max": 3}, "abc", 1.0),
            ({"max": 3}, "abcd", 0.0),
            ({"max": 0}, "", 1.0),
            ({"min": 2, "max": 3, "unit": "words"}, "one  two\nthree", 1.0),
            ({"min": 2, "unit": "words"}, "one", 0.0),
            ({"max": 2}, "日本", 1.0),
            ({"max": 1}, "🎉", 1.0),
        ],
    )
    def test_scores(self, options, text, score):
        result = Length(**options).evaluate(EvalTestCase.of("q", text))
        assert (result.score, result.success) == (score, score == 1.0)

    def test_the_reason_and_metadata_tell_the_length(self):
        result = Length(max=1, unit="words").evaluate(EvalTestCase.of("q", "one two"))
        assert result.reason == "The output has 2 words, more than the 1 allowed."
        assert result.metadata == {"length": 2, "unit": "words"}

    @pytest.mark.parametrize(
        "options", [{}, {"min": 3, "max": 2}, {"min": -1}, {"max": 1.5}, {"max": 1, "unit": "lines"}]
    )
    def test_wrong_parameters_are_refused(self, options):
        with pytest.raises(ConfigurationError, match="Length: "):
            Length(**options)


@pytest.mark.parametrize(
    ("evaluator", "score", "key", "measured"),
    [
        (Latency(max_ms=1500), 1.0, "latencyMs", 1500.0),
        (Latency(max_ms=1499.9), 0.0, "latencyMs", 1500.0),
        (Latency(max_ms=250, kind="first_chunk"), 1.0, "latencyMs", 200.0),
        (Cost(max_usd=0.002), 1.0, "costUsd", 0.002),
        (Cost(max_usd=0.001), 0.0, "costUsd", 0.002),
        (Tokens(max_tokens=120), 1.0, "tokens", 120),
        (Tokens(max_tokens=119), 0.0, "tokens", 120),
        (Tokens(max_tokens=99, kind="input"), 0.0, "tokens", 100),
        (Tokens(max_tokens=20, kind="output"), 1.0, "tokens", 20),
        (Tokens(max_tokens=60, kind="cached_input"), 1.0, "tokens", 60),
        (Tokens(max_tokens=4, kind="reasoning"), 0.0, "tokens", 5),
    ],
)
def test_a_limit_scores_1_or_0_and_keeps_the_measurement(evaluator, score, key, measured):
    result = evaluator.evaluate(MEASURED)
    assert (result.score, result.success, result.metadata[key]) == (score, score == 1.0, measured)


@pytest.mark.parametrize(
    ("evaluator", "why"),
    [
        (Latency(max_ms=1), "latency was not measured"),
        (Latency(max_ms=1, kind="first_chunk"), "time to the first chunk was not measured"),
        (Cost(max_usd=1), "cost is not known; give the experiment prices"),
        (Tokens(max_tokens=1), "input and output tokens were not counted"),
        (Tokens(max_tokens=1, kind="output"), "output tokens were not counted"),
    ],
)
def test_what_was_not_measured_is_an_error_that_says_so(evaluator, why):
    result = evaluator.evaluate(EvalTestCase(metrics=CallMetrics(tokens_in=5)))
    assert result.score is None
    assert why in (result.error or "")


@pytest.mark.parametrize("evaluator", [Latency(max_ms=1), Cost(max_usd=1), Tokens(max_tokens=1)])
def test_a_case_without_metrics_is_an_error(evaluator):
    assert "metrics measured by the task" in (evaluator.evaluate(EvalTestCase.of("q", "a")).error or "")


def test_wrong_limits_are_refused():
    with pytest.raises(ConfigurationError, match="max_ms must be a number of at least 0, not -1"):
        Latency(max_ms=-1)
    with pytest.raises(ConfigurationError, match="max_tokens must be a whole number"):
        Tokens(max_tokens=1.5)
    with pytest.raises(ConfigurationError, match="kind must be one of"):
        Tokens(max_tokens=1, kind="all")
