"""A process of our own that searches texts for patterns, because only a process can be ended in a search.

It is started when the first search needs it and serves all later ones of this process. Its program is this
module, run as a script without site packages, so that nothing of the caller's `__main__` is imported.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    import io
    import subprocess

Span = tuple[int, int]


class SearchProcessError(Exception):
    """There is no process that searches: none can be started, or it ended more than once."""


_Request = tuple[str, tuple[object, ...]]
"""What is to be done, `search` or `replace`, and the arguments of that: all of builtin types."""
Replacement = tuple[str, str]
"""A pattern, and what takes the place of each of its matches."""


class _EndedError(Exception):
    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


class SearchProcess:
    """A process that is started on first need, searches one text at a time and ends with this one."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._ends_at_exit = False

    def search(self, pattern: re.Pattern[str], text: str, *, whole: bool, limit: float) -> Span | None:
        """Return where a pattern first matches, or None.

        Raises:
            TimeoutError: when it took more than `limit` seconds of CPU time (on Windows, of a clock).
            SearchProcessError: when there is no process to ask.
        """
        # DEBUG would print into the replies; an int, since some programs cannot pickle RegexFlag.
        flags = pattern.flags & ~int(re.DEBUG)
        arguments = (str.__str__(pattern.pattern), flags, str.__str__(text), whole, limit)
        span: Span | None = self._run(("search", arguments), limit)
        return span

    def replace(
        self, replacements: Sequence[Replacement], texts: Sequence[str], *, limit: float
    ) -> tuple[list[str], list[int]]:
        """Return texts with all matches of patterns replaced, and how often each pattern matched.

        Args:
            replacements: One after the other: each works on what those before it have left.
            texts: Which share the limit.
            limit: Seconds of CPU time.

        Raises:
            TimeoutError: when it took longer.
            SearchProcessError: when there is no process to ask.
        """
        request: _Request = ("replace", (list(replacements), list(texts), limit))
        result: tuple[list[str], list[int]] = self._run(request, limit)
        return result

    def _run(self, request: _Request, limit: float) -> Any:
        with self._mutex:
            # Twice, since somebody else may have ended it meanwhile: the system for want of memory, say.
            for _ in range(2):
                start = time.monotonic()
                try:
                    return self._ask(request)
                except _EndedError as error:
                    if error.exit_code == _OUT_OF_TIME or (
                        error.exit_code == _UNKNOWN and time.monotonic() - start >= limit
                    ):
                        raise TimeoutError from None
            raise SearchProcessError("The process that searches was ended twice.")

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            _close_pipes(process)

    def forget(self) -> None:
        """Leave the process to the one that started it: this one was forked from it."""
        self._mutex = threading.Lock()
        process, self._process = self._process, None
        self._ends_at_exit = False
        if process is not None:
            process.returncode = 0  # a child of another process: there is nothing to wait for
            for pipe in (process.stdin, process.stdout):
                # The raw file: to close the buffered one would send half a request of the other process.
                cast("io.BufferedReader | io.BufferedWriter", pipe).raw.close()

    def _ask(self, request: _Request) -> Any:
        if self._process is None:
            self._process = self._start()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            self._process = None
            _close_pipes(process)
            raise _EndedError(process.wait()) from None
        except BaseException:  # Ctrl-C: its reply would be taken for that of the next search
            self.close()
            raise
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        import subprocess

        if not sys.executable or getattr(sys, "frozen", False):  # a frozen program would start itself
            raise SearchProcessError("There is no Python to start.")
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in a terminal goes to all processes of a session
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        except OSError as error:
            raise SearchProcessError(str(error)) from None
        self._wait_until_ready(process)
        if not self._ends_at_exit:
            atexit.register(self.close)
            self._ends_at_exit = True
        return process

    @staticmethod
    def _wait_until_ready(process: subprocess.Popen[bytes]) -> None:
        """Tell a Python that does not start from one that its timer ends: on Windows both exit with 1."""
        try:
            assert process.stdout is not None
            pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            _close_pipes(process)
            raise SearchProcessError(
                f"The Python at {sys.executable} does not start: it exits with {process.wait()}."
            ) from None
        except BaseException:  # Ctrl-C
            process.kill()
            process.wait()
            _close_pipes(process)
            raise


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # what was not sent cannot be, any more
                pipe.close()


search_process: Final = SearchProcess()
"""The one of this process."""
slow_search_process: Final = SearchProcess()
"""Another one, for patterns that are known to be slow: the others do not wait for them."""
if hasattr(os, "register_at_fork"):
    for _process in (search_process, slow_search_process):
        os.register_at_fork(after_in_child=_process.forget)


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Say that this process is ready, and answer searches until there are no more."""
    pickle.dump("ready", replies)
    replies.flush()
    while True:
        try:
            task, arguments = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(_TASKS[task](*arguments), replies)
        replies.flush()


def _search(pattern: str, flags: int, text: str, whole: bool, limit: float) -> Span | None:
    expression = re.compile(pattern, flags)
    _end_after(limit)
    try:
        match = expression.fullmatch(text) if whole else expression.search(text)
    finally:
        _end_after(None)
    return match.span() if match is not None else None


def _replace(
    replacements: Sequence[Replacement], texts: list[str], limit: float
) -> tuple[list[str], list[int]]:
    counts = [0] * len(replacements)
    _end_after(limit)
    try:
        for place, (pattern, replacement) in enumerate(replacements):
            expression = re.compile(pattern)
            template = replacement.replace("\\", "\\\\")  # it stands for itself, as a whole
            for index, text in enumerate(texts):
                texts[index], count = expression.subn(template, text)
                counts[place] += count
    finally:
        _end_after(None)
    return texts, counts


_TASKS: Final[dict[str, Callable[..., object]]] = {"search": _search, "replace": _replace}


def _end_after(seconds: float | None) -> None:
    """Let the system end this process after so much CPU time: while `re` searches, no Python code runs."""
    if _HAS_TIMER:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds or 0)
        return
    import faulthandler

    if seconds is None:
        faulthandler.cancel_dump_traceback_later()
    else:
        faulthandler.dump_traceback_later(seconds, exit=True, file=sys.stderr)


_HAS_TIMER: Final = hasattr(signal, "setitimer")
_OUT_OF_TIME: Final = -signal.SIGVTALRM if _HAS_TIMER else 1
"""The exit code of a process that its timer ended."""
_UNKNOWN: Final = 0
"""What `wait` returns where the program ignores SIGCHLD, or has waited for any child already."""
_FAILED: Final = 3


def main() -> None:
    """Serve the process that started this one."""
    if _HAS_TIMER:  # what the other process does with its signals, this one inherits
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGVTALRM})
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except Exception:  # for want of memory, say; 1 would mean the timer
        sys.exit(_FAILED)


if __name__ == "__main__":
    main()
