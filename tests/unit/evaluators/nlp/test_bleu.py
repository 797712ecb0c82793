"""BLEU and chrF give the values of sacrebleu."""

from __future__ import annotations

import sys

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError, MissingExtraError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._nlp.bleu import Bleu, Chrf

WORDS = "The the cat sat on a mat . , 3.5 isn't été 東京 &amp; (hi)"
words = st.lists(st.sampled_from(WORDS.split()), max_size=25)
texts = st.one_of(st.text(max_size=40), words.map(" ".join))
references = st.lists(texts.filter(str.strip), min_size=1, max_size=3)


def evaluate(evaluator: Evaluator, actual: str, expected: object):
    return evaluator.evaluate(EvalTestCase.of("", actual, expected))


@settings(deadline=None)
@pytest.mark.parametrize("tokenize", ["13a", "intl", "char", "zh", "none"])
@pytest.mark.parametrize("lowercase", [False, True])
@given(actual=texts, expected=references)
def test_bleu_equals_sacrebleu(tokenize, lowercase, actual, expected):
    oracle = sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase, effective_order=True)
    score = evaluate(Bleu(tokenize=tokenize, lowercase=lowercase), actual, expected).score
    assert score == pytest.approx(oracle.sentence_score(actual, expected).score / 100, abs=1e-9)


@settings(deadline=None)
@pytest.mark.parametrize("word_order", [0, 2])
@given(actual=texts, expected=references)
def test_chrf_equals_sacrebleu(word_order, actual, expected):
    oracle = sacrebleu.CHRF(word_order=word_order)
    score = evaluate(Chrf(word_order=word_order), actual, expected).score
    assert score == pytest.approx(oracle.sentence_score(actual, expected).score / 100, abs=1e-9)


def test_equal_texts_score_one_and_no_more():
    text = "the quick brown fox jumps over the lazy dog"
    assert evaluate(Bleu(), text, text).score == 1.0
    assert evaluate(Chrf(), text, text).score == 1.0
    assert evaluate(Bleu(), "hello", "hello").score == 1.0


def test_a_short_output_is_penalised():
    assert evaluate(Bleu(), "cat", "the cat sat on the mat").score == pytest.approx(0.0067, abs=1e-4)


def test_bleu_finds_each_word_in_any_reference():
    assert evaluate(Bleu(), "big red cat", ["big red dog", "red cat"]).score > 0.5
    assert evaluate(Bleu(), "big red cat", ["big red dog", "big red cat"]).score == 1.0


@pytest.mark.parametrize("evaluator", [Bleu(), Chrf()], ids=["bleu", "chrf"])
def test_an_empty_output_scores_zero_and_an_empty_expectation_is_an_error(evaluator):
    assert evaluate(evaluator, " ", "the cat").score == 0.0
    assert "blank" in (evaluate(evaluator, "the cat", "").error or "")


def test_wrong_options_are_refused():
    with pytest.raises(ConfigurationError, match=r"Bleu: tokenize must be one of '13a', .*not '13b'"):
        Bleu(tokenize="13b")
    with pytest.raises(
        ConfigurationError, match="Chrf: word_order must be a whole number of at least 0, not -1"
    ):
        Chrf(word_order=-1)


@pytest.mark.parametrize("kind", [Bleu, Chrf])
def test_sacrebleu_is_asked_for_before_anything_runs(kind, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(MissingExtraError, match=r'pip install "dokimos\[nlp\]"'):
        kind()


def test_names_and_thresholds():
    assert (Bleu().name, Bleu().threshold) == ("BLEU", None)
    assert (Chrf().name, Chrf().threshold) == ("chrF", None)


def test_a_long_run_does_not_fill_the_tokenizer_caches():
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
    from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

    before = [kind.__call__.cache_info().currsize for kind in (Tokenizer13a, TokenizerRegexp)]
    evaluate(Bleu(), "a text that no other test has, number 4711", "another such text, number 4712")
    after = [kind.__call__.cache_info().currsize for kind in (Tokenizer13a, TokenizerRegexp)]
    assert after == before


def test_the_reason_tells_precisions_and_lengths():
    result = evaluate(Bleu(), "the cat sat", "the cat sat down")
    assert result.reason == (
        "Of the output's n-grams of 1 to 4 words, 100 / 100 / 100 / 0 % are expected; "
        "its 3 words against 4 give a brevity penalty of 0.72."
    )
