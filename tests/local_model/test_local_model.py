"""Every judged evaluator on a real, small model behind an OpenAI-compatible server.

Runs when DOKIMOS_TEST_MODEL_URL holds the server's base URL, such as http://127.0.0.1:8000/v1; a name after a
`#` chooses the model. What is tested is that a weak model's replies become valid scores; how good they are is
only asked for in the easiest cases.
"""

from __future__ import annotations

import os

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators import registry
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.evaluators._llm.compare_pairwise import compare_pairwise
from dokimos.evaluators._llm.jury import Jury
from dokimos.evaluators._llm.llm_judge import LLMJudge
from dokimos.evaluators._retrieval.matching import llm_based
from dokimos.evaluators._retrieval.ranking_metrics import Recall
from dokimos.judges._factory import judge as judge_named

URL = os.environ.get("DOKIMOS_TEST_MODEL_URL", "")
pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(not URL, reason="set DOKIMOS_TEST_MODEL_URL to the base URL of a model server"),
]

JUDGED = sorted(
    name
    for name in registry.BUILT_IN
    if issubclass(registry.find(name), JudgedEvaluator | Jury)
    and name not in ("jury", "llm_judge", "g_eval", "trajectory")
)
CHUNKS = ["Acme takes goods back within 30 days.", "Acme was founded in 1998."]
TALK = [
    {"role": "user", "content": "How long can I return goods? I bought a lamp."},
    {"role": "assistant", "content": "Within 30 days. What did you buy?"},
    {"role": "user", "content": "A lamp, as I said!"},
    {"role": "assistant", "content": "Then you can return the lamp within 30 days."},
]
CASE = EvalTestCase(
    {"input": "How long can I return goods?"},
    {
        "output": "You can return goods within 30 days [1].",
        "context": CHUNKS,
        "retrievalContext": CHUNKS,
        "trajectory": TALK,
        "plan": ["Look up how long goods can be returned.", "Answer the customer."],
        "toolCalls": [{"name": "look_up", "arguments": {"topic": "returns"}, "result": CHUNKS[0]}],
    },
    expected_outputs={"output": "Within 30 days."},
    metadata={
        "baselineOutput": "I do not know.",
        "role": "You answer questions about returning goods.",
        "tasks": ["Say how long goods can be returned."],
        "tools": [{"name": "look_up", "description": "Looks up what the shop's rules say on a topic."}],
    },
)

LABELLED = [
    ("What is the capital of France?", "The capital of France is Paris.", True),
    ("What is the capital of France?", "The capital of France is Madrid.", False),
    ("How many days does a week have?", "A week has seven days.", True),
    ("How many days does a week have?", "A week has nine days.", False),
    ("What is 12 times 12?", "144", True),
    ("What is 12 times 12?", "112", False),
    ("At sea level, at how many degrees Celsius does water boil?", "At 100 degrees Celsius.", True),
    ("At sea level, at how many degrees Celsius does water boil?", "At 40 degrees Celsius.", False),
    ("Which planet do we live on?", "We live on the Earth.", True),
    ("Which planet do we live on?", "We live on Jupiter.", False),
    ("Who wrote the play Hamlet?", "William Shakespeare wrote it.", True),
    ("Who wrote the play Hamlet?", "Albert Einstein wrote it.", False),
    ("Is a whale a mammal?", "Yes, whales are mammals.", True),
    ("Is a whale a mammal?", "No, a whale is an insect.", False),
    ("What colour is a clear sky at noon?", "It is blue.", True),
    ("What colour is a clear sky at noon?", "It is green.", False),
    ("How many legs does a spider have?", "A spider has eight legs.", True),
    ("How many legs does a spider have?", "A spider has two legs.", False),
    ("On which continent is Egypt?", "Egypt is in Africa.", True),
    ("On which continent is Egypt?", "Egypt is in South America.", False),
]


@pytest.fixture(scope="module")
def model():
    url, _, name = URL.partition("#")
    return judge_named(f"{url}#{name or 'local'}", temperature=0, max_tokens=500, timeout=900)


def assert_scored(result):
    assert result.error is None
    assert 0 <= result.score <= 1
    assert result.reason


@pytest.mark.parametrize("name", JUDGED)
def test_every_judged_evaluator_completes(model, name):
    result = registry.build(name, {"judge": model}).evaluate(CASE)
    print(f"{name}: {result.score} {result.reason}")
    assert_scored(result)


def test_g_eval_writes_its_steps_and_weighs_its_score(model):
    result = registry.build("g_eval", {"judge": model, "criteria": "Is the answer right?"}).evaluate(CASE)
    assert_scored(result)
    assert result.metadata["evaluationSteps"]
    assert result.metadata["weighted"] is True


def test_a_jury_of_one_model_completes(model):
    jury = Jury(judges=[model, model], evaluator="correctness")
    result = jury.evaluate(CASE)
    assert_scored(result)
    assert len(result.metadata["jurors"]) == 2


def test_items_are_matched_by_meaning(model):
    case = EvalTestCase(
        {},
        {"retrieved": ["Goods can be returned for 30 days."]},
        expected_outputs={"relevant": ["You may send goods back within 30 days."]},
    )
    assert Recall(matching=llm_based(model)).evaluate(case).score == 1


def test_two_results_are_compared(model):
    from dokimos._core.example import Example
    from dokimos._core.results import ExperimentResult, ItemResult, RunResult

    def result_of(output):
        item = ItemResult(0, Example.of("How long can I return goods?"), actual_outputs={"output": output})
        return ExperimentResult(name="x", runs=(RunResult(item_results=(item,)),))

    report = compare_pairwise(result_of("Goods? No idea."), result_of("You can for 30 days."), model)
    assert (report.verdict_count, report.errors) == (1, 0)


def test_llm_judge_agrees_with_easy_labels(model):
    evaluator = LLMJudge(criteria="Is the answer factually correct?", judge=model)
    agreed, wrong = 0, []
    for question, answer, label in LABELLED:
        result = evaluator.evaluate(EvalTestCase.of(question, answer))
        assert_scored(result)
        agreed += result.success is label
        if result.success is not label:
            wrong.append(f"{answer} -> {result.score}: {result.reason}")
    print(f"LLMJudge agrees with {agreed} of {len(LABELLED)} labels; not with: {wrong}")
    assert agreed >= 15, wrong
