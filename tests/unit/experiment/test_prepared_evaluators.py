"""Each async evaluator is prepared once for a repeat, also where a function chooses the evaluators."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from dokimos import EvalResult, EvalTestCase, Evaluator, Example, evaluate
from dokimos._runtime.concurrency import run_sync
from dokimos.evaluators._eager_evaluation import score_each
from dokimos.experiment import _item_scoring
from dokimos.experiment._item_scoring import PreparedEvaluators, evaluate_all


@dataclass(frozen=True, kw_only=True)
class Immediate(Evaluator):
    value: float = 0.5

    async def score(self, case: EvalTestCase) -> float:
        return self.value


@dataclass(frozen=True, kw_only=True)
class Sync(Evaluator):
    def score(self, case: EvalTestCase) -> float:
        return 1.0


def test_the_same_evaluators_are_prepared_once() -> None:
    prepared, one, other = PreparedEvaluators(None), Immediate(name="one"), Immediate(name="other")
    first, second = prepared.find([one, other]), prepared.find([other, one])
    assert first is not None
    assert second is not None
    assert list(map(id, second)) == list(map(id, first[::-1]))


def test_equal_evaluators_are_prepared_each() -> None:
    found = PreparedEvaluators(None).find([Immediate(), Immediate()])
    assert found is not None
    assert found[0] is not found[1]


def test_only_async_evaluators_are_prepared() -> None:
    assert PreparedEvaluators(None).find([Immediate(), Sync()]) is None


def test_evaluators_without_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_item_scoring, "MOST_PREPARED", 3)
    prepared = PreparedEvaluators(None)
    for index in range(10):
        prepared.find([Immediate(value=index / 10)])
    assert len(prepared._known) <= 3


def test_each_example_is_scored_by_the_evaluators_that_were_chosen_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_item_scoring, "MOST_PREPARED", 3)
    lasting = Immediate(name="lasting", value=1.0)

    def choose(example: Example) -> Sequence[Evaluator]:
        number = int(example.inputs["input"])
        return [lasting, Immediate(name=f"new {number % 3}", value=number / 20)][:: 1 if number % 2 else -1]

    data = [Example.of(str(number), "") for number in range(20)]
    result = evaluate(data, str.upper, choose, quiet=True, journal=False)
    for number, item in enumerate(result.item_results):
        expected = [("lasting", 1.0), (f"new {number % 3}", number / 20)][:: 1 if number % 2 else -1]
        assert [(found.name, found.score) for found in item.eval_results] == expected


def test_an_interrupt_after_the_last_score_is_not_taken_for_another_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Interrupted(list[EvalResult]):
        def append(self, result: EvalResult) -> None:
            results.append(result)
            if len(results) == 2:
                raise KeyboardInterrupt

    results: list[EvalResult] = []

    def score_and_interrupt(
        evaluators: Any, case: EvalTestCase, own: list[EvalResult], waiting: list[Any]
    ) -> Any:
        nonlocal results
        results = own
        return score_each(evaluators, case, Interrupted(), waiting)

    monkeypatch.setattr(_item_scoring, "score_each", score_and_interrupt)
    case = EvalTestCase.of("question", "answer")
    written: list[Sequence[EvalResult]] = []

    async def main() -> None:
        with pytest.raises(KeyboardInterrupt):
            await evaluate_all([Immediate(name="one"), Immediate(name="other")], case, written.append)

    run_sync(main())
    assert [result.name for group in written for result in group] == ["one", "other"]
