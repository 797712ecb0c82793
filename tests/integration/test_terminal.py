"""The commands on terminals of several widths, and in pipes."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from dokimos.reporting._tables import cell_width

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")

EVALS = """
import warnings

from dokimos import Dataset, Example, Experiment, evaluator
from dokimos.evaluators import ExactMatch, TokenF1

before = "{side}" == "before"


@evaluator(name="回答は忠実か 🎉 (gpt-5-mini)", threshold=0.5)
def faithful(actual_output):
    if actual_output.endswith("7"):
        raise ValueError("no verdict")
    return 0.5


def answer(example: Example):
    warnings.warn("the tokenizer is slow")
    number = int(example.id.split()[-1])
    return "answer" if before or number > 10 else f"wrong {{number}}"


data = Dataset([Example.of(f"question {{n}}", "answer", id=f"項目 {{n}}") for n in range(30)], name="faq")
name = "Exact Match with a name that is longer than anybody needs"
evaluators = [ExactMatch(name=name), TokenF1(threshold=0.5), faithful]
experiment = Experiment(data, answer, evaluators, name="support")
"""
COMMANDS = {
    "run": (("run", "now.py", "--run-dir", "extra"), ("1 !", "0.63", "19/30", "項目 0")),
    "show": (("show", "now.json"), ("1 !", "errors", "63.3 %")),
    "compare": (("compare", "before.json", "now.json"), ("change", "adj. p", "95 % interval", "worse")),
    "gate": (("gate", "now.json", "-b", "before.json"), ("FAILED", "change", "adj. p", "worse")),
    "plan": (("plan", "now.json", "--repeats", "1"), ("sees", "uneven", "even", "items", "answers", "noise")),
    "list": (("list",), ("completed", "MB")),
    "evaluators": (("evaluators",), ("exact_match",)),
}  # fmt: skip
COPIED = ("To accept the change", "  run ", "  reports", "dokimos show", "  ✗", "  x ", "support")
"""What lines that may be longer begin with: commands, verdicts that the terminal wraps itself, titles."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("terminal")
    for side in ("before", "now"):
        (place / f"{side}.py").write_text(EVALS.format(side=side))
        in_pipe(place, "run", f"{side}.py", "-o", f"{side}.json")
    return place


def in_pipe(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", **variables}
    if "COLUMNS" not in variables:
        environment.pop("COLUMNS", None)
    return subprocess.run(
        [sys.executable, "-m", "dokimos", *arguments],
        cwd=folder, capture_output=True, text=True, env=environment, encoding="utf-8",
    )  # fmt: skip


def on_terminal(folder: Path, columns: int, *arguments: str) -> str:
    """Return what a terminal of so many columns shows, without its control characters."""
    import fcntl
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {
        key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR", "CI")
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "dokimos", *arguments],
        cwd=folder, stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        env={**environment, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:  # the other end is closed
        pass
    process.wait()
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r\n", "\n")


def check(shown: str, columns: int, said: tuple[str, ...]) -> None:
    for text in said:
        assert text in shown
    long = [line for line in shown.splitlines() if cell_width(line) > columns and not line.startswith(COPIED)]
    assert long == []


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("command", COMMANDS)
def test_all_columns_are_there_on_a_terminal(command: str, columns: int, folder: Path) -> None:
    arguments, said = COMMANDS[command]
    check(on_terminal(folder, columns, *arguments), columns, said)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_is_as_wide_as_columns_says(command: str, folder: Path) -> None:
    arguments, said = COMMANDS[command]
    shown = in_pipe(folder, *arguments, COLUMNS="60").stdout
    assert "\x1b" not in shown
    check(shown, 60, said)


def test_without_it_sentences_stay_in_one_piece(folder: Path) -> None:
    shown = in_pipe(folder, "gate", "now.json", "-b", "before.json").stdout
    assert re.search(
        r"^  Tested at alpha = .* where a tenth of them fall\.$|^  Tested at alpha = .{60,}$", shown, re.M
    )


def test_warnings_of_an_application_are_told_once_and_in_one_line(folder: Path) -> None:
    told = in_pipe(folder, "run", "now.py", "--run-dir", "extra").stderr
    assert re.findall(r"^! UserWarning: .*$", told, re.M) == [
        "! UserWarning: the tokenizer is slow (now.py:18)"
    ]
    assert "warnings.warn(" not in told
    assert (
        "tokenizer"
        not in in_pipe(folder, "run", "now.py", "--run-dir", "extra", PYTHONWARNINGS="ignore").stderr
    )
