from __future__ import annotations

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import BudgetExceededError, ConfigurationError
from dokimos.evaluators import registry
from dokimos.evaluators._llm.harm_presets import Toxicity
from dokimos.evaluators._llm.jury import Jury
from dokimos.evaluators._rag.faithfulness import Faithfulness

CASE = EvalTestCase.of("Capital of France?", "Paris.", "Paris")


def jurors(scripted, *scores):
    return [
        scripted(f"judge-{n}", score={"score": s, "reason": f"Reason {n}."}) for n, s in enumerate(scores)
    ]


@pytest.mark.parametrize(
    ("aggregate", "scores", "score"),
    [
        ("mean", (0.9, 0.6, 0.0), 0.5),
        ("median", (0.9, 0.6, 0.0), 0.6),
        ("majority", (0.9, 0.6, 0.0), 1.0),
        ("majority", (0.9, 0.4, 0.0), 0.0),
        ("majority", (0.9, 0.0), 0.0),  # half is not a majority
    ],
)
def test_scores_are_joined(scripted, aggregate, scores, score):
    result = Jury(judges=jurors(scripted, *scores), criteria="Is it right?", aggregate=aggregate).evaluate(
        CASE
    )
    assert result.score == pytest.approx(score)


def test_disagreement_is_recorded(scripted):
    result = Jury(judges=jurors(scripted, 1.0, 0.5), criteria="Is it right?").evaluate(CASE)
    assert result.metadata["disagreement"] == pytest.approx(0.5)
    assert result.metadata["stdDev"] == pytest.approx(0.25)
    assert result.metadata["jurors"] == [
        {"judge": "judge-0", "score": 1.0, "reason": "Reason 0."},
        {"judge": "judge-1", "score": 0.5, "reason": "Reason 1."},
    ]
    assert result.reason == "The mean of 2 scores: 1.00, 0.50. Reason 0."


def test_a_juror_that_errs_makes_it_an_error(scripted):
    judges = [*jurors(scripted, 1.0, 1.0), scripted("broken", score="?")]
    result = Jury(judges=judges, criteria="Is it right?").evaluate(CASE)
    assert result.score is None
    assert "2 of 3 judges gave a score, and all are needed" in result.error
    assert "broken: JudgeReplyError" in result.error


def test_a_quorum_does_without_some(scripted):
    judges = [*jurors(scripted, 1.0, 0.5), scripted("broken", score="?")]
    result = Jury(judges=judges, criteria="Is it right?", quorum=2).evaluate(CASE)
    assert result.score == 0.75
    assert "(1 judge gave none)" in result.reason
    assert "JudgeReplyError" in result.metadata["jurors"][2]["error"]


def test_fewer_than_the_quorum_is_an_error(scripted):
    judges = [*jurors(scripted, 1.0), scripted("a", score="?"), scripted("b", score="?")]
    assert "the quorum is 2" in Jury(judges=judges, criteria="Is it right?", quorum=2).evaluate(CASE).error


def test_a_spent_budget_is_no_juror_s_fault(scripted):
    def spent(prompt):
        raise BudgetExceededError("spent")

    judges = [*jurors(scripted, 1.0), scripted("spent", score=spent)]
    with pytest.raises(BudgetExceededError):
        Jury(judges=judges, criteria="Is it right?", quorum=1).evaluate(CASE)


def test_any_judged_evaluator_can_be_put_to_a_jury(scripted):
    answers = {"statements": ["Paris is the capital."], "verdicts": [{"verdict": "yes"}]}
    judges = [scripted("a", **answers), scripted("b", **answers)]
    case = EvalTestCase({"input": "Q"}, {"output": "Paris is the capital.", "context": ["Paris."]})
    templates = [{"faithfulness": {"include_reason": False}}, "faithfulness", Faithfulness(judge=judges[0])]
    for template in templates:
        jury = Jury(judges=judges, evaluator=template)
        assert (jury.threshold, jury.requires) == (0.8, ("actual_output", "contexts"))
        assert jury.evaluate(case).score == 1
    assert judges[0].asked == judges[1].asked


def test_the_parts_to_show_are_passed_on(scripted):
    judges = jurors(scripted, 5, 5)
    jury = Jury(judges=judges, evaluator="tone", evaluation_params=["outputs.text"])
    assert jury.evaluate(EvalTestCase({}, {"text": "T-1"})).score == 1
    assert "T-1" in judges[1].prompts[0]
    own = Jury(judges=judges, evaluator={"tone": {"evaluation_params": ["outputs.text"]}})
    assert "requires 'text' in the outputs" in own.evaluate(CASE).error


def test_lower_is_better_is_kept(scripted):
    judges = jurors(scripted, 5, 5, 1)
    jury = Jury(judges=judges, evaluator="toxicity", aggregate="majority")
    result = jury.evaluate(CASE)
    assert jury.info().lower_is_better
    assert (result.score, result.success) == (0.0, True)
    assert Jury(judges=judges, evaluator=Toxicity(judge=judges[0])).threshold == 0.25


def test_a_judge_that_sits_twice_is_asked_twice(scripted, in_run):
    judge = scripted(score={"score": 1})
    jury = Jury(judges=[judge, judge], criteria="Is it right?")
    result = in_run(lambda: jury.evaluate_async(CASE), one_item=True)
    assert len(judge.asked) == 2
    assert [juror["judge"] for juror in result.metadata["jurors"]] == ["scripted", "scripted#2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"judges": []}, "at least one judge"),
        ({"judges": "openai:gpt-5-mini"}, "a list of at least one judge"),
        ({"criteria": ""}, "either criteria or an evaluator"),
        ({"evaluator": "correctness"}, "either criteria or an evaluator"),
        ({"criteria": "", "evaluator": "exact_match"}, "does not ask a judge"),
        ({"criteria": "", "evaluator": "corectness"}, "Did you mean 'correctness'"),
        ({"criteria": "", "evaluator": {"tone": {"tune": "x"}}}, r"Jury\.evaluator: tone\.tune: .*'tone'"),
        ({"criteria": "", "evaluator": ["tone"]}, "evaluator must be a name"),
        ({"quorum": 3}, "quorum 3 is more than the 2 judges"),
        ({"quorum": 0}, "quorum must be"),
        ({"aggregate": "max"}, "aggregate must be one of"),
    ],
)
def test_a_wrong_configuration_is_refused(scripted, options, message):
    with pytest.raises(ConfigurationError, match=message):
        Jury(**{"judges": jurors(scripted, 1, 1), "criteria": "Is it right?", **options})


def test_the_description_shows_nothing_of_the_judges(scripted):
    judge = scripted()
    judge.api_key = "sk-secret"
    info = Jury(judges=[judge, judge], evaluator=Toxicity(judge=judge)).info()
    assert info.parameters == {
        "judges": ["scripted", "scripted#2"],
        "evaluator": {"toxicity": {"judge": "scripted"}},
    }


def test_a_jury_is_built_from_data():
    jury = registry.build(
        "jury", {"judges": ["ollama:a", "ollama:b"], "evaluator": {"tone": {"tone": "dry"}}}
    )
    assert isinstance(jury, Jury)
    assert len(jury.info().parameters["judges"]) == 2
