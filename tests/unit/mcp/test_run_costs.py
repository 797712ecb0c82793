"""What evaluations may cost is told first, and bounded."""

import os
import sys
from types import SimpleNamespace

import pytest

from dokimos._mcp import run_tools
from dokimos._mcp.run_tools import (
    RunLimits,
    _count_judged_scores,
    _environment_of,
    _find_prices,
    _forget_modules,
    _limit_budget,
)
from dokimos.judges import Budget

LIMITS = RunLimits()


def test_each_metric_that_asks_a_model_counts_for_each_case():
    exact, judged = SimpleNamespace(deterministic=True), SimpleNamespace(deterministic=False)
    data = ["a", "b", "c"]
    same = SimpleNamespace(dataset=data, evaluators=[exact, judged, judged])
    of_case = SimpleNamespace(dataset=data, evaluators=lambda case: [judged] if case == "b" else [exact])
    assert (_count_judged_scores(same), _count_judged_scores(of_case)) == (6, 1)


def test_the_budget_of_a_suite_is_bounded_in_dollars_and_in_calls():
    assert _limit_budget(None, LIMITS, 7) == Budget(max_cost_usd=LIMITS.max_cost_usd, max_calls=70)
    own = Budget(max_cost_usd=0.5, max_calls=3, max_tokens=9)
    assert _limit_budget(own, LIMITS, 7) == own


def test_prices_are_those_of_the_package_where_it_knows_the_model():
    pytest.importorskip("genai_prices")
    assert _find_prices("openai:gpt-4o")("gpt-4o", 1_000_000, 0) > 0
    assert _find_prices("a-model-that-nobody-sells") is None


def test_a_model_without_a_price_says_so_in_the_plan(monkeypatch):
    tools = SimpleNamespace(limits=LIMITS)
    describe = run_tools.RunTools._describe_limit
    assert describe(tools, is_priced=True) == {"max_cost_usd": LIMITS.max_cost_usd}
    assert describe(tools, is_priced=False)["max_cost_usd"] is None


def test_the_environment_of_a_suite_ends_with_its_run(tmp_path, monkeypatch):
    monkeypatch.setenv("IS_THERE", "before")
    monkeypatch.delenv("BASE_URL_OF_A_SUITE", raising=False)
    (tmp_path / ".env").write_text("BASE_URL_OF_A_SUITE=http://127.0.0.1:1\nIS_THERE=other\n")
    with _environment_of(tmp_path):
        assert (os.environ["BASE_URL_OF_A_SUITE"], os.environ["IS_THERE"]) == ("http://127.0.0.1:1", "before")
    assert "BASE_URL_OF_A_SUITE" not in os.environ
    assert os.environ["IS_THERE"] == "before"


def test_the_code_of_a_suite_is_read_again(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for text in ("old", "a newer one"):
        (tmp_path / "code_of_a_suite.py").write_text(f"ANSWER = {text!r}")
        _forget_modules(tmp_path)
        import code_of_a_suite

        assert text == code_of_a_suite.ANSWER
    _forget_modules(tmp_path)
    assert "code_of_a_suite" not in sys.modules
