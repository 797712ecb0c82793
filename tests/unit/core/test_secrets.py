"""Keys in texts that are kept or shown."""

import pytest

from dokimos.core.secrets import remember_secret, without_secrets
from dokimos.core.text import LONGEST_ERROR, error_text


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch):
    monkeypatch.setattr("dokimos.core.secrets._given", set())


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "github_token", "CLIENT_SECRET", "DB_PASSWORD"])
def test_what_the_environment_calls_a_secret_is_cut_out(name, monkeypatch):
    monkeypatch.setenv(name, "correct-horse-battery")

    assert without_secrets()("it said correct-horse-battery!") == "it said [secret]!"


@pytest.mark.parametrize("name", ["HOME_PAGE", "KEYBOARD_LAYOUT", "TOKENIZERS_PARALLELISM"])
def test_other_variables_are_not(name, monkeypatch):
    monkeypatch.setenv(name, "correct-horse-battery")

    assert without_secrets()("it said correct-horse-battery!") == "it said correct-horse-battery!"


def test_a_remembered_secret_is_cut_out_and_a_short_one_is_taken_for_a_word():
    remember_secret("correct-horse-battery")
    remember_secret("unused")

    assert without_secrets()("unused: correct-horse-battery") == "unused: [secret]"


def test_of_two_secrets_that_begin_alike_nothing_is_left():
    for length in (16, 20, 18):
        remember_secret("correct-horse-battery-staple"[:length])

    assert without_secrets()("correct-horse-battery-staple"[:20]) == "[secret]"


def test_errors_tell_no_secret_where_they_are_cut_either():
    remember_secret("correct-horse-battery")
    text = error_text(ValueError("x" * (LONGEST_ERROR - 8) + "correct-horse-battery"))

    assert "correct" not in text
    assert error_text(KeyError("correct-horse-battery")) == "KeyError: '[secret]'"
