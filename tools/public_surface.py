"""Print the public surface: each name that a public package exports, with its parameters and members.

    python tools/public_surface.py > tests/contract/public_surface.txt

A test compares the file with what this prints, so that a public name changes only by decision.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from enum import EnumMeta
from importlib import import_module
from types import ModuleType

import dokimos


def main() -> None:
    """Print the surface, a line for each name."""
    for line in surface_lines():
        print(line)


def public_modules() -> list[str]:
    """Return the names of all modules that no underscore marks as private."""
    found = ["dokimos"]
    for info in pkgutil.walk_packages(dokimos.__path__, "dokimos.", onerror=lambda name: None):
        if not any(part.startswith("_") for part in info.name.split(".")):
            found.append(info.name)
    return sorted(found)


def surface_lines() -> Iterator[str]:
    """Yield `module.name(parameters)`, and below a class its public members."""
    for name in public_modules():
        module = import_module(name)
        for exported in sorted(getattr(module, "__all__", ())):
            value = getattr(module, exported)
            if not isinstance(value, ModuleType):
                yield f"{name}.{exported}{_parameters(value)}"
                yield from _members(value)


def _parameters(value: object) -> str:
    if not callable(value) or isinstance(value, EnumMeta):
        return ""
    if rebuild := getattr(value, "model_rebuild", None):
        rebuild()  # a model of pydantic that is not built yet has another signature
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    return "(" + ", ".join(_parameter(each) for each in signature.parameters.values()) + ")"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    return f"{stars}{parameter.name}" + ("" if parameter.default is parameter.empty else "=")


def _members(value: object) -> Iterator[str]:
    if not isinstance(value, type) or not value.__module__.startswith("dokimos"):
        return
    for name in sorted(vars(value)):
        if not name.startswith("_"):
            yield f"    .{name}{_parameters(inspect.getattr_static(value, name))}"


if __name__ == "__main__":
    main()
