"""Loading suites: faults told together, files of cases, includes, configuration."""

import subprocess
import sys

import pytest

from dokimos.errors import ConfigurationError
from dokimos.suites import _files as files

METRICS = """
evaluations:
  metrics: [{type: standard, metric: equality}]
"""


def refusal_of(folder, text):
    with pytest.raises(ConfigurationError) as error:
        folder.suite(text)
    return str(error.value)


def test_a_key_that_is_misspelled_is_one_problem_and_one_that_is_missing_another(folder):
    message = refusal_of(
        folder,
        """
        test_cases:
          - {name: first, turns: [{inptu: x}, {tags: [x]}]}
        """,
    )

    assert "test_cases[0].turns[0].inptu: there is no key 'inptu'. Did you mean 'input'?" in message
    assert "turns[0].input" not in message
    assert "test_cases[0].turns[1].input: this is missing" in message


def test_all_faults_of_a_file_are_told_together_with_line_and_column(folder):
    message = refusal_of(
        folder,
        """
        evaluatons: {}
        evaluations:
          metrics:
            - {type: standard, metric: numerc}
            - {type: gval}
        test_cases:
          - {name: first, inputt: x}
        """,
    )

    assert "4 problems" in message
    assert "agent.yaml:3:1: evaluatons: there is no key 'evaluatons'. Did you mean 'evaluations'?" in message
    assert "Did you mean 'numeric'?" in message
    assert "invalid metric type; valid types are standard" in message
    assert "test_cases[0].inputt: there is no key 'inputt'. Did you mean 'input'?" in message
    assert "(case 'first')" in message


def test_faults_within_each_other_hide_nothing(folder):
    message = refusal_of(
        folder,
        """
        evaluations: {metrics: [{type: code, grader: "nowhere:grade"}]}
        test_cases:
          - {input: a, expected_tools: {tools: [{nam: x}]}}
          - {input: b, turns: [{input: b, evaluations: [{type: standard, metric: nope}]}]}
        """,
    )

    assert "nowhere:grade" in message
    assert "test_cases[0].expected_tools.tools[0].nam: there is no key 'nam'" in message
    assert "test_cases[1].turns[0].evaluations[0].metric" in message
    assert "test_cases[1]: a case with turns" in message


def test_a_missing_key_is_named(folder):
    message = refusal_of(folder, "evaluations:\n  metrics: [{type: geval, criteria: Good.}]\n")

    assert "evaluations.metrics[0].name: this is missing" in message


def test_a_missing_variable_does_not_hide_other_faults(folder):
    message = refusal_of(folder, "test_cases:\n  - input: ${NO_SUCH_VARIABLE}\n  - inptu: y\n")

    assert "NO_SUCH_VARIABLE is not set" in message
    assert "Did you mean 'input'?" in message


@pytest.mark.parametrize("value", ["[1, 2]", "just text", "3"])
def test_a_suite_that_is_no_map_is_refused(folder, value):
    from dokimos.suites import load_suite

    with pytest.raises(ConfigurationError, match="a suite is a map"):
        load_suite(folder.write("agent.yaml", value))


def test_a_suite_that_is_not_there_is_refused(folder):
    from dokimos.suites import load_suite

    with pytest.raises(ConfigurationError, match="There is no suite"):
        load_suite(folder.path / "none.yaml")


def test_turns_and_an_input_exclude_one_another(folder):
    message = refusal_of(folder, "test_cases:\n  - {input: a, expected_tools: [], turns: [{input: b}]}\n")

    assert "a case with turns has no input, expected_tools of its own" in message


def test_a_declared_agent_loads_without_its_framework(folder):
    script = "import sys; from dokimos.suites import load_suite; suite = load_suite('agent.yaml'); "
    script += "print(suite.agent, 'pydantic_ai' in sys.modules)"
    folder.suite(
        "model: {provider: openai, name: gpt-5-mini}\ninstructions: {inline: Help.}\ntest_cases: []\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder.path, capture_output=True, text=True, check=True
    )

    assert done.stdout == "openai:gpt-5-mini False\n"


def test_what_declares_an_agent_has_no_effect_beside_one_of_your_own(folder):
    suite = folder.suite("agent: app:answer\ninstructions: {inline: Help.}\ntest_cases: []\n")

    assert any("instructions has no effect beside agent:" in warning for warning in suite.warnings)


def test_something_has_to_be_tested(folder):
    assert "say what is tested" in refusal_of(folder, "agent:\ntest_cases: []\n")


def test_blocks_outside_evaluation_load_with_a_warning(folder):
    suite = folder.suite("claude: {max_turns: 3}\ndeployment: {port: 80}\ntest_cases: []\n")

    assert [warning.partition(": ")[2] for warning in suite.warnings] == [
        "the block claude is outside evaluation and has no effect.",
        "the block deployment is outside evaluation and has no effect.",
    ]


def test_cases_of_one_name_are_told_apart(folder):
    suite = folder.suite("test_cases: [{name: a, input: x}, {name: a, input: y}, {input: z}]\n")

    assert [case.id for case in suite.cases] == ["a", "a (2)", "case 3"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cases.yaml", "- {name: one, input: x, ground_truth: 60.940}\n"),
        ("cases.yml", "test_cases:\n  - {name: one, input: x, ground_truth: 60.940}\n"),
        ("cases.json", '{"test_cases": [{"name": "one", "input": "x", "ground_truth": "60.940"}]}'),
        ("cases.jsonl", '\n{"name": "one", "input": "x", "ground_truth": "60.940"}\n'),
        ("cases.csv", "name,input,ground_truth\none,x,60.940\n"),
    ],
)
def test_cases_can_come_from_a_file(folder, name, content):
    folder.write(f"data/{name}", content)

    (case,) = folder.suite(f"test_cases_file: data/{name}\n").cases

    assert (case.id, case.turns[0].input, case.turns[0].ground_truth) == ("one", "x", "60.940")


def test_characters_that_json_writes_in_two_halves_are_whole(folder):
    folder.write("cases.jsonl", r'{"input": "\ud83d\ude00", "ground_truth": "\u00e9"}')

    (case,) = folder.suite("test_cases_file: cases.jsonl\n").cases

    assert (case.turns[0].input, case.turns[0].ground_truth) == ("😀", "é")


@pytest.mark.parametrize("name", ["cases.jsonl", "cases.csv", "cases.yaml"])
def test_a_file_of_cases_that_is_no_text_is_refused(folder, name):
    folder.write(name, "").write_bytes(b"input\n\xff\xfe\n")

    assert "cannot be read" in refusal_of(folder, f"test_cases_file: {name}\n")


def test_cases_can_come_from_several_files(folder):
    folder.write("a.yaml", "[{input: x}]")
    folder.write("b.csv", "input,tags,topic\ny,slow|new,sums\n")

    suite = folder.suite("test_cases_file: [a.yaml, b.csv]\n")

    assert [case.turns[0].input for case in suite.cases] == ["x", "y"]
    assert suite.cases[1].tags == ("slow", "new")
    assert suite.cases[1].metadata == {"topic": "sums"}


def test_a_suite_names_the_experiment_and_the_metadata_of_its_runs(folder):
    metadata = "metadata: {matrix: [prompt], prompt: short, k: 3, suite: mine, agent: mine}\n"
    rest = f"{metadata}agent: app:answer\ntest_cases: [{{input: x}}]\n"
    suite = folder.suite(f"experiment: grid\n{rest}")

    plan = suite.experiment()

    assert plan.name == "grid"
    assert (plan.metadata["matrix"], plan.metadata["prompt"], plan.metadata["k"]) == (["prompt"], "short", 3)
    # What was run stands as it is, whatever the file says.
    assert (plan.metadata["suite"], plan.metadata["agent"]) == (suite.path.name, suite.agent)
    assert folder.suite(rest).experiment().name == suite.name


ACCEPTED = '[{"name": "lookup", "args": {"city": {"one_of": ["Rome", "Paris"]}}}]'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cases.csv", 'input,expected_tools\nx,"' + ACCEPTED.replace('"', '""') + '"\n'),
        ("cases.jsonl", f'{{"input": "x", "expected_tools": {ACCEPTED}}}\n'),
        ("cases.json", f'[{{"input": "x", "expected_tools": {ACCEPTED}}}]'),
        (
            "cases.yaml",
            "- {input: x, expected_tools: [{name: lookup, args: {city: {one_of: [Rome, Paris]}}}]}",
        ),
    ],
)
def test_accepted_values_are_read_from_every_kind_of_file(folder, name, text):
    folder.write(name, text)
    item = folder.item(f"agent: 'app:with_tools'\ntest_cases_file: {name}\n")
    assert item.success is True
    folder.write(name, text.replace("Paris", "Oslo"))
    item = folder.item(f"agent: 'app:with_tools'\ntest_cases_file: {name}\n")
    assert "city is 'Paris', expected one of 'Rome', 'Oslo'" in item.eval_results[0].reason


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            '"[{""name"": ""lookup"","',
            "cases.csv:2:1: the cell of 'expected_tools' is neither JSON nor names",
        ),
        (
            '"[{""name"": ""lookup"", ""args"": {""a"": {""one_of"": []}}}]"',
            "test_cases[0].expected_tools: one_of takes a list",
        ),
        ('"{""tools"": [""lookup""], ""exacd"": true}"', "there is no key 'exacd'"),
    ],
)
def test_a_cell_of_expected_tools_that_cannot_be_read_is_told_with_its_line(folder, cell, message):
    folder.write("cases.csv", f"input,expected_tools\nx,{cell}\n")
    with pytest.raises(ConfigurationError) as caught:
        folder.suite("test_cases_file: cases.csv\n")
    assert message in str(caught.value)


def test_a_fault_in_a_file_of_cases_is_told_with_that_file(folder):
    folder.write("cases.jsonl", '{"input": "x"}\n{"inputs": "y"}\n')

    assert "cases.jsonl:2:" in refusal_of(folder, "test_cases_file: cases.jsonl\n")


def test_an_empty_file_of_cases_has_none(folder):
    folder.write("cases.yaml", "")

    assert folder.suite("test_cases:\ntest_cases_file: cases.yaml\n").cases == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "test_cases: [{input: x}]\ntest_cases_file: a.yaml\n",
            "give test_cases or test_cases_file, not both",
        ),
        ("test_cases_file: none.yaml\n", "there is no file"),
        ("test_cases_file: ''\n", "takes the name of a file"),
        ("test_cases_file: 3\n", "takes the name of a file"),
        ("test_cases_file: scalar.yaml\n", "a file of cases is a list"),
        ("include: scalar.yaml\n", "scalar.yaml is not a map"),
        ("include: agent.yaml\n", "includes itself"),
    ],
)
def test_a_wrong_reference_to_a_file_is_refused(folder, text, message):
    folder.write("a.yaml", "[]")
    folder.write("scalar.yaml", "just text")

    assert message in refusal_of(folder, text)


def test_an_include_stands_under_the_file(folder):
    folder.write("shared/base.yaml", "execution: {llm_timeout: 5, parallel_test_cases: 3}\n" + METRICS)

    suite = folder.suite("include: shared/base.yaml\nexecution: {llm_timeout: 9}\ntest_cases: [{input: a}]\n")

    assert (suite.timeout, suite.parallelism) == (9, 3)
    assert [evaluator.name for evaluator in suite.cases[0].evaluators] == ["equality"]


def test_an_included_file_may_name_a_file_of_cases(folder):
    folder.write("shared/base.yaml", "test_cases_file: cases.jsonl\n")
    folder.write("shared/cases.jsonl", '{"name": "shared", "input": "x"}\n')

    (case,) = folder.suite("include: shared/base.yaml\n").cases

    assert case.name == "shared"


@pytest.mark.parametrize("own", ["test_cases: [{name: own, input: x}]", "test_cases_file: own.jsonl"])
@pytest.mark.parametrize("shared", ["test_cases: [{input: y}, {input: z}]", "test_cases_file: cases.jsonl"])
def test_cases_of_a_suite_replace_those_of_what_it_includes(folder, own, shared):
    folder.write("own.jsonl", '{"name": "own", "input": "x"}\n')
    folder.write("base.yaml", f"{shared}\n")
    folder.write("cases.jsonl", '{"input": "y"}\n{"input": "z"}\n')

    assert [case.name for case in folder.suite(f"include: base.yaml\n{own}\n").cases] == ["own"]


def test_a_chain_of_includes_has_an_end(folder):
    for number in range(30):
        folder.write(f"{number}.yaml", f"include: {number + 1}.yaml\n")

    assert "is below 20 other includes; use fewer" in refusal_of(folder, "include: 0.yaml\n")


def test_a_fault_in_an_include_is_told_with_that_file(folder):
    folder.write("base.yaml", "execution:\n  llm_timeout: -1\n")

    assert "base.yaml:2:3: execution.llm_timeout" in refusal_of(folder, "include: base.yaml\n")


def test_settings_come_from_suite_project_user_and_environment_in_this_order(folder, tmp_path, monkeypatch):
    user = tmp_path / "home" / ".dokimos" / "config.yml"
    user.parent.mkdir(parents=True)
    user.write_text("execution: {llm_timeout: 2, parallel_test_cases: 2, retries: 2}\n")
    folder.write("config.yml", "execution: {llm_timeout: 3, parallel_test_cases: 3}\n")
    monkeypatch.setenv("DOKIMOS_QUIET", "yes")
    monkeypatch.setenv("DOKIMOS_LLM_TIMEOUT", "1")

    suite = folder.suite("execution: {llm_timeout: 4}\ntest_cases: []\n")

    assert (suite.timeout, suite.parallelism, suite.retries, suite.quiet) == (4, 3, 2, True)


def test_a_wrong_value_in_the_configuration_is_told_with_its_place(folder):
    folder.write("config.yml", "execution:\n  llm_timeout: soon\n")

    assert "config.yml:2:3: execution.llm_timeout: this must be a number, not 'soon'." in refusal_of(
        folder, "execution: {retries: 1}\ntest_cases: []\n"
    )


@pytest.mark.parametrize("variable", ["DOKIMOS_LLM_TIMEOUT", "HOLODECK_LLM_TIMEOUT"])
def test_a_time_limit_from_the_environment_may_have_a_fraction(folder, monkeypatch, variable):
    monkeypatch.setenv(variable, "0.5")

    assert folder.suite("test_cases: []\n").timeout == 0.5


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("DOKIMOS_LLM_TIMEOUT", "soon", "must be a number above 0, not 'soon'"),
        ("HOLODECK_FILE_TIMEOUT", "-1", "must be a number above 0, not '-1'"),
        ("DOKIMOS_DOWNLOAD_TIMEOUT", "nan", "must be a number above 0, not 'nan'"),
        ("DOKIMOS_PARALLEL_TEST_CASES", "1.5", "must be a whole number above 0, not '1.5'"),
    ],
)
def test_a_variable_that_is_no_number_is_refused(folder, monkeypatch, variable, value, told):
    monkeypatch.setenv(variable, value)

    assert f"The variable {variable} {told}." in refusal_of(folder, "test_cases: []\n")


def test_a_typo_in_the_configuration_is_refused(folder):
    folder.write("config.yaml", "providrs: {}\n")

    assert "config.yaml:1:1: providrs: there is no key 'providrs'. Did you mean 'providers'?" in refusal_of(
        folder, "test_cases: []\n"
    )


def test_a_model_takes_over_what_is_configured_for_its_provider(folder):
    folder.write("config.yml", "providers: {openai: {base_url: 'http://localhost:1/v1', temperature: 0.7}}\n")

    suite = folder.suite(
        """
        evaluations:
          model: {provider: openai, name: m, temperature: 0.1}
          metrics: [{type: geval, name: Good, criteria: It is good.}]
        test_cases: [{input: x}]
        """
    )

    judge = suite.cases[0].evaluators[0].inner.judge
    assert (judge.base_url, judge.temperature) == ("http://localhost:1/v1", 0.1)


def test_variables_come_from_env_files_too(folder, monkeypatch):
    monkeypatch.delenv("DOKIMOS_TEST_QUESTION", raising=False)
    folder.write(".env", "# a comment\nexport DOKIMOS_TEST_QUESTION='what is it?'  # why\n")

    suite = folder.suite("test_cases: [{input: '${DOKIMOS_TEST_QUESTION}'}]\n")

    assert suite.cases[0].turns[0].input == "what is it?"


def test_the_environment_wins_over_env_files(folder, monkeypatch):
    monkeypatch.setenv("DOKIMOS_TEST_QUESTION", "this")
    folder.write(".env", "DOKIMOS_TEST_QUESTION=that\n")

    assert (
        folder.suite("test_cases: [{input: '${DOKIMOS_TEST_QUESTION}'}]\n").cases[0].turns[0].input == "this"
    )


def test_files_are_looked_up_where_they_are_named(folder):
    folder.write("data/notes.txt", "It is cold.")
    folder.write("data/cases.yaml", "[{input: x, files: [{path: notes.txt, type: text}]}]")

    (case,) = folder.suite("test_cases_file: data/cases.yaml\n").cases

    assert case.turns[0].files[0]["path"] == str(folder.path / "data" / "notes.txt")
    assert case.examples()[0].inputs["files"] == [{"path": "notes.txt", "type": "text"}]


def test_a_file_that_is_not_there_is_refused(folder):
    message = refusal_of(folder, "test_cases: [{input: x, files: [{path: none.txt, type: text}]}]\n")

    assert "test_cases[0].files[0].path: there is no file" in message


def test_the_json_schema_knows_all_blocks():
    from dokimos.evaluators._json_schema import compile_schema, schema_text
    from dokimos.suites._schema import json_schema

    schema = json_schema()

    assert {"name", "agent", "evaluations", "test_cases"} <= set(schema["properties"])
    assert compile_schema(schema_text(schema), check_formats=False) is not None


def test_faults_of_values_hide_none_of_what_other_parts_name(folder):
    folder.write("other.py", "x = 1\n")
    message = refusal_of(
        folder,
        """
            evaluations:
              metrics:
                - {type: standard, metric: numerc}
                - {type: standard, metric: numeric, tolerance: 1}
                - {type: code, grader: "other:missing"}
            test_cases:
              - {input: a, tags: none}
              - input: b
                expected_tools: [{nme: a}, {name: c, args: {k: {regex: "("}}}]
              - turns: [{inptu: a}, {input: b, files: [{path: no.pdf, type: pdf}]}]
        """,
    )

    lines = message.splitlines()
    paths = [line.split(": ")[1] for line in lines if line.startswith("  /")]
    assert lines[0] == "8 problems in the suite:"
    assert paths == [
        "evaluations.metrics[0].metric",
        "evaluations.metrics[1].tolerance",
        "evaluations.metrics[2].grader",
        "test_cases[0].tags",
        "test_cases[1].expected_tools[0].nme",
        "test_cases[1].expected_tools[1].args.k",
        "test_cases[2].turns[0].inptu",
        "test_cases[2].turns[1].files[0].path",
    ]


def test_the_places_of_a_file_of_cases_are_read_once(folder, monkeypatch):
    reads = []

    class Locations(dict):
        def items(self):
            reads.append(len(self))
            return super().items()

    cases_of = files._cases_of

    def counted(path, lookup):
        document = cases_of(path, lookup)
        document.locations = Locations(document.locations)
        return document

    monkeypatch.setattr(files, "_cases_of", counted)
    folder.write("cases.jsonl", '{"input": "2 + 2"}\n' * 50)

    assert len(folder.suite("test_cases_file: cases.jsonl\n").cases) == 50
    assert len(reads) == 1


def test_a_column_that_is_a_slip_is_refused_with_the_way_to_keep_it(folder):
    folder.write("cases.csv", "input,ground_thruth,retreival_context\na,b,c\n")

    with pytest.raises(ConfigurationError) as caught:
        folder.suite("test_cases_file: cases.csv\n")

    assert "cases.csv:1:1: 'ground_thruth' is not a known column. Did you mean 'ground_truth'?" in str(
        caught.value
    )
    assert "call it 'metadata.ground_thruth'" in str(caught.value)
    assert "Did you mean 'retrieval_context'?" in str(caught.value)


def test_a_column_can_be_kept_as_metadata(folder):
    folder.write("cases.csv", "input,metadata.ground_thruth,date,answers\na,b,c,d\n")

    suite = folder.suite("test_cases_file: cases.csv\n")

    assert suite.cases[0].metadata == {"ground_thruth": "b", "date": "c", "answers": "d"}
    assert suite.warnings == ()


def test_of_a_column_that_is_similar_there_is_a_warning(folder):
    folder.write("cases.csv", "input,ground_truth,ground_truths\na,b,c\n")
    folder.write("others.csv", "input,ground_truth2\na,b\n")

    suite = folder.suite("test_cases_file: [cases.csv, others.csv]\n")

    assert [case.metadata for case in suite.cases] == [{"ground_truths": "c"}, {"ground_truth2": "b"}]
    (warning,) = suite.warnings
    assert (
        "others.csv:1:1: the column 'ground_truth2' becomes metadata; it is similar to 'ground_truth'"
        in warning
    )
