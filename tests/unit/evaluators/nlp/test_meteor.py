"""METEOR gives the values of NLTK on the same words."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tokenize import TreebankWordTokenizer
from nltk.translate.meteor_score import single_meteor_score

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError, MissingExtraError
from dokimos.evaluators._nlp import meteor
from dokimos.evaluators._nlp.meteor import Meteor
from dokimos.evaluators._nlp.wordnet import NoSynonyms, Synset, load_wordnet

WORDS = """the The cat sat on a mat . , can't I'Ll policy policies running ran quick fast car automobile
    été 東京 "quoted" (hi) buy purchase began started big large"""
words = st.lists(st.sampled_from(WORDS.split()), max_size=25)
texts = st.one_of(st.text(max_size=40), words.map(" ".join))


def evaluate(actual: str, expected: object, **options: object):
    return Meteor(**options).evaluate(EvalTestCase.of("", actual, expected))


def nltk_meteor(actual: str, expected: str, net: object) -> float:
    split = TreebankWordTokenizer().tokenize
    return single_meteor_score(split(expected), split(actual), wordnet=net, alpha=0.9, beta=3, gamma=0.5)


@pytest.fixture
def wordnet():
    try:
        return load_wordnet()
    except ConfigurationError as error:
        pytest.skip(str(error))


@settings(deadline=None)
@given(actual=texts, expected=texts.filter(str.strip))
def test_without_synonyms_it_equals_nltk(actual, expected):
    score = evaluate(actual, expected, synonyms=False).score
    assert score == pytest.approx(nltk_meteor(actual, expected, NoSynonyms()), abs=1e-9)


@pytest.mark.wordnet
def test_with_synonyms_it_equals_nltk(wordnet):
    @settings(deadline=None)
    @given(actual=texts, expected=texts.filter(str.strip))
    def equal(actual, expected):
        assert evaluate(actual, expected).score == pytest.approx(
            nltk_meteor(actual, expected, wordnet), abs=1e-9
        )

    equal()


@pytest.mark.wordnet
def test_synonyms_of_the_system_count(wordnet):
    assert (
        evaluate("a quick cat", "a fast cat").score
        > evaluate("a quick cat", "a fast cat", synonyms=False).score
    )


def test_synonyms_count(monkeypatch):
    class Two:
        def synsets(self, word: str) -> tuple[Synset, ...]:
            return (Synset(("quick", "fast")),) if word in ("quick", "fast") else ()

    monkeypatch.setattr(meteor, "load_wordnet", Two)
    assert evaluate("a quick cat", "a fast cat").score == evaluate("a cat cat", "a cat cat").score


def test_equal_texts_stay_a_little_below_one():
    assert evaluate(
        "the cat sat on the mat", "the cat sat on the mat", synonyms=False
    ).score == pytest.approx(0.9977, abs=1e-4)
    assert evaluate("hello", "hello", synonyms=False).score == 0.5


def test_stems_and_order_count():
    assert evaluate("policies", "policy", synonyms=False).score == 0.5
    assert evaluate("b a", "a b", synonyms=False).score < evaluate("a b", "a b", synonyms=False).score


def test_the_best_reference_counts():
    assert evaluate("hello", ["goodbye", "hello"], synonyms=False).score == 0.5


def test_an_empty_output_scores_zero_and_an_empty_expectation_is_an_error():
    assert evaluate("", "the cat", synonyms=False).score == 0.0
    assert "blank" in (evaluate("the cat", " ", synonyms=False).error or "")


def test_the_reason_counts_matches_and_names_what_is_missing():
    result = evaluate("the sofa is small", "the couch is small", synonyms=False)
    assert result.reason == "The output has 3 of 4 expected words among its 4, in 2 runs; missing: 'couch'."
    assert "none of the expected words: 'Paris'" in evaluate("x", "Paris", synonyms=False).reason


def test_a_missing_wordnet_is_told_before_anything_runs(monkeypatch):
    def missing() -> None:
        raise ConfigurationError("install WordNet")

    monkeypatch.setattr(meteor, "load_wordnet", missing)
    with pytest.raises(ConfigurationError, match="install WordNet"):
        Meteor()
    assert Meteor(synonyms=False).name == "METEOR"


def test_nltk_is_asked_for_before_anything_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "nltk.translate.meteor_score", None)
    with pytest.raises(MissingExtraError, match=r'nltk is not installed.*"dokimos\[nlp\]"'):
        Meteor(synonyms=False)
