"""Which files of this machine an agent may name: those in folders that the user allowed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Self

from dokimos._mcp.tool import ToolError

DATASETS: Final = (".json", ".jsonl", ".csv")
SUITES: Final = (".yaml", ".yml")
MOST_FILES: Final = 5_000
"""Files that are looked at to list data sets."""
_SKIPPED: Final = frozenset({"node_modules", "__pycache__", "site-packages"})


def is_workplace(folder: Path) -> bool:
    """Whether somebody chose to work in a folder: clients start servers in the root or in a home."""
    return folder not in (Path(folder.anchor), Path.home().resolve())


@dataclass(frozen=True, slots=True)
class AllowedFolders:
    """Folders whose files may be read. The first one is what relative paths start from."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, folders: Iterable[str | Path]) -> Self:
        """Allow these folders; without any, the current one, unless that is a home or the root of all."""
        given = tuple(Path(folder).resolve() for folder in folders)
        here = Path.cwd().resolve()
        return cls(given or ((here,) if is_workplace(here) else ()))

    def find(self, path: str, suffixes: tuple[str, ...]) -> Path:
        """Return the file that a path names, after all symbolic links.

        Raises:
            ToolError: where it is outside of the folders, has another suffix, or is not a file.
        """
        if not self.folders:
            raise ToolError("No folder is allowed: start the server with --allow FOLDER.")
        try:
            found = (self.folders[0] / Path(path).expanduser()).resolve()
        except (OSError, ValueError, RuntimeError):  # too long, a NUL, links in a circle, an unknown user
            raise ToolError(f"{path[:200]!r} is not the path of a file.") from None
        if not any(found.is_relative_to(folder) for folder in self.folders):
            # In the same words whether it exists: what is outside is not to be explored.
            raise ToolError(f"{path[:200]!r} is not in an allowed folder; allowed are {self}.")
        if found.suffix.lower() not in suffixes:
            raise ToolError(f"{path[:200]!r} must end with {' or '.join(suffixes)}.")
        if not _is_file(found):
            raise ToolError(f"There is no file {path[:200]!r} in the allowed folders ({self}).")
        return found

    def list_files(self, suffixes: tuple[str, ...]) -> tuple[list[Path], str | None]:
        """Return the files with these suffixes, in all folders below, and what is missing, None for nothing.

        Links to files elsewhere are left out.
        """
        entries = (path for folder in self.folders for path in _walk(folder))
        found = list(islice(entries, MOST_FILES + 1))
        files = {path for path in found[:MOST_FILES] if path.suffix.lower() in suffixes and self._holds(path)}
        is_cut = len(found) > MOST_FILES
        return sorted(files), f"only the first {MOST_FILES:,} files were searched" if is_cut else None

    def _holds(self, path: Path) -> bool:
        try:
            found = path.resolve()
            return found.is_file() and any(found.is_relative_to(folder) for folder in self.folders)
        except (OSError, RuntimeError):
            return False

    def __str__(self) -> str:
        return ", ".join(map(str, self.folders))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long, or in a folder that may not be read
        return False


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        for name in sorted(files):
            if not name.startswith("."):
                yield Path(parent) / name
