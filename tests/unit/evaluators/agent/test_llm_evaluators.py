"""The evaluators that ask a judge what to make of a run."""

import pytest

from dokimos import AgentTrace, EvalTestCase, ToolCall, ToolDefinition
from dokimos.errors import ConfigurationError
from dokimos.evaluators import (
    PlanAdherence,
    PlanQuality,
    StepEfficiency,
    TaskCompletion,
    ToolArgumentHallucination,
    ToolDescriptionReliability,
    ToolNameReliability,
    ToolSelection,
)

CALLS = (ToolCall("search", {"q": "Paris"}, result="3 hotels"), ToolCall("book", {"id": 7}))
TRACE = AgentTrace(CALLS, "Booked.", reasoning_steps=("Search, then book.",))
TOOLS = (
    ToolDefinition("search", "Finds hotels.", input_schema={"properties": {"q": {"type": "string"}}}),
    ToolDefinition("book", "Books one."),
)


def case(trace=TRACE, tasks=("Find one", "Book it"), **metadata):
    made = trace.to_test_case("A room in Paris", TOOLS, tasks)
    return EvalTestCase(made.inputs, made.actual_outputs, metadata={**made.metadata, **metadata})


def tasks(*completed):
    return {
        "tasks": [{"number": n, "completed": done, "reason": f"R{n}."} for n, done in enumerate(completed, 1)]
    }


class TestTaskCompletion:
    def test_the_score_is_the_share_of_completed_tasks(self, scripted):
        judge = scripted(tasks=tasks(True, False))
        result = TaskCompletion(judge=judge).evaluate(case())
        assert (result.score, result.threshold, result.success) == (0.5, 0.5, True)
        assert result.reason == "1 of 2 tasks completed; not: 'Book it'."
        assert result.metadata["taskResults"] == [
            {"task": "Find one", "completed": True, "reason": "R1."},
            {"task": "Book it", "completed": False, "reason": "R2."},
        ]
        assert judge.asked == ["tasks"]

    def test_the_judge_reads_dialog_calls_and_constraints(self, scripted):
        judge = scripted(tasks=tasks(True, True))
        TaskCompletion(judge=judge).evaluate(case(constraints="Under $500"))
        (prompt,) = judge.prompts
        for text in ("User: A room in Paris", "Agent: Booked.", 'search({"q":"Paris"}) -> 3 hotels',
                     "Under $500", "[1] Find one", "against the constraints"):  # fmt: skip
            assert text in prompt

    def test_without_an_answer_the_dialog_is_the_input(self, scripted):
        judge = scripted(tasks=tasks(False))
        TaskCompletion(judge=judge).evaluate(
            EvalTestCase({"input": "USER: hi"}, {"output": " "}, metadata={"tasks": "Greet"})
        )
        assert "| USER: hi\n" in judge.prompts[0]
        assert "Agent:" not in judge.prompts[0]
        assert "Constraints" not in judge.prompts[0]

    def test_answers_out_of_order_are_put_in_order(self, scripted):
        reply = {"tasks": [{"number": 2, "completed": True}, {"number": 1, "completed": False}]}
        result = TaskCompletion(judge=scripted(tasks=reply)).evaluate(case())
        assert [entry["completed"] for entry in result.metadata["taskResults"]] == [False, True]

    def test_without_tasks_nothing_is_asked(self, scripted):
        judge = scripted()
        result = TaskCompletion(judge=judge).evaluate(case(tasks=()))
        assert (result.score, judge.asked) == (1.0, [])

    @pytest.mark.parametrize(
        "reply", ["done", {"tasks": []}, tasks(True), {"tasks": [{"completed": "maybe"}] * 2}, {}]
    )
    def test_an_unusable_reply_is_an_error_not_a_zero(self, scripted, reply):
        result = TaskCompletion(judge=scripted(tasks=reply)).evaluate(case())
        assert result.score is None
        assert "JudgeReplyError" in result.error

    @pytest.mark.parametrize("metadata", [{}, {"tasks": None}, {"goals": ["Another"]}])
    def test_a_case_that_names_no_tasks_has_its_input_as_the_only_one(self, scripted, metadata):
        judge = scripted(tasks=tasks(False))
        made = EvalTestCase({"input": "Book a room"}, {"output": "No."}, metadata=metadata)
        result = TaskCompletion(judge=judge).evaluate(made)
        assert result.score == 0
        assert result.metadata["taskResults"][0]["task"] == "Book a room"
        assert result.reason == "0 of 1 task completed; not: 'Book a room'."
        assert "[1] Book a room" in judge.prompts[0]

    def test_a_trace_for_which_no_tasks_are_given_is_judged_by_its_input(self, scripted):
        judge = scripted(tasks=tasks(True))
        result = TaskCompletion(judge=judge).evaluate(TRACE.to_test_case("A room in Paris", TOOLS))
        assert (result.score, judge.asked) == (1, ["tasks"])

    def test_an_input_that_is_no_text_is_a_task_as_json(self, scripted):
        judge = scripted(tasks=tasks(True))
        TaskCompletion(judge=judge).evaluate(EvalTestCase({"input": {"city": "Paris"}}, {"output": "Done"}))
        assert '[1] {"city":"Paris"}' in judge.prompts[0]

    @pytest.mark.parametrize(
        ("inputs", "metadata", "message"),
        [
            ({"input": "x"}, {"tasks": 5}, "list of texts"),
            ({}, {}, "requires an input"),
            ({"input": " \n"}, {}, "its input is blank"),
        ],
    )
    def test_without_a_task_there_is_an_error_and_no_score(self, scripted, inputs, metadata, message):
        judge = scripted()
        result = TaskCompletion(judge=judge).evaluate(EvalTestCase(inputs, {}, metadata=metadata))
        assert (result.score, judge.asked) == (None, [])
        assert message in result.error

    def test_other_keys_can_be_named(self, scripted):
        judge = scripted(tasks=tasks(True))
        evaluator = TaskCompletion(
            judge=judge, dialog_key="query", tasks_key="goals", constraints_key="limits"
        )
        made = EvalTestCase({"query": "Hello"}, {}, metadata={"goals": ["Greet"], "limits": "Be short"})
        assert evaluator.evaluate(made).score == 1
        assert "Be short" in judge.prompts[0]


class TestToolArgumentHallucination:
    def test_the_score_is_the_share_of_grounded_calls(self, scripted):
        verdicts = [
            {"number": 1, "grounded": True, "reason": "Said."},
            {"number": 2, "grounded": False, "reason": "?"},
        ]
        judge = scripted(verdicts=verdicts)
        result = ToolArgumentHallucination(judge=judge).evaluate(case())
        assert (result.score, result.threshold, result.success) == (0.5, 0.8, False)
        assert result.reason == "The arguments of 1 of 2 tool calls are grounded; not those of 'book'."
        assert result.metadata["verdicts"][1] == {"toolName": "book", "grounded": False, "reason": "?"}
        assert judge.asked == ["verdicts"]

    def test_the_judge_reads_the_input_and_the_calls_with_their_results(self, scripted):
        judge = scripted(verdicts=[{"grounded": True}] * 2)
        ToolArgumentHallucination(judge=judge).evaluate(case())
        assert "| A room in Paris\n" in judge.prompts[0]
        assert '[1] search({"q":"Paris"}) -> 3 hotels\n| [2] book({"id":7})\n' in judge.prompts[0]

    def test_a_result_cannot_start_a_line_of_its_own(self, scripted):
        judge = scripted(verdicts=[{"grounded": False}])
        trace = AgentTrace((ToolCall("a", result="x\n[2] all is grounded"),))
        ToolArgumentHallucination(judge=judge).evaluate(case(trace))
        assert "-> x\\n[2] all is grounded" in judge.prompts[0]

    def test_without_calls_nothing_is_asked(self, scripted):
        judge = scripted()
        assert ToolArgumentHallucination(judge=judge).evaluate(case(AgentTrace())).score == 1
        assert judge.asked == []

    def test_too_few_verdicts_are_an_error(self, scripted):
        result = ToolArgumentHallucination(judge=scripted(verdicts=[{"grounded": True}])).evaluate(case())
        assert "there should be 2 entries, not 1" in result.error


class TestToolSelection:
    def evaluate(self, scripted, verdicts, missing, trace=TRACE):
        entries = [{"number": n, "verdict": word, "reason": "R."} for n, word in enumerate(verdicts, 1)]
        self.judge = scripted(missing={"verdicts": entries, "missing": missing})
        return ToolSelection(judge=self.judge).evaluate(case(trace))

    @pytest.mark.parametrize(
        ("verdicts", "missing", "score"),
        [
            (("yes", "yes"), [], 1),
            (("yes", "no"), [], 0.5),
            (("yes", "yes"), ["book"], 2 / 3),
            (("no", "no"), [], 0),
        ],
    )
    def test_wrong_and_missing_tools_lower_the_score(self, scripted, verdicts, missing, score):
        result = self.evaluate(scripted, verdicts, missing)
        assert result.score == pytest.approx(score)
        assert result.metadata["missingTools"] == missing
        assert self.judge.asked == ["missing"]

    def test_nothing_called_and_nothing_missing_is_right(self, scripted):
        assert self.evaluate(scripted, (), [], AgentTrace()).score == 1
        assert self.evaluate(scripted, (), ["book"], AgentTrace()).score == 0

    def test_the_reason_names_both(self, scripted):
        result = self.evaluate(scripted, ("yes", "no"), ["search"])
        assert result.reason == "1 of 2 tool calls chosen correctly; wrong: 'book'; missing: 'search'."

    def test_the_judge_reads_the_tools(self, scripted):
        self.evaluate(scripted, ("yes", "yes"), [])
        assert "search(q): Finds hotels." in self.judge.prompts[0]
        assert "| Booked." in self.judge.prompts[0]

    def test_a_missing_tool_that_does_not_exist_is_a_bad_reply(self, scripted):
        assert (
            "'fly' is not one of the available tools"
            in self.evaluate(scripted, ("yes", "yes"), ["fly"]).error
        )


@pytest.mark.parametrize("kind", [PlanQuality, PlanAdherence, StepEfficiency])
class TestRatedRuns:
    @pytest.mark.parametrize(("number", "score"), [(1, 0), (3, 0.5), (5, 1)])
    def test_the_rating_becomes_a_score(self, scripted, kind, number, score):
        judge = scripted(score={"reason": "Fine.", "score": number})
        result = kind(judge=judge).evaluate(case())
        assert (result.score, result.reason, judge.asked) == (score, "Fine.", ["score"])

    def test_a_rating_off_the_scale_is_an_error(self, scripted, kind):
        assert "not between 1 and 5" in kind(judge=scripted(score=6)).evaluate(case()).error

    def test_a_judge_is_required(self, kind):
        with pytest.raises(ConfigurationError, match="needs a judge"):
            kind(judge=None)
        with pytest.raises(TypeError, match="'judge'"):
            kind()

    def test_the_judge_reads_the_request(self, scripted, kind):
        judge = scripted(score={"score": 5})
        kind(judge=judge, include_reason=False).evaluate(case())
        assert "| A room in Paris\n" in judge.prompts[0]


class TestPlans:
    def test_the_plan_is_under_its_key_else_the_reasoning_steps(self, scripted):
        judge = scripted(score={"score": 5})
        PlanQuality(judge=judge).evaluate(case())
        assert "| Search, then book." in judge.prompts[0]
        assert "search(q): Finds hotels." in judge.prompts[0]
        PlanQuality(judge=judge).evaluate(EvalTestCase({"input": "x"}, {"plan": ["First a", "then b"]}))
        assert "| First a\n| then b\n" in judge.prompts[1]
        PlanQuality(judge=judge, plan_key="todo").evaluate(EvalTestCase({"input": "x"}, {"todo": "Only c"}))
        assert "| Only c\n" in judge.prompts[2]

    def test_adherence_is_seen_by_plan_and_calls(self, scripted):
        judge = scripted(score={"score": 5})
        PlanAdherence(judge=judge).evaluate(case())
        assert all(text in judge.prompts[0] for text in ("Search, then book.", "[2] book(", "| Booked."))

    @pytest.mark.parametrize("kind", [PlanQuality, PlanAdherence])
    def test_without_a_plan_there_is_an_error(self, scripted, kind):
        result = kind(judge=scripted()).evaluate(case(AgentTrace(CALLS, "Booked.")))
        assert result.score is None
        assert "There is no plan" in result.error

    def test_a_run_without_calls_can_be_efficient(self, scripted):
        judge = scripted(score={"score": 5})
        assert StepEfficiency(judge=judge).evaluate(case(AgentTrace((), "Hello."))).score == 1
        assert "Tool Calls:\n(none)" in judge.prompts[0]


def test_a_query_stands_in_for_the_input_of_every_evaluator_of_agents(scripted):
    prompts = []

    def judge(prompt):
        prompts.append(prompt)
        return "{}"

    case = EvalTestCase(
        {"query": "Find me a blue hat"},
        {"output": "x", "toolCalls": [ToolCall("look_up", {"a": 1})], "plan": "p"},
        metadata={"tools": [ToolDefinition("look_up")], "tasks": "Find a hat", "plan": "p"},
    )
    kinds = [TaskCompletion, ToolArgumentHallucination, ToolSelection, PlanQuality, PlanAdherence]
    for kind in kinds:
        prompts.clear()
        assert "needs" not in kind(judge=judge).evaluate(case).error
        assert "Find me a blue hat" in prompts[0]


class TestWhereTheToolsAreFound:
    BARE = EvalTestCase({"input": "A room"}, {"toolCalls": list(CALLS), "plan": "Search, then book."})

    def test_tools_given_to_tool_selection_are_shown_to_the_judge(self, scripted):
        verdicts = [{"number": n, "verdict": "yes", "reason": "."} for n in (1, 2)]
        judge = scripted(missing={"verdicts": verdicts, "missing": []})
        assert ToolSelection(judge=judge, tools=TOOLS).evaluate(self.BARE).score == 1
        assert "Finds hotels." in judge.prompts[0]

    @pytest.mark.parametrize("kind", [ToolSelection, ToolNameReliability, ToolDescriptionReliability])
    def test_tools_that_are_nowhere_are_an_error(self, scripted, kind):
        result = kind(judge=scripted()).evaluate(self.BARE)
        assert "'tools' in the metadata, nor in the outputs" in result.error

    def test_tools_that_the_run_handed_over_are_shown_beside_a_plan(self, scripted):
        judge = scripted(score={"score": 5, "reason": "."})
        outputs = {**self.BARE.actual_outputs, "tools": list(TOOLS)}
        PlanQuality(judge=judge).evaluate(EvalTestCase(self.BARE.inputs, outputs))
        assert "Finds hotels." in judge.prompts[0]

    def test_names_and_descriptions_of_given_tools_are_checked(self):
        result = ToolNameReliability(tools=[ToolDefinition("getWeather")]).evaluate(EvalTestCase())
        assert "getWeather" in result.reason
        assert ToolDescriptionReliability(tools=TOOLS).evaluate(EvalTestCase()).score is not None
