"""The example on the Berkeley function-calling data: on the committed rows, and on a few rows of our own."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dokimos import EvalTestCase, ToolCall
from dokimos.evaluators import ToolTrajectory

FOLDER = Path(__file__).parents[2] / "examples" / "bfcl"
CITY = {
    "type": "dict",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}


def row(identity, tools, *answer):
    question = [[{"role": "user", "content": f"Do {identity}."}]]
    functions = [{"name": name, "description": "", "parameters": schema} for name, schema in tools.items()]
    return {"id": identity, "question": question, "function": functions}, {
        "id": identity,
        "ground_truth": answer,
    }


CASES = [
    row(
        "two",
        {"sun": CITY},
        {"sun": {"city": ["Rome"], "days": ["", 3]}},
        {"sun": {"city": ["Oslo", "oslo"]}},
    ),
    row("same", {"sun": CITY}, {"sun": {"city": ["A", "B"]}}, {"sun": {"city": ["B", "A"]}}),
    row(
        "nested",
        {
            "book": {
                "type": "dict",
                "properties": {"who": {"type": "dict"}, "at": {"type": "tuple"}},
                "required": ["who"],
            }
        },
        {"book": {"who": [{"name": ["Ann"], "age": ["", 7]}], "at": [[1, 2], ""]}},
    ),
    row("faulty", {"sun": CITY}, {"sun": {"city": [5]}}),
    row("undeclared", {"sun": CITY}, {"sun": {"city": ["Rome"], "mood": ["", "good"]}}),
]
CHECKER = """
def ast_checker(functions, made, answer, language, category, model):
    (call,), (wanted,) = made, answer
    (arguments,), (options,) = call.values(), wanted.values()
    if arguments.get("city") == "ROME":
        raise KeyError("city")
    return {"valid": str(arguments.get("city")).strip('"') in options["city"]}
"""


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "bfcl_eval.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for category in ("simple_python", "multiple", "parallel", "parallel_multiple"):
            for prefix in ("", "live_"):
                name = f"{prefix}{category.removesuffix('_python') if prefix else category}"
                cases = CASES if name == "parallel" else []
                for part, folder in enumerate(("", "possible_answer/")):
                    lines = "\n".join(json.dumps(case[part]) for case in cases)
                    archive.writestr(f"bfcl_eval/data/{folder}BFCL_v4_{name}.json", lines)
    return path


def call(script, *options, cwd):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(FOLDER / script), *options],
        cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(folder, *options):
    call("run.py", "--out", str(folder), *options, cwd=folder.parent)
    return (folder / "report.md").read_text(encoding="utf-8")


def table(report, heading):
    """The rows of the table under a heading, by their first cell."""
    lines = report.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0].splitlines()
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|"))
    return {first: rest for first, *rest in cells if first.strip("-")}


def test_every_fault_in_the_committed_rows_is_caught_by_its_evaluator(tmp_path):
    report = run(tmp_path / "out")
    rights = table(report, "Right answers")
    assert rights["simple_python"] == ["40", "1.0000", "1.0000", "0"]
    assert rights["multiple"] == ["30", "1.0000", "1.0000", "0"]
    caught = table(report, "Seeded faults")
    assert [caught[fault][0] for fault in ("wrong name", "missing argument", "wrong type")] == ["70"] * 3
    assert all("*100.0%*" in cells for fault, cells in caught.items() if fault not in ("fault", "reordered"))
    assert caught["reordered"] == ["0", "-", "-", "-", "-"]
    assert (tmp_path / "out" / "recorded.html").exists()


def test_parallel_calls_nested_values_and_faults_of_the_data(tmp_path, wheel):
    report = run(tmp_path / "out", "--wheel", str(wheel))
    assert table(report, "Right answers")["parallel"] == ["5", "0.8000", "1.0000", "1"]
    assert "- parallel `faulty`: 1 of 1 tool call not valid: sun: $.city: 5 is not of type" in report
    caught = table(report, "Seeded faults")
    assert caught["reordered"] == ["1", "0.0%", "0.0%", "*100.0%*", "0.0%"]
    assert caught["duplicated"][0] == "4"
    assert all("*100.0%*" in cells for fault, cells in caught.items() if fault != "fault")


def test_verdicts_are_compared_with_those_of_another_checker(tmp_path):
    path = tmp_path / "bfcl_eval.whl"
    package = "bfcl_eval/eval_checker/ast_eval/ast_checker.py"
    with zipfile.ZipFile(path, "w") as archive:
        folders = ("", "constants/", "eval_checker/", "eval_checker/ast_eval/")
        for folder in folders:
            archive.writestr(f"bfcl_eval/{folder}__init__.py", "")
        archive.writestr("bfcl_eval/constants/enums.py", "class Language:\n    PYTHON = 1\n")
        archive.writestr(package, CHECKER)
        for category in ("simple_python", "multiple", "parallel", "parallel_multiple"):
            for prefix in ("", "live_"):
                name = f"{prefix}{category.removesuffix('_python') if prefix else category}"
                case = row("one", {"sun": CITY}, {"sun": {"city": ["Rome"], "days": ["", 3]}})
                for part, folder in enumerate(("", "possible_answer/")):
                    line = json.dumps(case[part]) if name == "multiple" else ""
                    archive.writestr(f"bfcl_eval/data/{folder}BFCL_v4_{name}.json", line)
    printed = call("oracle.py", "--wheel", str(path), "--show", "1", cwd=tmp_path)
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in printed.splitlines())
    rows = {first: rest for first, *rest in cells}
    assert rows["right"] == ["1", "0", "0", "0"]
    assert rows["quoted"] == ["1", "1", "0", "0"]
    assert rows["in capitals"] == ["1", "0", "0", "1"]
    assert rows["missing argument"] == ["1", "0", "0", "0"]
    assert "- quoted, theirs accepts: one: sun({'city': '\"Rome\"', 'days': 3})" in printed


def test_what_is_accepted_is_strict_and_blank_means_that_there_may_be_nothing():
    sys.path.insert(0, str(FOLDER))
    try:
        from bfcl import expected_call
    finally:
        sys.path.remove(str(FOLDER))
    answer = {"unit": ["units", ""], "n": [[1, 2]], "who": [{"name": ["Ann"], "age": ["", 7]}], "never": [""]}
    wanted = expected_call("f", answer)

    def score(**arguments):
        made = {"n": [1, 2], "who": {"name": "Ann"}, **arguments}
        case = EvalTestCase(
            {}, {"toolCalls": [ToolCall("f", made)]}, expected_outputs={"toolCalls": [wanted]}
        )
        return ToolTrajectory(arguments="exact").evaluate(case).score

    for accepted in ({}, {"unit": "units"}, {"who": {"name": "Ann", "age": 7}}):
        assert score(**accepted) == 1
    for wrong in (
        {"unit": '"units"'},
        {"unit": ""},
        {"unit": "Units"},
        {"n": [2, 1]},
        {"never": ""},
        {"x": 1},
    ):
        assert score(**wrong) == 0
