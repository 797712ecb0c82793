"""Uses that type checkers must accept; `assert_type` says what they must know."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, assert_type

from dokimos import (
    CallMetrics,
    Dataset,
    EvalResult,
    EvalTestCase,
    Evaluator,
    Example,
    Experiment,
    ExperimentResult,
    Score,
    TaskResult,
    ToolCall,
    evaluate,
    evaluate_async,
    evaluator,
)
from dokimos.evaluators import ExactMatch, Faithfulness, GEval


@dataclass(frozen=True)
class Question:
    text: str
    language: str = "en"


@dataclass(frozen=True)
class Answer:
    text: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CitesEnough(Evaluator[Question, Answer]):
    least: int = 1

    def score(self, case: EvalTestCase[Question, Answer]) -> Score:
        assert_type(case.input_value, Question)
        assert_type(case.output, Answer)
        assert_type(case.expected, Answer | None)
        return Score(min(1.0, len(case.output.sources) / self.least), label=case.input_value.language)


@dataclass(frozen=True, kw_only=True)
class Several(Evaluator[Question, Answer]):
    async def score(self, case: EvalTestCase[Question, Answer]) -> Mapping[str, Score | float | bool | None]:
        return {
            "short": len(case.output.text) < 80,
            "cites": 0.5,
            "tone": Score(1.0, label="warm"),
            "n": None,
        }


class Untyped(Evaluator):
    def score(self, case: EvalTestCase) -> float:
        return float(case.output.anything)


@evaluator
def polite(actual_output: str) -> bool:
    return "please" in actual_output


@evaluator(name="Triad", thresholds={"grounded": 0.8, "tone": None})
def triad(output: Answer) -> dict[str, float]:
    return {"grounded": 1.0, "tone": 0.5}


questions = Dataset([Example.of(Question("Refund?"), Answer("Within 30 days."), id="refund")])
assert_type(questions, Dataset[Question, Answer])
assert_type(questions[0], Example[Question, Answer])
assert_type(questions[0].input_value, Question)
assert_type(questions[0].expected, Answer | None)
assert_type(questions[:1], Dataset[Question, Answer])
assert_type(questions.filter(lambda example: example.input_value.language == "en"), Dataset[Question, Answer])
assert_type(Dataset.load("questions.jsonl").as_types(Question, Answer), Dataset[Question, Answer])


def answer(question: Question) -> Answer:
    return Answer(question.text, ("policy.md",))


async def answer_later(question: Question) -> Answer:
    return answer(question)


def answer_example(example: Example[Question, Answer]) -> Answer:
    return answer(example.input_value)


def answer_any_example(example: Example) -> dict[str, Any]:
    return {"output": example.input}


def answer_with_metrics(question: Question) -> TaskResult:
    call = ToolCall("lookup", {"city": "Paris"})
    return TaskResult.of(answer(question), tool_calls=[call], contexts=["30 days"], metrics=CallMetrics())


def answer_parts(question: str, language: str) -> str:
    return f"{question} {language}"


def chunks(question: Question) -> Iterator[str]:
    yield question.text


async def chunks_later(question: Question) -> AsyncIterator[str]:
    yield question.text


checks = [CitesEnough(), Several(), ExactMatch(), polite, triad]

assert_type(evaluate(questions, answer, [CitesEnough(least=2)]), ExperimentResult)
evaluate(questions, answer, checks, parallelism=4, max_errors=0.1, quiet=True)
evaluate(questions, answer_later, [CitesEnough(), ExactMatch()])
evaluate(questions, answer_example, CitesEnough())
evaluate(questions, answer_any_example, [ExactMatch(threshold=0.5)])
evaluate(questions, answer_with_metrics, [CitesEnough(thresholds={"a": 0.5})])
evaluate(questions, chunks, [polite])
evaluate(questions, chunks_later, [polite])
evaluate(questions, lambda question: Answer(question.text), [CitesEnough()])
evaluate([Example({"question": "Refund?", "language": "en"})], answer_parts, [polite])
evaluate([Example.of("2 + 2?", "4")], str.upper, [ExactMatch()])
evaluate([Example.of("2 + 2?", "4")], len, [ExactMatch()])
evaluate(questions, answer, lambda example: [CitesEnough()])
Experiment(questions, answer, [CitesEnough()], name="shop", runs=3, budget=None).run(fail_fast=True)


async def later() -> ExperimentResult:
    return await evaluate_async(questions, answer_later, [CitesEnough()], name="shop")


case = EvalTestCase.of(
    Question("Refund?"),
    Answer("Within 30 days."),
    tool_calls=[{"name": "lookup"}, ToolCall("lookup")],
    contexts=("30 days",),
)
assert_type(case, EvalTestCase[Question, Answer])
assert_type(CitesEnough().evaluate(case), EvalResult)
assert_type(Several().evaluate(case).part("cites").score, float | None)
GEval(judge="openai:gpt-5-mini", criteria="Is it polite?")
Faithfulness(judge=lambda prompt: "{}", threshold=0.8)

both: tuple[Example[str], Example[str, int]] = (Example.of("a"), Example.of("a", 1))
