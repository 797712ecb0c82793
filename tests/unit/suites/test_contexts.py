"""Contexts of a suite: under each of their names, from the suite and from the application."""

from __future__ import annotations

import pytest

from dokimos._core.contexts import NAMES
from dokimos.errors import ConfigurationError

RECALL = """
evaluations:
  metrics: [{type: evaluator, name: recall, params: {contexts_key: contexts}}]
"""
GRADER = """
evaluations:
  metrics: [{type: code, grader: "graders:grade"}]
"""


def seen_by_grader(folder, cases):
    folder.write(
        "graders.py",
        """
        from dokimos.suites._graders import GraderResult


        def grade(ctx):
            return GraderResult(score=1.0, reason="|".join(ctx.retrieval_context or ("none",)))
        """,
    )
    return folder.item(GRADER + cases).eval_results[0].reason


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_case_may_use_every_name(folder, name):
    assert seen_by_grader(folder, f"test_cases: [{{input: a, {name}: [one text, two texts]}}]\n") == (
        "one text|two texts"
    )


@pytest.mark.parametrize(
    "value", ["one text", "[one text]", "[{id: d1, text: one text}]", "{text: one text}"]
)
def test_a_case_may_give_a_text_or_documents(folder, value):
    assert seen_by_grader(folder, f"test_cases: [{{input: a, contexts: {value}}}]\n") == "one text"


def test_a_turn_may_use_every_name(folder):
    suite = folder.suite(
        GRADER.replace("graders:grade", "app:echo")
        + "test_cases: [{turns: [{input: a, retrieved_contexts: [x y]}, {input: b, context: z}]}]\n"
    )

    assert [turn.contexts for turn in suite.cases[0].turns] == [("x y",), ("z",)]


def test_two_names_in_one_case_are_refused(folder):
    with pytest.raises(ConfigurationError, match="contexts and context are the same thing; give one of them"):
        folder.suite(RECALL + "test_cases: [{input: a, contexts: [x], context: [y]}]\n")


@pytest.mark.parametrize("column", ["contexts", "retrieval_context", "context"])
@pytest.mark.parametrize("cell", ["x y|z", '"[""x y"", ""z""]"'])
def test_a_column_of_a_table_may_use_every_name(folder, column, cell):
    folder.write("cases.csv", f"input,{column}\na,{cell}\n")
    suite = folder.suite(RECALL + "test_cases_file: cases.csv\n")

    assert suite.cases[0].turns[0].contexts == ("x y", "z")


@pytest.mark.parametrize("name", sorted(NAMES))
def test_an_application_may_use_every_name(folder, name):
    folder.write("rag.py", f"def answer(question):\n    return {{'output': 'a', {name!r}: ['one text']}}\n")

    assert seen_by_grader(folder, "agent: rag:answer\ntest_cases: [{input: a}]\n") == "one text"


def test_an_application_that_found_nothing_is_evaluated(folder):
    folder.write("rag.py", "def answer(question):\n    return {'output': 'a', 'contexts': []}\n")
    item = folder.item(
        """
        agent: rag:answer
        evaluations:
          model: {provider: openai, name: never-asked, api_key: k}
          metrics: [{type: rag, metric_type: contextual_relevancy, threshold: 0.5}]
        test_cases: [{input: a}]
        """
    )

    assert (item.eval_results[0].score, item.eval_results[0].skipped) == (0.0, None)


def test_an_application_that_says_nothing_is_skipped_with_the_reason(folder):
    item = folder.item(
        """
        evaluations:
          model: {provider: openai, name: never-asked, api_key: k}
          metrics: [{type: rag, metric_type: faithfulness, threshold: 0.5}]
        test_cases: [{input: a}]
        """
    )

    assert item.eval_results[0].skipped == (
        "There are no contexts: neither the suite nor the agent gives any."
    )
