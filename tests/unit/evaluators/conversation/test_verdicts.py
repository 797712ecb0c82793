"""Knowledge retention, turn relevance, role adherence, completeness and frustration."""

import json
from dataclasses import replace

import pytest

from dokimos import ConversationTrajectory, EvalTestCase, Message
from dokimos.errors import ConfigurationError
from dokimos.evaluators import (
    ConversationCompleteness,
    KnowledgeRetention,
    PerTurn,
    RoleAdherence,
    Trajectory,
    TurnRelevance,
    UserFrustration,
)

TALK = ConversationTrajectory(
    [
        Message.system("You are a librarian."),
        Message.user("I am Ada. Do you have Emma?"),
        Message.assistant("Yes, Ada."),
        Message.user("Lend it to me."),
        Message.assistant("What is your name?"),
    ]
)
EMPTY = ConversationTrajectory()
UNANSWERED = ConversationTrajectory([Message.user("Hello?")])
OF_REPLIES = [KnowledgeRetention, TurnRelevance, RoleAdherence]


def case_of(trajectory=TALK, **metadata):
    return EvalTestCase({}, {"trajectory": trajectory}, metadata=metadata)


def verdicts(*words):
    return [{"number": n, "reason": f"Reason {n}.", "verdict": word} for n, word in enumerate(words, 1)]


def long_talk(turns):
    messages = []
    for number in range(1, turns + 1):
        messages += [Message.user(f"Question {number}"), Message.assistant(f"Answer {number}")]
    return ConversationTrajectory([Message.system("Answer."), *messages])


class TestReplies:
    @pytest.mark.parametrize("kind", OF_REPLIES)
    def test_the_score_is_the_share_of_replies_with_yes_in_one_call(self, scripted, kind):
        judge = scripted(verdicts=verdicts("yes", "no"))

        result = kind(judge=judge).evaluate(case_of())

        assert (result.score, judge.asked) == (0.5, ["verdicts"])
        assert result.reason.endswith(": 1 of 2 replies; not: 'What is your name?'.")
        assert result.metadata == {
            "turnCount": 2,
            "turns": [
                {"turn": 1, "verdict": "yes", "reason": "Reason 1."},
                {"turn": 2, "verdict": "no", "reason": "Reason 2."},
            ],
        }

    @pytest.mark.parametrize("kind", OF_REPLIES)
    def test_replies_are_numbered_in_the_conversation(self, scripted, kind):
        judge = scripted(verdicts=verdicts("yes", "yes"))

        kind(judge=judge).evaluate(case_of())

        assert "| [1] ASSISTANT: Yes, Ada.\n| USER: Lend it to me.\n| [2] ASSISTANT" in judge.prompts[0]
        assert "Give 2 entries, one for each reply [1] to [2]" in judge.prompts[0]

    @pytest.mark.parametrize(("turns", "calls"), [(1, 1), (10, 1), (11, 2), (25, 3)])
    def test_a_call_judges_ten_replies(self, scripted, turns, calls):
        def reply(prompt):
            count = int(prompt.partition("Give ")[2].split()[0])
            return verdicts(*["yes"] * count)

        judge = scripted(verdicts=reply)
        result = TurnRelevance(judge=judge).evaluate(case_of(long_talk(turns)))

        assert (result.score, len(judge.asked)) == (1.0, calls)
        assert [turn["turn"] for turn in result.metadata["turns"]] == list(range(1, turns + 1))

    def test_a_later_call_sees_what_came_before_and_nothing_after(self, scripted):
        judge = scripted(verdicts=lambda prompt: verdicts("yes", "yes"))

        TurnRelevance(judge=judge, replies_per_call=2).evaluate(case_of(long_talk(4)))

        first, second = judge.prompts
        assert "Answer 3" not in first
        assert "| ASSISTANT: Answer 2\n| USER: Question 3\n| [1] ASSISTANT: Answer 3\n" in second

    @pytest.mark.parametrize("kind", OF_REPLIES)
    @pytest.mark.parametrize("trajectory", [EMPTY, UNANSWERED])
    def test_without_replies_nothing_is_scored_and_nobody_asked(self, scripted, kind, trajectory):
        judge = scripted()

        result = kind(judge=judge).evaluate(case_of(trajectory))

        assert (result.score, judge.asked) == (0.0, [])

    @pytest.mark.parametrize("kind", OF_REPLIES)
    @pytest.mark.parametrize("words", [("yes",), ("yes", "no", "no"), ("yes", "maybe")])
    def test_any_other_reply_is_an_error(self, scripted, kind, words):
        result = kind(judge=scripted(verdicts=verdicts(*words))).evaluate(case_of())

        assert (result.score, "JudgeReplyError" in result.error) == (None, True)

    def test_the_number_of_replies_in_a_call_is_a_whole_number(self, scripted):
        with pytest.raises(ConfigurationError, match="replies_per_call"):
            TurnRelevance(judge=scripted(), replies_per_call=0)


class TestRole:
    @pytest.mark.parametrize(
        ("settings", "metadata", "role"),
        [
            ({"role": "a pirate"}, {"role": "a king"}, "a pirate"),
            ({}, {"role": "a king"}, "a king"),
            ({}, {}, "You are a librarian."),
        ],
    )
    def test_the_role_comes_from_the_nearest_place(self, scripted, settings, metadata, role):
        judge = scripted(verdicts=verdicts("yes", "yes"))

        RoleAdherence(judge=judge, **settings).evaluate(case_of(**metadata))

        assert f'name="Role">\n| {role}\n' in judge.prompts[0]

    def test_without_a_role_there_is_an_error_and_no_call(self, scripted):
        judge = scripted()
        talk = ConversationTrajectory(TALK.messages[1:])

        result = RoleAdherence(judge=judge).evaluate(case_of(talk))

        assert "Role Adherence requires a role; the case has: " in result.error
        assert judge.asked == []


class TestCompleteness:
    def test_the_score_is_the_share_of_wishes_fulfilled_in_two_calls(self, scripted):
        judge = scripted(
            intentions=["Know whether Emma is there.", "Borrow  it.", " "], verdicts=verdicts("yes", "no")
        )

        result = ConversationCompleteness(judge=judge).evaluate(case_of())

        assert (result.score, judge.asked) == (0.5, ["intentions", "verdicts"])
        assert result.reason == "The assistant fulfilled 1 of 2 wishes; not: 'Borrow it.'."
        assert result.metadata["intentions"][1] == {
            "intention": "Borrow it.",
            "verdict": "no",
            "reason": "Reason 2.",
        }
        assert all("Lend it to me." in prompt for prompt in judge.prompts)

    def test_who_wants_nothing_gets_everything(self, scripted):
        judge = scripted(intentions=[])

        result = ConversationCompleteness(judge=judge).evaluate(case_of())

        assert (result.score, result.reason, judge.asked) == (
            1.0,
            "The user asked for nothing.",
            ["intentions"],
        )

    def test_an_empty_conversation_needs_no_call(self, scripted):
        judge = scripted()

        assert ConversationCompleteness(judge=judge).evaluate(case_of(EMPTY)).score == 0.0
        assert judge.asked == []

    def test_another_number_of_verdicts_is_an_error(self, scripted):
        judge = scripted(intentions=["One."], verdicts=verdicts("yes", "no"))

        assert "JudgeReplyError" in ConversationCompleteness(judge=judge).evaluate(case_of()).error


class TestFrustration:
    @pytest.mark.parametrize(
        ("number", "score", "success"), [(5, 0.0, True), (4, 0.25, True), (3, 0.5, False), (1, 1.0, False)]
    )
    def test_lower_is_better(self, scripted, number, score, success):
        judge = scripted(score={"reason": "Calm.", "score": number})

        result = UserFrustration(judge=judge).evaluate(case_of())

        assert (result.score, result.success, result.reason) == (score, success, "Calm.")
        assert result.metadata == {"turnCount": 2, "rawScore": number, "scoreRange": [5, 1]}
        assert judge.asked == ["score"]

    def test_an_empty_conversation_has_the_worst_score_without_a_call(self, scripted):
        judge = scripted()

        result = UserFrustration(judge=judge).evaluate(case_of(EMPTY))

        assert (result.score, result.success, judge.asked) == (1.0, False, [])


@pytest.mark.parametrize("reason", ["error", "timeout"])
@pytest.mark.parametrize("form", ["trajectory", "JSON"])
def test_a_conversation_that_broke_off_is_an_error_and_no_verdict(scripted, reason, form):
    judge = scripted(verdicts=[], rating=5)
    broken = replace(TALK, metadata={"endReason": reason, "error": "The application failed in turn 2"})
    given = broken if form == "trajectory" else json.loads(broken.to_json())
    judged = [kind(judge=judge) for kind in (*OF_REPLIES, ConversationCompleteness, UserFrustration)]
    evaluators = [
        *judged,
        Trajectory(judge=judge, criteria=("clarity",)),
        PerTurn(evaluator={"length": {"max": 40}}),
    ]
    for evaluator in evaluators:
        result = evaluator.evaluate(case_of(given))
        assert (result.score, result.success) == (None, None)
        assert "broke off, so it is not evaluated: The application failed in turn 2" in result.error
    assert judge.asked == []


def test_a_conversation_that_ended_otherwise_is_evaluated():
    whole = replace(TALK, metadata={"endReason": "max_turns"})
    assert PerTurn(evaluator={"length": {"max": 40}}).evaluate(case_of(whole)).score == 1.0
