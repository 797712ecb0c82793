"""`--watch`: the same run again whenever a file of the application or of its evaluation changes.

Each run is a process of its own, so that every module is loaded as it is now. It reports which files it has
read or looked for in vain, and which folders it has listed; they are looked at a few times a second, which
works on every file system and needs no package.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dokimos._cli.echo import echo
from dokimos._cli.watch_report import REPORT_VARIABLE
from dokimos._core.text import format_list, pluralize

POLL_SECONDS: Final = 0.3
YOUNG_SECONDS: Final = 3.0
"""A file that changed so recently may change again without a new time stamp, so its content is read."""
MOST_POLLS: Final = 20
"""How long a file may keep changing before a run starts anyway."""
_SOURCES: Final = (".py", ".yaml", ".yml")
_MOST_RESTLESS: Final = 2
"""A file that changed during so many runs in a row is written by them."""


@dataclass(frozen=True, slots=True)
class FilesReport:
    """What a run says of its files when it ends."""

    paths: Sequence[str] = ()
    """Files that it has read or looked for in vain, and folders that it has listed."""
    written: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _State:
    status: tuple[int, ...]
    mark: str


@dataclass
class FileStates:
    """What the watched files are like; a change is one of their content, however a file was replaced.

    Of a folder that runs list, a change is one of its names, except for the files that they write;
    of a folder in which a watched file is, one of the names of sources.
    """

    clock: Callable[[], float] = time.time
    _known: dict[str, _State] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)
    _written: set[str] = field(default_factory=set)

    def watch(self, paths: Sequence[str]) -> None:
        """Watch these files and folders from now on, and the names of the sources in the files' folders."""
        # Before these were only source folders, of which other names count, so they are looked at anew.
        newly_listed = {path for path in paths if path not in self._reported and os.path.isdir(path)}
        self._reported.update(paths)
        for path in [*paths, *{os.path.dirname(path) for path in paths}]:
            if path not in self._known or path in newly_listed:
                self._known[path] = self._look(path, None)

    def ignore_names(self, written: Iterable[str]) -> None:
        """Take the names of files that a run has written for no change of their folders."""
        self._written.update(written)
        for folder in {os.path.dirname(path) for path in written} & self._reported & self._known.keys():
            before = self._known[folder]
            names = "\n".join(self._not_written(folder, before.mark.split("\n")))
            self._known[folder] = _State(before.status, names)

    def __contains__(self, path: str) -> bool:
        return path in self._known

    def __len__(self) -> int:
        return sum(map(os.path.isfile, self._known))

    def is_source_folder(self, path: str) -> bool:
        """Say whether this is a folder that no run has listed, of which only sources count."""
        return path not in self._reported and os.path.isdir(path)

    def changes(self) -> list[str]:
        """Return what has changed since the last look."""
        changed = []
        for path, before in self._known.items():
            now = self._look(path, before)
            self._known[path] = now
            if now.mark != before.mark:
                changed.append(path)
        return changed

    def _look(self, path: str, before: _State | None) -> _State:
        try:
            status = os.stat(path)
        except OSError:
            # A file that is not there is a state like others: it may come.
            return _State((0, 0, 0), "")
        now = (status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode)
        is_young = self.clock() - status.st_mtime < YOUNG_SECONDS
        # Not by time stamps alone: some file systems have those of 2 s, and editors replace files.
        if before is not None and before.status == now and not is_young:
            return before
        return _State(now, self._names(path) if os.path.isdir(path) else _content(path))

    def _names(self, folder: str) -> str:
        from dokimos.experiment._code_record import list_visible_names

        try:
            names = list_visible_names(folder)
        except OSError:
            return ""
        if folder not in self._reported:
            return "\n".join(name for name in names if name.endswith(_SOURCES))
        return "\n".join(["", *self._not_written(folder, names)])

    def _not_written(self, folder: str, names: Iterable[str]) -> Iterator[str]:
        return (name for name in names if os.path.join(folder, name) not in self._written)


def _content(path: str) -> str:
    from dokimos.experiment._code_record import hash_content

    return hash_content(path)


@dataclass
class Watch:
    """Runs a command again and again; `run_once` returns what a run says of its files."""

    run_once: Callable[[], FilesReport]
    pause: Callable[[float], None] = time.sleep
    states: FileStates = field(default_factory=FileStates)
    _restless: dict[str, int] = field(default_factory=dict)

    def forever(self) -> None:
        """Run, wait for a change, and so on, until Ctrl-C raises `KeyboardInterrupt`."""
        while True:
            self.once()

    def once(self) -> None:
        """Run, then wait for a change."""
        started = self.states.clock()
        report = self.run_once()
        self.states.ignore_names(report.written)
        changed = self._find_changes_meanwhile(report.paths, started)
        self.states.watch(report.paths)
        if not changed:
            echo(f"Watching {pluralize(len(self.states), 'file')}; Ctrl-C ends it.", err=True)
            changed = self._wait()
        relative_paths = [os.path.relpath(path) for path in changed]
        echo(f"\nChanged: {format_list(relative_paths)}", err=True)

    def _find_changes_meanwhile(self, files: Iterable[str], started: float) -> list[str]:
        """Return what was changed while the run was going on, and not by each of the runs."""
        changed = dict.fromkeys(self.states.changes())
        new = (path for path in files if path not in self.states)
        changed.update(
            (path, None) for path in new if os.path.isfile(path) and _modification_time(path) > started
        )
        self._restless = {path: self._restless.get(path, 0) + 1 for path in changed}
        written = [path for path, times in self._restless.items() if times > _MOST_RESTLESS]
        return [path for path in changed if path not in written and not self.states.is_source_folder(path)]

    def _wait(self) -> list[str]:
        changed: dict[str, None] = {}
        while not changed:
            self.pause(POLL_SECONDS)
            changed.update(dict.fromkeys(self.states.changes()))
        for _ in range(MOST_POLLS):  # whoever saves several files, or one in steps, is let finish
            self.pause(POLL_SECONDS)
            more = self.states.changes()
            if not more:
                break
            changed.update(dict.fromkeys(more))
        still = self._restless.items()  # what each run writes is known, also after a change by hand
        self._restless = {
            path: times for path, times in still if times > _MOST_RESTLESS and path not in changed
        }
        return list(changed)


def _modification_time(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def watch(arguments: Sequence[str]) -> int:
    """Watch a command of this command line; ends by Ctrl-C."""
    with tempfile.TemporaryDirectory(prefix="dokimos-watch-") as folder:
        report = Path(folder, "files.json")
        Watch(lambda: _run_child(arguments, report)).forever()
    return 0


def strip_watch_option() -> list[str]:
    """Return the arguments of this process without the option that watches."""
    return [argument for argument in sys.argv[1:] if argument != "--watch"]


def _run_child(arguments: Sequence[str], report: Path) -> FilesReport:
    report.unlink(missing_ok=True)
    # Without -P, -m would put the working directory before all other places of modules.
    safe = [] if Path(sys.argv[0]).name == "__main__.py" else ["-P"]
    command = [sys.executable, *safe, "-m", "dokimos", *arguments]
    child = subprocess.Popen(command, env={**os.environ, REPORT_VARIABLE: str(report)})
    try:
        child.wait()
    except KeyboardInterrupt:
        _end(child)
        raise
    return _read_report(report)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Let a run end as Ctrl-C ends it, with all that it has finished."""
    from dokimos._runtime.interrupts import signal_received

    if os.name != "nt":
        child.send_signal(signal_received() or signal.SIGINT)  # a terminal has sent it, too: both are one
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            child.wait()
            return


def _read_report(report: Path) -> FilesReport:
    try:
        return FilesReport(**json.loads(report.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return FilesReport()  # the run was killed: what is watched stays as it is
