"""What a package exports: names that are imported when they are first used, and what `dir()` lists."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def lazy_exports(
    package: str, module_of: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package that exports names of other modules.

    Importing the package imports none of them, so that `import dokimos` and pytest's start stay quick.

    Args:
        package: Its `__name__`.
        module_of: The module of each name.
    """

    def load(name: str) -> object:
        module = module_of.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: names_for_completion(vars(sys.modules[package]))


def names_for_completion(namespace: Mapping[str, object]) -> list[str]:
    """Return what `dir()` of a module lists: what it exports, its public modules, and names like `__doc__`.

    What it imports for its own use, such as `Final`, is not among them: it is not part of what it offers.
    """
    exports: Any = namespace["__all__"]
    modules = (
        name
        for name, value in namespace.items()
        if isinstance(value, ModuleType) and value.__name__ == f"{namespace['__name__']}.{name}"
    )
    return sorted({*exports, *(name for name in modules if name[0] != "_"), *filter(_is_dunder, namespace)})


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
