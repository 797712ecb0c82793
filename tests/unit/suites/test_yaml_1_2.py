"""Suites are read as YAML 1.2, and their JSON files as JSON."""

import json

import pytest

from dokimos.errors import ConfigurationError
from dokimos.suites._document import read_yaml

METRIC = "evaluations: {metrics: [{type: standard, metric: equality}]}\n"


def test_a_tolerance_of_1e_6_is_a_number(folder):
    suite = folder.suite("""
        evaluations:
          metrics: [{type: standard, metric: numeric, absolute_tolerance: 1e-6}]
        test_cases: [{input: price, ground_truth: 60.94}]
        """)

    assert suite.cases[0].evaluators[0].inner.absolute_tolerance == 1e-6


def test_an_expected_argument_of_1e_7_matches_the_number(folder):
    folder.write(
        "app.py",
        "def call(x):\n    return {'output': x, 'tool_calls': [{'name': 'f', 'arguments': {'x': 1e-7}}]}\n",
    )

    item = folder.item("""
        agent: app:call
        test_cases: [{input: a, expected_tools: [{name: f, args: {x: 1e-7}}]}]
        """)

    assert item.success is True


@pytest.mark.parametrize("word", ["no", "No", "off", "false", "'no'"])
def test_a_field_that_is_boolean_takes_words(folder, word):
    suite = folder.suite(f"""
        evaluations:
          metrics: [{{type: standard, metric: numeric, enabled: {word}, accept_percent: {word}}}]
        test_cases: [{{input: price, ground_truth: 1, skip: {word}}}]
        """)
    (case,) = suite.cases
    (metric,) = case.evaluators

    assert case.skip is None
    assert (metric.disabled, metric.inner.accept_percent) == (True, False)
    assert suite.warnings == ()


def test_a_parameter_of_an_evaluator_takes_words(folder):
    suite = folder.suite("""
        evaluations:
          metrics: [{type: evaluator, name: equality, params: {ignore_case: on}}]
        test_cases: [{input: price, ground_truth: a}]
        """)

    assert suite.cases[0].evaluators[0].inner.ignore_case is True
    assert suite.warnings == ()


def test_skip_takes_yes_for_true_and_any_other_text_for_the_reason(folder):
    suite = folder.suite(METRIC + "test_cases: [{input: a, skip: yes}, {input: b, skip: too slow}]\n")

    assert [case.skip for case in suite.cases] == ["It is marked as skip.", "too slow"]


def test_a_field_that_is_text_takes_a_number_as_it_is_written(folder):
    suite = folder.suite("""
        description: 1e5
        evaluations:
          metrics: [{type: standard, metric: contains, values: 1.10}]
        test_cases: [{input: 1e-6, ground_truth: 012, tags: [1e5, 018, 1.10, no], retrieval_context: [7]}]
        """)
    (case,) = suite.cases

    assert (suite.description, case.tags) == ("1e5", ("1e5", "018", "1.10", "no"))
    assert (case.turns[0].input, case.turns[0].ground_truth) == ("1e-6", "012")
    assert case.turns[0].contexts == ("7",)


def test_a_field_that_is_text_still_refuses_what_is_neither_text_nor_number(folder):
    with pytest.raises(ConfigurationError, match="this must be a text, not True"):
        folder.suite(METRIC + "description: true\ntest_cases: [{input: a}]\n")


def test_variables_of_a_server_keep_what_is_written(tmp_path):
    document = read_yaml(
        tmp_path / "a.yaml", {}.get, text="tools: [{type: mcp, env: {PORT: 0123, DEBUG: no, RATE: 1e5}}]"
    )

    assert document.value["tools"][0]["env"] == {"PORT": "0123", "DEBUG": "no", "RATE": "1e5"}


def test_one_warning_names_both_readings_of_what_yaml_1_1_read_otherwise(folder):
    suite = folder.suite(
        METRIC
        + """
test_cases:
  - input: a
    metadata: {country: no, opens: 18:30, code: 012, rate: 1e-6, quoted: "no", ok: true}
    ground_truth: {open: yes}
  - {input: no, tags: [no], description: no}
""".replace(", description: no", "")
    )

    (warning,) = suite.warnings
    assert "metadata.country: no is the text 'no', and was false in YAML 1.1" in warning
    assert "metadata.opens: 18:30 is the text '18:30', and was 1110 in YAML 1.1" in warning
    assert "metadata.code: 012 is 12, and was 10 in YAML 1.1" in warning
    assert "ground_truth.open: yes is the text 'yes', and was true in YAML 1.1" in warning
    assert "agent.yaml:7:25: test_cases[0].metadata.country" in warning
    assert warning.count("in YAML 1.1") == 4


def test_many_old_readings_are_counted(folder):
    cases = "".join(f"  - {{input: a, metadata: {{on: {n}, x: off}}}}\n" for n in range(30))

    (warning,) = folder.suite(f"{METRIC}test_cases:\n{cases}").warnings

    assert warning.count("was false") == 20
    assert warning.endswith("and 10 more")


def test_files_of_cases_and_includes_are_warned_of_too(folder):
    folder.write("cases.yaml", "- {input: a, metadata: {x: on}}\n")
    folder.write("more.yaml", "agent: {callable: 'app:keyed', params: {k: 017}}\n")
    folder.write("app.py", "def keyed(x, *, k):\n    return x\n")

    (warning,) = folder.suite(METRIC + "include: more.yaml  # agent:\ntest_cases_file: cases.yaml\n").warnings

    assert "cases.yaml:1:28: [0].metadata.x: on is the text 'on'" in warning
    assert "more.yaml:1:44: agent.params.k: 017 is 17, and was 15" in warning


def test_questions_in_a_flow_list_load(folder):
    suite = folder.suite(METRIC + "test_cases: [{input: a, retrieval_context: [What is it?, Where?]}]\n")

    assert suite.cases[0].turns[0].contexts == ("What is it?", "Where?")


def cases_in_json(folder, text, name="cases.json"):
    folder.write(name, "").write_bytes(text.encode("utf-8", "surrogatepass"))
    return folder.suite(f"{METRIC}test_cases_file: {name}\n")


@pytest.mark.parametrize(
    "text",
    [
        '[{"input": "raw \x7f"}]',
        '[{"input"\n: "a"}]',
        json.dumps([{"input": "a", "metadata": {"k" * 2000: 1}}]),
        '[{"input": "\\ud83d\\ude00 \\u00e9 \\/ \t".replace}]'.replace(".replace", "").replace("\t", "\\t"),
        '\ufeff[{"input": "a"}]',
        '\r\n[\r\n{"input":"a"}]\r\n',
    ],
)
def test_json_is_read_as_json(folder, text):
    assert len(cases_in_json(folder, text).cases) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[\n{"input": bad}]', "cases.json:2:11: this is not valid JSON"),
        ('[{"input": "a"},\n {"input": "a",}]', "cases.json:2:1"),
        ('[{"input": "a",\n "input": "b"}]', "cases.json:2:2: [0]: the key 'input' is given twice"),
        ('[{"input": "a", "metadata": {"x":\n NaN}}]', "cases.json:2:2: [0].metadata.x: NaN is not a JSON"),
        ('[{"input": "a", "metadata": {"x": 1e999}}]', "the number 1e999 is too large"),
        ('[{"input": "a", "metadata": {"x": ' + "9" * 5000 + "}}]", "more than 4300 digits"),
        ("[" * 300 + "]" * 300, "nested too deeply"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ("", "cases.json:1:1: this is not valid JSON: it is empty"),
        ("{input: a}", "not valid JSON"),
        ('["a\n"]', "cases.json:1:4: this is not valid JSON: a text must not contain line breaks"),
        ('[{"input": "a", "inptu": 1}]', "cases.json:1:17: test_cases[0].inptu: there is no key 'inptu'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_json_has_the_right_line(folder, text, message):
    with pytest.raises(ConfigurationError) as caught:
        cases_in_json(folder, text)

    assert message in str(caught.value)


def test_a_line_of_jsonl_that_is_wrong_is_named(folder):
    with pytest.raises(ConfigurationError, match=r"cases.jsonl:3:11: this is not valid JSON"):
        cases_in_json(folder, '{"input": "a"}\n\n{"input": bad}\n', "cases.jsonl")


def test_scalars_of_json_keep_their_kinds_and_a_ground_truth_its_digits(folder, monkeypatch):
    monkeypatch.setenv("CITY", "Paris")
    row = '{"input": "${CITY}", "ground_truth": 60.940, "metadata": {"a": 012}}'.replace("012", "12")

    (case,) = cases_in_json(folder, f"[{row}]").cases

    assert (case.turns[0].input, case.turns[0].ground_truth, case.metadata) == ("Paris", "60.940", {"a": 12})


def test_the_schema_of_a_reply_is_read_as_json_where_the_name_says_so(tmp_path):
    from dokimos.suites._agent.agent_plan import response_schema

    (tmp_path / "reply.json").write_text('{"type": "object",\n "properties": {"a": no}}')

    with pytest.raises(ConfigurationError, match=r"reply.json:2:22: this is not valid JSON"):
        response_schema("reply.json", tmp_path)
