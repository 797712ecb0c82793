"""ROUGE gives the values of the package rouge-score."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError, MissingExtraError
from dokimos.evaluators._nlp.rouge import Rouge

VARIANTS = ("rouge1", "rouge2", "rougeL")
ORACLES = {stemmed: RougeScorer(list(VARIANTS), use_stemmer=stemmed) for stemmed in (False, True)}
WORDS = """running runs ran Policies policy generously generous item's fly flies dying 30 days a the caresses
    Straße naïve 東京 İstanbul \u212aelvin x_y e-mail"""
words = st.lists(st.sampled_from(WORDS.split()), max_size=40).map(" ".join)
texts = st.one_of(st.text(max_size=40), words)


def evaluate(actual: str, expected: object, **options: object):
    return Rouge(**options).evaluate(EvalTestCase.of("", actual, expected))


@settings(deadline=None)
@pytest.mark.parametrize("use_stemmer", [False, True])
@given(actual=texts, expected=texts.filter(str.strip))
def test_it_equals_rouge_score(use_stemmer, actual, expected):
    oracle = ORACLES[use_stemmer].score(expected, actual)
    for variant in VARIANTS:
        score = evaluate(actual, expected, variant=variant, use_stemmer=use_stemmer).score
        assert score == pytest.approx(oracle[variant].fmeasure, abs=1e-9)


def test_known_values():
    assert evaluate("police kill the gunman", "police killed the gunman").score == pytest.approx(0.75)
    assert evaluate("police kill the gunman", "police killed the gunman", use_stemmer=True).score == 1.0
    assert evaluate("the gunman police", "police the gunman", variant="rouge2").score == pytest.approx(0.5)


def test_the_variant_gives_the_name_unless_there_is_one():
    assert [Rouge(variant=variant).name for variant in VARIANTS] == ["ROUGE-1", "ROUGE-2", "ROUGE-L"]
    assert Rouge().name == "ROUGE-L"
    assert Rouge(name="overlap", variant="rouge1").name == "overlap"


def test_the_best_reference_counts():
    assert evaluate("the cat", ["a dog", "the cat"]).score == 1.0


def test_text_without_latin_words_scores_zero_and_says_why():
    result = evaluate("東京", "東京")
    assert result.score == 0.0
    assert "no words that ROUGE counts" in result.reason


def test_an_empty_output_scores_zero_and_an_empty_expectation_is_an_error():
    assert evaluate("", "the cat").score == 0.0
    assert "blank" in (evaluate("the cat", "  ").error or "")


def test_an_unknown_variant_is_refused():
    with pytest.raises(ConfigurationError, match=r"Rouge: variant must be one of 'rouge1', .*not 'rougeX'"):
        Rouge(variant="rougeX")


def test_the_stemmer_is_asked_for_before_anything_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "nltk.stem.porter", None)
    with pytest.raises(MissingExtraError, match="nltk is not installed"):
        Rouge(use_stemmer=True)
    assert evaluate("the cat", "the cat").score == 1.0


def test_the_reason_counts_what_is_shared():
    assert evaluate("the black cat", "the cat sat").reason == (
        "The output has 3 and the expected text 3 words; they share 2 in the same order."
    )
