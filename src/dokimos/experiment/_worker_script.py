"""A script that starts a run, as each worker process imports it before it works on anything."""

from __future__ import annotations

import sys
import threading
from typing import Any, Final

WORKER_NAME: Final = "dokimos-worker"
"""What the names of worker processes begin with."""
SCRIPT_ADVICE: Final = (
    "A script that starts a run has to be a file that each worker imports, with what starts the run under "
    "if __name__ == '__main__':."
)


_script_imported = threading.Event()


def is_worker() -> bool:
    """Say whether this process is a worker of a run."""
    # A process that has not imported it was not started by it.
    processes: Any = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.current_process().name.startswith(WORKER_NAME)


def note_script_imported() -> None:
    """Note that this worker has imported the script, and that runs are now started by tasks only."""
    _script_imported.set()


def end_second_start() -> None:
    """End this process if it is a worker that would start a run itself, by importing the script.

    Without a word, since the process of the run says what is wrong: the script would do all that it does
    once more in each worker, with the calls of models that it pays for.
    """
    if is_worker() and not _script_imported.is_set():
        sys.exit(1)
