"""Scoring that is prepared for many cases gives what `evaluate` and `evaluate_async` give for each."""

import sys
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import CallMetrics, EvalResult, EvalTestCase, Evaluator, Example, Score, evaluate
from dokimos._core.eval_result import flatten
from dokimos._core.jsonable import wire_json
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import BudgetExceededError, UnusableOutputError
from dokimos.evaluators import Contains, ExactMatch, Regex
from dokimos.evaluators import _base as base
from dokimos.evaluators._eager_evaluation import prepare_evaluator, score_each
from dokimos.evaluators._prepared_scoring import CheckedParts, prepare_scorer

PARTS = [
    "input",
    "actual_output",
    "expected_output",
    "contexts",
    "metadata",
    "metrics",
    "outputs",
    "outputs.price",
    "inputs.question",
    "metadata.topic",
]


class OwnScore(Score):
    """A score of a type of the user's own."""


class OwnFloat(float):
    """A number of another library, such as NumPy's."""


@dataclass(frozen=True, kw_only=True)
class Scripted(Evaluator):
    """Returns or raises what it is told, for each case what stands under its input."""

    blocking = False
    outcomes: tuple[Any, ...] = (1.0,)

    def score(self, case: EvalTestCase) -> Any:
        return give(self.outcomes, case)


@dataclass(frozen=True, kw_only=True)
class BuiltIn(Scripted):
    """As evaluators of dokimos are: it is trusted with the case itself."""


@dataclass(frozen=True, kw_only=True)
class LowerIsBetter(BuiltIn):
    lower_is_better = True


@dataclass(frozen=True, kw_only=True)
class Stars(BuiltIn):
    score_range = (1, 5)
    threshold: float | None = 3


@dataclass(frozen=True, kw_only=True)
class WithOwnResults(BuiltIn):
    """Overrides what makes results of scores."""

    def one_result(self, outcome: Any, key: str | None = None) -> EvalResult:
        return replace(super().one_result(outcome, key), label="own")


@dataclass(frozen=True, kw_only=True)
class WithOwnEvaluation(BuiltIn):
    """Overrides `evaluate` itself, although it is final."""

    def evaluate(self, case: EvalTestCase) -> EvalResult:  # type: ignore[misc] # it is final
        return EvalResult(self.name, 0.125)


@dataclass(frozen=True, kw_only=True)
class Async(Evaluator):
    outcomes: tuple[Any, ...] = (1.0,)

    async def score(self, case: EvalTestCase) -> Any:
        return give(self.outcomes, case)


@dataclass(frozen=True, kw_only=True)
class AsyncBuiltIn(Async):
    """As those that ask judges."""


for kind in (BuiltIn, LowerIsBetter, Stars, WithOwnResults, WithOwnEvaluation, AsyncBuiltIn):
    kind.gets_copies = kind.gives_several = False


CHANGE: Final = "change the case"


def give(outcomes: tuple[Any, ...], case: EvalTestCase) -> Any:
    outcome = outcomes[case.run_index % len(outcomes)]
    if outcome == CHANGE:
        for content in (case.inputs, case.actual_outputs, case.metadata):
            content.clear()  # type: ignore[attr-defined] # it is a dict
    if isinstance(outcome, type):
        raise outcome("no")
    return outcome


texts = st.sampled_from(["", "The answer is right.", "Größe …", "\ud800"])
scores = st.one_of(
    st.floats(0, 1), st.sampled_from([0.0, -0.0, 1.0, 1, True, 2.0, -1, float("nan"), "0.5", None])
)
outcomes = st.one_of(
    st.just(CHANGE),
    st.floats(0, 1),
    st.sampled_from([True, False, 0, 1, 3.5, float("nan"), float("inf"), OwnFloat(0.5), "text", None]),
    st.builds(
        Score,
        scores,
        texts | st.just(5),  # no text
        metadata=st.sampled_from([{}, {"facts": [1, "a"]}, [], None]),
        label=st.sampled_from([None, "good", "", 3]),
    ),
    st.builds(Score, st.floats(0, 1), label=st.just("good")),
    st.builds(OwnScore, st.floats(0, 1), texts),
    st.dictionaries(st.sampled_from(["a", "b"]), scores, max_size=2),
    st.sampled_from([ValueError, UnusableOutputError, StopIteration, SystemExit, AssertionError]),
)
settings: dict[str, Any] = {
    "threshold": st.sampled_from([None, 0.5, 1, 0.0]),
    "fail_on_error": st.booleans(),
    # Mostly those that let a case be scored.
    "evaluation_params": st.sampled_from([None, None, None, ["outputs"]])
    | st.none()
    | st.lists(st.sampled_from(PARTS), min_size=1, max_size=3, unique=True),
    "response_path": st.sampled_from([None, None, None, "price"]),
    "outcomes": st.lists(outcomes, min_size=1, max_size=3).map(tuple),
}
plain = st.sampled_from([Scripted, BuiltIn, LowerIsBetter, WithOwnResults, WithOwnEvaluation]).flatmap(
    lambda kind: st.builds(kind, **settings)
)
stars = st.builds(Stars, **{**settings, "threshold": st.sampled_from([None, 1, 3.5])})
several = st.builds(Scripted, **settings, thresholds=st.sampled_from([{"a": 0.5}, {"a": None, "b": 0.25}]))
ready_made = st.sampled_from(
    [ExactMatch(), Contains(values=["right"]), Regex(pattern="r.ght", threshold=0.5)]
)
evaluators = plain | stars | several | ready_made
async_evaluators = st.sampled_from([Async, AsyncBuiltIn]).flatmap(lambda kind: st.builds(kind, **settings))

maps = st.dictionaries(
    st.sampled_from(["input", "question", "output", "price", "contexts", "topic"]),
    st.none() | texts | st.just('{"price": 3}') | st.just(["right", {"text": "context"}]),
    max_size=3,
)
make_case: Callable[..., EvalTestCase[Any, Any]] = EvalTestCase
cases = st.lists(
    st.builds(
        make_case,
        maps,
        maps,
        expected_outputs=maps,
        metadata=maps,
        metrics=st.none() | st.just(CallMetrics(1, 2)),
        error=st.sampled_from([None] * 9 + ["ValueError: no"]),
    ),
    min_size=1,
    max_size=3,
).map(lambda several: [replace(each, run_index=index) for index, each in enumerate(several)])


def describe(result: EvalResult) -> list[tuple[Any, ...]]:
    """Return all that a result says but where in dokimos an error was caught, types included."""
    parts = [result, *flatten([result])]
    return [
        (wire_json(replace(part, error_detail=None, parts=())), type(part.score), type(part.metadata))
        for part in parts
    ]


@given(st.lists(evaluators, min_size=1, max_size=4), cases)
def test_prepared_scorers_give_what_evaluate_gives(
    several: list[Evaluator], cases: list[EvalTestCase]
) -> None:
    scorers = [prepare_scorer(evaluator) for evaluator in several]
    for case in cases:
        checked: CheckedParts = set()
        before = wire_json(case)
        for evaluator, scorer in zip(several, scorers, strict=True):
            if isinstance(evaluator, BuiltIn) and CHANGE in evaluator.outcomes:
                continue  # which evaluators of dokimos do not
            assert describe(scorer(case, checked)) == describe(evaluator.evaluate(case))
        assert wire_json(case) == before


@given(st.lists(async_evaluators, min_size=1, max_size=4), cases)
def test_prepared_evaluators_give_what_evaluate_async_gives(
    several: list[Evaluator], cases: list[EvalTestCase]
) -> None:
    async def main() -> None:
        for case in cases:
            before = wire_json(case)
            tried = [e for e in several if not (isinstance(e, AsyncBuiltIn) and CHANGE in e.outcomes)]
            results = score_at_once(tried, case)
            assert list(map(describe, results)) == [describe(await e.evaluate_async(case)) for e in tried]
            assert wire_json(case) == before

    run_sync(main())


def score_at_once(several: Sequence[Evaluator], case: EvalTestCase) -> list[EvalResult]:
    """Score a case with evaluators that do not wait, each in a context of its own."""
    results: list[EvalResult] = []
    scoring: Any = score_each([prepare_evaluator(each, None) for each in several], case, results, [])
    for _ in several:
        copy_context().run(scoring.send, None)
    return results


@dataclass(frozen=True, kw_only=True)
class SeesCaller(Evaluator):
    blocking = False

    def score(self, case: EvalTestCase) -> float:
        return float(sys._getframe(1).f_code.co_filename == base.__file__)


def test_a_time_limit_finds_the_calls_that_it_is_for() -> None:
    """`block_limits` names the file of `Evaluator`, from which the watch of the event loop expects them."""
    result = evaluate(
        [Example.of("a", "b")], str.upper, [SeesCaller()], evaluator_timeout=60, quiet=True, journal=False
    )
    assert result.item_results[0].eval_results[0].score == 1.0


@pytest.mark.parametrize("error", [BudgetExceededError, KeyboardInterrupt, GeneratorExit])
def test_what_ends_a_run_is_raised(error: type[BaseException]) -> None:
    with pytest.raises(error):
        prepare_scorer(BuiltIn(outcomes=(error,)))(EvalTestCase.of("a", "b"), set())


@pytest.mark.parametrize(
    "evaluator",
    [
        BuiltIn(threshold=0.5, outcomes=(0.25, 0.5, 0.75)),
        LowerIsBetter(threshold=0.5, outcomes=(0.25, 0.5, 0.75)),
        BuiltIn(outcomes=(0.25, Score(0.5), True)),
        WithOwnResults(outcomes=(0.25, Score(0.5), True)),
        BuiltIn(outcomes=(Score(0.5, 5), Score(2.0), Score(0.5, label="good"))),  # type: ignore[arg-type] # no text
        Scripted(thresholds={"a": 0.5}, outcomes=(0.25, Score(0.5), {"a": 0.5})),
    ],
    ids=repr,
)
def test_verdicts_are_those_of_evaluate(evaluator: Evaluator) -> None:
    scorer = prepare_scorer(evaluator)
    for index in range(3):
        case = EvalTestCase({}, {"output": "a"}, run_index=index)
        assert describe(scorer(case, set())) == describe(evaluator.evaluate(case))


def test_users_evaluators_get_cases_of_their_own() -> None:
    case, checked = EvalTestCase({"input": "a"}, {"output": "b"}), CheckedParts()
    several = [Async(outcomes=(CHANGE,)), Async(outcomes=(CHANGE,))]

    score_at_once(several, case)
    for scorer in [prepare_scorer(Scripted(outcomes=(CHANGE,))) for _ in range(2)]:
        scorer(case, checked)
    assert case == EvalTestCase({"input": "a"}, {"output": "b"})


def test_metadata_that_a_user_may_keep_is_copied() -> None:
    kept: list[Score] = [Score(1.0), Score(1.0, metadata={"facts": [1]})]
    scorer = prepare_scorer(Scripted(outcomes=tuple(kept)))
    case = EvalTestCase.of("a", "b")
    results = [scorer(replace(case, run_index=index), set()) for index in (0, 1)]
    for score in kept:
        score.metadata["facts"] = "changed"  # type: ignore[index] # it is a dict
    assert [result.metadata for result in results] == [{}, {"facts": [1]}]


@pytest.mark.parametrize("names", [("contexts",), ("outputs.contexts",)])
def test_parts_that_are_parsed_are_looked_for_by_each_evaluator(names: tuple[str, ...]) -> None:
    checked: CheckedParts = set()
    case: EvalTestCase[Any, Any] = EvalTestCase({}, {"contexts": ["context"]})
    for known in (names, ("outputs",)):
        assert prepare_scorer(BuiltIn(evaluation_params=known))(case, checked).score == 1.0
    assert checked == {("outputs",)}
