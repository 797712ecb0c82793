"""The part of a module that can affect what an application answers: everything but its evaluation.

Whoever writes an evaluation changes criteria, thresholds and rows all the time, often in one file with the
task. Those changes leave the outputs as they are: rows are compared one by one, and evaluators score again.
So evaluators, examples and data sets of the top level are taken out before the file of an experiment is
compared, where nothing but an experiment, or another evaluator, refers to them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, TypeAlias

PACKAGE: Final = "dokimos"
_EVALUATION: Final = frozenset({"Example", "Dataset", "evaluators"})
"""Names of our package that hold rows or evaluators."""
_EXPERIMENTS: Final = frozenset({"Experiment", "evaluate"})

Definition: TypeAlias = ast.Assign | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def extract_answering_code(source: bytes) -> bytes:
    """Return the part of a module that can affect its outputs: all of it if it evaluates nothing."""
    if PACKAGE.encode() not in source:
        return source
    try:
        tree = ast.parse(source)
        names, experiments = _find_imports(tree)
        if not names:
            return source
        return _Module(tree, names, experiments).rest().encode("utf-8", "surrogatepass")
    except (SyntaxError, ValueError, RecursionError):
        return source


def names_data_set(source: bytes) -> bool:
    """Say whether anything but experiments and evaluators uses a data set of the module."""
    lines = extract_answering_code(source).splitlines()
    return any(line.startswith(b"Assign(") and b"Name(id='Dataset'" in line for line in lines)


def _find_imports(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the names under which rows and evaluators, and experiments, are imported."""
    names: set[str] = set()
    experiments: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            for alias in node.names:
                name = alias.asname or alias.name
                if node.module.startswith(f"{PACKAGE}.evaluators") or (
                    node.module == PACKAGE and alias.name in _EVALUATION
                ):
                    names.add(name)
                elif node.module.split(".")[0] == PACKAGE and alias.name in _EXPERIMENTS:
                    experiments.add(name)
    return names, experiments


class _Module:
    """One module, and the definitions in it that belong to the evaluation alone."""

    def __init__(self, tree: ast.Module, names: set[str], experiments: set[str]) -> None:
        self._tree = tree
        self._names = set(names)
        self._experiments = experiments
        self._own: dict[str, Definition] = {}
        for node in tree.body:
            name = self._find_definition_name(node)
            if name is not None and isinstance(node, Definition):
                if name in self._own or name in names:
                    # Which of the two a use means depends on the order of execution: the whole module
                    # counts then.
                    raise ValueError(f"{name} is defined twice")
                self._own[name] = node
                self._names.add(name)
        # Repeated, since a definition that is not the evaluation's alone may use another one, which then is
        # not either.
        while used := self._find_names_used_elsewhere():
            for name in used:
                del self._own[name]
                self._names.discard(name)

    def rest(self) -> str:
        """Return the module without its evaluation, as text that is the same for the same code."""
        own = list(self._own.values())
        remaining = [node for node in self._tree.body if node not in own and not _is_our_import(node)]
        # A dump has no line numbers: comments, blank lines and moved code are not changes.
        return "\n".join(ast.dump(_Placeholders(self).visit(node)) for node in remaining)

    def is_evaluation(self, node: ast.AST) -> bool:
        """Say whether an expression is a row, a data set, an evaluator or a list of them."""
        if isinstance(node, ast.List | ast.Tuple):
            return all(map(self.is_evaluation, node.elts))
        if isinstance(node, ast.ListComp):
            return self.is_evaluation(node.elt)
        if isinstance(node, ast.Name):
            return node.id in self._own
        return isinstance(node, ast.Call) and _root(node.func) in self._names

    def arguments(self, node: ast.AST) -> list[ast.AST]:
        """Return the arguments of an experiment that belong to the evaluation; none for another call."""
        if not (isinstance(node, ast.Call) and _root(node.func) in self._experiments):
            return []
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        return [argument for argument in given if self.is_evaluation(argument)]

    def _find_definition_name(self, node: ast.AST) -> str | None:
        """Return the name that a statement binds to a part of the evaluation, None if it does not."""
        if isinstance(node, ast.ClassDef):
            return node.name if any(_root(base) in self._names for base in node.bases) else None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return node.name if any(_root(one) in self._names for one in node.decorator_list) else None
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            return node.targets[0].id if self.is_evaluation(node.value) else None
        return None

    def _find_names_used_elsewhere(self) -> set[str]:
        """Return the names that code refers to which may affect the answers."""
        skipped = {id(node) for node in self._own.values()}
        return {
            node.id
            for node in self._walk(self._tree, skipped)
            if isinstance(node, ast.Name) and node.id in self._own
        }

    def _walk(self, node: ast.AST, skipped: set[int]) -> Iterator[ast.AST]:
        skipped = skipped | {id(argument) for argument in self.arguments(node)}
        for child in ast.iter_child_nodes(node):
            if id(child) not in skipped:
                yield child
                yield from self._walk(child, skipped)


class _Placeholders(ast.NodeTransformer):
    """Replaces the rows and evaluators of an experiment by None."""

    def __init__(self, module: _Module) -> None:
        self._module = module

    def visit_Call(self, node: ast.Call) -> ast.AST:
        of_evaluation = set(map(id, self._module.arguments(node)))
        node.args = [ast.Constant(None) if id(one) in of_evaluation else one for one in node.args]
        for keyword in node.keywords:
            if id(keyword.value) in of_evaluation:
                keyword.value = ast.Constant(None)
        return self.generic_visit(node)


def _root(node: ast.AST) -> str | None:
    """Return the first name of an expression such as `a.b.c` or `a.b()`."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_our_import(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE
