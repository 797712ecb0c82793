"""The process that compares runs: reads jobs from its standard input and writes what came out."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import traceback

from dokimos.server._db.database import DatabaseUnavailable, read_once
from dokimos.server._services.comparison_jobs import ComparisonJob
from dokimos.server._services.errors import ServiceError, UnavailableError
from dokimos.server._services.run_comparison import compare_stored_runs
from dokimos.server._settings import ServerSettings
from dokimos.server._workers.comparison_process import read_frame, write_frame

_NICENESS = 5
"""Requests come first where both want the same processor."""


def main() -> None:
    """Answer jobs until the server closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    jobs, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not write among the answers
    with contextlib.suppress(EOFError, BrokenPipeError):
        settings: ServerSettings = read_frame(jobs)
        while True:
            write_frame(answers, _answer(settings, read_frame(jobs)))


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
    except Exception:
        return traceback.format_exc()
    finally:
        gc.enable()


if __name__ == "__main__":
    main()
