"""Settings of a wrong type: refused when the evaluator is made, in one wording."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError, DokimosError
from dokimos.evaluators import (
    Contains,
    Equality,
    Evaluator,
    ExactMatch,
    Faithfulness,
    Latency,
    Length,
    LLMJudge,
    Numeric,
    Precision,
    evaluator,
    registry,
)
from dokimos.evaluators._llm.rating import GradedExample
from dokimos.evaluators.registry import settable_fields

CASE = EvalTestCase({"input": "2 + 2"}, {"output": "4"}, expected_outputs={"output": "4"})


def ask(prompt):
    return "{}"


NEEDED: dict[str, dict[str, Any]] = {
    "regex": {"pattern": "days"},
    "contains": {"values": ["days"]},
    "length": {"max": 50},
    "json_schema": {"schema": {}},
    "latency": {"max_ms": 1000},
    "cost": {"max_usd": 1},
    "tokens": {"max_tokens": 100},
    "forbidden_tools": {"tools": ["delete"]},
    "max_tool_calls": {"max": 2},
    "tool_graph": {"start": ["refund_policy"]},
    "jury": {"judges": [ask]},
    "trajectory": {"criteria": ["clarity"]},
    "per_turn": {"evaluator": {"length": {"max": 50}}},
    "function": {"function": lambda actual_output: True},
}
"""What an evaluator cannot be made without, apart from a judge, an embedder and criteria."""
WRONG = ["twelve", 3.5, True, None, [1], {"a": 1}, object()]


def makes(name: str) -> tuple[type[Evaluator], dict[str, Any]]:
    kind: Any = registry.find(name)
    usual = {"judge": ask, "embedder": ask, "criteria": "Is it right?"}
    given = {key: value for key, value in usual.items() if key in settable_fields(kind)}
    return kind, given | NEEDED.get(name, {})


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_no_setting_of_any_evaluator_fails_with_an_error_of_python(name):
    kind, given = makes(name)

    refused = 0
    for setting in settable_fields(kind):
        for value in WRONG:
            try:
                kind(**{**given, setting: value})
            except DokimosError:
                refused += 1

    assert refused > 20


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_the_common_settings_of_every_evaluator_are_checked_in_one_wording(name):
    kind, given = makes(name)

    for setting, value, words in [
        ("threshold", "0.5", "must be a number or None, not '0.5'"),
        ("threshold", True, "must be a number or None, not True"),
        ("fail_on_error", "no", "must be True or False, not 'no'"),
        ("evaluation_params", "input", "must be a list of texts or None, not 'input'"),
        ("response_path", 3, "must be text or None, not 3"),
        ("name", 3, "must be text, not 3"),
    ]:
        with pytest.raises(ConfigurationError) as refused:
            kind(**{**given, setting: value})
        assert f": {setting} {words}" in str(refused.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ExactMatch(threshold="0.5"),
            "Exact Match: threshold must be a number or None, not '0.5'. "
            "Write it without quotes: threshold=0.5.",
        ),
        (
            lambda: Latency(max_ms="800"),
            "Latency: max_ms must be a number, not '800'. Write it without quotes: max_ms=800.",
        ),
        (lambda: Latency(max_ms="soon"), "Latency: max_ms must be a number, not 'soon'."),
        (lambda: Length(max=1.5), "Length: max must be a whole number or None, not 1.5."),
        (lambda: Equality(ignore_case="no"), "Equality: ignore_case must be True or False, not 'no'."),
        (
            lambda: Numeric(name="Price", relative_tolerance=[0.1]),
            "Price: relative_tolerance must be a number, not [0.1].",
        ),
        (lambda: Precision(k="5"), "Precision: k must be a whole number or None, not '5'. Write it without"),
        (
            lambda: Contains(values=["a"], mode=["any"]),
            "Contains: mode must be one of 'any', 'all', 'none', not",
        ),
        (
            lambda: LLMJudge(judge=ask, criteria="Right?", score_range=5),
            "LLM Judge: score_range must be two numbers, the lowest and the highest score, "
            "such as (1, 5), not 5.",
        ),
        (
            lambda: LLMJudge(judge=ask, criteria="Right?", rubric={"good": "right"}),
            "LLM Judge: the keys of rubric must be scores, such as {1: 'wrong', 5: 'right'}, not 'good'.",
        ),
        (
            lambda: LLMJudge(judge=ask, criteria="Right?", examples=[GradedExample(output=1, score="1")]),
            "LLM Judge: examples must be a list of GradedExample(output=..., score=...)",
        ),
        (lambda: evaluator(threshold="0.5")(lambda output: 1.0), "Function: threshold must be a number"),
    ],
)
def test_the_error_names_the_evaluator_the_setting_the_value_and_what_it_has_to_be(make, message):
    with pytest.raises(ConfigurationError) as refused:
        make()

    assert str(refused.value).startswith(message)


@dataclass(frozen=True, kw_only=True)
class Mine(Evaluator):
    threshold: float | None = 0.5
    limit: int = 3

    def score(self, case: EvalTestCase) -> float:
        return 1.0


def test_evaluators_of_users_have_the_common_settings_checked_and_their_own_left_alone():
    assert Mine(limit="three").limit == "three"  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"^Mine: threshold must be a number or None, not '0\.5'\."):
        Mine(threshold="0.5")  # type: ignore[arg-type]


@pytest.mark.parametrize("threshold", [Decimal("0.5"), Fraction(1, 2), 1, None])
def test_numbers_of_any_kind_are_thresholds(threshold):
    assert ExactMatch(threshold=threshold).evaluate(CASE).error is None


class Scalar:
    """A number or boolean of another library, as NumPy's scalars are."""

    dtype = "float32"

    def __init__(self, value: bool | int | float) -> None:
        self.value = value

    def item(self) -> bool | int | float:
        return self.value


@pytest.mark.parametrize("threshold", [Scalar(0.5), Decimal("0.5"), Fraction(1, 2)])
def test_numbers_of_other_libraries_become_pythons_own_so_that_reports_can_hold_them(threshold):
    made = ExactMatch(threshold=threshold)
    assert type(made.threshold) is float
    assert made.info() == ExactMatch(threshold=0.5).info()
    assert Length(max=Scalar(3)).info() == Length(max=3).info()  # type: ignore[arg-type]
    assert Equality(ignore_case=Scalar(True)).info() == Equality(ignore_case=True).info()  # type: ignore[arg-type]


def test_a_number_that_no_float_can_hold_is_not_a_number():
    with pytest.raises(ConfigurationError, match="threshold must be a number or None"):
        ExactMatch(threshold=Fraction(10**400))  # type: ignore[arg-type]


def test_a_class_of_ones_own_may_declare_a_setting_anew():
    @dataclass(frozen=True, kw_only=True)
    class Mine(Contains):
        values: dict[str, str]  # type: ignore[assignment]
        mode: Any = None

        def __post_init__(self) -> None:
            Evaluator.__post_init__(self)

    assert Mine(values={"a": "b"}).values == {"a": "b"}
    with pytest.raises(ConfigurationError, match="ignore_case must be True or False"):
        Mine(values={}, ignore_case="no")  # type: ignore[arg-type]


def test_an_evaluator_without_its_judge_says_what_to_write():
    with pytest.raises(TypeError, match=r"^Faithfulness needs 'judge', such as judge='openai:gpt-5-mini'\.$"):
        Faithfulness()  # type: ignore[call-arg]


def test_evaluators_with_settings_that_have_no_default_are_copied_and_pickled():
    original = Contains(values=["a"], name="Has a")

    assert copy.copy(original) == original
    assert copy.deepcopy(original) == original
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(original, protocol)) == original
