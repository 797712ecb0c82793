"""Keys in texts that are kept or shown."""

import pytest

from dokimos._core.text import LONGEST_ERROR, error_text
from dokimos._runtime.redaction import register_secret, secret_redactor


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.setattr("dokimos._runtime.redaction._registered", set())


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "github_token", "CLIENT_SECRET", "DB_PASSWORD"])
def test_what_the_environment_calls_a_secret_is_cut_out(name, monkeypatch):
    monkeypatch.setenv(name, "correct-horse-battery")

    assert secret_redactor()("it said correct-horse-battery!") == "it said [secret]!"


@pytest.mark.parametrize("name", ["HOME_PAGE", "KEYBOARD_LAYOUT", "TOKENIZERS_PARALLELISM"])
def test_other_variables_are_not(name, monkeypatch):
    monkeypatch.setenv(name, "correct-horse-battery")

    assert secret_redactor()("it said correct-horse-battery!") == "it said correct-horse-battery!"


def test_a_remembered_secret_is_cut_out_and_a_short_one_is_taken_for_a_word():
    register_secret("correct-horse-battery")
    register_secret("unused")

    assert secret_redactor()("unused: correct-horse-battery") == "unused: [secret]"


def test_of_two_secrets_that_begin_alike_nothing_is_left():
    for length in (16, 20, 18):
        register_secret("correct-horse-battery-staple"[:length])

    assert secret_redactor()("correct-horse-battery-staple"[:20]) == "[secret]"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("sk-proj-abcdefgh1jklmnop.", "[secret]"),
        ("sk-learn-is-not-a-key-at-all", "sk-learn-is-not-a-key-at-all"),
        ("Bearer abcdefghijklmnopqrstuvwxyz", "Bearer [secret]"),
        ("Bearer sk-abcdefghijklmnopqrst+uvw", "Bearer [secret]"),
    ],
)
def test_what_looks_like_a_key_is_cut_out(text, shown):
    assert secret_redactor()(text) == shown


def test_many_starts_of_keys_that_are_none_are_kept():
    """Not looked at to the end from each start: that would take half an hour."""
    text = "sk-" * 200_000

    assert secret_redactor()(text) == text


def test_a_huge_error_is_cut_and_says_how_long_it_was():
    assert error_text(ValueError("-" * 1_000_000)).endswith("-… (1000000 characters)")


def test_errors_tell_no_secret_where_they_are_cut_either():
    register_secret("correct-horse-battery")
    text = error_text(ValueError("x" * (LONGEST_ERROR - 8) + "correct-horse-battery"))

    assert "correct" not in text
    assert error_text(KeyError("correct-horse-battery")) == "KeyError: '[secret]'"
