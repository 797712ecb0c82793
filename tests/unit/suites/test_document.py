"""YAML as values with their places."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.suites._document import deep_merge, read_yaml

VARIABLES = {"HOST": "localhost", "COUNT": "3", "EVIL": "x: [1", "EMPTY": ""}


@pytest.fixture
def read(tmp_path):
    def reader(text):
        return read_yaml(tmp_path / "a.yaml", VARIABLES.get, text=text)

    return reader


def test_every_value_knows_its_line_and_column(read):
    document = read("name: x\nmetrics:\n  - type: rag\n    threshold: 2\n")

    location = document.location(("metrics", 0, "threshold"))

    assert (location.line, location.column) == (4, 5)


def test_the_place_of_what_is_not_there_is_that_of_what_is_above(read):
    document = read("metrics:\n  - type: rag\n")

    assert document.location(("metrics", 0, "rag", "metric_type")).line == 2


def test_a_ground_truth_is_text_as_it_stands_in_the_file(read):
    document = read("- ground_truth: 60.940\n- ground_truth: yes\n- ground_truth: 007\n- ground_truth:\n")

    assert [case["ground_truth"] for case in document.value] == ["60.940", "yes", "007", None]


@pytest.mark.parametrize("free", ["args", "turn_config", "params", "metadata", "schema", "ground_truth"])
def test_what_is_the_users_own_keeps_its_kind(read, free):
    document = read(f"- name: 5\n  {free}: {{name: 5, input: 2.5, ground_truth: true}}")

    assert document.value == [{"name": "5", free: {"name": 5, "input": 2.5, "ground_truth": True}}]


def test_a_variable_is_put_into_a_value(read):
    assert read("url: http://${HOST}:${PORT:-80}/").value == {"url": "http://localhost:80/"}


def test_a_variable_can_be_a_number_but_not_in_quotes(read):
    assert read("a: ${COUNT}\nb: '${COUNT}'").value == {"a": 3, "b": "3"}


def test_a_variable_cannot_change_the_structure(read):
    assert read("a: ${EVIL}").value == {"a": "x: [1"}


def test_a_comment_needs_no_variables(read):
    assert read("a: 1  # ${MISSING}").problems == []


def test_an_empty_variable_is_set(read):
    document = read("a: '${EMPTY}'\nb: '${EMPTY:-x}'")

    assert (document.value, document.problems) == ({"a": "", "b": ""}, [])


def test_two_dollars_are_an_escape(read):
    assert read("a: $${HOST}").value == {"a": "${HOST}"}


def test_a_missing_variable_is_named_with_its_place(read):
    (problem,) = read("a: 1\nb: ${MISSING}").problems

    assert (problem.location.line, problem.path) == (2, "b")
    assert "MISSING is not set" in problem.message


def test_a_key_that_is_given_twice_is_a_problem(read):
    (problem,) = read("a: 1\na: 2").problems

    assert problem.message == "the key 'a' is given twice"
    assert problem.location.line == 2


def test_bad_yaml_has_a_line(read):
    (problem,) = read("a: 1\nb: [1, 2").problems

    assert problem.location.line >= 2
    assert "not valid YAML" in problem.message


def test_a_merge_key_takes_over_what_is_not_said(read):
    document = read("base: &base {x: 1, y: 2}\nother: {<<: *base, y: 3}")

    assert document.value["other"] == {"x": 1, "y": 3}


def test_a_file_that_is_not_utf_8_is_a_problem(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: \xff\xfe")

    (problem,) = read_yaml(path, VARIABLES.get).problems

    assert "cannot be read" in problem.message


def test_aliases_that_explode_are_refused(read, monkeypatch):
    monkeypatch.setattr("dokimos.suites._document.MOST_VALUES", 10_000)
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 20)}]" for n in range(1, 6)]

    assert any(
        "too large or too deeply nested" in problem.message for problem in read("\n".join(lines)).problems
    )


TREES = st.recursive(
    st.one_of(st.integers(), st.booleans(), st.none()),
    lambda inner: st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=8,
)


@given(upper=st.dictionaries(st.text("abc", min_size=1), TREES), lower=st.dictionaries(st.text("abc"), TREES))
def test_what_is_above_wins_and_nothing_is_lost(upper, lower):
    result = deep_merge(upper, lower)

    assert set(result) == set(upper) | set(lower)
    assert deep_merge(upper, result) == result
    assert all(result[key] == value for key, value in upper.items() if not isinstance(value, dict))
