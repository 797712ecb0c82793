"""Walking along an exception and those behind it."""

import pytest

from dokimos import Example, evaluator
from dokimos.core.error_chain import error_chain


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
