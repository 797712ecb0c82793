"""Runs every example as a user would."""

import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_runs(example, tmp_path):
    outcome = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_the_demo_writes_all_reports_without_network_or_key(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "quickstart" / "run.py"), str(tmp_path / "out")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "errored" not in done.stdout
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    names = ("function-calling", "judged-answers", "support-answers")
    formats = ("csv", "html", "json", "junit.xml", "md")
    assert written == [f"{name}.{extension}" for name in names for extension in formats]


def test_the_financial_assistant_runs_on_its_recording_without_network_or_key(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "finance" / "run.py"), str(tmp_path / "out")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "5 passed, 5 failed\n" in done.stdout
    assert "divide was called as expected 0 times" in next((tmp_path / "out").iterdir()).read_text("utf-8")


def test_the_demo_of_the_server_starts_one_with_its_runs(tmp_path):
    pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
    script = ROOT / "examples" / "server" / "run.py"
    outcome = subprocess.run(
        [sys.executable, str(script), "--port", "0", "--folder", str(tmp_path / "server"), "--no-wait"],
        cwd=tmp_path, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, timeout=240,
        check=False,
    )  # fmt: skip

    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.startswith("dokimos answers at http://127.0.0.1:")
    for name in ("function calling", "support answers", "judged answers"):
        assert re.search(rf"%  {name} +http://127.0.0.1:\d+/runs/[0-9a-f-]{{36}}", outcome.stdout)
    with closing(sqlite3.connect(tmp_path / "server" / "traces.db")) as traces:
        assert traces.execute("SELECT count(*) FROM spans").fetchone() == (3 * 46,)
    with closing(sqlite3.connect(tmp_path / "server" / "server.db")) as server:
        count = "SELECT count(*) FROM experiments JOIN runs ON experiment_id = experiments.id JOIN items ON "
        count += "run_id = runs.id WHERE experiments.name = 'Reviewed traces'"
        assert server.execute(count).fetchone()[0] > 5
