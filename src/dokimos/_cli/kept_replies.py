"""Replies of models that a command keeps until it has come to its end, so that none is paid for twice."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import click

from dokimos._cli.echo import echo


def open_reply_folder(parent: Path, marks: Sequence[object]) -> Path | None:
    """Return the folder for the replies of one piece of work, None where nothing can be written.

    The same marks give the same folder, in which an interrupted command finds what it has paid for. It is
    locked until this command ends: two at once would pay for everything twice.

    Raises:
        RunLockedError: where another command does the same work.
    """
    from dokimos.gate._gate_environment import keep_out_of_git

    folder = parent / hashlib.sha256(json.dumps(marks, default=str).encode()).hexdigest()[:12]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        keep_out_of_git(parent)
        _lock(folder)
    except OSError as error:
        echo(f"Replies are not kept: cannot write {folder} ({error.strerror or error}).", err=True)
        return None
    if any(folder.iterdir()):
        echo(f"Continuing with the replies in {folder}; delete it to ask for all of them again.", err=True)
    return folder


def _lock(folder: Path) -> None:
    from dokimos._runtime.file_lock import LockTaken, ProcessLock
    from dokimos.errors import RunLockedError

    try:
        # Beside the folder, which is deleted in the end.
        lock = ProcessLock(folder.with_name(f"{folder.name}.lock"))
    except LockTaken as taken:
        raise RunLockedError(
            f"Another process{taken.holder} is at the same work, and asks the models for the same replies. "
            "Wait until it has ended, or stop it."
        ) from None
    click.get_current_context().call_on_close(lock.release)


def close_reply_folder(folder: Path | None, *, is_complete: bool) -> None:
    """Let go of the replies where the work is done, and say how it goes on where it is not."""
    if folder is None:
        return
    if is_complete:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        echo("Something is missing; the same command asks only for that.", err=True)


def tell_how_to_continue(folder: Path | None) -> None:
    """Say after Ctrl-C that nothing is lost."""
    if folder is not None:
        echo("The same command goes on; what models have replied is kept.", err=True)
