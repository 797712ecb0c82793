"""Token F1 as on the SQuAD question answering set."""

from __future__ import annotations

import re
import string
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._nlp.token_f1 import TokenF1


def score(actual: str, expected: object, **options: object) -> float | None:
    return TokenF1(**options).evaluate(EvalTestCase.of("", actual, expected)).score


def plain_f1(actual: str, expected: str) -> float:
    """The definition, written out."""

    def words(text: str) -> list[str]:
        text = "".join(char for char in text.lower() if char not in set(string.punctuation))
        return re.sub(r"\b(a|an|the)\b", " ", text).split()

    output, gold = words(actual), words(expected)
    if not output or not gold:
        return float(output == gold)
    shared = sum((Counter(output) & Counter(gold)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(output), shared / len(gold)
    return 2 * precision * recall / (precision + recall)


texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cc"]), max_size=30),
    st.lists(
        st.sampled_from(
            ["the", "A", "an", "cat", "Cat,", "“the", "a—b", "don't", "été", "猫", "\n", "theory"]
        ),
        max_size=12,
    ).map(" ".join),
)


@settings(deadline=None)
@given(texts, texts)
def test_it_is_the_f1_of_the_definition(actual, expected):
    assert score(actual, expected) == pytest.approx(plain_f1(actual, expected), abs=1e-12)


def test_half_of_the_words():
    assert score("Paris, France", "the Paris") == pytest.approx(2 / 3)


def test_case_punctuation_and_articles_do_not_count():
    assert score("The U.S. is a Country!", "us is country") == 1.0


def test_articles_count_when_asked():
    assert score("a mais", "mais", drop_articles=False) == pytest.approx(2 / 3)


def test_repeated_words_count_as_often_as_they_occur():
    assert score("no no no", "no") == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("actual", "expected", "value"), [("", "", 1.0), ("the", "a", 1.0), ("", "x", 0.0), ("x", "", 0.0)]
)
def test_two_empty_texts_agree_and_one_alone_does_not(actual, expected, value):
    assert score(actual, expected) == value


def test_the_best_reference_counts():
    assert score("nineteen", ["19", "nineteen", ""]) == 1.0


def test_other_scripts_are_compared_by_words():
    assert score("Москва это столица", "МОСКВА") == pytest.approx(0.5)


def test_the_reason_names_missing_and_surplus_words():
    result = TokenF1().evaluate(EvalTestCase.of("", "within 60 days", "within 30 days"))
    assert result.reason == (
        "The output has 2 of 3 expected words among its 3; missing: '30'; surplus: '60'."
    )


def test_it_only_informs_unless_a_threshold_is_given():
    case = EvalTestCase.of("", "x", "x")
    assert TokenF1().evaluate(case).success is None
    assert TokenF1(threshold=0.5).evaluate(case).success is True
    assert TokenF1().name == "F1 Score"


def test_a_missing_expected_output_is_an_error():
    result = TokenF1().evaluate(EvalTestCase.of("", "x"))
    assert result.score is None
    assert "requires an expected output" in (result.error or "")


def test_importing_it_loads_no_optional_package():
    modules = ", ".join(f"dokimos.evaluators._nlp.{name}" for name in ("token_f1", "rouge", "bleu", "meteor"))
    code = f"import sys, {modules}; print({{'nltk', 'sacrebleu', 'numpy', 'pydantic'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
