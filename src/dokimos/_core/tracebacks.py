"""Describe where an exception came from, with its traceback; never raises, and costs little per item.

Frames are filtered by whose code they run (`CodeOrigin`): user frames are shown, those of dokimos are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from dokimos._core.error_detail import ErrorDetail, Frame, append_place
from dokimos._core.number_format import truncate_middle
from dokimos._core.text import LONGEST_ERROR, error_message, error_text
from dokimos._core.traceback_entries import (
    TracebackEntry,
    clip_source_line,
    read_traceback,
    shorten_path,
    working_directory,
)
from dokimos._runtime.code_origin import CodeOrigin, find_code_origin
from dokimos._runtime.redaction import secret_redactor
from dokimos.errors import DokimosError

MOST_FRAMES: Final = 20
LONGEST_TRACEBACK: Final = 20_000
MOST_EXCEPTIONS: Final = 20
"""So many causes and members of groups are looked at, and written out."""
_EDGE_LINES: Final = 25
"""So many places at each end of a long traceback are written out."""
_MAX_LINE_REPEATS: Final = 3
"""A line that calls itself is written so often."""
_MAX_INTERNED: Final = 256

_CAUSE: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"
_HEAD: Final = "Traceback (most recent call last):\n"

_interned: Final[dict[Any, Any]] = {}
"""What several errors have in common: ten thousand items with one bug have one traceback in memory."""


def describe_exception(error: BaseException) -> ErrorDetail | None:
    """Return where an exception came from; call it where the exception is caught.

    None for an error that dokimos raised on purpose without the user's code taking part: its message says
    it all.
    """
    try:
        return _Description(error).detail()
    except Exception:  # whatever an exception is made of: a run must not end because of its description
        return None


def format_located_error(error: BaseException) -> str:
    """Return `Type: message (app.py:41 in answer)`, without the place where it is not known."""
    return append_place(error_text(error), describe_exception(error))


class _Description:
    """Reads one exception and those behind it."""

    def __init__(self, error: BaseException) -> None:
        self._error = error
        self._directory = working_directory()
        self._redact = secret_redactor()
        self._entries_by_id: dict[int, list[TracebackEntry]] = {}

    def detail(self) -> ErrorDetail | None:
        entries = self._user_entries(self._error, set())
        if not entries and isinstance(self._error, DokimosError):
            return None
        entries = entries or _select_called_library(self._entries(self._error))
        frames = [entry.frame for entry in entries] + self._find_syntax_error_frame()
        redacted = tuple(self._redact_frame(frame) for frame in _drop_repeats(frames)[-MOST_FRAMES:])
        text = self._redact("".join(self._format_chain(self._error, set())))
        return ErrorDetail(
            _type_name(self._error),
            error_message(self._error, self._redact),
            _intern(redacted),
            _intern(truncate_middle(text.rstrip("\n"), LONGEST_TRACEBACK)),
        )

    def _entries(self, error: BaseException) -> list[TracebackEntry]:
        entries = self._entries_by_id.get(id(error))
        if entries is None:
            entries = self._entries_by_id[id(error)] = read_traceback(error.__traceback__, self._directory)
        return entries

    def _user_entries(self, error: BaseException, seen: set[int]) -> list[TracebackEntry]:
        """Return the user's frames of an exception and of what its group holds, else of what is behind it."""
        if id(error) in seen or len(seen) >= MOST_EXCEPTIONS:
            return []
        seen.add(id(error))
        entries = [entry for entry in self._entries(error) if entry.origin is CodeOrigin.USERS]
        if isinstance(error, BaseExceptionGroup):
            members = (self._user_entries(member, seen) for member in error.exceptions)
            return entries + next(filter(None, members), [])
        previous = None if entries else _find_previous_error(error)
        return entries if previous is None else self._user_entries(previous, seen)

    def _find_syntax_error_frame(self) -> list[Frame]:
        """Return the place that a SyntaxError names: a file of the user's that could not be compiled."""
        error = self._error
        if not isinstance(error, SyntaxError) or not error.filename or error.filename.startswith("<"):
            return []
        if find_code_origin(error.filename) is not CodeOrigin.USERS:
            return []
        file = shorten_path(error.filename, self._directory)
        return [Frame(file, error.lineno, "", clip_source_line(error.text or ""))]

    def _redact_frame(self, frame: Frame) -> Frame:
        file, source = self._redact(frame.file), self._redact(frame.source)
        same = file == frame.file and source == frame.source
        return frame if same else replace(frame, file=file, source=source)

    def _format_chain(self, error: BaseException, seen: set[int]) -> Iterator[str]:
        """Yield the pieces of a traceback as Python prints it: what is behind an exception comes first."""
        links: list[tuple[BaseException, str]] = []
        current: BaseException | None = error
        separator = ""
        while current is not None and id(current) not in seen and len(seen) < MOST_EXCEPTIONS:
            seen.add(id(current))
            links.append((current, separator))
            separator = _CONTEXT if current.__cause__ is None else _CAUSE
            current = _find_previous_error(current)
        for link, separator in reversed(links):
            yield from self._format_error(link)
            if isinstance(link, BaseExceptionGroup):
                yield from self._format_group(link, seen)
            yield separator

    def _format_error(self, error: BaseException) -> Iterator[str]:
        entries = _skip_own_entries(self._entries(error))
        if entries:
            yield _HEAD
            yield from _format_stack(entries)
        if isinstance(error, SyntaxError):
            yield from self._format_syntax_error(error)
        else:
            message = error_message(error, self._redact)
            yield f"{_type_name(error)}: {message}\n" if message else f"{_type_name(error)}\n"
        notes = getattr(error, "__notes__", None)
        if isinstance(notes, Sequence):
            texts = (note for note in notes if isinstance(note, str))
            yield from (f"{self._redact(note[:LONGEST_TRACEBACK])[:LONGEST_ERROR]}\n" for note in texts)

    def _format_syntax_error(self, error: SyntaxError) -> Iterator[str]:
        from traceback import format_exception_only

        file = error.filename or "<string>"
        for line in format_exception_only(error):
            yield line.replace(f'"{file}"', f'"{shorten_path(file, self._directory)}"')

    def _format_group(self, group: BaseExceptionGroup[BaseException], seen: set[int]) -> Iterator[str]:
        for number, member in enumerate(group.exceptions, 1):
            if len(seen) >= MOST_EXCEPTIONS:
                yield f"  | ... and {len(group.exceptions) - number + 1} more\n"
                return
            yield f"  +---------------- {number} ----------------\n"
            for line in "".join(self._format_chain(member, seen)).splitlines():
                yield f"  | {line}\n"


def _find_previous_error(error: BaseException) -> BaseException | None:
    """Return what a traceback shows above an exception."""
    if error.__cause__ is not None:  # not by its truth: an exception may have a length
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def _select_called_library(entries: list[TracebackEntry]) -> list[TracebackEntry]:
    """Return the innermost frame of the package that was called, rather than of what that called in turn."""
    foreign = [
        entry for entry in entries if entry.origin is not CodeOrigin.OURS and entry.package != "importlib"
    ]
    called = [entry for entry in foreign if entry.origin is CodeOrigin.LIBRARY] or foreign
    return [entry for entry in called if entry.package == called[0].package][-1:]


def _drop_repeats(frames: list[Frame]) -> list[Frame]:
    return [frame for index, frame in enumerate(frames) if index == 0 or frame is not frames[index - 1]]


def _skip_own_entries(entries: list[TracebackEntry]) -> list[TracebackEntry]:
    """Leave out how dokimos came to call what failed."""
    for origins in ((CodeOrigin.USERS, CodeOrigin.LIBRARY), (CodeOrigin.STANDARD,)):
        for index, entry in enumerate(entries):
            if entry.origin in origins:
                return entries[index:]
    return entries


def _format_stack(entries: list[TracebackEntry]) -> Iterator[str]:
    runs: list[list[TracebackEntry]] = []
    for entry in entries:
        if runs and runs[-1][0] is entry:
            runs[-1].append(entry)
        else:
            runs.append([entry])
    for index, run in enumerate(runs):
        if _EDGE_LINES <= index < len(runs) - _EDGE_LINES:
            if index == _EDGE_LINES:
                yield f"  [{sum(map(len, runs[_EDGE_LINES:-_EDGE_LINES]))} frames are not shown]\n"
            continue
        yield from (entry.text for entry in run[:_MAX_LINE_REPEATS])
        if len(run) > _MAX_LINE_REPEATS:
            yield f"  [Previous line repeated {len(run) - _MAX_LINE_REPEATS} more times]\n"


def _type_name(error: BaseException) -> str:
    kind = type(error)
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"


def _intern(value: object) -> Any:
    """Return an equal value that an earlier error has, if there is one."""
    if len(_interned) >= _MAX_INTERNED:
        _interned.clear()
    return _interned.setdefault(value, value)
