"""The manifest of a run, `run.json`: what the run is, and how it was started."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

from dokimos._core.jsonable import jsonable
from dokimos.errors import JournalError

FORMAT: Final = 1
MANIFEST_FILE: Final = "run.json"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Read `run.json`. Raises `JournalError` if it is missing, damaged or of a newer format."""
    path = folder / MANIFEST_FILE
    try:
        manifest: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise JournalError(f"{folder} is not a run folder: it has no {MANIFEST_FILE}.") from None
    except (ValueError, RecursionError) as error:
        raise JournalError(f"{path} is damaged: {error}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format", FORMAT), int):
        raise JournalError(f"{path} is damaged: it does not hold a run.")
    if manifest.get("format", FORMAT) > FORMAT:
        raise JournalError(f"{path} was written by a newer dokimos (format {manifest['format']}).")
    return cast("dict[str, Any]", manifest)


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write `run.json` atomically."""
    path = folder / MANIFEST_FILE
    temporary = path.with_suffix(".tmp")
    text = json.dumps({"format": FORMAT, **jsonable(manifest)}, ensure_ascii=False, indent=2)
    with temporary.open("w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text + "\n")
        file.flush()
        # Without this a loss of power could leave the new name with an empty file.
        os.fsync(file.fileno())
    os.replace(temporary, path)
