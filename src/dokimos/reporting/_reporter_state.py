"""What a reporter keeps with a run, so that it is there again when the run is resumed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dokimos._core.jsonable import JsonValue
from dokimos.errors import ReporterError


class ReporterState(Mapping[str, Any]):
    """A few values that a reporter keeps in the folder of a run: ids at its destination, for example.

    Each reporter of a run has a state of its own, which all repeats share and a resumed run finds again by
    what the reporter calls itself in `identity`, else by the name of its class. A reporter to a server puts
    the address of the server into its `identity`, without a key: a resumed run that reports to another server
    begins there anew. Without a journal, the values last as long as the run.

    Example:
        >>> state = ReporterState()
        >>> state.keep("run-0", "8f14e45f")
        >>> state.get("run-0"), state.get("run-1")
        ('8f14e45f', None)
    """

    def __init__(
        self, values: Mapping[str, JsonValue] | None = None, write: Callable[[str, str], None] | None = None
    ) -> None:
        self._values = dict(values or {})
        self._write = write
        self._lock = threading.Lock()

    def keep(self, key: str, value: JsonValue) -> None:
        """Keep a value under a key, in place of an earlier one; it is on disk when this returns.

        May be called from any thread until the run has ended. Each call waits for the disk, so this is for
        what happens a few times in a run, not for each item. Where the journal can no longer be written, as
        on a full disk, the run warns that it cannot be resumed, and the value lasts as long as the run.

        Raises:
            ReporterError: for a key that is not a text, a value that JSON cannot hold, or after the run.
        """
        given: Any = key
        if not isinstance(given, str) or not given:
            raise ReporterError(f"A reporter keeps values under a text, not {key!r:.80}.")
        try:
            text = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ReporterError(
                f"The value that a reporter keeps under {key!r:.80} is not JSON: {error}"
            ) from None
        with self._lock:
            if self._write is not None:
                self._write(key, text)
            self._values[key] = json.loads(text)  # so that it is now what a resumed run will read

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"ReporterState({self._values!r})"
