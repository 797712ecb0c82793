"""Lines of files with a mark below the place that is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from dokimos import Dataset, DatasetStream
from dokimos._core.excerpt import append_excerpt, format_excerpt
from dokimos._core.json_errors import describe_json_error
from dokimos.errors import ConfigurationError, DatasetError
from dokimos.suites import load_suite

JSON_FAULTS = [
    (
        '{"examples": [\n {"input": "a",}\n]}',
        "take away the comma before the closing }",
        ' {"input": "a",}',
        16,
    ),
    ('{"examples": [\n {"input": "a"},\n]}', "take away the comma before the closing ]", "]}", 1),
    ("[{'input': 1}]", "in double quotes, not in single ones", "[{'input': 1}]", 3),
    ('[{"input" 1}]', "a colon is expected here", '[{"input" 1}]', 11),
    ('[{"input": 1 "id": 2}]', "a comma or a closing bracket", '[{"input": 1 "id": 2}]', 14),
    ('[{"input": "a}]', "no closing quote", '[{"input": "a}]', 12),
    ('[{"input": "a\\q"}]', "a backslash in a text", '[{"input": "a\\q"}]', 14),
    ("[{input: 1}]", "a key in double quotes", "[{input: 1}]", 3),
]


@pytest.mark.parametrize(("text", "said", "line", "column"), JSON_FAULTS)
def test_faults_of_data_files_are_shown_below_the_line(
    text: str, said: str, line: str, column: int, tmp_path: Path
) -> None:
    path = tmp_path / "data.json"
    path.write_text(text)
    with pytest.raises(DatasetError) as raised:
        Dataset.load(path)
    message, source, caret = str(raised.value).splitlines()
    assert said in message
    assert source.partition("| ")[2] == line
    assert caret.index("^") - caret.index("|") - 2 == column - 1


def test_a_line_of_jsonl_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"input": "a"}\n{"input": "b"\n')
    with pytest.raises(DatasetError) as raised:
        Dataset.load(path)
    assert str(raised.value).splitlines()[1:] == ['     2 | {"input": "b"', "       |              ^"]


def test_the_line_is_there_where_only_a_piece_of_the_file_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    rows = ",\n".join('{"input": "%d"}' % number for number in range(200_000))  # noqa: UP031 - braces
    path.write_text(f'[{rows},\n{{"input": oops}}]')
    with pytest.raises(DatasetError) as raised:
        list(Dataset.stream(path))
    assert isinstance(Dataset.stream(path), DatasetStream)
    assert '200001 | {"input": oops}]' in str(raised.value)


YAML_FAULTS = [
    ('name: x\ntest_cases:\n  - {input: "a\n', 3, "the quote that is opened here is not closed", 13),
    ("name: x\n\tagent: y\n", 2, "indent with spaces", 1),
    ("name: a: b\n", 1, "a colon is not allowed here", 8),
    ("test_cases:\n  - input: a\n - input: b\n", 3, "same indentation", 2),
    ("test_cases: [{input: a]\n", 1, "the } of the map is missing", 23),
    ("name: *nobody\n", 1, "no anchor of its name", 7),
    ("name: @x\n", 1, "quote texts that begin with @", 7),
]


@pytest.mark.parametrize(("text", "line", "said", "column"), YAML_FAULTS)
def test_faults_of_suites_are_shown_below_the_line(
    text: str, line: int, said: str, column: int, tmp_path: Path
) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        load_suite(path)
    message, source, caret = str(raised.value).splitlines()
    assert f"suite.yaml:{line}:{column}: this is not valid YAML: " in message
    assert said in message
    assert source.startswith(f"{line:>6} | ")
    assert caret.index("^") - caret.index("|") - 2 == column - 1


def test_carets_stand_below_their_column_in_every_script() -> None:
    shown, caret = format_excerpt("名前: 値, bad: 1\n", 1, 8).splitlines()
    assert shown == "     1 | 名前: 値, bad: 1"
    assert len(caret) == len("     1 | ") + 2 + 2 + 1 + 1 + 2 + 1 + 1 + 1


def test_long_lines_are_shown_around_the_place() -> None:
    shown, caret = format_excerpt("a" * 500 + "!" + "b" * 500, 1, 501).splitlines()
    assert len(shown) < 90
    assert shown[caret.index("^")] == "!"


@pytest.mark.parametrize(
    "line",
    [
        "api_key: hunter2-hunter2",
        '"openai_api_key": "hunter2-hunter2"',
        "headers: {Authorization: Bearer hunter2hunter2hunter2}",
        "{password: hunter2, top_p: 9}",
        "token = hunter2",
        "x: sk-proj-hunter2hunter2hunter2hunter2hunter2hunter2",
    ],
)
def test_keys_and_passwords_are_not_shown(line: str) -> None:
    assert "hunter2" not in format_excerpt(line, 1, 1)


def test_counts_of_tokens_and_variables_are_no_secrets() -> None:
    assert "max_tokens: 500" in format_excerpt("max_tokens: 500", 1, 1)
    assert "${OPENAI_API_KEY}" in format_excerpt("api_key: ${OPENAI_API_KEY}", 1, 1)


def test_nothing_acts_on_the_terminal_and_what_is_not_there_is_not_shown() -> None:
    assert "\x1b" not in format_excerpt("a: \x1b[2J b", 1, 8)
    assert format_excerpt("a", 2, 1) == format_excerpt("a", 0, 1) == format_excerpt("\n\n", 1, 1) == ""
    assert append_excerpt("no", "", 0, 1) == "no"


def test_what_json_says_that_nobody_knows_is_told_as_it_is() -> None:
    import json

    assert describe_json_error(json.JSONDecodeError("Something new", "x", 0)) == "Something new"
