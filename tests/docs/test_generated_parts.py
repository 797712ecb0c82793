"""A page that shows what is made from the code is made again when the code changes, and only then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="sphinx is not installed")
DOCS = Path(__file__).parents[2] / "docs"
CONF = """
import os, sys
from generated import add_part
extensions = ["myst_parser", "sphinx.ext.autodoc"]
sys.path.insert(0, os.path.dirname(__file__))

def setup(app):
    add_part(app, "<!-- part -->", lambda: os.environ["PART"])
"""


def build(folder, part):
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-b", "text", folder, folder / "built"],
        env={**os.environ, "PART": part, "PYTHONPATH": str(DOCS)}, check=True,
    )  # fmt: skip


def write_package(folder, purpose):
    """Write a package that loads its class from a private module when it is asked for, as ours do."""
    (folder / "shop").mkdir(exist_ok=True)
    (folder / "shop" / "__init__.py").write_text(
        "import importlib\n\ndef __getattr__(name):\n"
        "    return getattr(importlib.import_module('shop._shop'), name)\n"
    )
    (folder / "shop" / "_shop.py").write_text(f'class Shop:\n    """{purpose}"""\n')


def test_a_page_follows_the_code_without_a_change_of_its_own(tmp_path):
    (tmp_path / "conf.py").write_text(CONF)
    (tmp_path / "index.md").write_text("# Index\n\n```{toctree}\napi\n```\n\n<!-- part -->\n")
    (tmp_path / "api.md").write_text("# API\n\n```{eval-rst}\n.. autoclass:: shop.Shop\n```\n")
    write_package(tmp_path, "Sells.")
    shown, api = tmp_path / "built" / "index.txt", tmp_path / "built" / "api.txt"

    build(tmp_path, "One evaluator.")
    assert "One evaluator." in shown.read_text()
    assert "Sells." in api.read_text()
    write_package(tmp_path, "Sells and repairs.")
    build(tmp_path, "Two evaluators.")
    assert "Two evaluators." in shown.read_text()
    assert "Sells and repairs." in api.read_text()

    written = [page.stat().st_mtime_ns for page in (shown, api)]
    build(tmp_path, "Two evaluators.")
    assert [page.stat().st_mtime_ns for page in (shown, api)] == written
