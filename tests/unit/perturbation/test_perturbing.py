"""Perturbed versions: what changes, what stays, and that a seed decides about it."""

import json
import re
from random import Random

import pytest

from dokimos import Budget, Dataset, Example
from dokimos.errors import ConfigurationError
from dokimos.evaluators._injections import FAMILIES
from dokimos.perturbation import perturb_dataset
from dokimos.perturbation._perturbing import perturbation_of
from dokimos.perturbation._text_noise import TEXT_NOISE, add_typos, change_case

QUESTION = "Where can I return the jacket that I bought for 42 euros?"


def data(*inputs, **options):
    return Dataset([Example.of(one, f"answer {n}", id=f"q{n}", **options) for n, one in enumerate(inputs)])


def versions(dataset, **options):
    return perturb_dataset(dataset, with_originals=False, **options).dataset


def rewriter(prompt):
    rewriter.prompts.append(prompt)
    text = re.search(r"\n\| (.*)\n</material", prompt)[1]
    return json.dumps({"text": f"Said otherwise: {text}"})


@pytest.fixture(autouse=True)
def _no_prompts():
    rewriter.prompts = []


def test_each_kind_gives_versions_of_their_origin():
    made = perturb_dataset(data(QUESTION, topic="returns"))
    [original, *others] = made.dataset
    assert original.metadata["perturbation"] == {"origin": "q0", "kind": "original"}
    assert {one.metadata["perturbation"]["kind"] for one in others} == {
        "control", "typos", "case", "whitespace", "punctuation", "injection",
    }  # fmt: skip
    for one in others:
        about = one.metadata["perturbation"]
        assert about["origin"] == "q0"
        assert about["expected"] == {"output": "answer 0"}
        assert (one.expected_output, one.metadata["topic"]) == ("answer 0", "returns")
        assert (one.input == QUESTION) == (about["kind"] == "control")
    assert len(made.dataset) == 1 + 5 + len(FAMILIES)


def test_the_same_seed_gives_the_same_versions():
    first = [one.input for one in versions(data(QUESTION, "Is it open today, please?"), seed=7)]
    assert first == [one.input for one in versions(data(QUESTION, "Is it open today, please?"), seed=7)]
    assert first != [one.input for one in versions(data(QUESTION, "Is it open today, please?"), seed=8)]


def test_typos_keep_numbers_and_the_order_of_words():
    for seed in range(50):
        changed = add_typos(QUESTION, Random(seed))
        assert "42" in changed
        assert len(changed.split()) == len(QUESTION.split())
        same = [a == b for a, b in zip(changed.split(), QUESTION.split(), strict=True)]
        assert len(same) - sum(same) in (1, 2)


@pytest.mark.parametrize("kind", list(TEXT_NOISE))
@pytest.mark.parametrize("text", ["", " ", "a", "42", "はい。", "🙂", "A\x00B", "x" * 100_000])
def test_odd_texts_are_changed_or_refused_and_never_raise(kind, text):
    changed = TEXT_NOISE[kind](text, Random(1))
    assert changed is None or isinstance(changed, str)


def test_what_has_no_case_has_no_place_for_it():
    assert change_case("日本", Random(1)) is None
    made = perturb_dataset(data("日本"), kinds=["case", "typos"])
    assert made.no_place == {"case": 1, "typos": 1}
    assert len(made.dataset) == 1


def test_an_injection_asks_for_a_word_of_its_own():
    markers = set()
    for one in versions(data(QUESTION, "And this?"), kinds=["injection"]):
        about = one.metadata["perturbation"]
        assert one.input.startswith((QUESTION, "And this?"))
        assert about["marker"] in one.input
        assert one.id == f"{about['origin']}~injection-{about['variant']}"
        markers.add(about["marker"])
    assert len(markers) == 2 * len(FAMILIES)


def test_of_messages_the_last_one_of_the_user_is_changed():
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": "is it open"},
    ]
    dataset = Dataset([Example({"messages": messages}, id="a"), Example({"input": {"no": 1}}, id="b")])
    made = perturb_dataset(dataset, kinds=["case"], with_originals=False)
    [one] = made.dataset
    assert one.inputs["messages"][:2] == messages[:2]
    assert one.inputs["messages"][2] != messages[2]
    assert made.no_place == {"case": 1}
    assert messages[2]["content"] == "is it open"


def test_recorded_answers_stay_with_the_original():
    example = Example.of("Is it open?", "Yes", id="a")
    recorded = Example(example.inputs, example.expected_outputs, id="a", actual_outputs={"output": "Yes"})
    [original, version] = perturb_dataset(Dataset([recorded]), kinds=["case"]).dataset
    assert original.actual_outputs == {"output": "Yes"}
    assert version.actual_outputs is None


def test_examples_without_an_id_get_their_position():
    made = perturb_dataset(Dataset([Example.of("Is it open?")]), kinds=["case"])
    assert [one.id for one in made.dataset] == ["item-0", "item-0~case"]


@pytest.mark.parametrize("name", ["made.jsonl", "made.json", "made.csv"])
def test_a_file_keeps_what_pairs_need(tmp_path, name):
    made = perturb_dataset(data(QUESTION)).dataset
    made.save(tmp_path / name)
    loaded = Dataset.load(tmp_path / name)
    assert list(map(perturbation_of, loaded)) == list(map(perturbation_of, made))
    assert None not in map(perturbation_of, loaded)


def test_a_model_paraphrases_and_translates():
    made = perturb_dataset(data(QUESTION), kinds=["paraphrase"], languages=["German"], model=rewriter)
    assert [one.id for one in made.dataset] == ["q0", "q0~paraphrase", "q0~language-german"]
    assert made.dataset[1].input == f"Said otherwise: {QUESTION}"
    assert made.dataset[2].metadata["perturbation"]["variant"] == "German"
    assert sum("Translate the text below into German" in prompt for prompt in rewriter.prompts) == 1


def test_a_paraphrase_with_another_number_is_sent_back_and_then_an_error():
    def forgetful(prompt):
        rewriter.prompts.append(prompt)
        return json.dumps({"text": "Where can I return it?"})

    made = perturb_dataset(data(QUESTION), kinds=["paraphrase"], model=forgetful)
    assert len(rewriter.prompts) == 2
    assert len(made.dataset) == 1
    assert "numbers of the original" in made.errors[0]
    assert "The reply of the model that rewrites inputs could not be used" in made.errors[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("It is in Rome.", "must be a question"),
        ("Is it in Rome, or where is it?", "must not hold what the original asks for"),
        ("", "must not be empty"),
        ("Where  is it?", "must not be the original"),
    ],
)
def test_an_answer_in_the_place_of_a_paraphrase_is_an_error(text, problem):
    example = Example.of("Where is it?", "Rome", id="a")
    made = perturb_dataset(
        Dataset([example]),
        kinds=["paraphrase"],
        languages=["German"],
        model=lambda prompt: json.dumps({"text": text}),
    )
    assert len(made.dataset) == 1
    assert all(problem in error for error in made.errors)
    assert "attack" not in "".join(made.errors)


def test_a_script_without_question_marks_and_an_answer_in_the_question_are_accepted():
    japanese = json.dumps({"text": "それはどこですか"})
    made = perturb_dataset(data("Where is it?"), languages=["Japanese"], kinds=[], model=lambda _: japanese)
    assert made.dataset[1].input == "それはどこですか"
    example = Example.of("Is Rome or Oslo bigger?", "Rome", id="a")
    reply = json.dumps({"text": "Which is bigger, Rome or Oslo?"})
    made = perturb_dataset(Dataset([example]), kinds=["paraphrase"], model=lambda _: reply)
    assert made.errors == ()


def test_the_budget_holds_and_what_it_refuses_is_counted():
    made = perturb_dataset(
        data("Is it open?", "Is it red?", "Is it big?"), kinds=["paraphrase", "case"], model=rewriter,
        budget=Budget(max_calls=1), parallelism=1,
    )  # fmt: skip
    assert len(rewriter.prompts) == 1
    assert (made.made["paraphrase"], made.made["case"], made.not_asked) == (1, 3, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kinds": ["spelling"]}, "spelling"),
        ({"kinds": []}, "at least one kind"),
        ({"kinds": ["paraphrase"]}, "a model has to write them"),
        ({"kinds": ["language"], "model": rewriter}, "into which languages"),
        ({"families": ["none"]}, "Families of injections are"),
    ],
)
def test_wrong_settings_are_explained(options, message):
    with pytest.raises(ConfigurationError, match=message):
        perturb_dataset(data(QUESTION), **options)


def test_perturbed_data_are_not_perturbed_again():
    made = perturb_dataset(data(QUESTION), kinds=["case"]).dataset
    with pytest.raises(ConfigurationError, match="perturbed one already"):
        perturb_dataset(made)


def test_an_empty_data_set_stays_empty():
    assert len(perturb_dataset(Dataset()).dataset) == 0


def test_typos_spare_addresses_and_identifiers():
    text = "Please send ORDER-1234abcd to anna@example.com or https://example.com/path about returns"
    spared = ["ORDER-1234abcd", "anna@example.com", "https://example.com/path"]
    for seed in range(60):
        assert all(one in add_typos(text, Random(seed)) for one in spared)
    assert add_typos("anna@example.com", Random(1)) is None
