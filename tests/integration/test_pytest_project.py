"""The sample project that the pytest page shows, run as its user would."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dokimos import load_result

PROJECT = Path(__file__).parents[2] / "examples" / "pytest_project"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(
        shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__", "out"))
    )


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    "arguments", [(), ("-n", "2"), ("-p", "no:asyncio", "-p", "no:xdist", "-k", "not async")]
)
def test_the_sample_project_passes_and_reports(project, arguments):
    done = run(project, "--dokimos-report", "out/report.json", "--dokimos-fail-under", "0.9", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    result = load_result(project / "out" / "report.json")
    assert result.run_count == 2
    assert result.pass_rate == 1.0
    assert {"Exact Match", "Levenshtein", "Polite"} <= set(result.evaluator_names)


def test_a_recorded_judge_is_replayed(project):
    assert run(project, "--dokimos-cassette", "record", "-k", "judge").returncode == 0
    tests = project / "tests" / "test_support.py"
    tests.write_text(tests.read_text().replace("judge=lambda prompt: RECORDED", "judge=unreachable"))
    with tests.open("a") as file:
        file.write(
            "\n\ndef unreachable(prompt):\n    raise OSError('asked')\n\n\nunreachable.identity = 'x'\n"
        )
    missed = run(project, "--dokimos-cassette", "replay", "-k", "judge")
    assert "has no recording of this call" in missed.stdout


def test_a_broken_application_is_reported_case_by_case(project):
    app = project / "app.py"
    app.write_text(app.read_text().replace("30 days", "14 days"))
    done = run(project, "--dokimos-report", "out/report.xml", "-k", "test_answers")
    assert done.returncode == 1
    assert "Evaluation 'Exact Match' failed: score=0.00 (threshold=1.00)" in done.stdout
    assert "6 cases | 66.7 % passed" in done.stdout
    assert (project / "out" / "report.xml").read_text().count("<failure") == 2
