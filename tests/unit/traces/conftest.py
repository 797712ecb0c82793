"""The story that the tests of traces read, and spans to write by hand."""

import importlib.util
import sys
from pathlib import Path

import pytest

from dokimos.traces import Span

DATA = Path(__file__).parents[2] / "data" / "traces"


@pytest.fixture(scope="session")
def recordings():
    """The folder with what real instrumentations recorded."""
    return DATA


@pytest.fixture(scope="session")
def story():
    """The module that tells one run in every dialect."""
    spec = importlib.util.spec_from_file_location("trace_story", DATA / "story.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["trace_story"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def span():
    """Make spans of one trace that follow each other by a second."""
    made = []

    def make(name="chat", *, parent=None, at=None, **attributes):
        start = (len(made) if at is None else at) * 1_000_000_000 + 1
        given = {key.replace("__", "."): value for key, value in attributes.items()}
        one = Span(
            "a" * 32,
            f"{len(made) + 1:016x}",
            name=name,
            parent_id=parent.span_id if parent else None,
            start_ns=start,
            end_ns=start + 500_000_000,
            attributes=given,
        )
        made.append(one)
        return one

    return make
