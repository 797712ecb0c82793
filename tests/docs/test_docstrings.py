"""Each name that users import has an example in its docstring, and the example runs."""

from __future__ import annotations

import asyncio
import doctest
import inspect
import json
from types import ModuleType

import pytest

import dokimos
import dokimos.evaluators
import dokimos.generation
import dokimos.mutation
import dokimos.perturbation

WITHOUT_EXAMPLE = {
    "__version__": "a text",
    "CRITERIA": "a table",
    "PriceTable": "an alias of a type",
    "Task": "an alias of a type",
}
"""Exported names that need no example, and why."""
PACKAGES = (dokimos, dokimos.evaluators, dokimos.mutation, dokimos.perturbation, dokimos.generation)
IMPORTED = {
    **{"asyncio": asyncio, "json": json},
    **{name: getattr(package, name) for package in PACKAGES for name in package.__all__},
}
"""What an example may use without importing it."""
EXPORTS = sorted(
    {
        f"{package.__name__}.{name}": getattr(package, name)
        for package in PACKAGES
        for name in package.__all__
        if name not in WITHOUT_EXAMPLE and not isinstance(getattr(package, name), ModuleType)
    }.items()
)


@pytest.mark.parametrize(("name", "value"), EXPORTS, ids=[name for name, _ in EXPORTS])
def test_the_example_of_a_name_that_users_import_runs(name, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    docstring = inspect.getdoc(value) or ""
    examples = doctest.DocTestParser().get_doctest(docstring, dict(IMPORTED), name, None, 0)
    assert examples.examples, f"{name} has no example in its docstring"

    report: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(verbose=False, optionflags=flags).run(examples, out=report.append)

    assert not report, "".join(report)
    assert not list(tmp_path.iterdir()), "an example leaves no file behind"
