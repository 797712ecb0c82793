"""Mutants: in which outputs faults find their place, and that a seed decides about them."""

import dataclasses

import pytest

from dokimos import AgentTrace, ConversationTrajectory, Example, ItemResult, Message, ToolCall
from dokimos.mutation import MutationKind, make_mutants

CALLS = [{"name": "search", "arguments": {"city": "Rome", "days": 3}}, {"name": "book", "arguments": {}}]
TALK = ConversationTrajectory(
    (
        Message.user("Is it open?"),
        Message.assistant("It is open.", [ToolCall("hours", {"day": "Monday"})]),
        Message.user("Until when?"),
        Message.assistant("It is open until 18 o'clock."),
    )
)


def item(outputs, index=0, **options):
    metadata = options.pop("metadata", {})
    example = Example({"input": f"question {index}"}, {"output": "x"}, metadata=metadata, id=f"q{index}")
    return ItemResult(index, example, actual_outputs=outputs, **options)


def mutants(outputs, **options):
    return {mutant.kind.value: mutant for mutant in make_mutants([item(outputs)], **options)}


def test_the_same_seed_gives_the_same_mutants_whatever_else_is_mutated():
    items = [item({"output": f"It costs {n} euros, and Anna is not here."}, n) for n in range(1, 6)]
    first = [(m.item.key, m.kind, m.after) for m in make_mutants(items, seed=3)]

    assert first == [(m.item.key, m.kind, m.after) for m in make_mutants(items, seed=3)]
    assert first != [(m.item.key, m.kind, m.after) for m in make_mutants(items, seed=4)]
    numbers = [(m.item.key, m.kind, m.after) for m in make_mutants(items, kinds=["wrong_number"], seed=3)]
    assert numbers == [one for one in first if one[1] == "wrong_number"]


def test_every_mutant_differs_by_more_than_white_space():
    texts = ["", " ", "a", "42", "Yes.", "No name.", "{}", "ß" * 30, "🙂 is 5 🙂"]
    for mutant in make_mutants([item({"output": text}, n) for n, text in enumerate(texts)]):
        assert mutant.before.split() != mutant.after.split()


def test_items_that_errored_and_outputs_without_an_answer_have_no_mutants():
    assert make_mutants([item({}, error="TimeoutError: 30 s"), item({}, 1), item({"output": None}, 2)]) == ()
    assert make_mutants([]) == ()


def test_a_kind_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="wrong_planet"):
        make_mutants([item({"output": "x"})], kinds=["wrong_planet"])


def test_a_structured_answer_keeps_its_structure():
    found = mutants({"output": {"price": 42, "ok": True, "who": ["Anna", "Bob"]}})

    assert found["wrong_number"].outputs["output"]["price"] != 42
    assert found["negated"].outputs["output"] == {"price": 42, "ok": False, "who": ["Anna", "Bob"]}
    assert found["empty"].outputs["output"] == {}
    assert isinstance(found["truncated"].outputs["output"], str)
    dropped = found["dropped_clause"].outputs["output"]
    assert len(dropped) == 2 or len(dropped["who"]) == 1
    assert isinstance(found["refusal"].outputs["output"], str)


@pytest.mark.parametrize(
    ("value", "kinds"), [(42, {"wrong_number"}), (True, {"negated"}), (1e300, {"wrong_number"})]
)
def test_numbers_and_booleans_are_answers(value, kinds):
    found = mutants({"output": value})
    assert kinds <= set(found)
    for kind in kinds:
        assert type(found[kind].outputs["output"]) is type(value)
        assert found[kind].outputs["output"] != value


def test_an_object_of_the_application_stays_one():
    @dataclasses.dataclass
    class Price:
        euros: int

    found = mutants({"output": Price(42)})
    changed = found["wrong_number"].outputs["output"]
    assert isinstance(changed, Price)
    assert changed.euros != 42


def test_tool_calls_get_another_name_or_argument():
    tools = [{"name": "search"}, {"name": "book"}, {"name": "cancel"}]
    found = {
        m.kind: m
        for m in make_mutants([item({"output": "Done.", "toolCalls": CALLS}, metadata={"tools": tools})])
    }
    names = [call.name for call in found[MutationKind.WRONG_TOOL].outputs["toolCalls"]]
    assert names != ["search", "book"]
    assert set(names) <= {"search", "book", "cancel"}
    changed = found[MutationKind.WRONG_ARGUMENT].outputs["toolCalls"]
    assert [call.name for call in changed] == ["search", "book"]
    assert changed[0].arguments != CALLS[0]["arguments"]
    assert found[MutationKind.WRONG_ARGUMENT].outputs["output"] == "Done."


def test_another_argument_is_taken_from_other_calls_of_the_tool():
    outputs = [
        {"output": "x", "toolCalls": [ToolCall("search", {"city": city})]} for city in ("Rome", "Lima")
    ]
    found = make_mutants([item(one, n) for n, one in enumerate(outputs)], kinds=["wrong_argument"])
    assert [m.outputs["toolCalls"][0].arguments["city"] for m in found] == ["Lima", "Rome"]


def test_an_agent_without_other_tools_calls_one_that_does_not_exist():
    trace = AgentTrace((ToolCall("search", {}),), "Done.")
    found = mutants(trace.to_outputs())
    assert found["wrong_tool"].outputs["toolCalls"][0].name == "unknown_tool"
    assert "wrong_argument" not in found


@pytest.mark.parametrize("form", [TALK, {"messages": TALK.to_messages("openai")}, TALK.to_messages("openai")])
def test_of_a_conversation_the_last_reply_is_changed(form):
    found = mutants({"trajectory": form})
    changed = found["wrong_number"].outputs["trajectory"]
    assert [m.content for m in changed.messages[:3]] == [m.content for m in TALK.messages[:3]]
    assert changed.messages[3].content != TALK.messages[3].content
    assert found["wrong_tool"].outputs["trajectory"].messages[1].tool_calls[0].name != "hours"
    assert found["empty"].outputs["trajectory"].messages[3].content == ""


def test_both_copies_of_a_reply_are_changed():
    found = mutants(TALK.to_outputs())
    for kind in ("negated", "empty"):
        outputs = found[kind].outputs
        assert outputs["output"] == outputs["trajectory"].messages[3].content
    calls = found["wrong_tool"].outputs
    assert calls["toolCalls"][0].name == calls["trajectory"].messages[1].tool_calls[0].name


def test_of_a_suite_the_last_turn_is_changed():
    turns = [{"input": "a", "output": "It is 1."}, {"input": "b", "output": "It is 2.", "toolCalls": CALLS}]
    found = mutants({"turns": turns, "output": "It is 2."})
    changed = found["negated"].outputs
    assert [turn["output"] for turn in changed["turns"]] == ["It is 1.", "It is not 2."]
    assert changed["output"] == "It is not 2."
    assert found["wrong_tool"].outputs["turns"][0] == turns[0]
    assert found["wrong_tool"].outputs["turns"][1]["toolCalls"] != CALLS


def test_outputs_under_other_names_are_answers():
    assert mutants({"reply": "It is 5."})["negated"].outputs == {"reply": "It is not 5."}
    several = mutants({"total": 12, "currency": "EUR"})["wrong_number"].outputs
    assert several["total"] != 12
    assert several["currency"] == "EUR"


def test_the_recorded_outputs_are_not_changed():
    outputs = {"output": {"a": [1, {"b": 2}]}, "toolCalls": CALLS}
    before = repr(outputs)
    make_mutants([item(outputs)])
    assert repr(outputs) == before


def mutants_of(*answers, **options):
    items = [
        ItemResult(
            index, Example.of(f"Q{index}?"), actual_outputs=one if isinstance(one, dict) else {"output": one}
        )
        for index, one in enumerate(answers)
    ]
    return make_mutants(items, **options)


@pytest.mark.parametrize("seed", range(5))
def test_an_answer_that_says_the_same_is_no_mutant(seed):
    answers = ("Rome.", "Rome", "rome!", "Oslo")
    made = mutants_of(*answers, kinds=["swapped_entity"], seed=seed)
    assert len(made) == len(answers)
    for mutant in made:
        assert mutant.before.strip(".!").lower() != mutant.after.strip(".!").lower()


@pytest.mark.parametrize("seed", range(5))
def test_an_argument_in_another_case_is_no_mutant(seed):
    calls = [{"name": "find", "arguments": {"city": city}} for city in ("Paris", "paris")]
    made = mutants_of({"output": "x", "toolCalls": calls}, kinds=["wrong_argument"], seed=seed)
    assert all(mutant.before.lower() != mutant.after.lower() for mutant in made)
    assert made


@pytest.mark.parametrize("seed", range(8))
def test_an_entry_that_says_nothing_is_not_dropped(seed):
    value = {"note": None, "tags": [], "price": 5, "text": ""}
    [mutant] = mutants_of({"output": value}, kinds=["dropped_clause"], seed=seed)
    assert "price" not in mutant.outputs["output"]


@pytest.mark.parametrize("key", ["contexts", "retrieval_context"])
def test_contexts_beside_an_answer_stay_as_they_are(key):
    outputs = {"answer": "It costs 5 euros.", key: ["In 2019 it cost 42 euros in Rome."]}
    made = mutants_of(outputs)
    assert made
    assert all(mutant.outputs[key] == outputs[key] for mutant in made)
    assert all(mutant.outputs["answer"] != outputs["answer"] for mutant in made if mutant.kind != "refusal")


@pytest.mark.parametrize(
    "text",
    ["I’m sorry, I can’t help with that.", "I don't know.", "I do not have any information about this."],
)
def test_an_answer_that_declines_is_not_made_to_decline(text):
    assert mutants_of(text, kinds=["refusal"]) == ()


@pytest.mark.parametrize("text", ["السعر ٤٢ ريال", "कीमत ४२ है", "Room costs 42 euros"])
def test_digits_of_any_script_are_numbers(text):
    [mutant] = mutants_of(text, kinds=["wrong_number"])
    number, other = (next(word for word in t.split() if word.isdecimal()) for t in (text, mutant.after))
    assert int(other) != int(number) == 42
    assert len(mutant.after) == len(text)
    assert all(abs(ord(sign) - ord(number[0])) < 10 for sign in other)


def test_a_word_with_a_hyphen_has_no_opposite_in_front():
    assert mutants_of("non-refundable tickets", kinds=["negated"]) == ()
