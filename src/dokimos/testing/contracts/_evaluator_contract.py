"""What every evaluator must do."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import pytest

from dokimos import errors
from dokimos._core.agent import ToolCall
from dokimos._core.conversation import ConversationTrajectory, Message
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import EvalResult
from dokimos._core.score_range import USUAL_RANGE
from dokimos._core.test_case import EvalTestCase
from dokimos._core.tool_definition import ToolDefinition
from dokimos._runtime.concurrency import run_sync
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._parameters import describe, description_of, schema
from dokimos.testing.contracts._contract_failure import UNICODE, attempt, check, fail, missing_attribute

FULL_CASE: Final = EvalTestCase(
    {"input": "What is the capital of France?"},
    {
        "output": "The capital of France is Paris.",
        "contexts": ["Paris is the capital of France."],
        "toolCalls": [ToolCall("look_up", {"country": "France"}, result="Paris", metadata={"id": "1"})],
        "tools": [ToolDefinition("look_up", "Find the capital of a country.")],
        "trajectory": ConversationTrajectory(
            (Message.user("What is the capital of France?"), Message.assistant("It is Paris."))
        ),
        "retrieved": ["a", "b"],
        "plan": "Look the capital up, then answer.",
    },
    expected_outputs={
        "output": "The capital of France is Paris.",
        "toolCalls": [ToolCall("look_up", {"country": "France"})],
        "relevant": ["a"],
    },
    metadata={"topic": "geography", "role": "a geographer", "baselineOutput": "I do not know."},
    id="contract",
    metrics=CallMetrics(50, 12, cost_usd=0.001, latency_ms=300.0),
)
"""A case with all that evaluators usually read."""
_ODD_OUTPUTS: Final[Mapping[str, object]] = {
    "an empty text": "",
    "blanks": " \n\t ",
    "an empty list": [],
    "an empty mapping": {},
    "a number": 0,
    "a NUL": "\x00",
    "a lone surrogate": "\ud800",
}
_CLEAR_ERRORS: Final = frozenset(
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.DokimosError)
)
_MISSING: Final = errors.MissingInputError.__name__


class EvaluatorContract:
    """Tests of one evaluator: `class TestMine(EvaluatorContract): evaluator = Mine()`.

    The settings must be ones that can be pickled: a judge in them is an object or a function of a module.
    """

    evaluator: ClassVar[Evaluator[Any, Any] | None] = None
    """An instance with the settings to test."""
    cases: ClassVar[Sequence[EvalTestCase[Any, Any]]] = (FULL_CASE,)
    """Cases that it can score. The one that is the default has an input, an output, an expected output,
    contexts, tool calls, tools, a conversation and ids of what was retrieved."""

    @property
    def tested(self) -> Evaluator[Any, Any]:
        """The evaluator under test."""
        if self.evaluator is None:
            missing_attribute(self, "evaluator", "evaluator = MyEvaluator()")
        return self.evaluator

    @property
    def kind(self) -> type[Evaluator[Any, Any]]:
        """Its class."""
        return type(self.tested)

    def test_it_is_a_frozen_dataclass(self) -> None:
        kind = self.kind
        check(issubclass(kind, Evaluator), f"{kind.__name__} must inherit from dokimos.Evaluator.")
        check(
            "__dataclass_fields__" in vars(kind) and vars(kind)["__dataclass_params__"].frozen,
            f"Put @dataclass(frozen=True, kw_only=True) above class {kind.__name__}.",
        )
        with pytest.raises(dataclasses.FrozenInstanceError):
            self.tested.name = "another"  # type: ignore[misc] # it must fail

    def test_it_has_a_name(self) -> None:
        check(self.tested.name, f"{self.kind.__name__}.__post_init__ must call super().__post_init__().")

    def test_it_can_be_copied_pickled_and_changed(self) -> None:
        tested = self.tested
        advice = f"{self.kind.__name__} must hold only values that can be copied and pickled."
        for made in (
            attempt(lambda: pickle.loads(pickle.dumps(tested)), advice),
            attempt(lambda: copy.deepcopy(tested), advice),
            attempt(lambda: replace(tested), advice),
        ):
            check(made == tested, f"A copy of {self.kind.__name__} is not equal to it. {advice}")
        check(
            replace(tested, name="renamed").name == "renamed",
            f"{self.kind.__name__} must keep the name that it is given.",
        )

    def test_its_settings_have_a_json_schema(self) -> None:
        import jsonschema_rs

        kind = self.kind
        tree = attempt(lambda: schema(kind), f"The settings of {kind.__name__} must have types of data.")
        attempt(
            lambda: jsonschema_rs.validator_for(tree), f"The schema of {kind.__name__} is not a JSON Schema."
        )
        json.dumps(tree)

    def test_its_class_and_settings_are_described(self) -> None:
        kind = self.kind
        purpose = description_of(kind)
        check(
            purpose and not purpose.startswith(f"{kind.__name__}("),
            f"Give class {kind.__name__} a docstring; its first sentence says what is scored.",
        )
        own = [each for each in describe("contract", kind).parameters if not each.common]
        bare = [each.name for each in own if not each.description]
        check(not bare, f"Write a string below each of these fields of {kind.__name__}: {', '.join(bare)}.")

    def test_its_configuration_can_be_recorded(self) -> None:
        from dokimos._core.jsonable import jsonable

        info = attempt(self.tested.info, f"The settings of {self.kind.__name__} cannot be recorded.")
        again = copy.deepcopy(self.tested).info()
        json.dumps(jsonable(info))
        check(
            info.fingerprint == again.fingerprint,
            f"Two equal {self.kind.__name__} need the same fingerprint; give what they hold `identity`.",
        )

    def test_it_scores_within_its_bounds(self) -> None:
        for case in self.cases:
            result = self.tested.evaluate(case)
            check(
                result.error is None,
                f"{self.kind.__name__} cannot score a case of `cases`: {result.error} Set `cases` in "
                f"{type(self).__name__} to cases that it can score, or mend score().",
            )
            self._check(result, "a case of `cases`")
            check(
                result.parts or result.score is not None or result.skipped,
                f"{self.kind.__name__}.score() returned nothing; return a Score, a number or a bool.",
            )

    def test_sync_and_async_give_the_same(self) -> None:
        for case in self.cases:
            direct = self.tested.evaluate(case)
            awaited = run_sync(self.tested.evaluate_async(case))
            if self.kind.deterministic:
                check(
                    _facts(direct) == _facts(awaited),
                    f"{self.kind.__name__} gives {_facts(direct)} by evaluate() and {_facts(awaited)} by "
                    "evaluate_async(): score() must not depend on the thread or event loop that it runs in.",
                )
            self._check(awaited, "a case of `cases`, in evaluate_async()")

    def test_it_is_deterministic_where_it_says_so(self) -> None:
        if not self.kind.deterministic:
            pytest.skip("it says deterministic = False")
        for case in self.cases:
            first, second = self.tested.evaluate(case), self.tested.evaluate(case)
            check(
                _facts(first) == _facts(second),
                f"{self.kind.__name__} gives {_facts(first)}, then {_facts(second)} for the same case: write "
                "deterministic = False in the class, or derive randomness from the case.",
            )

    def test_it_keeps_nothing_between_cases(self) -> None:
        if not self.kind.deterministic:
            pytest.skip("it says deterministic = False")
        before = [_facts(self.tested.evaluate(case)) for case in self.cases]
        self.tested.evaluate(FULL_CASE)
        after = [_facts(self.tested.evaluate(case)) for case in reversed(self.cases)]
        check(before == after[::-1], f"{self.kind.__name__} must not remember earlier cases.")

    def test_it_takes_unicode(self) -> None:
        for case in self.cases:
            changed = _map_texts(case, lambda text: f"{text} {UNICODE}")
            self._check_or_clear(self.tested.evaluate(changed), "texts with unicode")

    @pytest.mark.parametrize("what", _ODD_OUTPUTS)
    def test_it_takes_odd_outputs(self, what: str) -> None:
        for case in self.cases:
            changed = replace(case, actual_outputs={**case.actual_outputs, "output": _ODD_OUTPUTS[what]})
            self._check_or_clear(self.tested.evaluate(changed), f"an output that is {what}")

    def test_missing_parts_are_a_clear_error(self) -> None:
        result = self.tested.evaluate(EvalTestCase())
        needs = (*self.kind.requires, *self.kind.looks_for, *(self.tested.evaluation_params or ()))
        if needs:
            check(
                result.error is not None or result.skipped,
                f"{self.kind.__name__} names {', '.join(needs)} as required, yet scores a case without them.",
            )
        self._check_or_clear(result, "an empty case")

    def test_a_failed_run_is_not_scored(self) -> None:
        result = self.tested.evaluate(replace(self.cases[0], error="TimeoutError: no answer"))
        check(
            result.score is None and not result.parts,
            f"{self.kind.__name__} scores a case whose run failed; do not override evaluate().",
        )

    def _check(self, result: EvalResult, what: str) -> None:
        name, (low, high) = self.kind.__name__, self.tested.own_range or USUAL_RANGE
        check(isinstance(result, EvalResult), f"{name}.evaluate() must return an EvalResult.")
        for part in result.parts or (result,):
            check(
                part.score is None or low <= part.score <= high,
                f"{name} gives {part.score!r} for {what}; scores must be in {low:g}..{high:g}, or the class "
                "declares score_range.",
            )
            check(isinstance(part.reason, str), f"The reason that {name} gives for {what} must be a text.")

    def _check_or_clear(self, result: EvalResult, what: str) -> None:
        """Accept a score in bounds, or an error that the evaluator raised on purpose."""
        self._check(result, what)
        for part in (result, *result.parts):
            kind = (part.error or "").partition(":")[0]
            if part.error is not None and kind not in _CLEAR_ERRORS:
                fail(
                    f"{self.kind.__name__} crashes on {what}: {part.error} Handle it in score(), raise "
                    "EvaluationError with a sentence, or name the part in `requires`."
                )


def _facts(result: EvalResult) -> tuple[object, ...]:
    """Return what must be the same each time: everything but cost and time."""
    own = (result.name, result.score, result.success, result.reason, result.error, result.skipped)
    return (*own, result.label, *map(_facts, result.parts))


def _map_texts(case: EvalTestCase, change: Callable[[str], str]) -> EvalTestCase:
    return replace(
        case,
        inputs=_map_value(case.inputs, change),
        actual_outputs=_map_value(case.actual_outputs, change),
        expected_outputs=_map_value(case.expected_outputs, change),
    )


def _map_value(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _map_value(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_map_value(each, change) for each in value]
    return value
