"""A run as the page holds it; kept beside its journal, so that it is put together once."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dokimos._core.jsonable import JsonValue
from dokimos._dashboard.overview import build_overview, collect_verdicts
from dokimos._version import __version__
from dokimos.experiment._run_journal import JOURNAL_FILE
from dokimos.experiment._run_loading import load_run
from dokimos.experiment._run_manifest import MANIFEST_FILE
from dokimos.exporters._html_data import Packer
from dokimos.exporters._item_runs import items_of, tag_keys

MAX_TEXT_LENGTH: Final = 8_000
"""Characters of a text that are kept; `dokimos show` and the reports have the rest."""
CACHE_FILE: Final = "dashboard.z"
FORMAT: Final = 3
COMMON_PARTS: Final = (3, 4, 5)
"""Where an item has its inputs, expected outputs and metadata."""


@dataclass(frozen=True, slots=True)
class PackedRun:
    """What the page needs of a run."""

    overview: dict[str, Any]
    verdicts: Mapping[str, bool | None]
    tree: dict[str, Any]
    """Its items; what they have in common with those of other runs is given by its position in `shared`."""
    shared: list[str]

    def with_shared(self, texts: dict[str, int]) -> dict[str, JsonValue]:
        """Return the items with their common texts in a table that several runs share."""
        # Position n is -2 - n, as in Packer: -1 means none there, and what counts from 0 is the run's own.
        references = [-2 - texts.setdefault(text, len(texts)) for text in self.shared]
        items = [list(item) for item in self.tree["items"]]
        for item in items:
            for part in COMMON_PARTS:
                item[part] = [references[-2 - index] for index in item[part]]
        return {**self.tree, "items": items}


def pack_run(folder: Path) -> PackedRun:
    """Put a run together, or read it as it was put together before.

    Raises:
        JournalError: when the folder does not hold a readable run.
    """
    stamp = _stamp(folder)
    pack = _read_cache(folder / CACHE_FILE, stamp)
    if pack is None:
        pack = _pack(folder)
        _write_cache(folder / CACHE_FILE, stamp, pack)
    return pack


def _pack(folder: Path) -> PackedRun:
    result = load_run(folder)
    items = items_of(result)
    shared: dict[str, int] = {}
    tree = Packer(result, tag_keys(items), longest=MAX_TEXT_LENGTH, shared=shared).pack(items)
    return PackedRun(build_overview(result, items), collect_verdicts(items), tree, list(shared))


def _stamp(folder: Path) -> list[Any]:
    """Return what changes whenever the run does."""
    # The version too: another one may count or render in another way.
    stamp: list[Any] = [FORMAT, __version__]
    for name in (JOURNAL_FILE, MANIFEST_FILE):
        with contextlib.suppress(OSError):
            state = (folder / name).stat()
            # A journal is only appended to, so size and time tell a change; reading it may take seconds.
            stamp += [state.st_size, state.st_mtime_ns]
    return stamp


def _read_cache(path: Path, stamp: list[Any]) -> PackedRun | None:
    try:
        tree = json.loads(zlib.decompress(path.read_bytes()))
        if tree["stamp"] != stamp:
            return None
        return PackedRun(tree["overview"], tree["verdicts"], tree["tree"], tree["shared"])
    except (OSError, ValueError, KeyError, TypeError, zlib.error):
        return None


def _write_cache(path: Path, stamp: list[Any], run: PackedRun) -> None:
    """Write the file whole or not at all; without it the run is put together again."""
    tree = {"stamp": stamp, "overview": run.overview, "verdicts": run.verdicts, "tree": run.tree}
    text = json.dumps({**tree, "shared": run.shared}, ensure_ascii=False, separators=(",", ":"))
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # Level 1: this file is read and written often, and only here.
        draft.write_bytes(zlib.compress(text.encode("utf-8", "backslashreplace"), 1))
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
