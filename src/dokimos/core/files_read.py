"""Which files a command has read, so that it can be told later whether they have changed.

Python announces every file that it opens in an audit event, so prompts and templates that an application
reads are known without a word in its code. Files that native code opens, such as databases, are not.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Final

MOST_FILES: Final = 20_000
"""An application that opens more of them reads data, and what it is made of cannot be told from that."""
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class FilesRead:
    """The files that were opened since `start`, by absolute path."""

    def __init__(self) -> None:
        self.started_ns = 0
        """When `start` was called, 0 while nothing is recorded."""
        self.read: dict[str, None] = {}
        self.written: dict[str, None] = {}
        self.data: dict[str, None] = {}
        """Data sets and suites: what is asked, and not what answers."""
        self.evaluation: str | None = None
        """The module that holds the experiment."""
        self.graders: dict[str, str] = {}
        """Files of functions that only grade, with the modules that suites name them by."""
        self.applications: set[str] = set()
        """Modules of applications, as suites name them."""
        self.is_full = False
        """Whether there were more than could be recorded."""
        self._is_hooked = False

    def start(self) -> None:
        """Forget what was recorded and begin anew."""
        self.read, self.written, self.data = {}, {}, {}
        self.evaluation, self.graders, self.applications = None, {}, set()
        self.is_full = False
        self.started_ns = time.time_ns()
        if not self._is_hooked:
            self._is_hooked = True
            sys.addaudithook(self._hear)  # cannot be removed; it hears of nothing before `start`

    def note_data(self, path: str | os.PathLike[str]) -> None:
        """Record a file that holds rows or cases."""
        if self.started_ns:
            self.data[os.path.abspath(path)] = None

    def note_grader(self, reference: str, grader: object) -> None:
        """Record where a function is that grades, and does not answer."""
        code = getattr(grader, "__code__", None)
        if self.started_ns and code is not None:
            self.graders[os.path.abspath(code.co_filename)] = reference.rpartition(":")[0]

    def note_application(self, reference: str) -> None:
        """Record by which module a suite names its application."""
        self.applications.add(reference.rpartition(":")[0])

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            flags = arguments[2]
            is_written = isinstance(flags, int) and bool(flags & _WRITING)
            self._record(self.written if is_written else self.read, arguments[0])
        elif event == "os.rename":  # how a file is written whole or not at all
            self._record(self.written, arguments[1])

    def _record(self, found: dict[str, None], path: object) -> None:
        if not isinstance(path, str | bytes):
            return
        if len(found) >= MOST_FILES:
            self.is_full = True
            return
        try:
            found[os.path.abspath(os.fsdecode(path))] = None
        except Exception:  # what is raised here would be raised by the application's own `open`
            self.is_full = True


files_read: Final = FilesRead()
"""Those of this process."""
