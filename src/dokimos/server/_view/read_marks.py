"""How far each run has been read into the database: a file beside it, which may be lost with it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from dokimos._version import __version__
from dokimos.server._db.migrate import HEAD, TRACE_HEAD

MARKS_FILE: Final = "read.json"
_FORMAT: Final = 1
VERSION: Final = [_FORMAT, __version__, HEAD, TRACE_HEAD]
"""What made the database: that of another version is made anew, which costs less than to know all of them."""


@dataclass(slots=True)
class ReadMark:
    """How far one run has been read.

    Items are sent in their order, and the journal may go on meanwhile: it has been sent up to `base`, and is
    being sent up to `end`, of which `last` is the last item that was.
    """

    run_id: str = ""
    """The run in the database, empty before it has one."""
    stamp: list[int] = field(default_factory=list)
    """Sizes and times of its files when all of it had been read."""
    base: int = 0
    end: int = 0
    last: list[int] | None = None
    status: str = ""
    """That of the run in the database."""
    problem: str = ""
    """Why it cannot be read, as long as its files are as they are."""


class ReadMarks:
    """The marks of all runs, by what their sources are called."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / MARKS_FILE
        self.marks = _load(self._path)
        self._saved = ""

    def __getitem__(self, key: str) -> ReadMark:
        return self.marks.setdefault(key, ReadMark())

    def save(self) -> None:
        """Write them, whole or not at all; what cannot be written is read again the next time."""
        text = self._render()
        if text == self._saved:
            return
        draft = self._path.with_suffix(f".{os.getpid()}")
        try:
            draft.write_text(text, encoding="utf-8", errors="backslashreplace")
            os.replace(draft, self._path)
        except OSError:
            draft.unlink(missing_ok=True)
        else:
            self._saved = text

    def _render(self) -> str:
        marks = {key: asdict(mark) for key, mark in self.marks.items()}
        return json.dumps({"version": VERSION, "marks": marks}, separators=(",", ":"))


def is_current(folder: Path) -> bool:
    """Say whether the marks in a folder, and so the database beside them, are of this version."""
    return _read(folder / MARKS_FILE) is not None


def _load(path: Path) -> dict[str, ReadMark]:
    known = {each.name for each in fields(ReadMark)}
    marks = _read(path) or {}
    return {
        key: ReadMark(**{name: value for name, value in mark.items() if name in known})
        for key, mark in marks.items()
    }


def _read(path: Path) -> dict[str, dict[str, Any]] | None:
    """Return the marks of a file, None where it is missing, damaged or of another version."""
    try:
        tree = json.loads(path.read_bytes())
        marks: dict[str, dict[str, Any]] = tree["marks"]
        return marks if tree["version"] == VERSION else None
    except (OSError, ValueError, LookupError, TypeError):
        return None
