"""Tests of the real frameworks: each in its own environment, run by `make test-frameworks`."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent

pytest.register_assert_rewrite("contract")
sys.path[:0] = [str(HERE), str(HERE.parent / "servers")]

# Elsewhere the frameworks are not installed; their recorded results are tested in tests/unit/integrations.
collect_ignore_glob = [] if "DOKIMOS_FRAMEWORK" in os.environ else ["test_*.py"]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Keep the journals of experiments out of the project."""
    monkeypatch.chdir(tmp_path)
