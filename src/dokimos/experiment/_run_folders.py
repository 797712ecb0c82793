"""The folders of runs: `.dokimos/runs/<run id>/`."""

from __future__ import annotations

import datetime
import secrets
from itertools import count
from pathlib import Path
from typing import Final

from dokimos.errors import JournalError
from dokimos.experiment._run_manifest import MANIFEST_FILE

HOME: Final = ".dokimos"


def runs_root(run_dir: str | Path | None = None) -> Path:
    """Return the folder that holds the run folders."""
    return Path(run_dir) if run_dir is not None else Path(HOME) / "runs"


def new_run_id(now: datetime.datetime) -> str:
    """Return an id in UTC that sorts by time to the millisecond, such as `20261121-221405-0427f3a`."""
    utc = now.astimezone(datetime.UTC)
    return f"{utc:%Y%m%d-%H%M%S}-{utc.microsecond // 1000:03d}{secrets.token_hex(2)}"


def create_run_folder(root: Path, run_id: str) -> Path:
    """Create the folder of a new run. Raises `OSError` if that is not possible."""
    root.mkdir(parents=True, exist_ok=True)
    keep_out_of_git(root.parent)
    folder = root / run_id
    for number in count(2):
        try:
            # Two processes may start in the same millisecond: mkdir decides which of them has the name.
            folder.mkdir()
        except FileExistsError:
            folder = root / f"{run_id}-{number}"
        else:
            return folder
    raise AssertionError("unreachable")


def keep_out_of_git(home: Path) -> None:
    """Have git ignore our own folder, which holds runs and what is made of them. Raises `OSError`."""
    ignore = home / ".gitignore"
    if home.name == HOME and not ignore.exists():
        ignore.write_text("# Runs are kept here by dokimos; nothing in this folder belongs in git.\n*\n")


def find_run(run: str | Path, root: Path) -> Path:
    """Return the folder of a run that is named by its id, a prefix of its id, its folder, or `latest`.

    Raises:
        JournalError: if there is no such run, or several ids have this prefix.
    """
    as_path = Path(run)
    if (as_path / MANIFEST_FILE).is_file():
        return as_path
    folders = list_run_folders(root) if str(run) else []
    if str(run) == "latest" and folders:
        return folders[-1]
    matching = [folder for folder in folders if folder.name.startswith(str(run))]
    exact = [folder for folder in matching if folder.name == str(run)]
    if len(exact or matching) == 1:
        return (exact or matching)[0]
    if matching:
        names = ", ".join(folder.name for folder in matching[:5])
        raise JournalError(f"Several runs in {root} start with {str(run)!r}: {names}.")
    raise JournalError(_explain_missing_run(run, root, folders))


def _explain_missing_run(run: str | Path, root: Path, folders: list[Path]) -> str:
    if str(run) and Path(run).is_dir():
        return f"{run} is not a run folder: it has no {MANIFEST_FILE}."
    latest = ", ".join(folder.name for folder in folders[-3:]) or "none"
    return f"No run {str(run)!r} in {root}. The last ones there are: {latest}."


def list_run_folders(root: Path) -> list[Path]:
    """Return the run folders in the order in which the runs were started."""
    if not root.is_dir():
        return []
    return sorted(folder for folder in root.iterdir() if (folder / MANIFEST_FILE).is_file())
