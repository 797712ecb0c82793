"""Uses that type checkers must refuse: an error on each line that says so, and on no other."""

from __future__ import annotations

from dataclasses import dataclass

from dokimos import (
    Dataset,
    EvalTestCase,
    Evaluator,
    Example,
    Experiment,
    RunOptions,
    Score,
    evaluate,
    evaluate_async,
)
from dokimos.evaluators import EmbeddingSimilarity, ExactMatch, Faithfulness, GEval, Regex


@dataclass(frozen=True)
class Question:
    text: str


@dataclass(frozen=True)
class Answer:
    text: str


@dataclass(frozen=True, kw_only=True)
class Checks(Evaluator[Question, Answer]):
    def score(self, case: EvalTestCase[Question, Answer]) -> Score:
        case.output.texts  # error
        case.input_value.output  # error
        case.expected.text  # error
        return Score("high")  # error


@dataclass(frozen=True, kw_only=True)
class WrongCase(Evaluator[Question, Answer]):
    def score(self, case: EvalTestCase[str, Answer]) -> Score:  # error
        return Score(1.0)


@dataclass(frozen=True, kw_only=True)
class WrongOutcome(Evaluator):
    def score(self, case: EvalTestCase) -> str:  # error
        return "good"


questions = Dataset([Example.of(Question("Refund?"), Answer("Within 30 days."))])
texts = Dataset([Example.of("Refund?", "Within 30 days.")])


def answer(question: Question) -> Answer:
    return Answer(question.text)


def answer_text(question: Question) -> str:
    return question.text


def answer_example_of_text(example: Example[str, str]) -> Answer:
    return Answer(example.input_value)


questions[0].input_value.missing  # error
answer(texts[0].input_value)  # error
evaluate(texts, answer, [ExactMatch()])  # error
evaluate(questions, answer_example_of_text, [ExactMatch()])  # error
evaluate(questions, answer_text, [Checks()])  # error
evaluate(questions, answer, [ExactMatch()], paralelism=4)  # error
evaluate(questions, answer, [ExactMatch()], parallelism="4")  # error
evaluate(questions, answer, [ExactMatch], parallelism=4)  # error
evaluate(questions, answer, ["exact_match"])  # error
evaluate(questions, "answer", [ExactMatch()])  # error
evaluate_async(questions, answer, [ExactMatch()], max_error=1)  # error
Experiment(questions, answer, [ExactMatch()], run=3)  # error
Experiment(questions, answer, [ExactMatch()]).run(fail_first=True)  # error
RunOptions(time_out=3)  # error
GEval()  # error
GEval(criteria="Is it polite?")  # error
Faithfulness(threshold=0.5)  # error
EmbeddingSimilarity()  # error
Regex()  # error
ExactMatch(treshold=0.5)  # error
Checks(thresholds={"a": "high"})  # error
EvalTestCase.of("a", "b", tool_call=[])  # error
EvalTestCase.of("a", "b", tool_calls="lookup")  # error
Example.of(Question("a")).input_value.upper()  # error
