"""The garbage collector while a command starts: imports leave little garbage, and much to look through."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final


class StartCollector:
    """Pauses the garbage collector for the imports of a command, and leaves out later what they have made.

    A suite whose agent is declared loads 1,700 modules: to look through them again and again takes a fifth
    of the CPU of its start (`benchmarks/suites_agent.py`). Only a command may do this, with `manage`. In a
    program that uses dokimos as a library nothing of it has any effect.
    """

    def __init__(self) -> None:
        self.has_user_code = False
        """Whether something was imported because the user names it, or as a plugin of dokimos."""
        self._is_managed = False
        self._may_pause_again = False
        self._is_paused = False
        """By this, and not by the user's own `gc.disable`, which stays in force."""
        self._switching = Lock()  # the framework is imported in a thread, while Ctrl-C may end the command

    @contextmanager
    def manage(self) -> Iterator[None]:
        """Pause the collector until `resume`; after the block it is as it was."""
        if self._is_managed or not gc.isenabled():
            yield
            return
        with self._switching:
            self._is_managed = self._may_pause_again = self._is_paused = True
            gc.disable()
        try:
            yield
        finally:
            with self._switching:
                self._is_managed = self._may_pause_again = self._is_paused = False
                # All of it becomes old, or the collector would begin with it.
                gc.freeze()
                gc.enable()
                gc.unfreeze()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause the collector again for further imports, the first time that a command asks for it.

        Later ones find everything imported, and would leave out what the run has made by then.
        """
        with self._switching:
            if self._may_pause_again and gc.isenabled():
                self._may_pause_again = False
                # What the user's modules have left behind, which is never looked at later. Without such
                # modules it takes 5 ms, since all that was made before `resume` is left out.
                gc.collect()
                gc.disable()
                self._is_paused = True
        try:
            yield
        finally:
            self.resume()

    def resume(self) -> None:
        """Let garbage be collected, among what is made from now on."""
        with self._switching:
            if self._is_paused:
                self._is_paused = False
                # Before it is enabled, or it would begin with all that was made meanwhile.
                gc.freeze()
                gc.enable()

    def before_user_code(self) -> None:
        """Enable the collector for an import of the user's, which may leave any amount of garbage."""
        self.has_user_code = True
        self.resume()


start_collector: Final = StartCollector()
"""That of this process."""
