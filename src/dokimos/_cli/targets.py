"""TARGET: an experiment in a module or file, or a file of recorded outputs."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.tracebacks import format_located_error
from dokimos.errors import ConfigurationError, DokimosError

if TYPE_CHECKING:
    from dokimos.experiment._experiment import Experiment

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
DEFAULT_ATTRIBUTE: Final = "experiment"


def split_target(target: str) -> tuple[str, str] | None:
    """Return (module or file, attribute), None for a data file.

    `file.py` alone means its attribute `experiment`. A Windows drive letter is not taken for a module.
    """
    source, colon, attribute = target.rpartition(":")
    if source.endswith(".py") or (attribute.isidentifier() and colon and _MODULE.fullmatch(source)):
        return None if source in ("file", "package") else (source, attribute)
    if target.endswith(".py"):
        return target, DEFAULT_ATTRIBUTE
    return None


def load_experiment(target: str) -> Experiment:
    """Import a target and return its experiment, calling it if it is a function.

    Raises:
        ConfigurationError: when it cannot be imported, is not there, or is not an experiment.
    """
    parts = split_target(target)
    if parts is None:
        raise ConfigurationError(f"{target!r} is not module:attribute or file.py:attribute.")
    source, attribute = parts
    module = _import_file(Path(source)) if source.endswith(".py") else _import_module(source)
    return _experiment_in(module, attribute, target)


def load_attribute(target: str) -> Any:
    """Import `module:attribute` or `file.py:attribute` and return what is there.

    Raises:
        ConfigurationError: when it cannot be imported or is not there.
    """
    parts = split_target(target)
    if parts is None:
        raise ConfigurationError(f"{target!r} is not module:attribute or file.py:attribute.")
    source, attribute = parts
    module = _import_file(Path(source)) if source.endswith(".py") else _import_module(source)
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise ConfigurationError(f"{module.__name__} has no {attribute!r} ({target}).") from None


def absolute_target(target: str) -> str:
    """Return the target with its file made absolute, so that it can be found again from elsewhere."""
    parts = split_target(target)
    if parts is None:
        return str(Path(target).resolve()) if Path(target).exists() else target
    source, attribute = parts
    return f"{Path(source).resolve()}:{attribute}" if source.endswith(".py") else target


def evaluation_file(target: str) -> str | None:
    """Return the file of an imported target, None where it is no Python."""
    parts = split_target(target)
    if parts is None:
        return None
    source = parts[0]
    return (
        os.path.abspath(source)
        if source.endswith(".py")
        else getattr(sys.modules.get(source), "__file__", None)
    )


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigurationError(f"There is no file {path}.")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{path} cannot be imported as Python.")
    module = importlib.util.module_from_spec(spec)
    # Before it is executed, as an import does: dataclasses and pickle look their module up by name.
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except DokimosError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{path} cannot be imported: {format_located_error(error)}") from error
    return module


def _import_module(name: str) -> ModuleType:
    # An installed `dokimos` has its own folder on the path, and not the working directory as `python -m` has.
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except DokimosError:
        raise
    except (Exception, SystemExit) as error:
        problem = format_located_error(error)
        raise ConfigurationError(f"The module {name!r} cannot be imported: {problem}") from error


def _experiment_in(module: ModuleType, attribute: str, target: str) -> Experiment:
    from dokimos.experiment._experiment import Experiment

    try:
        found: Any = getattr(module, attribute)
    except AttributeError:
        there = [name for name, value in vars(module).items() if isinstance(value, Experiment)]
        near = get_close_matches(attribute, there, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        what = "experiment" if len(there) == 1 else "experiments"
        hint = f"{meant} It has the {what} {', '.join(there)}." if there else ""
        raise ConfigurationError(f"{module.__name__} has no {attribute!r} ({target}).{hint}") from None
    if callable(found) and not isinstance(found, Experiment):
        found = _call(found, target)
    if inspect.iscoroutine(found):
        # Closed, or Python warns later that it was never awaited.
        found.close()
        raise ConfigurationError(
            f"{target} is an async function; make it a plain one that returns an Experiment."
        )
    if not isinstance(found, Experiment):
        raise ConfigurationError(f"{target} is not an Experiment but {type(found).__name__}.")
    return found


def _call(function: Any, target: str) -> Any:
    try:
        return function()
    except DokimosError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{target}() failed: {format_located_error(error)}") from error
