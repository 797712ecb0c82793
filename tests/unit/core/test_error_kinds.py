"""Errors that no setting makes a warning."""

from dataclasses import dataclass

import pytest

from dokimos._core.example import Example
from dokimos._core.results import EvalResult, ItemResult, RunResult, worst_kind
from dokimos._core.test_case import EvalTestCase
from dokimos._core.wire import from_json, to_json, to_tree
from dokimos.errors import EvaluationError, JudgeReplyError, JudgeUnavailableError
from dokimos.evaluators._base import Evaluator


@dataclass(frozen=True, kw_only=True)
class Raises(Evaluator):
    error: Exception

    def score(self, case):
        raise self.error


def item(*results):
    return ItemResult(0, Example.of("Q"), eval_results=results)


@pytest.mark.parametrize("kind", ["contested", "unreadable"])
def test_an_unusable_reply_is_never_a_warning(kind):
    evaluator = Raises(name="Judge", error=JudgeReplyError("no", kind=kind), fail_on_error=False)
    result = evaluator.evaluate(EvalTestCase({}))
    judged = item(EvalResult.passed("Exact"), result)

    assert (result.error_kind, result.fails_item) == (kind, True)
    assert (judged.success, judged.errored, judged.warnings) == (False, True, ())
    assert RunResult(item_results=(judged,)).summary.warned == 0
    assert RunResult(item_results=(judged,)).error_count == 1


@pytest.mark.parametrize("error", [JudgeUnavailableError("down"), EvaluationError("x"), ValueError("x")])
def test_any_other_error_is_as_hard_as_the_evaluator_says(error):
    result = Raises(name="Judge", error=error, fail_on_error=False).evaluate(EvalTestCase({}))

    assert result.error_kind is None
    assert item(EvalResult.passed("Exact"), result).success is True


def test_the_kind_is_written_and_read_and_left_out_where_there_is_none():
    contested = EvalResult("Judge", error="no", error_kind="contested")

    assert to_tree(contested)["errorKind"] == "contested"
    assert from_json(EvalResult, to_json(contested)) == contested
    assert "errorKind" not in to_tree(EvalResult("Judge", error="no"))
    assert from_json(EvalResult, '{"name": "Judge", "error": "no"}').error_kind is None


def test_a_contested_reply_hides_behind_no_other():
    assert worst_kind([None, "unreadable", "contested"]) == "contested"
    assert worst_kind([None, "unreadable"]) == "unreadable"
    assert worst_kind([None]) is None
