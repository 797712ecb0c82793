"""Print how the source reads, in numbers: names, comments, examples, types, and how much it is cut up.

    python tools/style_measures.py [FOLDER ...]

Each folder is measured on its own, so that a tree can be put beside another.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

IRREGULAR_PARTICIPLES = frozenset(
    """
    asked begun bound broken brought built caught chosen done drawn driven fallen felt found given gone got
    grown heard held hidden kept known laid led left lent lost made meant met paid proven rewritten risen said
    seen sent shown sold sought spent spoken stood struck sung sunk sworn taken taught thought thrown told
    torn understood undone unseen woken won worn woven written
    """.split()  # noqa: SIM905 - a list of words reads better without quotes
)
# They end like a participle, and are verbs or nouns.
NOT_PARTICIPLES = frozenset(
    {"bleed", "breed", "embed", "exceed", "heed", "need", "proceed", "shed", "speed", "succeed"}
)


@dataclass
class Measures:
    """What one tree adds up to."""

    lines: int = 0
    comments: int = 0
    modules: int = 0
    private_modules: int = 0
    functions: list[str] = field(default_factory=list)
    participles: list[str] = field(default_factory=list)
    private_helpers: Counter[str] = field(default_factory=Counter)
    names_used: Counter[str] = field(default_factory=Counter)
    parameters: int = 0
    any_parameters: int = 0
    docstrings: int = 0
    docstrings_with_example: int = 0
    public_symbols: int = 0


def main(folders: Iterable[str]) -> None:
    """Print the measures of each folder."""
    for folder in folders:
        print(f"{folder}:")
        for name, value in rows(measure(Path(folder))):
            print(f"  {name:<44}{value:>8}")


def measure(root: Path) -> Measures:
    """Measure all modules below `root`."""
    measures = Measures()
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        _count_module(measures, path, text)
        _count_nodes(measures, ast.parse(text))
    return measures


def rows(measures: Measures) -> Iterator[tuple[str, str]]:
    """Yield a name and a figure for each line of the table."""
    functions = len(measures.functions)
    helpers = [name for name, count in measures.private_helpers.items() if count == 1]
    once = sum(measures.names_used[name] == 1 for name in helpers)
    yield "lines", f"{measures.lines}"
    yield "modules", f"{measures.modules}"
    yield "private modules", f"{measures.private_modules}"
    yield "public symbols", f"{measures.public_symbols}"
    yield "functions named by a past participle", _percent(len(measures.participles), functions)
    yield "parameters typed bare Any", _percent(measures.any_parameters, measures.parameters)
    yield "comments per 1,000 lines", _per_thousand(measures.comments, measures.lines)
    yield "functions per 1,000 lines", _per_thousand(functions, measures.lines)
    yield "private helpers called once", _percent(once, len(helpers))
    yield "docstrings with an example", _percent(measures.docstrings_with_example, measures.docstrings)


def is_participle(name: str) -> bool:
    """Say whether a function's name starts with a past participle that is not a verb as well."""
    word = name.strip("_").split("_")[0].lower()
    if word in NOT_PARTICIPLES:
        return False
    return word in IRREGULAR_PARTICIPLES or (word.endswith("ed") and len(word) > 4)


def _count_module(measures: Measures, path: Path, text: str) -> None:
    measures.lines += text.count("\n")
    measures.modules += 1
    measures.private_modules += path.name.startswith("_") and path.name != "__init__.py"
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    measures.comments += sum(
        token.type == tokenize.COMMENT and "noqa" not in token.string and "type: ignore" not in token.string
        for token in tokens
    )


def _count_nodes(measures: Measures, tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, Function):
            _count_function(measures, node)
        if isinstance(node, Function | ast.ClassDef):
            measures.public_symbols += not node.name.startswith("_")
            _count_docstring(measures, ast.get_docstring(node))
        elif isinstance(node, ast.Name):
            measures.names_used[node.id] += 1
        elif isinstance(node, ast.Attribute):
            measures.names_used[node.attr] += 1
    _count_docstring(measures, ast.get_docstring(tree))


def _count_function(measures: Measures, function: Function) -> None:
    name = function.name
    measures.functions.append(name)
    if is_participle(name):
        measures.participles.append(name)
    if name.startswith("_") and not name.startswith("__"):
        measures.private_helpers[name] += 1
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if argument.arg not in ("self", "cls"):
            measures.parameters += 1
            measures.any_parameters += (
                argument.annotation is not None and ast.unparse(argument.annotation) == "Any"
            )


def _count_docstring(measures: Measures, docstring: str | None) -> None:
    if docstring is not None:
        measures.docstrings += 1
        measures.docstrings_with_example += ">>>" in docstring or "```" in docstring or "::\n" in docstring


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.1f} %" if total else "none"


def _per_thousand(count: int, lines: int) -> str:
    return f"{1000 * count / lines:.1f}" if lines else "none"


if __name__ == "__main__":
    main(sys.argv[1:] or ["src/dokimos"])
