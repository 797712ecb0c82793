"""JavaScript assertions, run by Node."""

import datetime
import json
import shutil
import subprocess
import textwrap

import pytest

from dokimos._cli.main import run_command
from dokimos.errors import EvaluationError
from dokimos.importers._promptfoo import javascript
from dokimos.importers._promptfoo.javascript import run_javascript
from dokimos.suites import load_suite

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")


@needs_node
@pytest.mark.parametrize(("program", "expected"), [
    ("output.length", 5),
    ("output.includes('ell');", True),
    ("const n = 3; output.length > n", True),
    ("const s = 'a;b'; s === 'a;b'", True),
    ("context.vars.word === 'hello' && context.config.limit", 2),
    ("if (output) {\n  return {pass: false, reason: 'no'};\n}", {"pass": False, "reason": "no"}),
    ("`${output}!`.length", 6),
    ("Promise.resolve(0.5)", 0.5),
    ("(console.log('noise'), 1)", 1),
    ("return output.length", 5),
    ("output.length > 3\n", True),
    ("return output.length;\n", 5),
    ("if (output) { return true } return false", True),
    ("output.length // of all", 5),
    ("(console.log('x'.repeat(2_000_000)), 1)", 1),
    ("({pass: true, reason: 'é'.repeat(500_000)}).pass", True),
    ("context.config.when === '2024-02-29' && context.config.most === 'NaN'", True),
])  # fmt: skip
def test_a_program_gives_a_value(tmp_path, program, expected):
    config = {"limit": 2, "when": datetime.date(2024, 2, 29), "most": float("nan")}
    context = {"vars": {"word": "hello"}, "config": config}

    assert run_javascript(program, tmp_path, "hello", context) == expected


@needs_node
@pytest.mark.parametrize(("program", "problem"), [
    ("output.nothing.at", "TypeError"),
    ("1 +", "SyntaxError"),
    ("'text'", "it returned string"),
    ("0 / 0", "it returned NaN"),
    ("const n = 3", "it returned undefined"),
    ("process.exit(3)", "exit code 3"),
    ("const a = {}; a.a = a", "TypeError: Converting circular"),
    ("({score: 10n})", "TypeError: Do not know how to serialize a BigInt"),
    ("return return 1", "SyntaxError"),
    ("file://absent.js", "absent.js"),
])  # fmt: skip
def test_a_program_that_fails_is_an_error_and_no_score(tmp_path, program, problem):
    with pytest.raises(EvaluationError, match=problem):
        run_javascript(program, tmp_path, "hello", {})


@needs_node
@pytest.mark.parametrize(("name", "content"), [
    ("check.js", "module.exports = (output, context) => output === context.vars.word;"),
    ("check.cjs", "module.exports = (output, context) => output === context.vars.word;"),
    ("check.mjs", "export default async (output, context) => output === context.vars.word;"),
    ("check.js:named", "module.exports = {named: (output, context) => output === context.vars.word};"),
    (" check.js\n", "module.exports = (output, context) => output === context.vars.word;"),
    ("a.js.d/check.js", "module.exports = (output, context) => output === context.vars.word;"),
    ("check.mjs:named", "export function named(output, context) { return output === context.vars.word; }"),
])  # fmt: skip
def test_files_are_run_however_they_export(tmp_path, name, content):
    path = tmp_path / name.strip().partition(":")[0]
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    reference = name.replace(name.strip(), f"file://{name.strip()}")

    assert run_javascript(reference, tmp_path, "héllo", {"vars": {"word": "héllo"}}) is True


@needs_node
def test_a_long_result_arrives_whole(tmp_path):
    program = "console.log('x'.repeat(3_000_000));\nreturn {pass: true, reason: 'é'.repeat(700_000)};"

    assert len(run_javascript(program, tmp_path, "hello", {})["reason"]) == 700_000


@pytest.mark.parametrize("cut", ["{'value': 1", "[1]", ""])
def test_an_answer_that_cannot_be_read_is_an_error_of_the_assertion(tmp_path, monkeypatch, cut):
    def answer(command, *, input, **options):
        return subprocess.CompletedProcess(command, 0, stdout=json.loads(input)["mark"] + cut, stderr="")

    monkeypatch.setattr(javascript.shutil, "which", lambda name: name)
    monkeypatch.setattr(javascript.subprocess, "run", answer)

    with pytest.raises(EvaluationError, match="cannot be read"):
        run_javascript("1", tmp_path, "hello", {})


def test_without_node_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(EvaluationError, match="install Node"):
        run_javascript("true", tmp_path, "hello", {})


@needs_node
def test_a_converted_suite_runs_its_programs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "echo.py").write_text(
        "def call_api(prompt, options, context):\n    return {'output': prompt}\n"
    )
    (tmp_path / "promptfooconfig.yaml").write_text(textwrap.dedent("""
        prompts: ["{% if polite %}Please {% endif %}say {{ word }}"]
        providers: ["file://echo.py"]
        tests:
          - description: "says {{ word }}"
            vars: {word: hi, polite: true}
            assert:
              - {type: javascript, value: "output === `Please say ${context.vars.word}`"}
              - {type: javascript, value: "output.length * 2 / 100", threshold: 0.1}
              - {type: not-javascript, value: "output.includes(' no ') || output.startsWith('no')"}
          - {vars: {word: hi}, assert: [{type: javascript, value: "output === 'say {{ word }}'"}]}
          - {vars: {word: hi}, assert: [{type: javascript, value: "nothing()"}]}
    """))  # fmt: skip

    assert run_command(["import", "promptfoo", "promptfooconfig.yaml"]) == 0
    suite = load_suite("agent.yaml")
    result = suite.experiment().run(journal=False, progress=False)

    items = result.item_results
    assert [item.example.inputs["input"] for item in items] == ["Please say hi", "say hi", "say hi"]
    assert [item.success for item in items[:2]] == [True, True]
    assert items[2].success is not True
    assert "ReferenceError" in items[2].eval_results[0].error
    assert "says hi" in (tmp_path / "agent.yaml").read_text()
