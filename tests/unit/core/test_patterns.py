"""Searches for patterns that people wrote."""

from __future__ import annotations

import re

import pytest

from dokimos._core import patterns
from dokimos._core.patterns import search_within_limit
from dokimos._runtime.search_process import SearchProcessError, search_process
from dokimos.errors import EvaluationError

TEXT = "a" * 40 + "b"


@pytest.fixture
def short_limit(monkeypatch):
    monkeypatch.setattr(patterns, "LIMIT_SECONDS", 0.1)


def test_a_search_finds_what_re_finds():
    assert search_within_limit(re.compile("b+"), "abbc") == (1, 3)
    assert search_within_limit(re.compile("b+"), "abbc", whole=True) is None
    assert search_within_limit(re.compile("ab+c"), "abbc", whole=True) == (0, 4)
    assert search_within_limit(re.compile("x"), "abbc") is None


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("pattern", "flags", "text"),
    [
        ("(a+)+b", 0, TEXT),
        ("(A+)+B", re.IGNORECASE, TEXT),
        ("(?: é | 漢 )+", re.VERBOSE, "é漢" * 10),
        ("(.|x)+z", re.DOTALL, "\n" * 20 + "z"),
        (r"(?:\w|-)+", re.ASCII, "ü" * 20 + "a-b"),
        ("^(?:b|c)+$", re.MULTILINE, "a" * 20 + "\nbc"),
        ("(?:\U0001f600|\ud800)+", 0, "x" * 20 + "\U0001f600\ud800"),
        ("(?:|a)+", 0, "b" * 20),
        ("(?i)(?:a|b)*x", 0, "A" * 16 + "X"),
    ],
)
def test_a_search_in_the_process_means_what_it_means_in_re(pattern, flags, text, whole):
    compiled = re.compile(pattern, flags)
    match = compiled.fullmatch(text) if whole else compiled.search(text)
    found = search_process.search(compiled, text, whole=whole, limit=60)
    assert found == search_within_limit(compiled, text, whole=whole)
    assert found == (match.span() if match else None)


def test_a_pattern_that_never_decides_is_an_error_that_says_what_to_do(short_limit):
    for whole in (False, True):
        with pytest.raises(EvaluationError, match=r"on a text of 41 characters.*\(a\+\+\)\+") as caught:
            search_within_limit(re.compile("(a+)+$"), TEXT, whole=whole)
        assert "The search for '(a+)+$' was stopped after 0.1 s" in str(caught.value)
    assert search_within_limit(re.compile("(a+)+b"), TEXT) == (0, 41)


def test_ordinary_patterns_need_no_process(monkeypatch):
    def refuse(*_args, **_options):
        raise AssertionError("a process was asked")

    monkeypatch.setattr(search_process, "search", refuse)
    page = "Written by ada@example.org on 2026-03-14, 12.5 % more. " * 70
    for pattern in (
        r"\d{4}-\d\d-\d\d",
        r"[\w.+-]+@[\w-]+\.[\w.-]+",
        r"(?i)as an ai",
        r"\d+\.\d+",
        r"(?:yes|no)\b",
    ):
        match = re.search(pattern, page)
        assert search_within_limit(re.compile(pattern), page) == (match.span() if match else None)


def test_without_a_process_the_search_goes_on_here(monkeypatch):
    def refuse(*_args, **_options):
        raise SearchProcessError("no processes here")

    monkeypatch.setattr(search_process, "search", refuse)
    assert search_within_limit(re.compile("(a|b)+"), TEXT) == (0, 41)
