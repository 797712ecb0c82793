"""Runs a candidate offline against what models and tools really answered, as a trace recorded it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dokimos._exports import lazy_exports

if TYPE_CHECKING:
    from dokimos.replay._recordings import record_calls as record_calls
    from dokimos.replay._replay import Replay as Replay
    from dokimos.replay._replay_task import replay_task as replay_task

_MODULE_OF: Final = {
    "Replay": "dokimos.replay._replay",
    "record_calls": "dokimos.replay._recordings",
    "replay_task": "dokimos.replay._replay_task",
}
__all__ = ["Replay", "record_calls", "replay_task"]

if not TYPE_CHECKING:  # so that type checkers still report a name that does not exist
    __getattr__, __dir__ = lazy_exports(__name__, _MODULE_OF)
