"""From an exception to where it came from; never raises, and costs little enough for each item of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from dokimos.core.error_detail import ErrorDetail, Frame, with_place
from dokimos.core.figures import cut
from dokimos.core.frames import Origin, Step, origin_of, short_path, source_line, steps_of, working_directory
from dokimos.core.text import LONGEST_ERROR, error_message, error_text
from dokimos.errors import DokimosError
from dokimos.runtime.secrets import secret_redactor

MOST_FRAMES: Final = 20
LONGEST_TRACEBACK: Final = 20_000
MOST_EXCEPTIONS: Final = 20
"""So many causes and members of groups are looked at, and written out."""
_EDGE: Final = 25
"""So many places at each end of a long traceback are written out."""
_REPEATS: Final = 3
"""A line that calls itself is written so often."""
_MOST_SHARED: Final = 256

_CAUSE: Final = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT: Final = "\nDuring handling of the above exception, another exception occurred:\n\n"
_HEAD: Final = "Traceback (most recent call last):\n"

_shared: Final[dict[Any, Any]] = {}
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


def located_error_text(error: BaseException) -> str:
    """Return `Type: message (app.py:41 in answer)`, without the place where it is not known."""
    return with_place(error_text(error), describe_exception(error))


class _Description:
    """Reads one exception and those behind it."""

    def __init__(self, error: BaseException) -> None:
        self._error = error
        self._directory = working_directory()
        self._clean = secret_redactor()
        self._known: dict[int, list[Step]] = {}

    def detail(self) -> ErrorDetail | None:
        steps = self._users_steps(self._error, set())
        if not steps and isinstance(self._error, DokimosError):
            return None
        steps = steps or _called_library(self._steps(self._error))
        frames = [step.frame for step in steps] + self._uncompiled()
        found = tuple(self._cleaned(frame) for frame in _without_repeats(frames)[-MOST_FRAMES:])
        text = self._clean("".join(self._chain(self._error, set())))
        return ErrorDetail(
            _type_name(self._error),
            error_message(self._error, self._clean),
            _share(found),
            _share(cut(text.rstrip("\n"), LONGEST_TRACEBACK)),
        )

    def _steps(self, error: BaseException) -> list[Step]:
        found = self._known.get(id(error))
        if found is None:
            found = self._known[id(error)] = steps_of(error.__traceback__, self._directory)
        return found

    def _users_steps(self, error: BaseException, seen: set[int]) -> list[Step]:
        """Return the user's frames of an exception and of what its group holds, else of what is behind it."""
        if id(error) in seen or len(seen) >= MOST_EXCEPTIONS:
            return []
        seen.add(id(error))
        steps = [step for step in self._steps(error) if step.origin is Origin.USERS]
        if isinstance(error, BaseExceptionGroup):
            members = (self._users_steps(member, seen) for member in error.exceptions)
            return steps + next(filter(None, members), [])
        behind = None if steps else _behind(error)
        return steps if behind is None else self._users_steps(behind, seen)

    def _uncompiled(self) -> list[Frame]:
        """Return the place that a SyntaxError names: a file of the user's that could not be compiled."""
        error = self._error
        if not isinstance(error, SyntaxError) or not error.filename or error.filename.startswith("<"):
            return []
        if origin_of(error.filename) is not Origin.USERS:
            return []
        file = short_path(error.filename, self._directory)
        return [Frame(file, error.lineno, "", source_line(error.text or ""))]

    def _cleaned(self, frame: Frame) -> Frame:
        file, source = self._clean(frame.file), self._clean(frame.source)
        same = file == frame.file and source == frame.source
        return frame if same else replace(frame, file=file, source=source)

    def _chain(self, error: BaseException, seen: set[int]) -> Iterator[str]:
        """Yield the pieces of a traceback as Python prints it: what is behind an exception comes first."""
        links: list[tuple[BaseException, str]] = []
        found: BaseException | None = error
        joint = ""
        while found is not None and id(found) not in seen and len(seen) < MOST_EXCEPTIONS:
            seen.add(id(found))
            links.append((found, joint))
            joint = _CONTEXT if found.__cause__ is None else _CAUSE
            found = _behind(found)
        for link, joint in reversed(links):
            yield from self._alone(link)
            if isinstance(link, BaseExceptionGroup):
                yield from self._members(link, seen)
            yield joint

    def _alone(self, error: BaseException) -> Iterator[str]:
        steps = _from_outside(self._steps(error))
        if steps:
            yield _HEAD
            yield from _stack(steps)
        if isinstance(error, SyntaxError):
            yield from self._syntax(error)
        else:
            message = error_message(error, self._clean)
            yield f"{_type_name(error)}: {message}\n" if message else f"{_type_name(error)}\n"
        notes = getattr(error, "__notes__", None)
        if isinstance(notes, Sequence):
            texts = (note for note in notes if isinstance(note, str))
            yield from (f"{self._clean(note[:LONGEST_TRACEBACK])[:LONGEST_ERROR]}\n" for note in texts)

    def _syntax(self, error: SyntaxError) -> Iterator[str]:
        from traceback import format_exception_only

        file = error.filename or "<string>"
        for line in format_exception_only(error):
            yield line.replace(f'"{file}"', f'"{short_path(file, self._directory)}"')

    def _members(self, group: BaseExceptionGroup[BaseException], seen: set[int]) -> Iterator[str]:
        for number, member in enumerate(group.exceptions, 1):
            if len(seen) >= MOST_EXCEPTIONS:
                yield f"  | ... and {len(group.exceptions) - number + 1} more\n"
                return
            yield f"  +---------------- {number} ----------------\n"
            for line in "".join(self._chain(member, seen)).splitlines():
                yield f"  | {line}\n"


def _behind(error: BaseException) -> BaseException | None:
    """Return what a traceback shows above an exception."""
    if error.__cause__ is not None:  # not by its truth: an exception may have a length
        return error.__cause__
    return None if error.__suppress_context__ else error.__context__


def _called_library(steps: list[Step]) -> list[Step]:
    """Return the innermost frame of the package that was called, rather than of what that called in turn."""
    foreign = [step for step in steps if step.origin is not Origin.OURS and step.package != "importlib"]
    called = [step for step in foreign if step.origin is Origin.LIBRARY] or foreign
    return [step for step in called if step.package == called[0].package][-1:]


def _without_repeats(frames: list[Frame]) -> list[Frame]:
    return [frame for place, frame in enumerate(frames) if place == 0 or frame is not frames[place - 1]]


def _from_outside(steps: list[Step]) -> list[Step]:
    """Leave out how dokimos came to call what failed."""
    for wanted in ((Origin.USERS, Origin.LIBRARY), (Origin.STANDARD,)):
        for place, step in enumerate(steps):
            if step.origin in wanted:
                return steps[place:]
    return steps


def _stack(steps: list[Step]) -> Iterator[str]:
    runs: list[list[Step]] = []
    for step in steps:
        if runs and runs[-1][0] is step:
            runs[-1].append(step)
        else:
            runs.append([step])
    for place, run in enumerate(runs):
        if _EDGE <= place < len(runs) - _EDGE:
            if place == _EDGE:
                yield f"  [{sum(map(len, runs[_EDGE:-_EDGE]))} frames are not shown]\n"
            continue
        yield from (step.text for step in run[:_REPEATS])
        if len(run) > _REPEATS:
            yield f"  [Previous line repeated {len(run) - _REPEATS} more times]\n"


def _type_name(error: BaseException) -> str:
    kind = type(error)
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"


def _share(value: Any) -> Any:
    """Return an equal value that an earlier error has, if there is one."""
    if len(_shared) >= _MOST_SHARED:
        _shared.clear()
    return _shared.setdefault(value, value)
