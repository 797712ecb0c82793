"""Whose code a frame runs: users', a library's, the standard library's or ours; for tracebacks and blame."""

from __future__ import annotations

import os
import sys
from enum import Enum
from functools import cache, lru_cache
from typing import Final

_INSTALLED: Final = frozenset(("site-packages", "dist-packages"))


class CodeOrigin(Enum):
    """Whose code a frame runs."""

    OURS = "ours"
    STANDARD = "standard library"
    LIBRARY = "library"
    USERS = "users"


@lru_cache(4096)
def find_code_origin(file: str, module: str = "") -> CodeOrigin:
    """Say whose code is in a file; `module` is the name of its module, where it has one."""
    top = module.partition(".")[0]
    if file.startswith("<"):
        if top == "dokimos":
            return CodeOrigin.OURS
        return CodeOrigin.STANDARD if file.startswith("<frozen ") or _is_standard(top) else CodeOrigin.USERS
    path = _normalize_path(file)
    ours, standard = _code_roots()
    if path.startswith(ours):
        return CodeOrigin.OURS
    if not _INSTALLED.isdisjoint(path.split("/")):
        return CodeOrigin.LIBRARY
    return CodeOrigin.STANDARD if path.startswith(standard) else CodeOrigin.USERS


@cache
def _code_roots() -> tuple[str, tuple[str, ...]]:
    """Return where dokimos is, and where the standard library is, in the form of `_normalize_path`."""
    import sysconfig

    ours = _normalize_path(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    standard = {os.path.dirname(os.__file__), *map(sysconfig.get_path, ("stdlib", "platstdlib"))}
    return f"{ours}/", tuple(f"{_normalize_path(path)}/" for path in standard if path)


def _normalize_path(path: str) -> str:
    return os.path.normcase(path).replace("\\", "/").rstrip("/")


def _is_standard(module: str) -> bool:
    return module in sys.stdlib_module_names and module != "__main__"
