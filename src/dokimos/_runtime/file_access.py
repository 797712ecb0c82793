"""Record which files a command has read, so that a later command can detect that they have changed.

Python announces every file that it opens in an audit event, so prompts and templates that an application
reads are known without a change to its code. Files that native code opens, such as databases, are not.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any, Final, cast

MOST_FILES: Final = 20_000
"""An application that opens more of them reads data, and what it is made of cannot be told from that."""
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LISTINGS: Final = frozenset({"os.listdir", "os.scandir"})
_STARTS: Final = frozenset({
    "subprocess.Popen", "os.system", "os.exec", "os.spawn", "os.posix_spawn", "os.fork", "os.forkpty",
})  # fmt: skip
_HARMLESS: Final = frozenset({"git", "uname", "lsb_release", "ldconfig", "gcc", "cc", "getconf"})
"""Programs by which Python and clients of providers find out on what they run."""
_PYTHON: Final = (os.path.dirname(os.__file__) + os.sep, "<frozen ")
_PACKAGES: Final = ("site-packages", "dist-packages")
_OURS: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_SHARED: Final = ("read", "written", "opened", "listed", "missing", "programs")
"""What the processes of a run tell each other."""
_IMPORTING: Final = ("<frozen importlib", os.path.join("importlib", "metadata"), "pkgutil.py")
"""Parts of Python that list folders to find modules."""


class FilesRead:
    """The files that were opened since `start`, by absolute path."""

    def __init__(self) -> None:
        self.started_ns = 0
        """When `start` was called, 0 while nothing is recorded."""
        self.read: dict[str, None] = {}
        self.written: dict[str, None] = {}
        self.data: dict[str, set[str]] = {}
        """Data sets and suites: what is asked, and not what answers; with the modules that loaded them."""
        self.opened: dict[str, None] = {}
        """What was not opened by our own modules, so that the application may know what is in it."""
        self.listed: dict[str, None] = {}
        """Folders of which the application has read the names."""
        self.missing: dict[str, None] = {}
        """Files that were looked for in vain, and not by opening them."""
        self.programs: dict[str, None] = {}
        """Programs that the application has started: what they read is not known."""
        self.evaluation: str | None = None
        """The module that holds the experiment."""
        self.graders: dict[str, str] = {}
        """Files of functions that only grade, with the modules that suites name them by."""
        self.applications: set[str] = set()
        """Modules of applications, as suites name them."""
        self._taken: dict[str, int] = {}
        """How many records of each kind `take_news` has returned."""
        self.is_full = False
        """Whether there were more than could be recorded."""
        self._is_hooked = False

    def start(self) -> None:
        """Forget what was recorded and begin anew."""
        self.read, self.written, self.data = {}, {}, {}
        self.opened, self.listed, self.missing, self.programs = {}, {}, {}, {}
        self.evaluation, self.graders, self.applications = None, {}, set()
        self._taken, self.is_full = {}, False
        self.started_ns = time.time_ns()
        if not self._is_hooked:
            self._is_hooked = True
            sys.addaudithook(self._on_audit_event)  # cannot be removed; it hears of nothing before `start`

    def record_data(self, path: str | os.PathLike[str]) -> None:
        """Record a file that holds rows or cases."""
        if self.started_ns:
            self.data.setdefault(os.path.abspath(path), set()).add(_caller(but=_OURS))

    def record_missing(self, path: str | os.PathLike[str]) -> None:
        """Record a file that is not there: what reads it would do something else if it were."""
        if self.started_ns:
            self._record(self.missing, path)

    def record_listing(self, folder: str | os.PathLike[str]) -> None:
        """Record a folder of which our own modules have read the names for the application."""
        if self.started_ns:
            self._record(self.listed, folder)

    def record_earlier(self, paths: Iterable[str], programs: Iterable[str]) -> None:
        """Record what a run had read and started whose outputs stand for those of this one."""
        for path in paths:
            for records in (self.listed,) if os.path.isdir(path) else (self.read, self.opened):
                records[path] = None
        self.programs.update(dict.fromkeys(programs))

    def take_news(self) -> dict[str, list[str]]:
        """Return what was recorded since the last time, by the kind of record."""
        news = {}
        for kind in _SHARED:
            records = getattr(self, kind)
            if len(records) > self._taken.get(kind, 0):
                paths = list(records)  # at once: other threads may open files meanwhile
                news[kind] = paths[self._taken.get(kind, 0) :]
                self._taken[kind] = len(paths)
        if self.is_full:
            news["is_full"] = []
        return news

    def add_news(self, news: Mapping[str, Iterable[str]]) -> None:
        """Record what another process of the same run has recorded."""
        for kind, paths in news.items():
            if kind == "is_full":
                self.is_full = True
            else:
                getattr(self, kind).update(dict.fromkeys(paths))

    def record_grader(self, reference: str, grader: object) -> None:
        """Record where a function is that grades, and does not answer."""
        code = getattr(grader, "__code__", None)
        if self.started_ns and code is not None:
            self.graders[os.path.abspath(code.co_filename)] = reference.rpartition(":")[0]

    def record_application(self, reference: str) -> None:
        """Record by which module a suite names its application."""
        self.applications.add(reference.rpartition(":")[0])

    def _on_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        # This is called for every event of the process, and what it raises would be raised by the
        # application.
        if event == "open":
            flags = arguments[2]
            is_written = isinstance(flags, int) and bool(flags & _WRITING)
            self._record(self.written if is_written else self.read, arguments[0])
            if not is_written and not _caller().startswith(_OURS):
                self._record(self.opened, arguments[0])
        elif event == "os.rename":  # how a file is written whole or not at all
            self._record(self.written, arguments[1])
        elif event in _LISTINGS:
            if not _caller().startswith((_OURS, *_IMPORTING)):
                self._record(self.listed, "." if arguments[0] is None else arguments[0])
        elif event in _STARTS and not _caller().startswith(_OURS):
            self._record_program(arguments)

    def _record_program(self, arguments: tuple[Any, ...]) -> None:
        """Record a program that is started, and the files that its command names."""
        try:
            texts = _command(arguments)
            name = os.path.basename(texts[0]) if texts else "a process of its own"
            if name in _HARMLESS:
                return
            self.programs[name] = None
            folder = os.fsdecode(arguments[2]) if len(arguments) > 2 and _is_path(arguments[2]) else ""
            words = [word for text in texts for word in (text, *text[:10_000].split())]
            for path in filter(os.path.isfile, (os.path.join(folder, word) for word in words)):
                self._record(self.read, path)
        except Exception:  # what is raised here would be raised by the application's own start of it
            self.is_full = True

    def _record(self, found: dict[str, None], path: object) -> None:
        if not _is_path(path):
            return
        if len(found) >= MOST_FILES:
            self.is_full = True
            return
        try:
            found[os.path.abspath(os.fsdecode(cast("str", path)))] = None
        except Exception:  # what is raised here would be raised by the application's own `open`
            self.is_full = True


def _command(arguments: tuple[Any, ...]) -> list[str]:
    """Return the words of the command that is started, none where a process forks."""
    command: Any = arguments[1] if len(arguments) > 1 else arguments[:1]
    return [os.fsdecode(part) for part in ([command] if _is_path(command) else command)]


def _is_path(value: object) -> bool:
    return isinstance(value, str | bytes | os.PathLike)


def _caller(but: str = "") -> str:
    """Return the file of the code that made Python do what it announces, "" if it is Python's own.

    Python's modules are passed over, except where they look for modules; and what begins with `but`.
    """
    # Not inspect.stack, which reads source files: this runs for each file that is opened.
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        for part in _IMPORTING:
            if part in name:
                return part
        is_python = name.startswith(_PYTHON) and not any(each in name for each in _PACKAGES)
        if not is_python and not (but and name.startswith(but)):
            return name
        frame = frame.f_back
    return ""


files_read: Final = FilesRead()
"""Those of this process."""
