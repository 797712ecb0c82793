"""Each fault changes a text in one way, or finds no place for itself."""

from random import Random

import pytest

from dokimos.mutation._kinds import MutationKind
from dokimos.mutation._text_faults import REFUSALS, TEXT_FAULTS, change_digits, drop_clause
from dokimos.mutation._vocabulary import Vocabulary, find_names

VOCABULARY = Vocabulary(names=("Anna Berg", "Oslo"), labels=("negative", "positive"))


def outcomes(kind, text, vocabulary=VOCABULARY):
    """What a fault makes of a text for many seeds."""
    return {TEXT_FAULTS[MutationKind(kind)](text, Random(seed), vocabulary) for seed in range(60)}


@pytest.mark.parametrize(
    ("kind", "text", "possible"),
    [
        ("negated", "It is open.", {"It is not open."}),
        ("negated", "It is not open.", {"It is open."}),
        ("negated", "Die Ware ist offen.", {"Die Ware ist nicht offen."}),
        ("negated", "Die Ware ist nicht offen.", {"Die Ware ist offen."}),
        (
            "negated",
            "Die Waren können zurückgegeben werden.",
            {"Die Waren können nicht zurückgegeben werden."},
        ),
        ("negated", "Was kostet das und wer zahlt?", {None}),
        ("negated", "Le magasin est ouvert.", {"Le magasin n'est pas ouvert."}),
        ("negated", "Les magasins ne sont pas ouverts.", {"Les magasins sont ouverts."}),
        ("negated", "C'est dans la rue.", {"Ce n'est pas dans la rue."}),
        ("negated", "Dans l'est de la France.", {None}),
        ("negated", "La tienda está abierta los lunes.", {"La tienda no está abierta los lunes."}),
        ("negated", "Los artículos no son gratis.", {"Los artículos son gratis."}),
        ("negated", "No se puede devolver el paquete.", {"Se puede devolver el paquete."}),
        ("negated", "Sklep jest otwarty.", {None}),
        ("negated", "The war is over.", {"The war is not over."}),
        ("negated", "It isn't open.", {"It is open."}),
        ("negated", "You cannot pay.", {"You can pay."}),
        ("negated", "You can’t pay.", {"You can pay."}),
        ("negated", "It's open.", {"It's not open."}),
        ("negated", "Yes", {"No"}),
        ("negated", "NO.", {"YES."}),
        ("negated", "true", {"false"}),
        ("negated", "No later than Monday.", {None}),
        ("swapped_entity", "positive", {"negative"}),
        ("swapped_entity", "We met Maria Lopez today.", {"We met Anna Berg today.", "We met Oslo today."}),
        ("swapped_entity", "The price is low.", {None}),
        ("swapped_entity", "Rome is old.", {"Anna Berg is old.", "Oslo is old."}),
        ("dropped_clause", "It is red. It is big.", {"It is red.", "It is big."}),
        ("dropped_clause", "It is red, and it is big.", {"It is red."}),
        ("dropped_clause", "It is red.", {None}),
        ("dropped_clause", "赤い。大きい。", {"赤い。", "大きい。"}),
        ("wrong_number", "No digits here.", {None}),
        ("wrong_number", "Room A4, see [2].", {None}),
        ("refusal", "I'm sorry, but I can't help with that.", {None}),
        ("truncated", "Too short", {None}),
        ("empty", "x", {""}),
        ("empty", "  ", {None}),
    ],
)
def test_a_fault_makes_one_of_these_texts(kind, text, possible):
    assert outcomes(kind, text) <= possible
    assert outcomes(kind, text)


@pytest.mark.parametrize("text", ["It costs 42 euros.", "Pi is 3.14.", "1,250.50 in total", "in 2019"])
def test_a_wrong_number_has_one_other_digit_and_the_same_form(text):
    for changed in outcomes("wrong_number", text):
        assert len(changed) == len(text)
        assert sum(a != b for a, b in zip(changed, text, strict=True)) == 1


def test_a_year_stays_in_its_century_and_a_number_gets_no_leading_zero():
    assert {change_digits("2019", Random(seed))[:2] for seed in range(50)} == {"20"}
    assert {change_digits("0.05", Random(seed))[:3] for seed in range(50)} == {"0.0"}
    assert not any(change_digits("42", Random(seed)).startswith("0") for seed in range(50))


def test_number_words_and_list_marks_are_told_apart():
    assert all(
        text.startswith("Take ") and text != "Take two." for text in outcomes("wrong_number", "Take two.")
    )
    for changed in outcomes("wrong_number", "1. Wait 7 days.\n2. Ask."):
        assert changed.startswith("1. Wait ")
        assert changed.endswith("\n2. Ask.")


def test_a_refusal_replaces_the_answer():
    assert outcomes("refusal", "It is Rome.") == set(REFUSALS)


@pytest.mark.parametrize(
    "text", ["The parcel arrives on Monday at noon.", "荷物は月曜日の正午に届く予定です。"]
)
def test_a_truncated_text_is_a_shorter_start_of_it(text):
    for changed in outcomes("truncated", text):
        assert text.startswith(changed)
        assert 0 < len(changed) < len(text) * 0.8


def test_a_huge_text_is_handled_in_time():
    text = "The Price is 42 and the shop is open. " * 5_000
    for kind in TEXT_FAULTS:
        changed = TEXT_FAULTS[kind](text, Random(1), VOCABULARY)
        assert changed is not None, kind
        assert changed != text, kind


def test_names_are_not_the_first_words_of_sentences():
    text = "However, we met Anna Berg. You can reach Bob in New York. I agree."
    assert [text[start:end] for start, end in find_names(text)] == ["Anna Berg", "Bob", "New York"]


def test_dropping_the_last_sentence_leaves_no_gap():
    texts = {drop_clause("One is red.\n\nTwo is big.\n", Random(seed), VOCABULARY) for seed in range(20)}
    assert texts == {"One is red.", "Two is big."}
