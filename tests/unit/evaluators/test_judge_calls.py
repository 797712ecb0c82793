"""What evaluators say that a case costs in calls of a judge is what they make."""

import ast
import json
import math
import re
from dataclasses import replace

import pytest

from dokimos import Dataset, EvalTestCase, Experiment
from dokimos.evaluators import llm_based, registry
from dokimos.evaluators._needs import CALL_COUNTS

CHAT = [{"role": role, "content": f"{role} {turn}"} for turn in range(3) for role in ("user", "assistant")]
CASE = EvalTestCase(
    {"input": "Can I return a jacket?"},
    {
        "output": "Yes, within 30 days [1].",
        "contexts": ["Returns: 30 days", "Open from 9 to 5", "We repair zips."],
        "toolCalls": [{"name": "refund_policy", "arguments": {"item": "jacket"}, "result": "30 days"}],
        "plan": ["Look it up.", "Answer."],
        "trajectory": CHAT,
    },
    expected_outputs={"output": "30 days", "relevant": ["Goods can be returned."]},
    metadata={
        "tools": [{"name": "refund_policy"}, {"name": "opening_hours"}],
        "baselineOutput": "No.",
        "role": "Helps customers.",
    },
)
WINDOW = 33  # two of the three contexts
PRESETS = (
    *("correctness", "helpfulness", "coherence", "conciseness", "completeness", "instruction_following"),
    *("summarisation", "refusal", "toxicity", "bias", "pii_leakage"),
)


class CountingJudge:
    """Answers whatever it is asked, in all shapes at once, and counts."""

    def __init__(self, verdict="yes", statements=("One.", "Two.")):
        self.prompts, self.verdict, self.statements = [], verdict, statements

    def __call__(self, prompt):
        self.prompts.append(prompt)
        entries = re.search(r"Give (\d+) entr", prompt)
        count = int(entries[1]) if entries else len(self.statements)
        verdict = {
            **{"verdict": self.verdict, "statement": "One.", "reason": "So.", "score": 1},
            **{"completed": True, "grounded": True, "chunks": [1]},
        }
        reply = {
            **{"reason": "So.", "score": 1, "winner": "tie", "verdict": self.verdict, "missing": []},
            **{"statements": self.statements, "steps": ["Look."], "intentions": self.statements},
            **dict.fromkeys(("verdicts", "scores", "sources", "tasks"), [verdict] * count),
            **dict.fromkeys(QUESTIONS, True),
        }
        return json.dumps(reply)


QUESTIONS = {
    question
    for name in ("tool_name_reliability", "tool_description_reliability")
    for question in registry.find(name).questions
}
USUAL = [
    *((name, {}, {}) for name in PRESETS),
    ("llm_judge", {"criteria": "Polite?"}, {}),
    ("tone", {"tone": "friendly"}, {}),
    ("misuse", {"purpose": "a shop"}, {}),
    ("g_eval", {"criteria": "Polite?"}, {"steps": 1}),
    ("g_eval", {"evaluation_steps": ["Look."]}, {"steps": 0}),
    ("pairwise", {}, {}),
    ("faithfulness", {"window": WINDOW}, {"windows": 2, "reason": 1}),
    ("faithfulness", {"include_reason": False}, {"windows": 1, "reason": 0}),
    ("hallucination", {}, {"reason": 1}),
    ("hallucination", {"include_reason": False}, {"reason": 0}),
    ("answer_relevancy", {}, {}),
    ("contextual_relevance", {"window": WINDOW}, {"windows": 2, "reason": 1}),
    ("contextual_relevance", {"include_reason": False}, {"windows": 1, "reason": 0}),
    ("contextual_precision", {"window": WINDOW}, {"windows": 2}),
    ("contextual_recall", {}, {}),
    ("context_sufficiency", {}, {}),
    ("noise_sensitivity", {}, {"wrong": 0, "distinguished": 0}),
    ("citation_faithfulness", {}, {}),
    ("task_completion", {}, {}),
    ("tool_argument_hallucination", {}, {}),
    ("tool_selection", {}, {}),
    ("plan_quality", {}, {}),
    ("plan_adherence", {}, {}),
    ("step_efficiency", {}, {}),
    ("tool_name_reliability", {}, {"tools": 2}),
    ("tool_description_reliability", {}, {"tools": 2}),
    ("trajectory", {"criteria": ["clarity", "user_satisfaction"]}, {"criteria": 2}),
    ("knowledge_retention", {"replies_per_call": 2}, {"replies": 3, "replies_per_call": 2}),
    ("turn_relevance", {}, {"replies": 3, "replies_per_call": 10}),
    ("role_adherence", {"replies_per_call": 1}, {"replies": 3, "replies_per_call": 1}),
    ("conversation_completeness", {}, {}),
    ("user_frustration", {}, {}),
]
"""Name, parameters, and how often each word of the formula counts."""
SPECIAL = [
    ("pairwise", {}, {"metadata": {"baselineOutput": CASE.actual_output}}, 0),
    ("context_sufficiency", {}, {"contexts": []}, 0),
    ("contextual_relevance", {}, {"contexts": []}, 0),
    ("contextual_recall", {}, {"contexts": []}, 1),
    ("citation_faithfulness", {}, {"output": "Yes."}, 0),
    ("task_completion", {}, {"metadata": {"tasks": []}}, 0),
    ("tool_argument_hallucination", {}, {"toolCalls": []}, 0),
]
"""Name, parameters, what is different in the case, and the calls that the text after the semicolon gives."""


def count_calls(name, params=(), case=CASE, judge=None):
    judge = judge or CountingJudge()
    result = registry.build(name, {**dict(params), "judge": judge}).evaluate(case)
    assert result.error is None, result.error
    return len(judge.prompts)


def expected_calls(name, words):
    formula = registry.find(name).judge_calls.partition(";")[0]
    return eval(formula, {"__builtins__": {}, "ceil": math.ceil}, words)


@pytest.mark.parametrize(("name", "params", "words"), USUAL)
def test_a_case_costs_what_the_formula_says(name, params, words):
    assert count_calls(name, params) == expected_calls(name, words)


@pytest.mark.parametrize(("name", "params", "changes", "calls"), SPECIAL)
def test_special_cases_cost_what_is_said_of_them(name, params, changes, calls):
    metadata = {**CASE.metadata, **changes.get("metadata", {})}
    outputs = {**CASE.actual_outputs, **{key: value for key, value in changes.items() if key != "metadata"}}

    assert count_calls(name, params, replace(CASE, actual_outputs=outputs, metadata=metadata)) == calls
    assert re.search(rf"\b{calls}\b", registry.find(name).judge_calls.partition(";")[2])


def test_an_output_without_claims_and_a_user_without_wishes_cost_less():
    assert count_calls("answer_relevancy", judge=CountingJudge(statements=())) == 1
    assert count_calls("conversation_completeness", judge=CountingJudge(statements=())) == 1
    assert count_calls("faithfulness", judge=CountingJudge(statements=())) == 2


@pytest.mark.parametrize(
    ("noise", "words"),
    [("any", {"wrong": 1, "distinguished": 0}), ("irrelevant", {"wrong": 1, "distinguished": 2})],
)
def test_wrong_claims_cost_their_search_in_the_contexts(noise, words):
    params = {"noise": noise, "window": WINDOW}

    calls = count_calls("noise_sensitivity", params, judge=CountingJudge(verdict="no"))

    assert calls == expected_calls("noise_sensitivity", words)


def test_evaluators_that_apply_others_cost_what_those_cost():
    judge = CountingJudge()
    registry.build("per_turn", {"evaluator": {"helpfulness": {"judge": judge}}}).evaluate(CASE)
    assert len(judge.prompts) == expected_calls("per_turn", {"turns": 3, "evaluator": 1})

    judge = CountingJudge()
    registry.build("jury", {"judges": [judge, judge], "evaluator": "pairwise"}).evaluate(CASE)
    assert len(judge.prompts) == expected_calls("jury", {"judges": 2, "evaluator": 2})


def test_samples_multiply_the_calls_and_steps_are_written_once_a_run():
    assert count_calls("answer_relevancy", {"samples": 3}) == 3 * expected_calls("answer_relevancy", {})

    judge = CountingJudge()
    evaluator = registry.build("g_eval", {"criteria": "Polite?", "judge": judge})
    data = Dataset.from_rows([{"input": f"question {n}"} for n in range(3)])
    Experiment(data, lambda question: f"{question}!", [evaluator]).run(journal=False, quiet=True)
    assert len(judge.prompts) == 3 + 1


def test_a_matching_by_a_model_costs_at_most_a_call_for_each_pair():
    judge = CountingJudge(verdict="no")
    result = registry.build("recall", {"matching": llm_based(judge)}).evaluate(CASE)

    assert result.error is None
    assert len(judge.prompts) == len(CASE.actual_outputs["contexts"])


def test_all_evaluators_that_ask_a_judge_are_counted_here():
    counted = {name for name, *_ in USUAL} | {"per_turn", "jury"}
    costly = {name for name in registry.BUILT_IN if registry.find(name).judge_calls.partition(";")[0] != "0"}
    assert counted == costly


def test_each_evaluator_says_its_cost_its_source_and_its_range_and_has_an_example():
    docs = [registry.describe(name) for name in registry.BUILT_IN]

    assert [doc.name for doc in docs if not (doc.method_source.endswith(".") and doc.example)] == []
    assert {doc.score_range for doc in docs} == {(0.0, 1.0)}
    formulas = [ast.parse(doc.judge_calls.partition(";")[0], mode="eval") for doc in docs]
    words = {node.id for formula in formulas for node in ast.walk(formula) if isinstance(node, ast.Name)}
    assert words == set(CALL_COUNTS)
    judged = {"judge", "judges"}
    free = [
        doc.name
        for doc in docs
        if doc.judge_calls == "0" and judged & {parameter.name for parameter in doc.parameters}
    ]
    assert free == []
