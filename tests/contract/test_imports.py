"""What importing and installing dokimos costs, asserted on what is loaded rather than on time."""

import ast
import importlib
import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import dokimos
import dokimos.evaluators

ROOT = Path(__file__).parents[2]
HEAVY = {"pydantic", "aiohttp", "asyncio", "click", "rich", "yaml", "jsonschema_rs", "sacrebleu", "nltk"}
CORE_PACKAGES = 24


def modules_after(statement):
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(outcome.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "statement",
    [
        "import dokimos",
        "from dokimos import Example, EvalTestCase, Score, ToolCall, ExperimentResult",
        'from dokimos import Dataset; Dataset.from_json(text=\'{"examples": [{"input": 1}]}\')',
        "from dokimos.evaluators import ExactMatch; ExactMatch()",
        "from dokimos import errors",
    ],
)
def test_nothing_heavy_is_loaded_by(statement):
    assert modules_after(statement) & HEAVY == set()


def test_importing_dokimos_loads_only_its_version():
    loaded = {name for name in modules_after("import dokimos") if name.startswith("dokimos")}

    assert loaded == {"dokimos", "dokimos.version"}


def test_the_library_never_loads_the_command_line():
    statement = "import dokimos\nfor name in dokimos.__all__: getattr(dokimos, name)"

    assert modules_after(statement) & {"click", "dokimos.cli"} == set()


@pytest.mark.parametrize("name", dokimos.__all__)
def test_every_public_name_is_there(name):
    assert getattr(dokimos, name) is not None
    assert name in dir(dokimos)


@pytest.mark.parametrize("name", dokimos.evaluators.__all__)
def test_every_evaluator_is_there(name):
    assert getattr(dokimos.evaluators, name) is not None
    assert name in dir(dokimos.evaluators)


@pytest.mark.parametrize("package", [dokimos, dokimos.evaluators])
def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchThing'"):
        _ = package.NoSuchThing


@pytest.mark.parametrize("package", [dokimos, dokimos.evaluators])
def test_editors_see_the_same_names_as_python(package):
    """The imports for type checkers name each public thing, from the module that it is loaded from."""
    seen = dict(type_checking_imports(Path(package.__file__)))

    assert seen.keys() == set(package.__all__) - {"__version__"}
    for name, module in seen.items():
        if module != "dokimos":
            assert getattr(importlib.import_module(module), name) is getattr(package, name)


def type_checking_imports(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guarded = next(n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    for statement in guarded.body:
        for alias in statement.names:
            yield alias.asname, statement.module


def test_a_core_install_stays_small():
    closure = runpy.run_path(str(ROOT / "benchmarks" / "install_budget.py"))["closure"]

    packages = closure("dokimos")

    assert {"dokimos", "pydantic", "pydantic-core", "aiohttp", "yarl"} <= packages
    assert len(packages) <= CORE_PACKAGES, sorted(packages)
