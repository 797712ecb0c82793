"""Instructions: where they come from, their front matter and version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.errors import ConfigurationError
from dokimos.suites._instructions import hash_version, parse_prompt, read_instructions
from dokimos.suites._schema import Instructions


def test_inline_instructions_have_a_mark_of_their_text_as_version(tmp_path):
    prompt = read_instructions(Instructions(inline="Be kind."), tmp_path)

    assert (prompt.text, prompt.version) == ("Be kind.", hash_version("Be kind."))
    assert prompt.version.startswith("auto-")
    assert len(prompt.version) == len("auto-") + 8


def test_front_matter_is_taken_off_and_names_the_version(tmp_path):
    (tmp_path / "prompt.md").write_text("---\nversion: 1.2\nauthor: me\n---\n\n# Be kind\n\n---\nAlways.\n")

    prompt = read_instructions(Instructions(file="prompt.md"), tmp_path)

    assert prompt.text == "# Be kind\n\n---\nAlways."
    assert prompt.version == "1.2"
    assert prompt.front_matter["author"] == "me"


@pytest.mark.parametrize(
    "content", ["Be kind.", "Be kind.\n---\nAlways.", "\ufeffBe kind.", "---\n---\nBe kind."]
)
def test_a_file_without_front_matter_is_versioned_by_its_text(tmp_path, content):
    (tmp_path / "prompt.md").write_text(content, encoding="utf-8")

    prompt = read_instructions(Instructions(file="prompt.md"), tmp_path)

    assert prompt.text.startswith("Be kind.")
    assert prompt.version == hash_version(prompt.text)


def test_the_same_text_has_the_same_version_with_or_without_front_matter():
    assert parse_prompt("---\nauthor: me\n---\nBe kind.").version == parse_prompt("Be kind.").version


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("---\n[1, 2]\n---\nBe kind.", "must be a map"),
        ("---\na: [1\n---\nBe kind.", "not valid YAML"),
        ("---\nversion: 1\n---\n\n", "no instructions"),
        ("  \n", "no instructions"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path, content, why):
    (tmp_path / "prompt.md").write_text(content)

    with pytest.raises(ConfigurationError, match=f"prompt.md: .*{why}"):
        read_instructions(Instructions(file="prompt.md"), tmp_path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="there is no file"):
        read_instructions(Instructions(file="none.md"), tmp_path)


@given(st.text())
def test_no_text_is_too_strange_to_be_read(text):
    try:
        prompt = parse_prompt(text)
    except ConfigurationError:
        return

    assert prompt.text.strip()
    assert prompt.version


def test_a_version_is_what_is_written(tmp_path):
    (tmp_path / "prompt.md").write_text("---\nversion: 1.10\ndate: 2024-01-31\nlive: no\n---\nBe kind.\n")

    prompt = read_instructions(Instructions(file="prompt.md"), tmp_path)

    assert (prompt.version, prompt.front_matter["date"], prompt.front_matter["live"]) == (
        "1.10",
        "2024-01-31",
        "no",
    )
