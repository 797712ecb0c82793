"""Recorded results of the frameworks: what a run gave, as a plain tree."""

import json
from pathlib import Path

import pytest

RECORDED = Path(__file__).parents[2] / "data" / "frameworks"


@pytest.fixture(scope="session")
def recorded():
    """A function that returns a recording by the name of its module."""

    def read(name):
        return json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))

    return read
