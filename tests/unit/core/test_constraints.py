"""What a value has to be is said in our words, whatever kind of fault pydantic finds."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import pytest
from pydantic import Field
from pydantic_core.core_schema import ErrorType

from dokimos._core.constraints import collect_bounds, describe_range, describe_requirement
from dokimos._core.convert import adapter, explain
from dokimos.suites._schema import SuiteFile


@pytest.mark.parametrize("kind", get_args(ErrorType))
def test_no_kind_of_fault_is_told_in_the_words_of_the_library(kind: str) -> None:
    told = describe_requirement(
        {"type": kind, "ctx": {"error": "x", "gt": 1, "ge": 1, "lt": 1, "le": 1}, "msg": "LIBRARY"}
    )
    assert "LIBRARY" not in told
    assert "should" not in told
    assert "{" not in told
    assert told.startswith(("must ", "is ", "cannot ", "has ", "contains ", "x"))


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"ge": 0, "le": 1}, "0 to 1"),
        ({"gt": 0, "lt": 1}, "between 0 and 1, and neither of them"),
        ({"gt": 0, "le": 1}, "more than 0 and at most 1"),
        ({"ge": 0.5, "lt": 1}, "at least 0.5 and less than 1"),
        ({"ge": 1}, "at least 1"),
        ({"gt": 0}, "more than 0"),
        ({"le": 2}, "at most 2"),
        ({"lt": 2}, "less than 2"),
    ],
)
def test_ranges_are_read_in_one_piece(bounds: dict[str, float], said: str) -> None:
    assert describe_range(bounds) == said


def test_both_limits_are_found_in_the_type_of_a_field() -> None:
    share = Annotated[float, Field(ge=0, le=1)]
    fault = {"type": "less_than_equal", "ctx": {"le": 1.0}}
    for annotation in (
        share,
        share | None,
        list[share],
        dict[str, share | None],
        Annotated[share | None, "note"],
    ):
        assert collect_bounds(annotation, fault) == {"ge": 0, "le": 1}
    assert collect_bounds(float, fault) is None
    assert collect_bounds(Annotated[float, Field(le=9)], fault) is None


@pytest.mark.parametrize(
    ("target", "value", "said"),
    [
        (int, "four", "must be a whole number (got 'four')"),
        (list[int], ["x"], "0: must be a whole number (got 'x')"),
        (Annotated[list[int], Field(min_length=2)], [1], "must have at least 2 entries, not 1 (got [1])"),
        (Annotated[str, Field(max_length=2)], "abc", "must be at most 2 characters long (got 'abc')"),
        (Annotated[int, Field(multiple_of=5)], 3, "must be a multiple of 5 (got 3)"),
        (Annotated[str, Field(pattern="^a")], "b", "must match ^a (got 'b')"),
    ],
)
def test_a_value_that_cannot_be_read_says_what_it_must_be(target: Any, value: Any, said: str) -> None:
    with pytest.raises(ValueError, match="validation error") as raised:
        adapter(target).validate_python(value)
    assert explain(raised.value) == said


def test_every_limit_of_a_suite_is_told_in_our_words() -> None:
    """Walks through the schema: each value with limits gets one that oversteps them."""
    wrong = {
        "model": {"provider": "openai", "name": "m", "temperature": 9, "top_p": -1, "max_tokens": 0},
        "execution": {
            "retries": -1,
            "parallel_test_cases": 0,
            "llm_timeout": 0,
            "budget": {"max_cost_usd": -1},
        },
        "evaluations": {"metrics": [{"type": "standard", "metric": "x", "threshold": 2, "timeout": 0}]},
        "test_cases": [{"input": "", "repeats": 0, "tags": 3}],
    }
    with pytest.raises(ValueError, match="validation error") as raised:
        SuiteFile.model_validate(wrong)
    told = [fault["msg"] for fault in raised.value.errors()]  # type: ignore[attr-defined] # of pydantic's error
    assert len(told) > 8
    assert not [message for message in told if "should" in message or "Input" in message]
    assert "this must be 0 to 2, not 9." in told
    assert "this must be 0 to 1, not -1." in told
