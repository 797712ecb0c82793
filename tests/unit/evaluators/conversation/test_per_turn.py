import asyncio

import pytest

from dokimos import ConversationTrajectory, EvalTestCase, Message, Score, ToolCall, evaluator
from dokimos.errors import ConfigurationError
from dokimos.evaluators import ExactMatch, Faithfulness, LLMJudge, PerTurn, Toxicity, registry

CALL = ToolCall("look_up", {"id": 5})
TALK = ConversationTrajectory(
    [
        Message.user("2 + 2?"),
        Message.assistant("4", [CALL]),
        Message.user("And"),
        Message.user("2 + 3?"),
        Message.assistant("6", context=["2 + 3 = 5"]),
    ]
)


def case_of(trajectory=TALK, turns=None, **metadata):
    expected = {} if turns is None else {"turns": turns}
    return EvalTestCase({}, {"trajectory": trajectory}, expected_outputs=expected, metadata=metadata)


class TestCases:
    def seen(self, case, **settings):
        cases = []

        @evaluator
        def look(case) -> bool:
            cases.append(case)
            return True

        assert PerTurn(evaluator=look, **settings).evaluate(case).error is None
        return cases

    def test_a_turn_is_a_case_of_its_own(self):
        first, second = self.seen(case_of(tools=["t"]))

        assert (first.input, first.actual_output, first.tool_calls) == ("2 + 2?", "4", (CALL,))
        assert (second.input, second.actual_output, second.tool_calls) == ("And\n\n2 + 3?", "6", ())
        assert first.metadata == {"tools": ["t"]}
        assert second.metadata == {"tools": ["t"], "context": ["2 + 3 = 5"]}
        assert second.contexts == ("2 + 3 = 5",)

    def test_what_is_expected_is_a_value_or_a_map_of_outputs(self):
        first, second = self.seen(case_of(turns=["4", {"output": "5", "toolCalls": []}]))

        assert (first.expected_output, second.expected_output) == ("4", "5")
        assert second.expected_outputs["toolCalls"] == []

    def test_a_turn_without_an_entry_expects_nothing(self):
        _, second = self.seen(case_of(turns=["4"]))

        assert second.expected_outputs == {}

    def test_a_turn_whose_entry_is_null_is_left_out(self):
        (only,) = self.seen(case_of(turns=[None, "5"]))

        assert only.expected_output == "5"

    def test_the_input_can_be_the_transcript(self):
        _, second = self.seen(case_of(), history=True)

        assert second.input.startswith("USER: 2 + 2?\n\nASSISTANT: 4")
        assert second.input.endswith("USER: 2 + 3?")

    def test_who_speaks_unasked_has_no_input(self):
        (only,) = self.seen(case_of(ConversationTrajectory([Message.assistant("Hello!")])))

        assert only.inputs == {}


class TestScore:
    @pytest.mark.parametrize(("aggregation", "score"), [("mean", 0.5), ("min", 0.0), ("max", 1.0)])
    def test_the_turns_are_joined(self, aggregation, score):
        result = PerTurn(evaluator="exact_match", aggregation=aggregation).evaluate(case_of(turns=["4", "5"]))

        assert (result.name, result.score) == ("Exact Match per Turn", score)
        assert [turn["success"] for turn in result.metadata["turns"]] == [True, False]
        assert result.metadata["turnCount"] == 2
        assert result.reason.startswith(f"The {aggregation} of 2 turns; worst: turn 2 (0.00). ")

    def test_turns_that_score_alike_need_no_worst(self):
        result = PerTurn(evaluator="exact_match").evaluate(case_of(turns=["4", "6"]))

        assert (result.score, result.reason) == (1.0, "All 2 turns score 1.00.")

    def test_threshold_and_direction_are_those_of_the_turns(self):
        toxic = PerTurn(evaluator=Toxicity(judge=lambda prompt: '{"reason": "Calm.", "score": 4}'))
        result = toxic.evaluate(case_of())

        assert toxic.lower_is_better
        assert (result.score, result.threshold, result.success) == (0.25, 0.25, True)
        assert toxic.info().direction == "lower_is_better"
        assert PerTurn(evaluator=ExactMatch(), threshold=0.5).evaluate(case_of(turns=["4", "5"])).success

    def test_a_turn_that_never_came_has_the_worst_score(self):
        result = PerTurn(evaluator="exact_match").evaluate(case_of(turns=["4", "6", "7", None]))

        assert result.score == pytest.approx(2 / 3)
        assert result.metadata["turns"][2] == {
            "turn": 3,
            "score": 0.0,
            "success": False,
            "reason": "The conversation ended before it.",
        }

    def test_where_lower_is_better_the_worst_is_the_highest(self):
        inner = Toxicity(judge=lambda prompt: '{"reason": "Calm.", "score": 5}')

        result = PerTurn(evaluator=inner).evaluate(case_of(turns=[{}, {}, {}]))

        assert [turn["score"] for turn in result.metadata["turns"]] == [0.0, 0.0, 1.0]
        assert "worst: turn 3 (1.00)" in result.reason

    def test_no_turn_has_the_worst_score(self):
        result = PerTurn(evaluator="exact_match").evaluate(case_of(ConversationTrajectory()))

        assert (result.score, result.success, result.reason) == (0.0, False, "There is no turn to score.")

    def test_leaving_every_turn_out_is_an_error(self):
        result = PerTurn(evaluator="exact_match").evaluate(case_of(turns=[None, None]))

        assert "excludes every turn" in result.error

    def test_an_error_in_one_turn_is_an_error_of_the_whole(self):
        result = PerTurn(evaluator="exact_match").evaluate(case_of(turns=["4"]))

        assert result.score is None
        assert "Turn 2: MissingInputError: Exact Match requires an expected output" in result.error


class TestKinds:
    def test_a_rule_starts_no_loop_and_is_deterministic(self):
        exact = PerTurn(evaluator=ExactMatch())

        async def main():
            return exact.evaluate(case_of(turns=["4", "6"]))

        assert (exact.is_async, exact.deterministic) == (False, True)
        assert asyncio.run(main()).score == 1.0

    def test_a_judge_is_asked_once_for_each_turn(self, scripted):
        judge = scripted(score={"reason": "Right.", "score": 1})

        per_turn = PerTurn(evaluator=LLMJudge(criteria="Is it right?", judge=judge))

        assert per_turn.evaluate(case_of()).score == 1.0
        assert judge.asked == ["score", "score"]
        assert not per_turn.deterministic

    def test_an_async_function_is_awaited(self):
        @evaluator
        async def short(actual_output) -> Score:
            return Score(1.0 if len(actual_output) == 1 else 0.0, "Counted.")

        assert PerTurn(evaluator=short).evaluate(case_of()).score == 1.0

    def test_context_on_the_replies_feeds_evaluators_of_retrieval(self, scripted):
        judge = scripted(statements=["A."], verdicts=[{"verdict": "yes"}])
        talk = ConversationTrajectory([Message.user("?"), Message.assistant("A.", context=["A."])])

        assert PerTurn(evaluator=Faithfulness(judge=judge)).evaluate(case_of(talk)).score == 1.0

    def test_it_is_built_from_data(self):
        built = registry.build("per_turn", {"evaluator": {"regex": {"pattern": "[0-9]"}}, "threshold": 1})

        assert (built.name, built.evaluate(case_of()).score) == ("Regex Match per Turn", 1.0)

    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            ({"evaluator": "exact_mach"}, "Did you mean 'exact_match'"),
            ({"evaluator": 5}, "evaluator must be a name"),
            ({"evaluator": {"a": {}, "b": {}}}, "evaluator must be a name"),
            ({"evaluator": "exact_match", "aggregation": "sum"}, "aggregation must be one of"),
            ({"evaluator": "exact_match", "trajectory_key": ""}, "trajectory_key"),
        ],
    )
    def test_wrong_settings_are_refused(self, settings, problem):
        with pytest.raises(ConfigurationError, match=problem):
            PerTurn(**settings)

    @pytest.mark.parametrize("turns", ["45", {"0": "4"}, 5])
    def test_what_is_expected_must_be_a_list(self, turns):
        result = PerTurn(evaluator="exact_match").evaluate(case_of(turns=turns))

        assert "'turns' in the expected outputs must be a list" in result.error
