"""Passages occur word for word, duplicates are found, doubts are named."""

import pytest

from dokimos.generation._checks import find_doubts, normalize
from dokimos.generation._duplicates import KnownTexts
from dokimos.generation._passages import find_passage

TEXT = "# Returns\n\nGoods can be   returned\nwithin 30 days. Größe zählt nicht.\n日本への配送は無料です。\n"


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("Goods can be returned within 30 days.", "Goods can be   returned\nwithin 30 days."),
        ("| Goods can be   returned\n| within 30 days.", "Goods can be   returned\nwithin 30 days."),
        ('"Größe zählt nicht."', "Größe zählt nicht."),
        (
            '<material e7e0cc7f name="source">| Größe zählt nicht.</material e7e0cc7f>',
            "Größe zählt nicht.",
        ),
        ('<material e7e0cc7f>\n | "Größe zählt nicht."\n</material e7e0cc7f>', "Größe zählt nicht."),
        ('<material e7e0cc7f name="source">| within 31 days</material e7e0cc7f>', None),
        ("日本への配送は無料です。", "日本への配送は無料です。"),
        ("Goods can be returned within 31 days.", None),
        ("goods can be returned", None),
        ("30", None),
        ("", None),
        (".*", None),
        ("x " * 2_000, None),
    ],
)
def test_a_passage_is_found_word_for_word(quote, found):
    span = find_passage(TEXT, quote)
    assert (None if span is None else TEXT[slice(*span)]) == found


@pytest.mark.parametrize(
    ("text", "quote", "found"),
    [
        ("Returns within 130 days only.", "30 days only", False),
        ("It weighs 1.5 kilograms at most.", "5 kilograms at most", False),
        ("A parcel weighs at most 1.5 kilograms.", "weighs at most 1", False),
        ("There is unlimited liability.", "limited liability", False),
        ("Within 130 days. Or 30 days only.", "30 days only.", True),
        ("商品は30日以内に返品できます。", "30日以内に返品", True),
    ],
)
def test_a_passage_does_not_begin_or_end_inside_of_a_word_or_a_number(text, quote, found):
    span = find_passage(text, quote)
    assert (span is not None) == found
    assert span is None or text[slice(*span)] == quote


QUESTION = "How long can I return a jacket?"


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (QUESTION, "how long can i return a jacket"),
        (QUESTION, "How long can I return the jackets?"),
        (QUESTION, "Please, how long could we return this jacket"),
        ("What does it cost?", "WHAT DOES IT COST?!"),
        ("Is delivery free in the European Union?", "Is the delivery free in the European Union?"),
        ("What's the price of plan A?", "What is the price of the plan A?"),
        ("Which companies ship it?", "Which company ships it?"),
        ("Is an opened parcel returned?", "Is the opened parcel returned?"),
        ("Wie lange kann ich die Ware zurückgeben?", "Wie lange können wir Ware zurückgeben?"),
        ("Où puis-je retourner le colis ?", "Où peut-je retourner un colis ?"),
        ("日本への配送は無料ですか。", "日本への配送は無料ですか"),
        ("the", "The"),
        ("", " ?"),
    ],
)
def test_texts_that_say_the_same_are_duplicates(known, text):
    assert KnownTexts([known]).find_same(text) == known
    assert KnownTexts([text]).find_same(known) == text


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ("Is express delivery included in plan A?", "Is express delivery included in plan B?"),
        ("Is express delivery included in plan A?", "Is express delivery included in plan?"),
        ("What does it cost to keep it for 30 days?", "What does it cost to keep it for 60 days?"),
        ("Is it valid at -5 degrees?", "Is it valid at 5 degrees?"),
        ("What does it cost at 4.90?", "What does it cost at 4.9?"),
        ("How do I compile a program in C++?", "How do I compile a program in C#?"),
        ("Is a discount of 10 % given?", "Is a discount of 10 € given?"),
        ("Can I return goods with a receipt?", "Can I return goods without a receipt?"),
        ("Can I return opened goods?", "Can I not return opened goods?"),
        ("Can I pay before delivery?", "Can I pay after delivery?"),
        ("Can I pay by credit card?", "Can I pay by debit card?"),
        ("How do I travel from Rome to Oslo?", "How do I travel from Oslo to Rome?"),
        ("Do I call Mr Robert?", "Do I call Mr Roberts?"),
        ("Who pays, the employee?", "Who pays, the employer?"),
        ("Which plan may I take?", "Which plane may I take?"),
        ("Is it allowed to smoke?", "Must it be allowed to smoke?"),
        ("What is the minimum stay in this hotel?", "What is the maximum stay in this hotel?"),
        ("I want to order a product that costs more than 50 euros.",
         "I want to order a product that costs less than 50 euros."),
        ("Ist die Lieferung mit Plan A frei?", "Ist die Lieferung mit Plan B frei?"),
        ("日本への配送は無料ですか", "韓国への配送は無料ですか"),
        ("the", "a"),
    ],
)  # fmt: skip
def test_one_word_that_matters_makes_another_case(known, text):
    assert KnownTexts([known]).find_same(text) is None
    assert KnownTexts([text]).find_same(known) is None


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ("What is the warranty period for devices?", "How is the warranty period for devices?"),
        ("What is the warranty period for devices?", "What is the warranty period for new devices?"),
        ("What is the warranty period for new devices?", "What is the warranty period for devices?"),
    ],
)
def test_texts_that_differ_in_a_plain_word_are_similar(known, text):
    assert KnownTexts([known]).find_similar(text) == known


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ("What is the price of plan A?", "What is the price of plan B?"),
        ("What is the fine after 30 days?", "What is the fine after 60 days?"),
        ("When does the train to Rome leave?", "When does the train to Oslo leave?"),
        ("When does the train leave?", "Where is the office of the company?"),
        ("Who pays?", "Who ships?"),
        ("from one city to another", "to one city from another"),
    ],
)
def test_other_numbers_names_and_several_words_are_not_similar(known, text):
    assert KnownTexts([known]).find_similar(text) is None


def test_a_similar_text_is_found_among_those_that_were_added_later():
    known = KnownTexts()
    assert known.find_same("anything") is None
    assert known.find_similar("anything") is None
    known.add("Who pays for the parcel when goods are sent back?")
    assert known.find_similar("Who pays for the parcel if goods are sent back?") is not None
    long = "word " * 500
    known.add(f"{long} one")
    assert known.find_similar(f"{long} two") is None


def test_a_known_text_is_not_similar_to_itself():
    texts = ["How long can a jacket be returned?", "How long can a blue jacket be returned?"]
    known = KnownTexts(texts)
    assert known.find_similar(texts[0]) == texts[1]
    assert known.find_similar(texts[1]) == texts[0]
    assert KnownTexts(texts[:1]).find_similar(texts[0]) is None


def test_only_letters_and_digits_are_left_of_a_normalized_text():
    assert normalize("  How   LONG, exactly?! ") == "how long exactly"


@pytest.mark.parametrize(
    ("text", "answer", "doubt"),
    [
        ("How long?", "45 days", "numbers that the passage lacks: 45"),
        ("What is it?", "Bananas grow somewhere else", "most words of the answer"),
        ("What does the agent do according to the text?", "returned", "speaks of the source"),
        ("It costs how much?", "returned", "refers to something unsaid"),
        ("Can goods be returned?", "Goods", "contains the answer"),
        ("How long?", "returned " * 60, "is all of it needed?"),
    ],
)
def test_doubts_are_named(text, answer, doubt):
    assert any(doubt in one for one in find_doubts(text, answer, "Goods can be returned within 30 days."))


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("Does the source state that goods can be returned?", True),
        ("What does the document say about returns?", True),
        ("Where do I send the document?", False),
    ],
)
def test_an_input_that_speaks_of_the_source_is_doubtful(text, is_one):
    doubts = list(find_doubts(text, "within 30 days", "returned within 30 days."))
    assert any("speaks of the source" in doubt for doubt in doubts) is is_one


def test_a_plain_case_raises_no_doubt():
    assert not list(
        find_doubts("How long can I return a jacket?", "within 30 days", "returned within 30 days.")
    )
