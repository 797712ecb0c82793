"""A page that shows what is made from the code is made again when the code changes, and only then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="sphinx is not installed")
DOCS = Path(__file__).parents[2] / "docs"
CONF = """
import os
from generated import add_part
extensions = ["myst_parser"]
html_theme = "basic"

def setup(app):
    add_part(app, "<!-- part -->", lambda: os.environ["PART"])
"""


def build(folder, part):
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-b", "text", folder, folder / "built"],
        env={**os.environ, "PART": part, "PYTHONPATH": str(DOCS)}, check=True,
    )  # fmt: skip


def test_a_page_follows_the_code_without_a_change_of_its_own(tmp_path):
    (tmp_path / "conf.py").write_text(CONF)
    (tmp_path / "index.md").write_text("# Index\n\n```{toctree}\nother\n```\n\n<!-- part -->\n")
    (tmp_path / "other.md").write_text("# Other\n")
    shown = tmp_path / "built" / "index.txt"

    build(tmp_path, "One evaluator.")
    assert "One evaluator." in shown.read_text()
    build(tmp_path, "Two evaluators.")
    assert "Two evaluators." in shown.read_text()

    written = shown.stat().st_mtime_ns
    build(tmp_path, "Two evaluators.")
    assert shown.stat().st_mtime_ns == written
