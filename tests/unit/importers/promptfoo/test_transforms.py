"""What changes a reply of promptfoo before assertions look at it."""

import json
import shutil
import textwrap

import pytest

from dokimos._cli.main import run_command
from dokimos.errors import EvaluationError
from dokimos.importers._promptfoo.conversion import convert
from dokimos.importers._promptfoo.reply_transforms import ReplyTransforms, check_value, output_text
from dokimos.suites import load_suite

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "echo.py").write_text("def call_api(prompt, options, context):\n    return prompt\n")
    (tmp_path / "change.py").write_text(
        "import json\n\n"
        "def get_transform(output, context):\n    return json.loads(output)\n\n"
        "def inner(output, context):\n    return output[context['vars'].get('key', 'a')]\n\n"
        "def nothing(output, context):\n    return None\n\n"
        "def broken(output, context):\n    return output.nothing\n"
    )
    return tmp_path


def write(place, text):
    (place / "promptfooconfig.yaml").write_text(textwrap.dedent(text))


def run(place, text):
    """Convert and run a configuration; return the verdicts of its items by metric."""
    write(place, text)
    assert run_command(["import", "promptfoo", "promptfooconfig.yaml", "--strict"]) == 0
    items = load_suite("agent.yaml").experiment().run(journal=False, progress=False).item_results
    return [[result.success for result in item.eval_results] for item in items]


def test_transforms_of_provider_test_and_assertion_follow_each_other(place):
    assert run(place, """
        prompts: ['{{ reply }}']
        providers: [{id: "file://echo.py", transform: "file://change.py"}]
        defaultTest: {options: {transform: "file://change.py:inner"}}
        tests:
          - vars: {reply: '{"a": {"b": ["x", 2]}, "key": 1}'}
            assert:
              - {type: equals, value: {b: [x, 2]}}
              - {type: equals, value: '{"b":["x",2]}'}
              - {type: contains, value: '"x",2'}
              - {type: not-contains, value: key}
              - {type: contains-all, value: [x, "2"]}
              - {type: icontains, value: X}
              - {type: regex, value: '"b":\\['}
              - {type: starts-with, value: '{"b"'}
              - {type: not-starts-with, value: '{"a"'}
              - {type: is-json, value: {required: [b]}}
              - {type: python, value: "output['b'][1] == 2"}
              - {type: latency, threshold: 100000}
          - vars: {reply: '{"n": "${HOME}"}', key: n}
            assert: [{type: equals, value: "${HOME}"}, {type: equals, value: other}]
    """) == [[True] * 12, [True, False]]  # fmt: skip


@needs_node
def test_transforms_in_javascript(place):
    assert run(place, """
        prompts: ['{{ reply }}']
        providers: ["file://echo.py"]
        tests:
          - vars: {reply: ' Hello ', w: World}
            options: {transform: "output.trim()"}
            assert:
              - {type: equals, value: Hello}
              - type: equals
                value: hello world
                transform: "`${output} ${context.vars.w}`.toLowerCase()"
              - {type: javascript, value: "output.length === 5"}
              - {type: javascript, value: "output.length < 6"}
              - {type: javascript, value: "output === 2.5", transform: "output.length / 2"}
              - {type: equals, value: "3", transform: "6 / 2"}
    """) == [[True] * 6]  # fmt: skip


@pytest.mark.parametrize("kind", ["chat", "responses"])
def test_a_schema_of_replies_is_kept_in_either_form(place, kind):
    schema = {"type": "object", "properties": {"a": {"const": "${X}"}}}
    inner = {"name": "n", "schema": "file://schema.json"}
    setting = {"type": "json_schema", **({"json_schema": inner} if kind == "chat" else inner)}
    (place / "schema.json").write_text(json.dumps(schema))
    provider = {"id": f"openai:{kind}:m", "config": {"response_format": setting}}
    write(place, json.dumps({"prompts": ["{{q}}"], "providers": [provider], "tests": [{"vars": {"q": "a"}}]}))

    (suite,) = (result := convert(place / "promptfooconfig.yaml")).suites.values()

    assert suite["response_format"]["properties"] == {"a": {"const": "$${X}"}}
    assert result.notes.lost == {}


def test_what_a_suite_cannot_say_of_a_model_is_listed(place):
    config = {"response_format": {"type": "json_object"}, "tools": [{"type": "function"}], "seed": 1}
    provider = {"id": "openai:m", "config": config}
    write(place, json.dumps({"prompts": ["{{q}}"], "providers": [provider], "tests": [{"vars": {"q": "a"}}]}))

    result = convert(place / "promptfooconfig.yaml")

    assert sorted(result.notes.lost) == [
        "the provider 'openai:m': a tool that is not a function with a schema and a name of its own",
        "the provider 'openai:m': its settings response_format, seed",
    ]


def test_a_test_whose_variables_a_program_makes_is_left_out(place):
    write(place, """
        prompts: ['{{ q }}']
        providers: ["file://echo.py"]
        tests: [{vars: {q: a}}, {vars: {q: b}, options: {transformVars: "({q: 'c'})"}}]
    """)  # fmt: skip
    (suite,) = (result := convert(place / "promptfooconfig.yaml")).suites.values()
    assert [case["input"] for case in suite["test_cases"]] == ["a"]
    assert "--run-programs" in next(iter(result.notes.lost))


@pytest.mark.parametrize(("program", "inputs"), [
    ("file://make.py", ["bb c"]),
    pytest.param("({q: vars.q + '!', extra: 'd'})", ["b! d"], marks=needs_node),
    pytest.param("({q: '{{ extra }}', extra: 'd'})", ["d d"], marks=needs_node),
    pytest.param("return vars.nothing.at", [], marks=needs_node),
    pytest.param("3", [], marks=needs_node),
    ("file://absent.py", []),
])  # fmt: skip
def test_programs_make_variables_where_that_is_allowed(place, program, inputs):
    (place / "make.py").write_text("def get_transform(vars, context):\n    return {'q': vars['q'] * 2}\n")
    test = {"vars": {"q": "b", "extra": "c"}, "options": {"transformVars": program}}
    write(
        place,
        json.dumps({"prompts": ["{{ q }} {{ extra }}"], "providers": ["file://echo.py"], "tests": [test]}),
    )

    (suite,) = (result := convert(place / "promptfooconfig.yaml", runs_programs=True)).suites.values()

    assert [case["input"] for case in suite["test_cases"]] == inputs
    assert bool(result.notes.lost) is not bool(inputs)


@pytest.mark.parametrize("kind", ["llm-rubric", "similar", "levenshtein", "factuality", "word-count"])
def test_a_metric_that_sees_replies_as_they_are_is_lost_beside_a_transform(place, kind):
    write(place, f"""
        prompts: ['{{{{ q }}}}']
        providers: ["file://echo.py"]
        tests:
          - vars: {{q: a}}
            options: {{transform: "output.x"}}
            assert: [{{type: {kind}, value: a}}, {{type: equals, value: a}}]
    """)  # fmt: skip
    (suite,) = (result := convert(place / "promptfooconfig.yaml")).suites.values()
    assert [metric["type"] for metric in suite["evaluations"]["metrics"]] == ["code"]
    assert result.notes.lost == {
        f"{kind}: a transform changes the reply, and this metric sees it as it is": 1
    }


@pytest.mark.parametrize(("program", "problem"), [
    ("file://change.py:nothing", "returned nothing"),
    ("file://change.py:broken", "AttributeError"),
    pytest.param("output.nothing.at", "TypeError", marks=needs_node),
    pytest.param("null", "it returned null", marks=needs_node),
    pytest.param("undefined", "it returned undefined", marks=needs_node),
])  # fmt: skip
def test_a_transform_that_fails_is_an_error_and_no_score(place, program, problem):
    with pytest.raises(EvaluationError, match=problem):
        ReplyTransforms([program], place).apply("text", {})


def test_judged_metrics_of_cases_name_their_judge_and_cases_without_metrics_get_none(place):
    write(place, """
        prompts: ['{{ q }}']
        providers: ["file://echo.py"]
        tests:
          - {vars: {q: a}, assert: [{type: llm-rubric, value: polite}, {type: contains, value: a}]}
          - {vars: {q: b}}
          - {vars: {q: c}, assert: [{type: factuality, value: x}]}
    """)  # fmt: skip
    (suite,) = convert(place / "promptfooconfig.yaml").suites.values()
    assert "evaluations" not in suite
    models = [
        [metric.get("model", {}).get("name") for metric in case["evaluations"]]
        for case in suite["test_cases"]
    ]
    assert models == [["gpt-5-mini", None], [], ["gpt-5-mini"]]


@pytest.mark.parametrize(("output", "text"), [
    ("a", "a"), (2.0, "2"), (2.5, "2.5"), (True, "true"), ({"é": [1, None]}, '{"é":[1,null]}'),
])  # fmt: skip
def test_an_output_is_compared_as_javascript_writes_it(output, text):
    assert output_text(output) == text


@pytest.mark.parametrize(("kind", "value", "output", "passes"), [
    ("equals", {"a": 1}, '{"a": 1}', True),
    ("equals", {"a": 1}, {"a": 2}, False),
    ("equals", [1], "no", False),
    ("equals", 3, 3.0, True),
    ("equals", "", "", True),
    ("contains-any", ["a", "b"], "xb", True),
    ("contains-all", ["a", "b"], "xb", False),
    ("icontains-any", ["A"], "xa", True),
    ("regex", "^x$", "axa", False),
])  # fmt: skip
def test_values_are_compared_as_promptfoo_does(kind, value, output, passes):
    assert check_value(kind, value)(output) is passes
