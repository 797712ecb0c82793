"""Python that a suite names, looked up in the suite's folder, then in the working directory."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from dokimos._core.text import error_text
from dokimos._core.tracebacks import format_located_error
from dokimos._runtime.file_access import files_read
from dokimos._runtime.start_collector import start_collector
from dokimos._runtime.static_imports import UnknownNameError, find_in_file, find_in_module, may_import
from dokimos.errors import ConfigurationError
from dokimos.suites import _compatibility as compatibility

_loading: Final = threading.RLock()
_of_folder: Final[dict[Path, dict[str, ModuleType]]] = {}
"""The modules that came out of each suite's folder, so that two suites may have modules of one name."""


def load_callable(reference: str, folder: Path) -> Any:
    """Import `package.module:attribute` or `file.py:attribute` and return what is there.

    `sys.path` is as before afterwards. Under `without_imports` it is only looked for, and something stands
    for it.

    Raises:
        ConfigurationError: when it cannot be imported, is not there or cannot be called.
    """
    module_name, _, attribute = reference.rpartition(":")
    if not may_import():
        return _find_without_import(reference, module_name, attribute, folder)
    start_collector.before_user_code()
    # sys.path and sys.modules belong to the process, so only one thread at a time may change them.
    with _loading, _import_paths(folder):
        try:
            module = (
                _import_file(folder / module_name)
                if module_name.endswith(".py")
                else importlib.import_module(module_name)
            )
        except (Exception, SystemExit) as error:  # somebody else's code runs here
            problem = format_located_error(error)
            raise ConfigurationError(f"{reference!r} cannot be imported: {problem}") from error
    value: Any = module
    for step in attribute.split("."):
        if not hasattr(value, step):
            from dokimos.suites._problems import suggest

            names = [name for name in vars(module) if not name.startswith("_")]
            raise ConfigurationError(f"{module.__name__} has no {step!r}.{suggest(step, names)}")
        value = getattr(value, step)
    if not callable(value):
        raise ConfigurationError(f"{reference!r} cannot be called; it is {type(value).__name__}.")
    return value


def _find_without_import(reference: str, module_name: str, attribute: str, folder: Path) -> Any:
    """Return what stands for something that is there; nothing of it is run."""
    try:
        if module_name.endswith(".py"):
            return find_in_file(folder / module_name, attribute)
        return find_in_module(module_name, attribute, (folder, Path.cwd()))
    except UnknownNameError as error:
        from dokimos.suites._problems import suggest

        names = [name for name in error.known if not name.startswith("_")]
        raise ConfigurationError(f"{error}.{suggest(error.name, names)}") from None
    except FileNotFoundError:
        missing = FileNotFoundError(f"there is no file {folder / module_name}")
        raise ConfigurationError(f"{reference!r} cannot be imported: {error_text(missing)}") from None
    except (ImportError, SyntaxError, ValueError, OSError) as error:
        raise ConfigurationError(f"{reference!r} cannot be imported: {error_text(error)}") from None


def _import_file(path: Path) -> ModuleType:
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        files_read.record_missing(path)
        raise FileNotFoundError(f"there is no file {path}")
    # Two metrics that name one file share its module, and so what it keeps in globals.
    if name in sys.modules and _is_below(sys.modules[name], path.parent):
        return sys.modules[name]
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        # As the import system does: the next import must not find a module that is half made.
        del sys.modules[name]
        raise
    return module


@contextlib.contextmanager
def _import_paths(folder: Path) -> Iterator[None]:
    """Let the suite's modules be found, and only the suite's, while something is imported."""
    folder = folder.resolve()
    path_before = list(sys.path)
    # Suites in two folders may each have a `graders.py`; the other folder's must not be found for this one.
    for other, modules in _of_folder.items():
        if other != folder:
            _forget(modules)
    sys.modules.update(_of_folder.get(folder, {}))
    names_before = set(sys.modules)
    sys.path[:0] = [str(folder), str(Path.cwd())]
    # Python remembers the names in a folder; a file that was written a moment ago would not be found.
    importlib.invalidate_caches()
    compatibility.provide()
    try:
        yield
    finally:
        sys.path[:] = path_before
        fresh = {name: sys.modules[name] for name in set(sys.modules) - names_before}
        own = {name: module for name, module in fresh.items() if _is_below(module, folder)}
        _of_folder.setdefault(folder, {}).update(own)


def _forget(modules: dict[str, ModuleType]) -> None:
    for name, module in modules.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]


def _is_below(module: ModuleType, folder: Path) -> bool:
    paths = [getattr(module, "__file__", None) or "", *map(str, getattr(module, "__path__", ()))]
    return any(path and Path(path).resolve().is_relative_to(folder.resolve()) for path in paths)
