"""Content hashes of the files that an application is made of, to see later whether it is still the same.

What cannot be seen: services that the application calls, databases, and files that native code opens.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, Self

from dokimos._core.jsonable import WIRE_CONFIG
from dokimos._runtime.file_access import FilesRead, files_read
from dokimos._version import __version__
from dokimos.experiment._evaluation_code import extract_answering_code, names_data_set

MOST_FILES: Final = 5_000
WHOLE_BYTES: Final = 20_000_000
"""Larger files are compared by size and time instead of content."""
COARSE_NS: Final = 2_000_000_000
"""The delay after which a file system with whole seconds may show that a file has changed."""
_NAME: Final = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_SHELL_VARIABLES: Final = frozenset({
    "COLUMNS", "HOME", "HOSTNAME", "LINES", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "TERM",
    "USER", "_",
})  # fmt: skip
"""Environment variables that count only if the code names them exactly."""
_DISTRIBUTIONS: Final = (".dist-info", ".egg-info", ".egg-link")
_SYSTEM: Final = tuple(f"/{name}/" for name in ("proc", "sys", "dev", "run", "etc", "usr", "lib", "bin"))
_TOOL_FOLDERS: Final = frozenset({
    ".dokimos", ".git", ".hg", ".venv", ".tox", ".nox", ".cache", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", "node_modules",
})  # fmt: skip
"""Folders whose files belong neither to the application nor to its evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRecord:
    """The code and data that a run used."""

    code: Mapping[str, str] = field(default_factory=dict)
    """Hashes of the project's modules and of the files that they read, by absolute path."""
    data: Mapping[str, str] = field(default_factory=dict)
    """Hashes of data sets, suites and graders."""
    environment: str = ""
    """A hash of the installed packages and of the environment variables that the code names."""
    evaluation: str | None = None
    """The file of the experiment, without its evaluators and rows."""
    edited: tuple[str, ...] = ()
    """Files that changed during the run, so that it is unknown which content the run has read."""
    programs: tuple[str, ...] = ()
    """Programs that the application started."""

    __pydantic_config__ = WIRE_CONFIG

    @classmethod
    def now(cls, files: FilesRead = files_read) -> Self | None:
        """Record what this process has read since recording began, None if it has not begun."""
        if not files.started_ns:
            return None
        row_files = _find_row_files(files)
        read_files = [path for path in project_files(files) if path not in row_files]
        code = [*read_files, *_find_rewritten_files(files, read_files)]
        code += [*_find_absent_files(files, read_files), *_find_listed_folders(files, read_files)]
        # No record at all: an incomplete one would vouch for files that it did not see.
        if files.is_full or len(code) > MOST_FILES:
            return None
        evaluation, graders = _find_evaluation_file(files, code), _find_graders(files, code)
        code = [path for path in code if path not in graders]
        data = [*row_files, *graders]
        modified = [path for path in (*read_files, *data) if _has_changed_since(path, files.started_ns)]
        return cls(
            code=_hash_files(code, evaluation),
            evaluation=evaluation,
            data=_hash_files(data),
            environment=_hash_environment(code),
            edited=tuple(dict.fromkeys(modified)),
            programs=tuple(files.programs),
        )

    def code_changes(self) -> list[str]:
        """Return which parts of the application have changed since, empty if none has."""
        changed = [*self.edited, *_find_changed_files(self.code, self.evaluation)]
        if not changed and self.environment != _hash_environment(self.code):
            changed.append("the installed packages or variables of the environment")
        return list(dict.fromkeys(changed))

    def data_changes(self) -> list[str]:
        """Return the data sets and suites that have changed since."""
        return _find_changed_files(self.data)


def project_files(files: FilesRead = files_read) -> list[str]:
    """Return the project files that were read and not written: modules, prompts, data."""
    # Copies, here and below: hashing opens files, and threads of the application may open others meanwhile.
    read_files = dict.fromkeys([*map(_source_of, list(files.read)), *_list_module_files(), *list(files.data)])
    unwritten = [path for path in read_files if path not in files.written]
    code = [path for path in unwritten if path.endswith(".py") and is_project_file(path)]
    roots = _roots(code)
    rest = [path for path in unwritten if not path.endswith(".py") and is_project_file(path, roots)]
    return sorted({*code, *rest})


def list_watched_paths(files: FilesRead = files_read) -> list[str]:
    """Return what a run depends on: project files, files that are not there, and folders that were listed."""
    code = project_files(files)
    return sorted({*code, *_find_absent_files(files, code), *_find_listed_folders(files, code)})


def _list_module_files() -> list[str]:
    """Return the files of all modules of this process."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return [file for file in files if file]


def _find_row_files(files: FilesRead) -> list[str]:
    """Return the data sets and suites of which the application knows nothing but the rows that it is asked.

    It knows more of those that it opens itself, or that another module loads than that of the experiment,
    or that it names.
    """
    evaluation = files.evaluation
    is_named = evaluation is not None and names_data_set(_read_or_empty(evaluation))
    return [
        path
        for path, modules in files.data.items()
        if path not in files.opened
        and not (is_named and evaluation in modules)
        and not any(module != evaluation and is_project_file(module) for module in modules)
    ]


def _find_rewritten_files(files: FilesRead, code: Iterable[str]) -> list[str]:
    """Return the files of the project that were read and written: they count as the run has left them.

    Python writes compiled modules, whose sources count.
    """
    roots = _roots(code)
    return [
        path
        for path in list(files.written)
        if path in files.opened and not path.endswith(".pyc") and is_project_file(path, roots)
    ]


def _find_absent_files(files: FilesRead, code: Iterable[str]) -> list[str]:
    """Return project paths that were looked up and do not exist: they may exist next time."""
    roots = tuple(root.rstrip(os.sep) + os.sep for root in _roots(code))
    sought = dict.fromkeys([*files.read, *files.listed, *files.missing])
    return [
        path
        for path in sought
        if (path.startswith(roots) or (path in files.missing and not path.startswith(_system_folders())))
        and path not in files.written
        and not path.endswith(".pyc")
        and not _is_foreign(path)
        and not os.path.lexists(path)
    ]


def _find_listed_folders(files: FilesRead, code: Iterable[str]) -> list[str]:
    """Return the folders that were listed: another file in them may change the answers."""
    roots = {root.rstrip(os.sep) + os.sep for root in _roots(code)}
    return [
        path
        for path in list(files.listed)
        if os.path.isdir(path)
        and not _is_foreign(path)
        and ((path + os.sep).startswith(tuple(roots)) or not (path + os.sep).startswith(_system_folders()))
    ]


def _roots(code: Iterable[str]) -> set[str]:
    """Return the folders that hold the project."""
    return {os.getcwd(), *(os.path.dirname(path) for path in code if path.endswith(".py"))}


def _system_folders() -> tuple[str, ...]:
    return (*_SYSTEM, tempfile.gettempdir() + os.sep)


def _source_of(path: str) -> str:
    """Return the source of a compiled module, any other path as it is."""
    if not path.endswith(".pyc"):
        return path
    try:
        return importlib.util.source_from_cache(path)
    except ValueError:
        return path


def is_project_file(path: str, roots: Iterable[str] = ()) -> bool:
    """Say whether a file is the user's own: not Python's, nor of a package, nor the system's.

    Below the `roots`, which hold the project's modules, any file is, wherever they are.
    """
    if _is_foreign(path) or not os.path.isfile(path):
        return False
    if path.endswith(".py") or path.startswith(tuple(root.rstrip(os.sep) + os.sep for root in roots)):
        return True
    return not path.startswith(_system_folders())


def _is_foreign(path: str) -> bool:
    """Say whether a file is of Python, a package or dokimos, or in a folder of tools.

    A folder in which the whole project lies is not one of tools. What pip has checked out for an editable
    install (`pip install -e git+...`) is the project's, since it is there to be edited.
    """
    if path.startswith(os.path.join(sys.prefix, "src", "")) and sys.prefix != sys.base_prefix:
        return False
    folders = set(path.split(os.sep)) - set(os.getcwd().split(os.sep))
    return path.startswith(_not_of_project()) or not _TOOL_FOLDERS.isdisjoint(folders)


@cache
def _not_of_project() -> tuple[str, ...]:
    """Folders of Python, of installed packages and of dokimos."""
    own = Path(__file__).resolve().parents[1]
    paths = sysconfig.get_paths()
    folders = {str(own), *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
    folders.update(path for path in sys.path if path.endswith(("site-packages", "dist-packages")))
    # Of a virtual environment all, unless the project lies in it; "/usr" may hold the project, too.
    if sys.prefix != sys.base_prefix and not os.getcwd().startswith(sys.prefix.rstrip(os.sep) + os.sep):
        folders.add(sys.prefix)
    return tuple(f"{folder.rstrip(os.sep)}{os.sep}" for folder in folders)


def _find_evaluation_file(files: FilesRead, code: Iterable[str]) -> str | None:
    """Return the file of the experiment, None if another module imports it and may use its rows."""
    path = files.evaluation
    return path if path is not None and not _is_imported(path, code) else None


def _find_graders(files: FilesRead, code: Iterable[str]) -> set[str]:
    """Return the files that only grade: no module imports them, and they do not hold the application."""
    return {
        path
        for path, module in files.graders.items()
        if module not in files.applications and not _is_imported(path, code)
    }


def _is_imported(path: str, code: Iterable[str]) -> bool:
    """Say whether another module may import this one, judging by its name."""
    name = re.escape(os.path.splitext(os.path.basename(path))[0].encode())
    # Any line that could be such an import counts: a wrong guess this way loses a reuse, the other way a
    # change.
    importing = re.compile(rb"^\s*(from|import)\b.*\b" + name + rb"\b", re.MULTILINE)
    others = (other for other in code if other != path and other.endswith(".py"))
    return any(importing.search(_read_or_empty(other)) for other in others)


def _hash_files(paths: Iterable[str], evaluation: str | None = None) -> dict[str, str]:
    return {path: _hash_file(path, evaluation) for path in paths}


def _hash_file(path: str, evaluation: str | None) -> str:
    """Return a hash of a file's content; of the experiment's file, only of what can affect the answers."""
    if path != evaluation:
        return hash_content(path)
    return hashlib.blake2b(extract_answering_code(_read_or_empty(path)), digest_size=8).hexdigest()


def _read_or_empty(path: str) -> bytes:
    try:
        return _read_file(path)
    except OSError:
        return b""


def hash_content(path: str) -> str:
    """Return a hash of a file's content, or of a folder's names; empty where it cannot be read.

    It tells files that can be executed from those that cannot: who starts one gets an error of the other.
    """
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            names = "\0".join(list_visible_names(path)).encode("utf-8", "surrogateescape")
            return hashlib.blake2b(names, digest_size=8).hexdigest()
        if status.st_size > WHOLE_BYTES:
            return f"{status.st_size}-{status.st_mtime_ns}"
        executable = "x" if status.st_mode & 0o111 else ""
        return hashlib.blake2b(_read_file(path), digest_size=8).hexdigest() + executable
    except OSError:
        return ""


def list_visible_names(folder: str) -> list[str]:
    """Return the sorted names in a folder without hidden ones and what Python makes. Raises `OSError`."""
    return sorted(name for name in os.listdir(folder) if not name.startswith((".", "__pycache__")))


def _read_file(path: str) -> bytes:
    return Path(path).read_bytes()


def _find_changed_files(hashes: Mapping[str, str], evaluation: str | None = None) -> list[str]:
    return [path for path, before in hashes.items() if _hash_file(path, evaluation) != before]


def _has_changed_since(path: str, start_ns: int) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return True
    # The change time, too, since tools can set the other one back. On Windows it is the time of creation.
    changed = max(status.st_mtime_ns, 0 if os.name == "nt" else status.st_ctime_ns)
    return changed >= (start_ns if changed % 1_000_000_000 else start_ns - COARSE_NS)


def _hash_environment(code: Iterable[str]) -> str:
    words: set[str] = set()
    for path in code:
        if path.endswith(".py"):
            words.update(name.decode() for name in _NAME.findall(_read_or_empty(path)))
    variables = {name: value for name, value in os.environ.items() if _is_named(name, words)}
    parts: list[Any] = [sys.version, __version__, _list_installed_packages(), sorted(variables.items())]
    return hashlib.blake2b(repr(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def _is_named(variable: str, words: Set[str]) -> bool:
    """Say whether code names a variable: exactly, in lower case as settings classes do, or its prefix."""
    if variable in words:
        return True
    if variable in _SHELL_VARIABLES:
        return False
    ends = [end for end, letter in enumerate(variable, 1) if letter == "_"]
    prefixes = (variable[:end] for end in ends if end > 1)
    return variable.lower() in words or any(prefix in words for prefix in prefixes)


def _list_installed_packages() -> list[tuple[str, str]]:
    """Return the installed distributions, by the names of their folders, with marks of what is in them.

    The version alone does not tell a wheel that was built again, or an editable install of another folder.
    """
    hashes: dict[str, str] = {}
    for folder in sys.path:
        if folder.endswith(("site-packages", "dist-packages")) and os.path.isdir(folder):
            for name in os.listdir(folder):
                if name.endswith(_DISTRIBUTIONS):
                    hashes.setdefault(name, _hash_distribution(os.path.join(folder, name)))
    return sorted(hashes.items())


def _hash_distribution(folder: str) -> str:
    """Return a hash of the list of files with their hashes, else the time of the installation."""
    record = os.path.join(folder, "RECORD")
    try:
        status = os.stat(record)
        return _hash_record(record, status.st_mtime_ns, status.st_size)
    except OSError:
        return str(os.stat(folder).st_mtime_ns) if os.path.exists(folder) else ""


@lru_cache(maxsize=4096)
def _hash_record(record: str, modified_ns: int, size: int) -> str:
    return hashlib.blake2b(_read_file(record), digest_size=8).hexdigest()
