"""What a search has done, one line each: a resumed search does nothing of it again."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from dokimos._core.jsonable import jsonable
from dokimos.errors import JournalError

T = TypeVar("T")

JOURNAL_FILE: Final = "journal.jsonl"


class SearchJournal:
    """Keeps the outcome of each step under a key; lines are on disk before anything builds on them.

    A search is deterministic except for its steps: proposals of the model, runs of the application. When
    resumed, it goes through its course again and takes the steps that are known from here.
    """

    def __init__(self, folder: Path | None) -> None:
        self._known: dict[str, Any] = {}
        self._file: int | None = None
        if folder is not None:
            path = folder / JOURNAL_FILE
            self._read(path)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def get(self, key: str) -> Any:
        """Return the outcome of a step, None where it has not been done."""
        return self._known.get(key)

    def put(self, key: str, outcome: object) -> None:
        """Keep the outcome of a step."""
        tree = jsonable(outcome)
        self._known[key] = tree
        if self._file is not None:
            line = json.dumps({"step": key, "outcome": tree}, ensure_ascii=False, allow_nan=False)
            os.write(self._file, line.encode("utf-8", "surrogatepass") + b"\n")
            # Before anyone acts on the outcome: what a search builds on survives a power cut.
            os.fsync(self._file)

    async def once(self, key: str, work: Callable[[], Awaitable[T]], read: Callable[[Any], T]) -> T:
        """Return the outcome of a step, which is done unless it is known."""
        if key in self._known:
            return read(self._known[key])
        outcome = await work()
        self.put(key, outcome)
        return outcome

    def outcomes(self, prefix: str) -> list[Mapping[str, Any]]:
        """Return the outcomes of all steps whose key begins like this."""
        return [outcome for key, outcome in self._known.items() if key.startswith(prefix)]

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read(self, path: Path) -> None:
        """Read what is there; a last line that was cut off is dropped, for it was never built on."""
        if not path.exists():
            return
        content = path.read_bytes()
        # A line counts once its line break is there, since that is written last.
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                entry = json.loads(line.decode("utf-8", "surrogatepass"))
                self._known[entry["step"]] = entry["outcome"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise JournalError(f"{path}:{number} is damaged: {error}.") from None
        if len(whole) < len(content):
            os.truncate(path, len(whole))
