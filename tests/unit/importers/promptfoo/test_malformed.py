"""Configurations of promptfoo that are malformed, odd or hostile."""

import textwrap

import pytest
import yaml

from dokimos._cli.main import run_command
from dokimos.errors import ConfigurationError
from dokimos.importers._promptfoo.conversion import convert

HEAD = "prompts: [hello]\n"


@pytest.fixture
def config(tmp_path):
    def write(text, **files):
        path = tmp_path / "promptfooconfig.yaml"
        path.write_text(HEAD + textwrap.dedent(text), encoding="utf-8")
        for name, content in files.items():
            (tmp_path / name.replace("__", ".")).write_text(content, encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tests: [{vars: 3}]", "vars of a test must be a map or a text, not 3"),
        ("tests: [{vars: {a: 1}, assert: {type: equals}}]", "assert of a test must be a list"),
        ("tests: [{options: quick}]", "options of a test must be a map"),
        ("tests: [{metadata: [a]}]", "metadata of a test must be a map"),
        ("tests: [{}]\ndefaultTest: 3", "defaultTest must be a map, not 3"),
        ("scenarios: 3", "scenarios of .*promptfooconfig.yaml must be a list or a text"),
        ("scenarios: [x]", "a scenario must be a map"),
        ("tests: [{}]\nevaluateOptions: 4", "evaluateOptions of .* must be a map"),
        ("tests: [{}]\nproviders: [{id: 'openai:x', config: 1}]", "config of the provider must be a map"),
        ("tests: [{}]\nproviders: [{id: 'http://x', config: {headers: 1}}]", "headers of .* must be a map"),
        ("tests: [{assert: [{type: bleu, value: a, threshold: high}]}]", "threshold of the assertion bleu"),
        ("tests: [{assert: [{type: bleu, value: a, threshold: true}]}]", "must be a number, not True"),
        ("tests: [{assert: [{type: assert-set, assert: 4}]}]", "assert of the assertion assert-set"),
        ("tests: file://bad.yaml", "bad.yaml cannot be read"),
        ("tests: [{assert: [{type: is-json, value: 'file://bad.yaml'}]}]", "bad.yaml cannot be read"),
        ("tests: file://bad.csv", "__threshold must be a number, not 'much'"),
        ("tests: file://worse.csv", "the threshold of similar must be a number, not '1.2.3'"),
    ],
)
def test_a_part_of_the_wrong_shape_is_named(config, text, message):
    files = {
        "bad__yaml": "a: [",
        "bad__csv": "a,__threshold\nx,much\n",
        "worse__csv": "a,__expected\nx,similar(1.2.3): y\n",
    }

    with pytest.raises(ConfigurationError, match=message):
        convert(config(text, **files))


def test_dates_and_numbers_that_json_lacks_reach_suite_and_module_as_texts(config):
    result = convert(config("""
        tests:
          - vars: {when: 2024-02-29}
            metadata: {since: 2024-02-29}
            assert:
              - {type: equals, value: {on: 2024-02-29}}
              - {type: python, value: "True", config: {since: 2024-02-29, most: .inf}}
              - {type: contains-json, value: {properties: {a: {const: 2024-02-29}}}}
    """))  # fmt: skip

    (case,) = next(iter(result.suites.values()))["test_cases"]
    assert case["ground_truth"] == {"on": "2024-02-29"}
    assert case["metadata"] == {"since": "2024-02-29"}
    assert "config={'since': '2024-02-29', 'most': 'Infinity'}" in result.module
    namespace = {"__file__": __file__}
    exec(compile(result.module, "module", "exec"), namespace)
    assert callable(namespace["python_1"])


def test_a_line_separator_inside_json_lines_divides_nothing(config):
    tests = '{"vars": {"a": "one\u2028two"}}\n{"vars": {"a": "three"}}\n'

    result = convert(config("prompts: ['{{a}}']\ntests: file://t.jsonl", t__jsonl=tests))

    (suite,) = result.suites.values()
    assert [case["input"] for case in suite["test_cases"]] == ["one\u2028two", "three"]


def test_control_characters_in_a_remark_leave_the_suite_readable(config, tmp_path, capsys):
    path = config('tests: [{assert: [{type: contains, value: "{{ a\\0b\\u2028- x: 1 }}"}]}]')
    target = tmp_path / "agent.yaml"

    assert run_command(["import", "promptfoo", str(path), "-o", str(target)]) == 0
    assert set(yaml.safe_load(target.read_text())) >= {"name", "test_cases"}
    assert "cannot be rendered" in capsys.readouterr().out


def test_words_that_old_yaml_takes_for_booleans_are_words(config):
    result = convert(config("""
        prompts: ["{{answer}}"]
        tests: [{vars: {answer: yes}, assert: [{type: equals, value: No}, {type: equals, value: true}]}]
    """))  # fmt: skip

    (case,) = next(iter(result.suites.values()))["test_cases"]
    assert (case["input"], case["ground_truth"]) == ("yes", "No")


def test_a_file_of_data_is_written_as_promptfoo_writes_it(config):
    result = convert(config(
        """
        prompts: ["{{ j }}|{{ y }}|{{ y.a }}{{ j.k }}|{{ t }}"]
        tests: [{vars: {j: 'file://d.json', y: 'file://d.yaml', t: "text\\n"}}]
        """,
        d__json='{"k":  "v"}\n',
        d__yaml="a: 2.0\nb: {2: x, 1: y}\n",
    ))  # fmt: skip

    (case,) = next(iter(result.suites.values()))["test_cases"]
    assert case["input"] == '{"k":  "v"}|{"a":2,"b":{"1":"y","2":"x"}}|2v|text'


def test_the_line_ends_of_a_prompt_are_kept(config, tmp_path):
    (tmp_path / "prompt.txt").write_bytes(b"Say\r\n{{ q }}\r\n")

    result = convert(config('prompts: ["file://prompt.txt"]\ntests: [{vars: {q: hi}}]'))

    (case,) = next(iter(result.suites.values()))["test_cases"]
    assert case["input"] == "Say\r\nhi"


def test_a_long_name_is_not_cut_within_a_variable(config):
    description = "x" * 55 + " {{ env.SOME_NAME }}"

    result = convert(config(f'tests: [{{description: "{description}"}}]'))

    (case,) = next(iter(result.suites.values()))["test_cases"]
    assert case["name"] == "x" * 55
