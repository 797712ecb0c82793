"""Print modules and functions that have grown large: places to look at, not a rule to game.

Limits: modules of 400 lines, functions of 50 lines, complexity 10, 8 parameters.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

MODULE_LINES = 400
FUNCTION_LINES = 50
COMPLEXITY = 10
PARAMETERS = 8

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.comprehension,
    ast.match_case,
)


def main(root: Path) -> None:
    """Print the outliers below `root`."""
    lines = [line for path in sorted(root.rglob("*.py")) for line in outliers(path)]
    print("\n".join(lines) if lines else f"No size outliers in {root}.")


def outliers(path: Path) -> Iterator[str]:
    """Yield one line for each limit that the module or a function in it exceeds."""
    text = path.read_text(encoding="utf-8")
    length = text.count("\n")
    if length > MODULE_LINES:
        yield f"{path}: {length} lines (limit {MODULE_LINES})"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            yield from _function_outliers(path, node)


def _function_outliers(path: Path, node: Function) -> Iterator[str]:
    measured = (
        ("lines", (node.end_lineno or node.lineno) - node.lineno + 1, FUNCTION_LINES),
        ("complexity", _complexity(node), COMPLEXITY),
        ("parameters", _parameter_count(node), PARAMETERS),
    )
    for what, value, limit in measured:
        if value > limit:
            yield f"{path}:{node.lineno}: {node.name} has {what} {value} (limit {limit})"


def _complexity(function: Function) -> int:
    """Count the independent paths: one, and one more for each branch; nested functions count on their own."""
    return 1 + sum(isinstance(node, BRANCHES) for node in _own_nodes(function))


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, Function | ast.Lambda | ast.ClassDef):
            yield from _own_nodes(child)


def _parameter_count(function: Function) -> int:
    """Count the named parameters, `self` and `cls` left out."""
    arguments = function.args
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "src/dokimos"))
