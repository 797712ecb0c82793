"""What evaluators say where a case lacks what they require."""

from __future__ import annotations

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators import registry
from dokimos.evaluators._missing_parts import describe_path, describe_remedy, missing_part
from dokimos.evaluators._rag.contextual_recall import ContextualRecall
from dokimos.evaluators._rag.faithfulness import Faithfulness
from dokimos.evaluators._retrieval.ranking_metrics import Precision
from dokimos.evaluators._text import ExactMatch

WHOLE = EvalTestCase({"input": "q"}, {"output": "a"}, expected_outputs={"output": "e"})


def judge(prompt):
    raise AssertionError("nothing may be asked")


def message(path, case=WHOLE):
    return str(missing_part("It", path, case))


@pytest.mark.parametrize("evaluator", [Faithfulness(judge=judge), ContextualRecall(judge=judge), Precision()])
def test_missing_contexts_are_told_alike_by_all_evaluators(evaluator):
    result = evaluator.evaluate(WHOLE)

    assert result.score is None
    assert result.error == (
        f"MissingInputError: {evaluator.name} requires contexts; the case has: input, output, expected. "
        'Return them from the task: {"output": ..., "contexts": [...]}; or give the data set a column '
        '"contexts".'
    )


@pytest.mark.parametrize(
    ("outputs", "metadata", "near"),
    [
        ({"documents": ["x"]}, {}, "Did you mean outputs.documents? If so, set contexts_key='documents'."),
        ({}, {"retreived_contexts": ["x"]}, "Did you mean metadata.retreived_contexts?"),
        ({"contexts": None}, {}, "outputs.contexts is null."),
        (
            {"retrieved": ["d1", "d2"]},
            {},
            'outputs.retrieved has what look like ids rather than texts: ["d1"',
        ),
    ],
)
def test_what_was_probably_meant_by_contexts_is_told(outputs, metadata, near):
    case = EvalTestCase({"input": "q"}, {"output": "a", **outputs}, metadata=metadata)

    assert near in Faithfulness(judge=judge).evaluate(case).error


@pytest.mark.parametrize(
    ("path", "case", "near"),
    [
        ("actual_output", EvalTestCase({}, {"answer": "a"}), "Did you mean outputs.answer?"),
        ("actual_output", EvalTestCase({}, {"output": None}), "outputs.output is null."),
        ("input", EvalTestCase({"question": "q"}), "Did you mean inputs.question?"),
        ("outputs.toolCalls", EvalTestCase({}, {"tool_calls": []}), "Did you mean outputs.tool_calls?"),
        ("metadata.topic", EvalTestCase({"topic": "t"}), "Did you mean inputs.topic?"),
        ("relevant", EvalTestCase(metadata={"gold": [1]}), "If so, set expected_key='gold'"),
        ("expected_output", EvalTestCase(metadata={"output": "e"}), "Did you mean metadata.output?"),
    ],
)  # fmt: skip
def test_what_was_probably_meant_is_told(path, case, near):
    assert near in message(path, case)


def test_the_other_side_is_not_what_was_meant():
    case = EvalTestCase({}, {"toolCalls": []}, expected_outputs={})

    assert "meant" not in message("expected_outputs.toolCalls", case)


def test_what_the_case_has_is_named_and_long_lists_are_cut():
    case = EvalTestCase({"input": "q", "lang": "no"}, {}, metadata={f"k{n}": n for n in range(20)})

    assert "the case has: input, inputs.lang, metadata.k0, " in message("actual_output", case)
    assert " and 10 more." in message("actual_output", case)
    assert "the case has: nothing." in message("input", EvalTestCase())


def test_a_missing_expected_output_says_how_to_supply_it():
    assert ExactMatch().evaluate(EvalTestCase.of("q", "a")).error == (
        "MissingInputError: Exact Match requires an expected output; the case has: input, output. Give the "
        "example an expected output: Example.of(input, expected), or a column expected_output."
    )


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_requirement_of_every_evaluator_can_be_described_and_supplied(name):
    for path in registry.describe(name).requires:
        assert describe_path(path)
        assert describe_remedy(path).endswith(".")
