"""Validate the values of a suite, and find all of its faults in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from dokimos.suites._document import Document
from dokimos.suites._invalid_values import replace_invalid
from dokimos.suites._problems import Problem, Steps, raise_problems

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from dokimos.suites._schema import SuiteFile


def validate_document(document: Document) -> SuiteFile:
    """Check the values of a suite. Raises `ConfigurationError` with everything that is wrong with them."""
    file, problems = check_document(document)
    raise_problems(problems)
    assert file is not None, "a file without problems is valid"
    return file


def check_document(document: Document) -> tuple[SuiteFile | None, list[Problem]]:
    """Return the validated file, and the problems of the values that it was made from.

    A placeholder replaces each case, metric or tool at fault, so that the rest can be validated and resolved.
    The file is None where there are faults elsewhere.
    """
    from pydantic import ValidationError

    from dokimos.suites._schema import SuiteFile
    from dokimos.suites._value_paths import replace_values

    problems = list(document.problems)
    value = document.value
    sources = dict(document.sources)
    # pydantic checks a block as a whole only once its parts are valid, so each round can reveal more faults.
    while True:
        try:
            file = SuiteFile.model_validate(value)
        except ValidationError as error:
            faults = error.errors()
        else:
            return (None if document.problems else file), problems
        if texts := _find_text_values(document, faults, sources):
            value = replace_values(value, texts)
            continue
        problems += [_problem(document, fault) for fault in _without_misspelled(faults)]
        repaired = replace_invalid(value, [document.drop_unknown(tuple(fault["loc"])) for fault in faults])
        # Where no placeholder fits, the next round would find the same faults, and so on for ever.
        if document.problems or repaired == value:
            return None, problems
        value = repaired


def _find_text_values(
    document: Document, faults: Iterable[ErrorDetails], sources: dict[Steps, str]
) -> dict[Steps, str]:
    """Return numbers as they are written, for the fields that want a text; each is taken once."""
    from dokimos.suites._metric_schema import TEXT_WANTED

    text_steps = [
        document.drop_unknown(tuple(fault["loc"])) for fault in faults if fault["type"] == TEXT_WANTED
    ]
    return {steps: sources.pop(steps) for steps in text_steps if steps in sources}


def _without_misspelled(faults: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Leave out that a key is missing where a misspelling of it stands beside: that is one problem."""
    unknown = [fault["loc"] for fault in faults if fault["type"] == "extra_forbidden"]

    def is_misspelled(key: tuple[int | str, ...]) -> bool:
        beside = [str(other[-1]) for other in unknown if other[:-1] == key[:-1]]
        return bool(beside and get_close_matches(str(key[-1]), beside, n=1))

    return [fault for fault in faults if fault["type"] != "missing" or not is_misspelled(fault["loc"])]


def _problem(document: Document, fault: ErrorDetails) -> Problem:
    missing = str(fault["loc"][-1]) if fault["type"] == "missing" and fault["loc"] else ""
    message = "this is missing" if missing else fault["msg"].removeprefix("Value error, ")
    return document.problem(tuple(fault["loc"]), message, missing=missing)
