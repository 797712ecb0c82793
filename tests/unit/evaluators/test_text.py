from __future__ import annotations

import random
import re
import sys
from subprocess import run

import pytest

from dokimos._core.results import EvalResult
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._edit_distance import edit_distance
from dokimos.evaluators._text import Contains, Equality, ExactMatch, Levenshtein, Regex


def judged(evaluator: Evaluator, actual: object, expected: object = None) -> EvalResult:
    result = evaluator.evaluate(EvalTestCase.of("question", actual, expected))
    assert result.error is None
    return result


class TestExactMatch:
    @pytest.mark.parametrize(
        ("actual", "expected"),
        [
            ("Paris", "Paris"),
            (5, "5"),
            ({"a": 1}, '{"a":1}'),
            ("", ""),
            ("日本 🎉", "日本 🎉"),
            (True, "true"),
        ],
    )
    def test_equal_texts_pass(self, actual, expected):
        result = judged(ExactMatch(), actual, expected)
        assert (result.score, result.success) == (1.0, True)

    @pytest.mark.parametrize(
        ("actual", "expected", "why"),
        [
            ("paris", "Paris", "only upper and lower case differ"),
            ("Paris ", "Paris", "only white space differs"),
            ("Par", "Paris", "ends after 3 characters, before 'is'"),
            ("Paris!", "Paris", "continues after character 5 with '!'"),
            ("Pbris", "Paris", "from character 2 on, 'aris' against 'bris'"),
            ("", "Paris", "The output is empty"),
            ("Paris", "", "The expected text is empty"),
            ("é", "e\u0301", "differ from character 1"),
        ],
    )
    def test_other_texts_fail_and_the_reason_says_where_they_part(self, actual, expected, why):
        result = judged(ExactMatch(), actual, expected)
        assert (result.score, result.success) == (0.0, False)
        assert why in result.reason

    def test_a_difference_deep_in_a_long_text_is_found_and_the_texts_are_cut(self):
        common = "x" * 1_000_000
        reason = judged(ExactMatch(), common + "a", common + "b").reason
        assert "from character 1000001 on, 'b' against 'a'" in reason
        assert len(reason) < 500

    def test_an_absent_expected_output_is_an_error_not_a_score(self):
        result = ExactMatch().evaluate(EvalTestCase.of("q", "answer"))
        assert result.score is None
        assert "requires an expected output" in (result.error or "")


class TestEquality:
    @pytest.mark.parametrize(
        ("options", "actual", "expected", "score"),
        [
            ({}, "a", "A", 0.0),
            ({"ignore_case": True}, "STRASSE", "straße", 1.0),
            ({"ignore_case": True}, "ΣΑΣ", "σας", 1.0),
            ({"ignore_case": True}, "i\u0307", "İ", 1.0),
            ({"ignore_case": True}, "I", "İ", 0.0),
            ({"ignore_case": True}, "ﬁt", "FIT", 1.0),
            ({"strip_punctuation": True}, "it's!", "its", 1.0),
            ({"strip_punctuation": True}, "“its”", "its", 0.0),
            ({"strip_punctuation": True}, "a - b", "a b", 0.0),
            ({"strip_punctuation": True, "strip_whitespace": True}, "a - b", "a b", 1.0),
            ({"strip_whitespace": True}, " a\u00a0\u3000b\n", "a b", 1.0),
            ({"strip_whitespace": True}, "a\u200bb", "a b", 0.0),
            ({"strip_whitespace": True}, "\u00e9", "e\u0301", 0.0),
            ({"ignore_case": True}, "1", "1.0", 0.0),
            ({}, True, "True", 0.0),
        ],
    )
    def test_only_what_was_said_not_to_matter_is_ignored(self, options, actual, expected, score):
        assert judged(Equality(**options), actual, expected).score == score


class TestRegex:
    @pytest.mark.parametrize(
        ("options", "output", "score"),
        [
            ({"pattern": r"\d{4}"}, "in 2024.", 1.0),
            ({"pattern": r"\d{4}", "full_match": True}, "in 2024.", 0.0),
            ({"pattern": r"\d{4}", "full_match": True}, "2024", 1.0),
            ({"pattern": "HELLO"}, "hello", 0.0),
            ({"pattern": "HELLO", "ignore_case": True}, "hello", 1.0),
            ({"pattern": "^b"}, "a\nb", 0.0),
            ({"pattern": "(?m)^b"}, "a\nb", 1.0),
            ({"pattern": "sorry", "negate": True}, "sorry, no", 0.0),
            ({"pattern": "sorry", "negate": True}, "yes", 1.0),
            ({"pattern": "^$"}, "", 1.0),
            ({"pattern": '"a":1'}, {"a": 1}, 1.0),
        ],
    )
    def test_scores(self, options, output, score):
        assert judged(Regex(**options), output).score == score

    def test_a_compiled_pattern_is_refused_with_what_to_give_instead(self):
        with pytest.raises(
            ConfigurationError, match=r"not re\.compile\('a'\): give what it was compiled from"
        ):
            Regex(pattern=re.compile("a"))

    def test_the_reasons_name_the_pattern_and_the_text(self):
        assert "matches the pattern 'b+' with 'bb'" in judged(Regex(pattern="b+"), "abbc").reason
        assert "does not match the pattern 'z': 'abc'" in judged(Regex(pattern="z"), "abc").reason
        assert "which it must not" in judged(Regex(pattern="a", negate=True), "abc").reason

    def test_a_wrong_pattern_is_refused_at_once(self):
        with pytest.raises(ConfigurationError, match=r"'\(' is not a regular expression"):
            Regex(pattern="(")

    def test_a_threshold_of_zero_warns_and_points_to_negate(self):
        with pytest.warns(UserWarning, match="use negate=True"):
            Regex(pattern="x", threshold=0)

    def test_a_threshold_of_zero_with_negate_does_not_warn(self, recwarn):
        Regex(pattern="x", threshold=0, negate=True)
        assert not recwarn.list


class TestContains:
    @pytest.mark.parametrize(
        ("options", "score"),
        [
            ({"values": "30 days"}, 1.0),
            ({"values": ["60 days", "30 days"]}, 1.0),
            ({"values": ["60 days", "30 days"], "mode": "all"}, 0.0),
            ({"values": ["Return", "30 days"], "mode": "all"}, 1.0),
            ({"values": ["return", "30 DAYS"], "mode": "all", "ignore_case": True}, 1.0),
            ({"values": ["60 days"], "mode": "none"}, 1.0),
            ({"values": ["60 days", "Return"], "mode": "none"}, 0.0),
        ],
    )
    def test_scores(self, options, score):
        assert judged(Contains(**options), "Return within 30 days.").score == score

    def test_the_reason_and_metadata_name_what_is_missing(self):
        result = judged(Contains(values=["Return", "cash"], mode="all"), "Return within 30 days.")
        assert "lacks 'cash'" in result.reason
        assert result.metadata == {"found": ["Return"], "missing": ["cash"]}

    @pytest.mark.parametrize("options", [{"values": []}, {"values": [""]}, {"values": "a", "mode": "most"}])
    def test_wrong_parameters_are_refused(self, options):
        with pytest.raises(ConfigurationError, match="Contains: "):
            Contains(**options)


class TestLevenshtein:
    @pytest.mark.parametrize(
        ("actual", "expected", "score", "distance"),
        [
            ("sitting", "kitten", 1 - 3 / 7, 3),
            ("", "", 1.0, 0),
            ("abc", "", 0.0, 3),
            ("", "abc", 0.0, 3),
            ("same", "same", 1.0, 0),
            ("日本語", "日本", 1 - 1 / 3, 1),
            ("ab", "ba", 0.0, 2),
        ],
    )
    def test_scores(self, actual, expected, score, distance):
        result = judged(Levenshtein(), actual, expected)
        assert result.score == pytest.approx(score)
        assert result.metadata == {"distance": distance}
        assert result.success is None

    def test_case_can_be_ignored(self):
        assert judged(Levenshtein(ignore_case=True), "ABC", "abc").score == 1.0

    def test_the_distance_is_that_of_the_plain_table(self):
        rng = random.Random(7)
        for _ in range(500):
            a = "".join(rng.choices("abé", k=rng.randint(0, 12)))
            b = "".join(rng.choices("abé", k=rng.randint(0, 12)))
            assert edit_distance(a, b) == _by_table(a, b)

    def test_long_texts_take_no_quadratic_table(self):
        a, b = "ab" * 5_000, "ba" * 5_000
        assert edit_distance(a, b) == 2


def test_importing_the_text_evaluators_loads_nothing_heavy():
    code = (
        "import sys, dokimos.evaluators._text;"
        "print([m for m in ('pydantic', 'jsonschema_rs', 'asyncio', 'aiohttp') if m in sys.modules])"
    )
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _by_table(a: str, b: str) -> int:
    above = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
        above = row
    return above[-1]
