"""What the tests of the documentation share: the modules beside its pages."""

import importlib
import runpy
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="session")
def docs_modules():
    """A context manager that imports modules of docs/, with the parts of all extensions registered."""
    return import_docs_modules


@contextmanager
def import_docs_modules(*names):
    sys.path.insert(0, str(DOCS))
    own = {path.stem for path in DOCS.glob("*.py")}
    try:
        for extension in runpy.run_path(str(DOCS / "conf.py"))["extensions"]:
            if extension in own and "MARK = " in (DOCS / f"{extension}.py").read_text(encoding="utf-8"):
                importlib.import_module(extension).setup(Mock())
        yield [importlib.import_module(name) for name in names]
    finally:
        sys.path.remove(str(DOCS))
        for name in own:
            sys.modules.pop(name, None)
