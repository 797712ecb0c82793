"""The cassettes of test modules: one beside each module, shared by all judge calls of its tests."""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from dokimos.experiment._model_calls import CASSETTE_VARIABLE, MODE_VARIABLE

if TYPE_CHECKING:
    from dokimos.judges._cassette import Cassette
    from dokimos.judges._cassette_mode import CassetteMode

FOLDER: Final = "cassettes"

_open: dict[tuple[str, str], Cassette] = {}


def cassette_of_module(module: Path) -> Path:
    """Return where the cassette of a test module is: `tests/cassettes/test_x.cassette.jsonl`."""
    return module.parent / FOLDER / f"{module.stem}.cassette.jsonl"


def use_cassette(path: Path, mode: str) -> None:
    """Send every judge call of this process through a cassette from now on."""
    # By the environment, which experiments that a test runs, and programs that it starts, read as well.
    os.environ[CASSETTE_VARIABLE] = str(path)
    os.environ[MODE_VARIABLE] = mode


def use_no_cassette() -> None:
    """Undo `use_cassette`."""
    os.environ.pop(CASSETTE_VARIABLE, None)
    os.environ.pop(MODE_VARIABLE, None)


def current_cassette() -> Cassette | None:
    """Return the cassette that the environment names, opened once in a process.

    Raises:
        ConfigurationError: if there is no cassette to replay, or it is damaged.
    """
    path, mode = os.environ.get(CASSETTE_VARIABLE), os.environ.get(MODE_VARIABLE) or "auto"
    if not path:
        return None
    if (path, mode) not in _open:
        from dokimos.judges._cassette import Cassette

        if not _open:
            atexit.register(save_cassettes)
        _open[path, mode] = Cassette(path, cast("CassetteMode", mode))
    return _open[path, mode]


def save_cassettes() -> None:
    """Save the cassettes that have new replies."""
    for cassette in _open.values():
        cassette.save()
