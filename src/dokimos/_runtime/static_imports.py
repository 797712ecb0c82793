"""Find the Python code that a file names, without importing or running any of it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, Final

_only_look: ContextVar[bool] = ContextVar("only_look", default=False)
_NAMED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class UnknownNameError(AttributeError):
    """A module has no such name."""

    def __init__(self, module: str, name: str, known: Sequence[str]) -> None:
        super().__init__(f"{module} has no {name!r}", name=name)
        self.known = known


@contextmanager
def forbid_imports() -> Iterator[None]:
    """Let what a file names be looked for, and not imported, as long as this is open."""
    token = _only_look.set(True)
    try:
        yield
    finally:
        _only_look.reset(token)


def may_import() -> bool:
    """Whether code that a file names may be imported."""
    return not _only_look.get()


def find_in_module(module: str, attribute: str, folders: Sequence[Path] = ()) -> Callable[..., Any]:
    """Return what stands for an attribute of a module that is not imported.

    Args:
        module: Its name; packages on the way to it are not imported either.
        attribute: Its name in the module; of `Class.method` only the class is looked for.
        folders: Where the module is looked for first.

    Raises:
        ImportError: where there is no such module.
        UnknownNameError: where its source has no such name.
        SyntaxError: where its source cannot be read.
    """
    spec = _spec_of(module, folders)
    if spec is None:
        raise ImportError(f"No module named {module!r}")
    if spec.origin is not None and spec.origin.endswith(".py"):
        return find_in_file(Path(spec.origin), attribute, module)
    return _placeholder(attribute)


def find_in_file(path: Path, attribute: str, module: str = "") -> Callable[..., Any]:
    """Return what stands for an attribute of a Python file. Raises as `find_in_module` does, or `OSError`."""
    tree = ast.parse(path.read_bytes(), filename=str(path))
    names = set(_names_in(tree.body))
    first = attribute.partition(".")[0]
    # A star import or a module's own __getattr__ may give it any name.
    if first not in names and not names & {"*", "__getattr__"}:
        raise UnknownNameError(module or path.stem, first, sorted(names))
    return _placeholder(attribute)


def _placeholder(attribute: str) -> Callable[..., Any]:
    def placeholder(case: object, **options: Any) -> Any:
        raise RuntimeError(f"{attribute} was not imported")

    placeholder.__name__ = attribute.rpartition(".")[2]
    return placeholder


def _spec_of(module: str, folders: Sequence[Path]) -> ModuleSpec | None:
    paths = [str(folder) for folder in folders]
    spec: ModuleSpec | None = None
    name = ""
    for step in module.split("."):
        name = f"{name}.{step}" if name else step
        # Step by step: importlib.util.find_spec would import the packages on the way, and run their code.
        spec = PathFinder.find_spec(name, paths) if paths else None
        if spec is None and name == step:
            spec = next(filter(None, (finder.find_spec(name, None) for finder in sys.meta_path)), None)
        if spec is None:
            return None
        paths = list(spec.submodule_search_locations or ())
    return spec


def _names_in(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that a module has when it has run, those under conditions too."""
    for statement in statements:
        if isinstance(statement, _NAMED):
            yield statement.name
            continue  # what is defined inside it is not a name of the module
        for part in ast.walk(statement):
            match part:
                case ast.Name(id=name, ctx=ast.Store()):
                    yield name
                case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                    yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    yield name
