"""An upper bound on what a search may take."""

from __future__ import annotations

import re

import pytest

from dokimos._core.pattern_cost import longest_safe_text


def safe(pattern: str, flags: int = 0, *, whole: bool = False) -> int:
    return longest_safe_text(re.compile(pattern, flags), whole=whole)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(?:a*)*b",
        "(a|a)*$",
        "(a|aa)+$",
        "(a?)+b",
        "(a?){40}a{40}",
        "(?=(a+)+b)",
        "((a?)*?)*?b",
        "([a-z]{1,9})+1",
        r"(\w+\s?)*$",
        r"(?P<word>\w|\d)+$",
        "(?<!x)(?:a|b|ab)*c",
        "[(](a+)+$",
        r"\((a+)+$",
        "[]a](?:a+)+$",
        "(?#repeats: a+)(a+)+$",
        "(?x) ( a + ) + $ # a comment with ( and [",
        "(?x) (?: a | [ #] )* $",
        "x(?i:(a+)+)$",
        "(a+)(?#a comment is not what repeats)+$",
        "(?x) (a+) (?#one) # two\n +$",
        r"(\x61+a)+$",
        r"(\u0061+a)+$",
        r"(\U00000061+a)+$",
        r"(\141+a)+$",
    ],
)
def test_what_may_be_exponential_is_safe_on_short_texts_only(pattern):
    assert safe(pattern) < 30


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        ("a+b", 4_000, 20_000),
        (".*foo.*", 100, 2_000),
        ("a*a*a*a*b", 10, 100),
        (r"\d+.\d+", 100, 2_000),
        ("(?i)a+b", 4_000, 20_000),
        ("a+@(?#may be absent)?a+@(?#too)?a+b", 16, 300),
        ("(?x) a+ @ ? a+ @ ? a+b", 16, 300),
        (r"(.+)\1z", 100, 1_000),
        ("(?P<n>.+)(?P=n)z", 100, 1_000),
    ],
)
def test_repeats_in_a_row_count_as_a_polynomial(pattern, least, most):
    assert least <= safe(pattern) <= most


@pytest.mark.parametrize(
    "pattern",
    [
        "plain text",
        r"\d{4}-\d{2}-\d{2}",
        "(?i)as an ai",
        "^(?:yes|no)$",
        r"(\d{1,3}\.){3}\d{1,3}",
        r"[a+*(]\+\*\(",
        "{}x{y}",
        "(?P<q>['\"])x(?P=q)",
    ],
)
def test_what_repeats_seldom_is_safe_on_long_texts(pattern):
    assert safe(pattern) > 1_000_000


@pytest.mark.parametrize("pattern", ["(a++)+$", "(?>a+)+$", r"(?:\w+,)*x", r"[\w.]+@\w+\.\w+"])
def test_possessive_atomic_and_delimited_repeats_have_one_way(pattern):
    assert safe(pattern) >= 256
    assert safe(pattern, whole=True) >= 4_096


def test_a_delimiter_that_differs_in_case_only_is_none():
    assert safe("[a-z]+X[a-z]+Y") > safe("[a-z]+X[a-z]+Y", re.IGNORECASE)


def test_what_the_reader_does_not_know_is_never_safe():
    assert safe("(?x:a b)") == 0
    assert safe("(?s-i:.+)x") == 0
    assert safe("(a)?(?(1)b|c)") > 0


@pytest.mark.parametrize(
    ("pattern", "letter"),
    [
        ("a*a*b", "a"),
        ("a*a*a*b", "a"),
        ("(a|a)*b", "a"),
        ("(a+)+b", "a"),
        (r"(\w\s?)*x", "a"),
        ("(a?){9}a{9}b", "a"),
    ],
)
def test_the_bound_holds(pattern, letter):
    """At the length that counts as safe, a search that fails takes seconds at the very most."""
    assert re.search(pattern, letter * safe(pattern)) is None
