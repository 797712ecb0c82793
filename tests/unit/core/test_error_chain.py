"""Walking along an exception and those behind it."""

import pytest

from dokimos import Example, Experiment, evaluator
from dokimos._core.error_chain import error_chain
from dokimos._core.error_detail import ErrorDetail
from dokimos.errors import EndpointDownError
from dokimos.evaluators._text import ExactMatch


def ring():
    """Two exceptions each of which was raised from the other, as some frameworks leave them."""
    first, second = ValueError("first"), KeyError("second")
    first.__context__, second.__context__ = second, first
    return first, second


def test_what_an_error_was_raised_from_comes_before_what_it_interrupted():
    error, cause, context = ValueError("error"), KeyError("cause"), OSError("context")
    error.__cause__, error.__context__ = cause, context
    assert list(error_chain(error)) == [error, cause]
    error.__cause__ = None
    assert list(error_chain(error)) == [error, context]


def test_a_ring_of_errors_ends():
    first, second = ring()
    assert list(error_chain(first)) == [first, second]


@pytest.mark.parametrize("blocking", [True, False])
def test_an_evaluator_that_raises_a_ring_is_an_errored_result(blocking):
    @evaluator(blocking=blocking)
    def broken(actual_output):
        raise ring()[0]

    assert broken.evaluate(Example.of("a").to_test_case("b")).error == "ValueError: first"


class Falsy(Exception):
    """As exceptions are that hold a list of faults, here an empty one."""

    def __len__(self):
        return 0


class Unprintable(TypeError):
    def __str__(self):
        raise RuntimeError("no text")


def test_what_has_a_length_of_nothing_is_behind_an_error_all_the_same():
    error, cause, down = ValueError("error"), Falsy(), EndpointDownError("down")
    error.__cause__, cause.__cause__ = cause, down
    assert list(error_chain(error)) == [error, cause, down]
    assert EndpointDownError.find_in_chain(error) is down
    detail = ErrorDetail.of(error)
    assert "Falsy" in detail.traceback


@pytest.mark.parametrize("blocking", [True, False])
def test_an_evaluator_whose_error_has_no_text_is_an_errored_result_of_a_run(blocking):
    @evaluator(blocking=blocking)
    def broken(actual_output):
        if actual_output == "b":
            raise Unprintable
        return True

    plan = Experiment([Example.of("a"), Example.of("b")], lambda question: question, [broken])
    first, second = plan.run(journal=False, quiet=True).item_results
    assert first.success
    assert second.eval_results[0].error == "Unprintable: (no message: RuntimeError in __str__)"


@pytest.mark.parametrize("inputs", [{"input": "a"}, {"question": "a", "lang": "en"}])
def test_a_task_whose_error_has_no_text_ends_no_run(inputs):
    def task(row):
        raise Unprintable

    [item] = Experiment([Example(inputs)], task, [ExactMatch()]).run(journal=False, quiet=True).item_results
    assert item.error == "Unprintable: (no message: RuntimeError in __str__)"
