"""TARGET: an experiment in a module or file, or a file of recorded outputs."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.tracebacks import format_located_error
from dokimos._runtime.start_collector import start_collector
from dokimos.errors import ConfigurationError, DokimosError

if TYPE_CHECKING:
    from dokimos.experiment._experiment import Experiment

_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_URI_SCHEMES: Final = frozenset({"file", "package"})
"""Of data files: `package:data` is one, not an attribute of a module."""
DEFAULT_ATTRIBUTE: Final = "experiment"

_target_modules: Final[dict[str, ModuleType]] = {}
"""Modules of files that were imported as targets, by name: another target of that name may replace one."""


@dataclass(frozen=True, slots=True)
class PythonTarget:
    """An attribute of a module or of a Python file."""

    source: str
    """The dotted name of the module, or the path of the file."""
    attribute: str

    @property
    def is_file(self) -> bool:
        return self.source.endswith(".py")


def parse_target(target: str) -> PythonTarget | None:
    """Parse `module:attribute` or `file.py:attribute`; None for a data file.

    `file.py` alone means its attribute `experiment`. A Windows path such as `C:\\data` is a data file;
    without a backslash, `C:data`, it reads as a module.
    """
    source, _, attribute = target.rpartition(":")
    names_module = attribute.isidentifier() and _MODULE.fullmatch(source) is not None
    if names_module and source in _URI_SCHEMES:
        return None
    if names_module or source.endswith(".py"):
        return PythonTarget(source, attribute)
    return PythonTarget(target, DEFAULT_ATTRIBUTE) if target.endswith(".py") else None


def load_experiment(target: str) -> Experiment:
    """Import a target and return its experiment, calling it if it is a function.

    Raises:
        ConfigurationError: when it cannot be imported, is not there, or is not an experiment.
    """
    parsed = _parse_python_target(target)
    return _find_experiment(_import_source(parsed), parsed.attribute, target)


def load_attribute(target: str) -> Any:
    """Import `module:attribute` or `file.py:attribute` and return what is there.

    Raises:
        ConfigurationError: when it cannot be imported or is not there.
    """
    parsed = _parse_python_target(target)
    module = _import_source(parsed)
    try:
        return getattr(module, parsed.attribute)
    except AttributeError:
        raise ConfigurationError(f"{module.__name__} has no {parsed.attribute!r} ({target}).") from None


def absolute_target(target: str) -> str:
    """Return the target with its file made absolute, so that it can be found again from elsewhere."""
    parsed = parse_target(target)
    if parsed is None:
        return str(Path(target).resolve()) if Path(target).exists() else target
    return f"{Path(parsed.source).resolve()}:{parsed.attribute}" if parsed.is_file else target


def find_python_file(target: str) -> str | None:
    """Return the Python file of an imported target; None for a data file."""
    parsed = parse_target(target)
    if parsed is None:
        return None
    if parsed.is_file:
        return os.path.abspath(parsed.source)
    return getattr(sys.modules.get(parsed.source), "__file__", None)


def _parse_python_target(target: str) -> PythonTarget:
    parsed = parse_target(target)
    if parsed is None:
        raise ConfigurationError(f"{target!r} is not module:attribute or file.py:attribute.")
    return parsed


def _import_source(target: PythonTarget) -> ModuleType:
    start_collector.before_user_code()
    return _import_file(Path(target.source)) if target.is_file else _import_module(target.source)


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigurationError(f"There is no file {path}.")
    name = path.stem
    _refuse_taken_name(path)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{path} cannot be imported as Python.")
    module = importlib.util.module_from_spec(spec)
    previous = sys.modules.get(name)
    # Before it is executed, as an import does: dataclasses and pickle look their module up by name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        _restore_module(name, previous)
        if isinstance(error, DokimosError) or not isinstance(error, Exception | SystemExit):
            raise
        raise ConfigurationError(f"{path} cannot be imported: {format_located_error(error)}") from error
    _target_modules[name] = module
    return module


def _refuse_taken_name(path: Path) -> None:
    """Raise where the name of a file belongs to a module that others have imported from elsewhere."""
    module = sys.modules.get(path.stem)
    if module is None or module is _target_modules.get(path.stem):
        return
    file = getattr(module, "__file__", None)
    if file is not None and os.path.realpath(file) == os.path.realpath(path):
        return
    raise ConfigurationError(
        f"{path} cannot be imported: Python already has another module {path.stem!r} "
        f"({file or 'built in'}). Rename the file."
    )


def _restore_module(name: str, previous: ModuleType | None) -> None:
    if previous is None:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = previous


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


def _find_experiment(module: ModuleType, attribute: str, target: str) -> Experiment:
    from dokimos.experiment._experiment import Experiment

    try:
        value: Any = getattr(module, attribute)
    except AttributeError:
        hint = _suggest_experiments(module, attribute)
        raise ConfigurationError(f"{module.__name__} has no {attribute!r} ({target}).{hint}") from None
    if callable(value) and not isinstance(value, Experiment):
        value = _call(value, target)
    if inspect.iscoroutine(value):
        # Closed, or Python warns later that it was never awaited.
        value.close()
        raise ConfigurationError(
            f"{target} is an async function; make it a plain one that returns an Experiment."
        )
    if not isinstance(value, Experiment):
        raise ConfigurationError(f"{target} is not an Experiment but {type(value).__name__}.")
    return value


def _suggest_experiments(module: ModuleType, attribute: str) -> str:
    from dokimos.experiment._experiment import Experiment

    names = [name for name, value in vars(module).items() if isinstance(value, Experiment)]
    if not names:
        return ""
    similar = get_close_matches(attribute, names, n=1)
    question = f" Did you mean {similar[0]!r}?" if similar else ""
    return f"{question} It has the {'experiment' if len(names) == 1 else 'experiments'} {', '.join(names)}."


def _call(function: Any, target: str) -> Any:
    try:
        return function()
    except DokimosError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigurationError(f"{target}() failed: {format_located_error(error)}") from error
