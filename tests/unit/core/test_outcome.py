"""What became of an item: one verdict judges it, an error in place of every verdict errs it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos._core.example import Example
from dokimos._core.outcome import Outcome, derive_outcome
from dokimos._core.results import EvalResult, ItemResult, RunResult
from dokimos._core.wire import from_json, to_json

PASSED = EvalResult("passed", 1.0, threshold=0.5, success=True)
FAILED = EvalResult("failed", 0.0, threshold=0.5, success=False)
INFORMS = EvalResult("informs", 0.4)
SKIPPED = EvalResult("skipped", threshold=0.5, skipped="There is no ground truth.")
ANSWERED = EvalResult("answered", 1.0, success=True, decides=False)
UNANSWERED = EvalResult("answered", 0.5, success=False)
HARD = EvalResult("hard", error="ValueError: no")
SOFT = EvalResult("soft", error="ValueError: no", threshold=0.5, fail_on_error=False)
SOFT_BOOL = EvalResult("soft", error="ValueError: no", fail_on_error=False, decides=True)
SOFT_INFO = EvalResult("info", error="ValueError: no", fail_on_error=False)
CONTESTED = EvalResult("judge", error="two verdicts", error_kind="contested", fail_on_error=False)
UNREADABLE = EvalResult("judge", error="prose", error_kind="unreadable", fail_on_error=False)


def item(*results, error=None):
    return ItemResult(0, Example.of("q", "a"), eval_results=results, error=error)


@pytest.mark.parametrize(
    ("results", "outcome"),
    [
        ([], Outcome.NOT_JUDGED),
        ([SKIPPED], Outcome.NOT_JUDGED),
        ([ANSWERED], Outcome.NOT_JUDGED),
        ([INFORMS], Outcome.INFORMATIONAL),
        ([INFORMS, SKIPPED, ANSWERED], Outcome.INFORMATIONAL),
        ([INFORMS, SOFT_INFO], Outcome.INFORMATIONAL),
        ([SOFT_INFO], Outcome.ERRORED),
        ([SOFT_INFO, SKIPPED], Outcome.ERRORED),
        ([SOFT], Outcome.ERRORED),
        ([SOFT, INFORMS], Outcome.ERRORED),
        ([SOFT_BOOL, INFORMS], Outcome.ERRORED),
        ([SOFT, SKIPPED], Outcome.ERRORED),
        ([SOFT, ANSWERED], Outcome.ERRORED),
        ([SOFT, PASSED], Outcome.PASSED),
        ([SOFT, FAILED], Outcome.FAILED),
        ([SOFT, UNANSWERED], Outcome.FAILED),
        ([PASSED, INFORMS, SKIPPED, ANSWERED], Outcome.PASSED),
        ([PASSED, FAILED], Outcome.FAILED),
        ([PASSED, HARD], Outcome.ERRORED),
        ([CONTESTED, PASSED], Outcome.ERRORED),
        ([UNREADABLE, PASSED], Outcome.ERRORED),
        ([CONTESTED, FAILED], Outcome.ERRORED),
    ],
)
def test_the_outcome_of_an_item(results, outcome):
    assert item(*results).outcome is outcome
    assert item(*reversed(results)).outcome is outcome


class OtherTrue:
    """A success of another library, such as NumPy: it is true and not the object True."""

    def __bool__(self):
        return True


RESULTS = st.builds(
    EvalResult,
    st.just("a"),
    st.sampled_from([None, 0.5]),
    threshold=st.sampled_from([None, 0.5]),
    success=st.sampled_from([None, False, True, OtherTrue()]),
    error=st.sampled_from([None, "ValueError: no"]),
    error_kind=st.sampled_from([None, "contested", "unavailable"]),
    fail_on_error=st.booleans(),
    decides=st.sampled_from([None, False, True]),
)


@given(st.lists(RESULTS, max_size=4))
def test_an_item_is_what_the_gravest_of_its_results_says(results):
    expected = Outcome.NOT_JUDGED
    if any(r.errors_item for r in results):
        expected = Outcome.ERRORED
    elif any(r.success is False for r in results):
        expected = Outcome.FAILED
    elif any(r.success and r.decides is not False for r in results):
        expected = Outcome.PASSED
    elif any(r.error is not None and r.expects_verdict for r in results):
        expected = Outcome.ERRORED
    elif any(r.error is None and r.success is None and r.score is not None for r in results):
        expected = Outcome.INFORMATIONAL
    elif any(r.error is not None for r in results):
        expected = Outcome.ERRORED
    assert derive_outcome(None, results) is expected


def test_a_task_without_outputs_is_an_error():
    assert item(error="TimeoutError: 30 s").outcome is Outcome.ERRORED


@pytest.mark.parametrize(
    ("results", "errors", "warnings"),
    [
        ([SOFT, PASSED], (), ("soft: ValueError: no",)),
        ([SOFT, SOFT_INFO], ("soft: ValueError: no",), ("info: ValueError: no",)),
        ([SOFT_INFO], ("info: ValueError: no",), ()),
        ([HARD, SOFT, PASSED], ("hard: ValueError: no",), ("soft: ValueError: no",)),
        ([CONTESTED, PASSED], ("judge: possible attack: two verdicts",), ()),
    ],
)
def test_an_error_is_the_items_or_a_warning(results, errors, warnings):
    found = item(*results)

    assert (found.errors, found.warnings) == (errors, warnings)


def test_each_outcome_is_counted_apart():
    items = [item(PASSED), item(FAILED), item(SOFT), item(INFORMS), item(SKIPPED), item(PASSED, SOFT)]

    summary = RunResult(item_results=items).summary

    assert (summary.total, summary.passed, summary.failed, summary.errored) == (6, 2, 2, 1)
    assert (summary.informational, summary.not_judged, summary.warned) == (1, 1, 1)
    assert summary.evaluator("soft").undecided == 2


def test_nothing_but_information_has_no_pass_rate():
    assert RunResult(item_results=[item(INFORMS)]).pass_rate is None


def test_a_stored_result_of_an_earlier_version_is_read():
    old = {"name": "soft", "error": "ValueError: no", "threshold": 0.5, "failOnError": False}

    assert from_json(EvalResult, old) == SOFT
    assert from_json(EvalResult, to_json(ANSWERED)) == ANSWERED
