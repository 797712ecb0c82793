"""A result in a file, such as a JSON report, as a source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dokimos._core.results import ExperimentResult
from dokimos.client._bodies import Escapes, evaluator_bodies, run_body
from dokimos.client._push import describe_start, describe_status, encode_items, key_of_content
from dokimos.client._run_start import describe_opening, format_utc
from dokimos.exporters._json import load_result
from dokimos.server._view.read_marks import ReadMark
from dokimos.server._view.run_sources import MOST_BYTES, MOST_ITEMS, Batch, Ending


class ResultFile:
    """A file with a result, which has ended; read whole, and sent again where the file has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.key = str(path.resolve())
        self.name = path.name
        self._escapes = Escapes()
        self._result: ExperimentResult | None = None
        self._items: Iterator[bytes] = iter(())

    def stamp(self) -> list[int]:
        try:
            state = self.path.stat()
        except OSError:
            return []
        return [state.st_size, state.st_mtime_ns]

    def begin(self, mark: ReadMark) -> None:
        self._result = load_result(self.path)
        self._items = encode_items(self._result, self._escapes, has_tracebacks=True)

    def describe(self, project: str) -> dict[str, Any]:
        assert self._result is not None
        key = key_of_content(self._result)
        return describe_opening(describe_start(self._result), project, self._escapes, key)

    def take(self) -> Batch | None:
        items: list[bytes] = []
        size = 0
        for item in self._items:
            items.append(item)
            size += len(item)
            if len(items) == MOST_ITEMS or size >= MOST_BYTES:
                break
        return Batch(items, None) if items else None

    def finish(self, mark: ReadMark) -> Ending | None:
        assert self._result is not None
        return Ending(
            status=describe_status(self._result.status),
            completed_at=format_utc(self._result.provenance.ended_at),
            evaluators=evaluator_bodies(self._result.evaluators, self._escapes),
            body=run_body(describe_start(self._result), self._escapes),
        )

    def close(self) -> None:
        self._result = None
        self._items = iter(())
