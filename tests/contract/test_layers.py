"""The lowest layers name nothing above them, not even for a type checker."""

import ast
from pathlib import Path

import pytest

import dokimos

ROOT = Path(dokimos.__file__).parent
ALLOWED = {
    "_runtime": ("dokimos._runtime",),
    "_core": ("dokimos._core", "dokimos.errors", "dokimos._runtime"),
    "errors.py": ("dokimos._core",),
}
"""What the modules of a layer may import; import-linter does not look at what only a type checker sees."""


def statements_of(tree):
    """Yield the statements of a module, those under `if` among them, but not those inside functions."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            yield from statements_of(node)


def modules_of(name):
    return [ROOT / name] if name.endswith(".py") else sorted((ROOT / name).rglob("*.py"))


@pytest.mark.parametrize("name", ALLOWED)
def test_no_type_of_a_low_layer_points_upwards(name):
    modules = modules_of(name)
    imports = [
        (str(path.relative_to(ROOT)), node.module)
        for path in modules
        for node in statements_of(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dokimos")
    ]

    assert modules
    assert [each for each in imports if not each[1].startswith(ALLOWED[name])] == []
