"""The process that compares runs: reads jobs from its standard input and writes what came out."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import traceback
from typing import Final

from dokimos.server._db.database import DatabaseUnavailable, read_once
from dokimos.server._services.comparisons.comparison_jobs import ComparisonJob
from dokimos.server._services.comparisons.run_comparison import compare_stored_runs
from dokimos.server._services.errors import ConflictError, ServiceError, UnavailableError
from dokimos.server._settings import MEBIBYTE, ServerSettings
from dokimos.server._workers.comparison_process import read_frame, write_frame

_NICENESS: Final = 19
"""Requests come first where both want the same processor."""
_LARGE_SHARE: Final = 0.25
"""Of the memory that a process may take: one that took more is not used again, as it gives little back."""


def main() -> None:
    """Answer jobs until the server closes the pipe, or one has taken much memory."""
    # Sent to all processes of a terminal or a service, they are for the server, which ends this process.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    jobs, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not write among the answers
    with contextlib.suppress(EOFError, BrokenPipeError):
        settings: ServerSettings = read_frame(jobs)
        _limit_memory(settings.comparison_memory_bytes)
        is_last = False
        while not is_last:
            answer = _answer(settings, read_frame(jobs))
            is_last = _peak_memory() > _LARGE_SHARE * settings.comparison_memory_bytes
            write_frame(answers, (answer, is_last))


def _limit_memory(most_bytes: int) -> None:
    """Have an allocation beyond this fail, rather than the machine run out of memory."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or most_bytes < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, hard))


def _peak_memory() -> int:
    """Return the most bytes that this process has taken; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    # On Linux, `ru_maxrss` begins with the peak of the process that started this one.
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _answer(settings: ServerSettings, job: ComparisonJob) -> object:
    """What came out, an error for the caller, or the text of one for the log."""
    # Two runs of 10,000 items are a million values that live until the answer is there. Looking for cycles
    # among them took 0.4 of 2.0 s (`benchmarks/server_comparison.py`); there are none.
    gc.disable()
    try:
        return read_once(settings, lambda connection: compare_stored_runs(connection, job))
    except ServiceError as error:
        return error
    except DatabaseUnavailable as error:
        return UnavailableError(f"The database could not be read: {error}")
    except MemoryError:
        return ConflictError(
            "The runs are too large to be compared with the "
            f"{settings.comparison_memory_bytes // MEBIBYTE} MiB that DOKIMOS_COMPARISON_MEMORY_MIB allows"
        )
    except Exception:
        return traceback.format_exc()
    finally:
        gc.enable()


if __name__ == "__main__":
    main()
