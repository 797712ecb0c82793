"""How a contract says that it is broken: one sentence for the author, without a traceback of our own code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import pytest

T = TypeVar("T")

UNICODE: str = "Ærøskøbing 日本語 עברית 👩‍🚀 e\u0301 \u202eright to left\u202c"
"""Letters of several scripts and directions, an emoji of several code points, a combining accent."""


def fail(message: str) -> NoReturn:
    """Fail the test with a sentence for the author."""
    pytest.fail(message, pytrace=False)


def check(condition: object, message: str) -> None:
    """Fail the test with a sentence for the author unless the condition holds."""
    if not condition:
        fail(message)


def attempt(call: Callable[[], T], message: str) -> T:
    """Return what a call returns; fail the test with `message` and the error where it raises."""
    try:
        return call()
    except Exception as raised:
        error = raised
    # Outside the `except` block: pytest would print the traceback of the error before the sentence.
    fail(f"{message} It raised {type(error).__name__}: {error}")


def missing_attribute(contract: object, name: str, example: str) -> NoReturn:
    """Fail because a subclass does not say what to test."""
    fail(f"Set {name} in {type(contract).__name__}: {example}.")


def name_of(thing: Any) -> str:
    """Return the name of the class of what is tested."""
    return type(thing).__name__
