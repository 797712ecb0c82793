"""Nothing of what we print, pipe or log acts on a terminal."""

import ast
from pathlib import Path

import pytest

import dokimos
from dokimos._cli.main import main, run_command
from dokimos._runtime import interrupts

SOURCE = Path(dokimos.__file__).parent
WAYS = {"_cli/echo.py", "_runtime/terminal_text.py", "reporting/_terminal.py"}
"""The modules that print."""
DIRECT = {
    "click.echo", "click.secho", "click.echo_via_pager", "print", "Console",
    "sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer.write", "sys.stderr.buffer.write",
    "traceback.print_exc", "traceback.print_exception", "error.show", "rich.print",
}  # fmt: skip
SHOWN = {
    "warnings.warn", "terminal.line", "terminal.write", "_log.warning", "_log.info", "_log.error",
    "_log.debug", "_log.exception", "pytest.UsageError",
}  # fmt: skip
"""Ways to a terminal that others own: what goes there is made visible at once."""

HOSTILE = "\x1b[2J\x9b1m\u202e\u200b\x00100 % passed"
ESCAPED = "\\u001b[2J\\u009b1m\\u202e\\u200b\\u0000100 % passed"
ACTING = ("\x1b[2J", "\x9b", "\u202e", "\u200b", "\x00")


def calls(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_prints_by_itself(path):
    name = path.relative_to(SOURCE).as_posix()
    for function, call in calls(path):
        assert function not in DIRECT or name in WAYS, (
            f"{name}:{call.lineno} prints past `escape_control_characters`"
        )
        if function in SHOWN:
            texts = [a for a in call.args if not isinstance(a, ast.Constant | ast.Name)]
            assert all("escape_control_characters(" in ast.unparse(text) for text in texts), (
                f"{name}:{call.lineno}"
            )


@pytest.fixture
def hostile_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evals.py").write_text(
        f"""
from dokimos import Dataset, Evaluator, Example, Experiment, Score
from dokimos.evaluators import evaluator

HOSTILE = {HOSTILE!r}

@evaluator(name=f"Judge {{HOSTILE}}", threshold=0.5)
def check(actual_output):
    if actual_output == "bad":
        raise ValueError(HOSTILE)
    return Score(0.0, f"because {{HOSTILE}}")

data = Dataset(
    [Example.of(HOSTILE, HOSTILE, id=f"id {{HOSTILE}}", tag=HOSTILE), Example.of("bad", "x", id="b", tag="t"),
     Example.of("raise", "x", id="c", tag="t")], name=f"data {{HOSTILE}}")

def task(example):
    if example.input == "raise":
        raise RuntimeError(HOSTILE)
    return example.input

experiment = Experiment(data, task, [check], name=f"name {{HOSTILE}}", metadata={{"note": HOSTILE}})

def refuse():
    raise ValueError(HOSTILE)
"""
    )
    return tmp_path


def assert_harmless(captured):
    for text in (captured.out, captured.err):
        assert not [character for character in ACTING if character in text]
    return captured.out + captured.err


@pytest.mark.parametrize("options", [["-v"], ["-q"], [], ["-v", "--fail-under", f"No {HOSTILE}=0.5"]])
def test_a_run_prints_foreign_text_as_escapes(hostile_run, capsys, options):
    run_command(["run", "evals.py", *options])
    printed = assert_harmless(capsys.readouterr())
    assert (ESCAPED in printed) or options == ["-q"]


def test_a_traceback_has_escapes(hostile_run, capsys, monkeypatch):
    monkeypatch.setattr(interrupts, "end_on_signals", lambda on_first: None)  # which is for a process of ours
    with pytest.raises(SystemExit, match="1"):
        main(["--debug", "run", "evals.py:refuse"])
    printed = assert_harmless(capsys.readouterr())
    assert f"ValueError: {ESCAPED}" in printed
    assert "Traceback" in printed


@pytest.mark.parametrize("format_", ["csv", "markdown", "junit", "json"])
def test_a_report_on_the_terminal_or_in_a_pipe_has_escapes(hostile_run, capsys, format_):
    run_command(["run", "evals.py", "-q", "-o", "out.json", "-o", f"out.{EXTENSIONS[format_]}"])
    capsys.readouterr()
    assert run_command(["export", "out.json", "--format", format_]) == 0
    assert ESCAPED in assert_harmless(capsys.readouterr()).replace("\\\\u", "\\u").replace("\\[", "[")
    if format_ != "json":
        written = (hostile_run / f"out.{EXTENSIONS[format_]}").read_text("utf-8")
        assert not [character for character in ACTING if character in written]


EXTENSIONS = {"csv": "csv", "markdown": "md", "junit": "xml", "json": "json"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "out.json"],
        ["show", "out.json", "-v"],
        ["show", "out.json", "--item", "b"],
        ["show", "out.json", "--item", f"no {HOSTILE}"],
        ["compare", "out.json", "out.json", "-v"],
        ["run", f"no {HOSTILE}.py"],
        ["run", "evals.py:refuse"],
        [f"no {HOSTILE}"],
        ["run", f"--no-{HOSTILE}"],
        ["list"],
        ["evaluators", f"no {HOSTILE}"],
        ["rescore", "out.json", "-e", f"no {HOSTILE}"],
    ],
    ids=lambda arguments: " ".join(arguments).encode("unicode_escape").decode(),
)
def test_commands_print_names_errors_and_arguments_as_escapes(hostile_run, capsys, arguments):
    run_command(["run", "evals.py", "-q", "-o", "out.json"])
    capsys.readouterr()
    run_command(arguments)
    assert assert_harmless(capsys.readouterr())
