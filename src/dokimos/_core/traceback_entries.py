"""The entries of a traceback: whose code each is, and how its file and its line are shown."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Final

from dokimos._core.error_detail import Frame
from dokimos._runtime.code_origin import CodeOrigin, find_code_origin

LONGEST_SOURCE: Final = 200
_LONGEST_EXTRACT: Final = 2000
"""Characters that a traceback shows of one line's source, with the marks below it."""
_EDGE_ENTRIES: Final = 2000
"""So many entries at each end of a traceback are looked at."""
_MAX_CACHED_ENTRIES: Final = 2000

_INPUT_CELL: Final = re.compile(r"<ipython-input-(\d+)-")


@dataclass(frozen=True, slots=True)
class TracebackEntry:
    """One entry of a traceback."""

    code: CodeType
    """Kept, so that nothing else gets its identity while the cache has the entry by it."""
    frame: Frame
    origin: CodeOrigin
    package: str
    text: str
    """As a traceback shows it."""


_entry_cache: Final[dict[tuple[int, int, int | None, str], TracebackEntry]] = {}
"""Reading the source takes a hundred times as long as looking here, and many items fail at one place."""


def read_traceback(traceback: TracebackType | None, directory: str) -> list[TracebackEntry]:
    """Return the entries of a traceback, the outermost first; of a very long one those at its ends.

    `directory` is what files are shown relative to.
    """
    head: list[TracebackEntry] = []
    tail: list[TracebackEntry] = []
    while traceback is not None:
        (head if len(head) < _EDGE_ENTRIES else tail).append(_entry_of(traceback, directory))
        if len(tail) > 2 * _EDGE_ENTRIES:
            del tail[:_EDGE_ENTRIES]
        traceback = traceback.tb_next
    return head + tail


def _entry_of(traceback: TracebackType, directory: str) -> TracebackEntry:
    code, line = traceback.tb_frame.f_code, traceback.tb_lineno
    key = (id(code), traceback.tb_lasti, line, directory)
    entry = _entry_cache.get(key)
    if entry is None:
        if len(_entry_cache) >= _MAX_CACHED_ENTRIES:
            _entry_cache.clear()
        entry = _entry_cache[key] = _new_entry(traceback, directory)
    return entry


def _new_entry(traceback: TracebackType, directory: str) -> TracebackEntry:
    code = traceback.tb_frame.f_code
    module = traceback.tb_frame.f_globals.get("__name__")
    module = module if isinstance(module, str) else ""
    file = shorten_path(code.co_filename, directory)
    function = code.co_qualname.rpartition("<locals>.")[2]
    source, lines = _source_of(traceback)
    head = f'  File "{file}", line {traceback.tb_lineno}, in {code.co_name}\n'
    return TracebackEntry(
        code,
        Frame(file, traceback.tb_lineno, function, source),
        find_code_origin(code.co_filename, module),
        module.partition(".")[0] or code.co_filename,
        head + lines,
    )


def _source_of(traceback: TracebackType) -> tuple[str, str]:
    """Return the line of the source, and the lines that a traceback shows of it."""
    from traceback import extract_tb

    alone = TracebackType(None, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)
    try:
        summary = extract_tb(alone)
        extract = summary.format()[0].partition("\n")[2]
        return clip_source_line(summary[0].line or ""), extract if len(extract) <= _LONGEST_EXTRACT else ""
    except Exception:  # a loader of somebody else's may fail to give the source
        return "", ""


def clip_source_line(text: str) -> str:
    """Return a line of source without the blanks around it, cut where it is very long."""
    text = text.strip()
    return text if len(text) <= LONGEST_SOURCE else f"{text[: LONGEST_SOURCE - 1]}…"


# ---- files ----


def working_directory() -> str:
    """Return the folder that files are shown relative to, "" where there is none."""
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return ""


def shorten_path(file: str, directory: str) -> str:
    """Return a path for people: relative to `directory` or with `~` where it lies below, else absolute."""
    cell = _notebook_cell(file)
    if cell is not None:
        return cell
    if file.startswith("<"):
        return file
    home = os.path.expanduser("~")
    for path in (file, os.path.realpath(file)):  # the working directory has no symbolic links in it
        inside = _relative_path(path, directory)
        if inside is not None:
            return inside
    at_home = _relative_path(file, home)
    return _use_slashes(os.path.normpath(file)) if at_home is None else f"~/{at_home}"


def _relative_path(file: str, folder: str) -> str | None:
    """Return a path relative to a folder, None where it is not in it, or on another drive."""
    path, start = _use_slashes(file), f"{_use_slashes(folder).rstrip('/')}/"
    below = len(start) > 1 and os.path.normcase(path).startswith(os.path.normcase(start))
    return path[len(start) :] if below else None


def _use_slashes(path: str) -> str:
    return path.replace("\\", "/") if os.sep == "\\" else path


def _notebook_cell(file: str) -> str | None:
    """Return what IPython calls a cell, `In[3]`; None for a file."""
    numbered = _INPUT_CELL.match(file)
    if numbered is not None:
        return f"In[{numbered[1]}]"
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return None
    try:
        label = ipython.get_ipython().compile.format_code_name(file)
        return str(label[1]) if label else None
    except Exception:  # another version of it, or no shell
        return None
