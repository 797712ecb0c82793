"""The help desk's answers, tested one by one and as a whole.

pytest --dokimos-report out/report.html
"""

import pytest
from app import answer, answer_later

from dokimos import Dataset, Experiment
from dokimos.evaluators import Contains, ExactMatch, Levenshtein, LLMJudge, TokenF1
from dokimos.testing import assert_eval, assert_scores, dataset_source


@pytest.mark.dokimos("support.jsonl", runs=2)
def test_answers(example):
    assert_eval(example.to_test_case(answer(example.input)), ExactMatch(), Levenshtein(threshold=0.9))


@dataset_source(
    jsonl='{"input": "How long do I have?"}\n{"input": "How long is it?"}', ids="{index}: {input}"
)
async def test_asynchronous_answers(example, dokimos_recorder):
    said = await answer_later(example.input)
    dokimos_recorder.actual_output(said)
    assert_eval(example.to_test_case(said), Contains(values=["30 days"]))


def test_a_judge_whose_replies_were_recorded(example_case):
    """Replayed with `pytest --dokimos-cassette=replay`: no model is asked, and no key is needed."""
    polite = LLMJudge(name="Polite", criteria="Is the output polite?", judge=lambda prompt: RECORDED)
    assert_eval(example_case, polite)


def test_the_whole_data_set_reaches_its_levels():
    data = Dataset.load("tests/support.jsonl")
    result = Experiment(data, answer, [ExactMatch(), TokenF1()], name="support").run(journal=False)
    assert_scores(result, {"F1 Score": 0.9}, pass_rate=0.95)


@pytest.mark.dokimos_live(env="SUPPORT_API_KEY")
def test_the_live_service():
    raise AssertionError("This runs only where the key is set.")


RECORDED = '{"reason": "It is friendly.", "score": 0.9}'


@pytest.fixture
def example_case():
    return Dataset.load("tests/support.jsonl")[0].to_test_case(answer("How long may I return my goods?"))
