"""Wrong uses of the command line: each ends with 2 and one line that says what is wrong."""

import os
import re
import sys

import click
import pytest

from dokimos._cli.main import COMMANDS, cli, run_command
from dokimos.evaluators import registry

EXPERIMENT = """
from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import ExactMatch

nothing = 3
experiment = Experiment(Dataset([Example.of("q", "Q")]), str.upper, [ExactMatch()])
"""
FILES = {
    "evals.py": EXPERIMENT,
    "later.py": "async def experiment(): ...",
    "syntax.py": "def (",
    "boom.py": "raise RuntimeError('out of paint')",
    "leave.py": "import sys; sys.exit('bye')",
    "answers.csv": "id,input,expected_output,actual_output\n1,a,b,b\n",
    "header.csv": "input,expected_output,actual_output\n",
    "broken.json": '{"a": ',
    "numbers.json": "[1, 2]",
    "empty.jsonl": "",
    "twice.jsonl": '{"id": "1", "input": "a"}\n{"id": "1", "input": "b"}\n',
}
SCORED = ("run", "answers.csv", "-e", "exact_match")


@pytest.fixture(autouse=True)
def workplace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DOKIMOS_RUN_DIR", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder").mkdir()
    yield tmp_path
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)


MISTAKES = [
    (("run",), "Missing argument 'TARGET'"),
    (("rn",), "There is no command 'rn'. Did you mean 'run'?"),
    (("--nope",), "No such option '--nope'"),
    (("run", ""), "The path of the data set is empty"),
    (("run", "nope.py"), "There is no file nope.py"),
    (("run", "answer.csv"), "answer.csv: No such file. Did you mean 'answers.csv'?"),
    (("run", "folder"), "folder: This is a folder"),
    (("run", "answers.csv"), "answers.csv is a data file: say with -e how to score it"),
    (("run", "evals.py:nope"), "evals has no 'nope' (evals.py:nope)"),
    (("run", "evals.py:nothing"), "evals.py:nothing is not an Experiment but int"),
    (("run", "evals.py", "extra"), "unexpected extra argument (extra)"),
    (("run", "evals.py", "--columns", "a=b"), "--columns is for data files"),
    (("run", "nomodule:experiment"), "The module 'nomodule' cannot be imported"),
    (("run", "evals:one:two"), "No resolver found for URI 'evals:one:two'"),
    (("run", "evals.py:one.two"), "evals has no 'one.two' (evals.py:one.two)"),
    (("run", "later.py"), "later.py is an async function; make it a plain one"),
    (("run", "syntax.py"), "syntax.py cannot be imported: SyntaxError"),
    (("run", "boom.py"), "boom.py cannot be imported: RuntimeError: out of paint (boom.py:1)"),
    (("run", "leave.py"), "leave.py cannot be imported: SystemExit: bye"),
    (("run", "broken.json", "-e", "exact_match"), "broken.json:1: Not valid JSON"),
    (("run", "numbers.json", "-e", "exact_match"), "numbers.json:1: Expected an object with an input"),
    (("run", "empty.jsonl", "-e", "exact_match"), "empty.jsonl: There are no examples"),
    (("run", "header.csv", "-e", "exact_match"), "The dataset 'header' has no examples"),
    (("run", "bytes.jsonl", "-e", "exact_match"), "bytes.jsonl:1: Not valid UTF-8"),
    (("run", "answers.csv", "-e", "exact_mach"), "Did you mean 'exact_match'"),
    (("run", "answers.csv", "-e", "regex"), "missing the parameter 'pattern'"),
    (("run", "answers.csv", "-e", "regex:pattern=("), "is not a regular expression"),
    (("run", "answers.csv", "-e", '{"type": "regex"'), "not JSON"),
    (("run", "answers.csv", "-e", '{"a": 1}'), "say which evaluator it is"),
    (("run", "answers.csv", "-e", "numeric:rel=1"), "numeric.rel: there is no such parameter"),
    ((*SCORED, "-e", "exact_match"), "Two evaluators are called 'Exact Match'"),
    ((*SCORED, "--columns", "foo"), "--columns 'foo' must be FROM=TO"),
    ((*SCORED, "--columns", "foo=input"), "'foo', which is not a column"),
    ((*SCORED, "--columns", "id=input", "--columns", "id=metadata.x"), "maps 'id' to both"),
    ((*SCORED, "--filter", "topic"), "--filter 'topic' must be key=value"),
    ((*SCORED, "--filter", "topic=none"), "matches the filter topic=none"),
    ((*SCORED, "--shard", "3"), "--shard '3' must be I/N"),
    ((*SCORED, "--shard", "3/2"), "--shard '3/2' must be I/N with I from 1 to N"),
    ((*SCORED, "-j", "0"), "0 is not in the range"),
    ((*SCORED, "--timeout", "nan"), "timeout must be more than 0 seconds"),
    ((*SCORED, "--max-errors", "1.5"), "--max-errors '1.5' must be a number of items, or a share"),
    ((*SCORED, "--max-errors", "-1"), "--max-errors '-1' must be a number of items, or a share"),
    ((*SCORED, "--force"), "--force needs --resume RUN"),
    ((*SCORED, "--retry-errors"), "--retry-errors needs --resume RUN"),
    ((*SCORED, "--resume", ""), "resume must be a run id or a run folder"),
    ((*SCORED, "--resume", "nope"), "No run 'nope' in"),
    ((*SCORED, "--resume", "nope", "--no-journal"), "--no-journal cannot be combined"),
    ((*SCORED, "--fail-under", "2"), "--fail-under '2' must be a share"),
    ((*SCORED, "--fail-under", "Nope=0.5"), "there is no evaluator 'Nope'; there are: Exact Match"),
    ((*SCORED, "-q", "-v"), "Give -q or -v, not both"),
    ((*SCORED, "-o", "x.foo"), "Cannot tell the format of the report 'x.foo'"),
    ((*SCORED, "-o", "folder"), "'folder' is a directory"),
    ((*SCORED, "-o", "answers.csv/x.json"), "answers.csv is not a folder"),
    ((*SCORED, "--run-dir", "answers.csv"), "'answers.csv' is a file"),
    ((*SCORED, "--record", "a", "--replay", "b"), "Give --record or --replay, not both"),
    (("resume", "nope"), "No run 'nope' in"),
    (("resume", ""), "No run '' in"),
    (("resume", "folder"), "folder is not a run folder: it has no run.json"),
    (("list", "--keep", "3"), "--keep needs --prune"),
    (("show", "numbers.json"), "is not a JSON report"),
    (("show", "latest", "--item", "7", "-v"), "--item shows one item"),
    (("show", "latest", "--json"), "--json needs --item"),
    (("export", "latest"), "Say what to write"),
    (("export", "broken.json", "--format", "html"), "broken.json is not JSON"),
    (("rescore", "nope", "-e", "exact_match"), "No run 'nope' in"),
    (("merge", "nope"), "No run 'nope' in"),
    (("evaluators", "exact_mach"), "Did you mean 'exact_match'"),
    (("evaluators", "--schema"), "--schema needs the NAME of an evaluator"),
    (("validate", "twice.jsonl"), "1 example has an id that came before"),
    (("validate", "answers.csv", "--columns", "x"), "--columns 'x' must be FROM=TO"),
    (("validate", "suite.yaml", "--columns", "a=b"), "--columns is for data files"),
    (("init", "answers.csv"), "'answers.csv' is a file"),
    (("completion", "tcsh"), "'tcsh' is not one of"),
    (("cache", "show", "--file", "answers.csv"), "cannot be read as a cache"),
    (("judge", "attack", "nope"), "JUDGE: 'nope' does not name a model"),
    (("judge", "attack", "nope", "-o", "x.foo"), "x.foo: a report on attacks is .json or .md"),
]


@pytest.mark.parametrize(
    ("arguments", "message"), MISTAKES, ids=[" ".join(part)[:60] for part, _ in MISTAKES]
)
def test_a_mistake_is_one_line_and_status_2(arguments, message, capsys):
    assert run_command(list(arguments)) == 2
    lines = [
        line for line in capsys.readouterr().err.splitlines() if not line.startswith("     ")
    ]  # of a file
    assert message in lines[-1]
    assert lines[-1].startswith("Error: ")
    assert len(lines) == 1 or lines[0].startswith("Usage: dokimos")


def test_a_report_in_a_folder_that_is_not_writable_is_refused_before_the_run(workplace, monkeypatch, capsys):
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    assert run_command([*SCORED, "-o", "folder/x.json"]) == 2
    assert "Cannot write folder/x.json: nothing can be written in " in capsys.readouterr().err
    assert not (workplace / ".dokimos").exists()


def test_what_is_refused_has_run_nothing(workplace):
    assert run_command([*SCORED, "--force"]) == 2
    assert run_command([*SCORED, "-o", "answers.csv/x.json"]) == 2
    assert not (workplace / ".dokimos").exists()


def test_a_project_cannot_be_written_into_a_file(capsys):
    assert run_command(["init", "answers.csv/sub"]) == 2
    assert "Error: Cannot write answers.csv/sub/evals.py: " in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_each_of_its_options(name, capsys):
    assert run_command([name, "--help"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"Usage: dokimos {name}")
    context = click.Context(cli)
    command = cli.get_command(context, name)
    options = [one for one in command.get_params(context) if isinstance(one, click.Option)]
    assert all(option.help for option in options)
    assert all(option.opts[-1] in printed for option in options)


def test_a_run_that_cannot_be_read_is_listed_and_can_be_pruned(workplace, capsys):
    assert run_command([*SCORED, "-q"]) == 0
    damaged = workplace / ".dokimos" / "runs" / "20200101-000000-damaged"
    damaged.mkdir()
    (damaged / "run.json").write_text("{")
    capsys.readouterr()
    assert run_command(["list"]) == 0
    assert "20200101-000000-damaged  unreadable" in capsys.readouterr().out
    assert run_command(["list", "--prune", "--keep", "1"]) == 0
    assert "Deleted 1 of 2 runs" in capsys.readouterr().out
    assert not damaged.exists()


def test_an_unknown_evaluator_is_answered_by_the_three_nearest(capsys):
    assert run_command(["evaluators", "context_recall"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "Did you mean 'contextual_recall' or" in said
    assert said.count("'") <= 8


def test_evaluators_are_listed_by_what_they_are_for(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert run_command(["evaluators"]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) < 60
    groups = [block.splitlines() for block in printed.split("\n\n")]
    of = {line.split()[0]: group[0] for group in groups for line in group[1:] if line[2:3].strip()}
    assert of["exact_match"] == "Compare the output with an expected value"
    assert of["regex"] == "Look at the output alone"
    assert of["llm_judge"] == "Ask a judge about the output"
    assert of["faithfulness"] == of["recall"] == "Look at what was retrieved (contexts)"
    assert of["tool_errors"] == "Look at tool calls and plans"
    assert of["per_turn"] == "Look at a conversation"
    assert set(registry.BUILT_IN) <= set(of), "each is listed once"
    assert re.search(r"faithfulness (.|\n)*?Needs\s+a\s+judge\.", printed)
