"""The model calls of a run: the stores of judge replies, and the budget of all calls."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from dokimos._core.text import pluralize
from dokimos._http.breaker import Breakers
from dokimos._runtime.redaction import Redactor, secret_redactor
from dokimos._runtime.scoring_threads import ThreadLimit
from dokimos.errors import ConfigurationError
from dokimos.judges._budget import TASK, MemoryLedger
from dokimos.judges._cassette import Cassette
from dokimos.judges._cassette_mode import CassetteMode
from dokimos.judges._judge_calls import CallStore
from dokimos.judges._run_call_store import CALLS_FILE, RunCallStore
from dokimos.judges._run_scope import RunScope

if TYPE_CHECKING:
    from dokimos._core.metrics import CallMetrics
    from dokimos.experiment._redaction import Redact
    from dokimos.experiment._reuse import EarlierOutputs
    from dokimos.experiment._run_options import RunOptions
    from dokimos.judges._cache import ReplyCache
    from dokimos.judges._run_call_store import EarlierCallStore

CASSETTE_VARIABLE: Final = "DOKIMOS_CASSETTE"
MODE_VARIABLE: Final = "DOKIMOS_CASSETTE_MODE"


class ModelCalls:
    """The call stores, the budget and the circuit breakers that the judges and the task of a run share."""

    def __init__(self, options: RunOptions, redact: Redact | None = None) -> None:
        self.ledger = None if options.budget is None else MemoryLedger(options.budget)
        self.breakers = Breakers(patience=options.patience, start_seconds=options.wait_for_endpoint or 0.0)
        self._clean = _build_redactor(redact)
        self._cassette = _cassette_of(options, self._clean)
        # What the environment names is shared by all runs of the process, so none of them asks everything.
        self._asks_everything = options.shard is None and options.cassette is not None
        self._cache = _cache_of(options, self._clean)
        self._is_recording = options.cassette_mode == "record"
        self._calls: RunCallStore | None = None
        self._earlier: list[EarlierCallStore] = []
        self._retries = options.retry_errors
        self._evaluator_timeout = options.evaluator_timeout
        self._ask_again: set[str] = set()
        self._problem: str | None = None

    @property
    def refusal(self) -> str | None:
        """Why the budget did not let a call through, None as long as it lets all."""
        return None if self.ledger is None else self.ledger.refusal

    def open(
        self, folder: Path | None, earlier: EarlierOutputs | None = None, *, retry_unusable: bool = False
    ) -> None:
        """Store replies in a run folder, and use those that are there already or in earlier runs.

        Replies there that were of no use are asked for again with `retry_unusable`, or `retry_errors`.
        """
        if earlier is not None and not self._is_recording:  # a recording asks for everything
            self._earlier = earlier.call_stores()
        if folder is None:
            return
        self._calls = RunCallStore(folder / CALLS_FILE, clean=self._clean)
        if self.ledger is not None:
            # A resumed run continues the budget of its earlier processes, and gets no new one.
            for judge, metrics in self._calls.costs():
                self.ledger.record(judge, metrics)
        if self._retries or retry_unusable:
            self._ask_again = self._calls.unusable_keys()
        if self._cassette is not None:
            # Nobody asks for these replies again, so the cassette would lack what the earlier process had
            # recorded.
            self._cassette.adopt(self._calls.recordings())

    def scope(self, run_index: int, seed: int | None, *, parallelism: int) -> RunScope:
        """Return the scope of one repeat, on the running event loop."""
        return RunScope(
            run_index=run_index,
            seed=seed,
            call_stores=tuple(self._stores()),
            budget=self.ledger,
            breakers=self.breakers,
            in_flight={},
            retry_keys=self._ask_again,
            evaluator_timeout=self._evaluator_timeout,
            threads=ThreadLimit(parallelism),
        )

    def count_earlier_tasks(self, earlier: Iterable[CallMetrics]) -> None:
        """Count the task's calls in earlier processes of this run towards the budget."""
        if self.ledger is not None:
            for metrics in earlier:
                self.ledger.record(TASK, metrics)

    def close(self, *, completed: bool) -> None:
        """Write the cassette and close all files."""
        if self._cassette is not None:
            try:
                self._cassette.save(whole=completed and self._asks_everything)
            except (OSError, ConfigurationError) as error:
                self._problem = f"The cassette {self._cassette.path} could not be written: {error}"
        for store in (self._calls, self._cache, *self._earlier):
            if store is not None:
                store.close()

    def warnings(self) -> list[str]:
        """Return what a reader of the result should know about the calls, in sentences."""
        sentences = [] if self._problem is None else [self._problem]
        for part in (self._calls, self._cache, self.ledger):
            if part is not None:
                sentences += part.warnings()
        if taken := sum(store.outputs_reused for store in self._earlier):
            sentences.append(
                f"{pluralize(taken, 'reply', 'replies')} of models reused from earlier runs, at no cost."
            )
        return sentences

    def _stores(self) -> Iterator[CallStore]:
        """Yield the stores in order of lookup: the cassette comes first, so that it gets every reply."""
        for store in (self._cassette, self._calls, self._cache, *self._earlier):
            if store is not None:
                yield store


def _build_redactor(redact: Redact | None) -> Redactor:
    redact_secrets = secret_redactor()
    return redact_secrets if redact is None else lambda text: redact_secrets(redact(text))


def _cassette_of(options: RunOptions, clean: Redactor) -> Cassette | None:
    path = options.cassette or os.environ.get(CASSETTE_VARIABLE)
    if not path:
        return None
    mode = options.cassette_mode or os.environ.get(MODE_VARIABLE) or "auto"
    return Cassette(path, cast("CassetteMode", mode), clean=clean)


def _cache_of(options: RunOptions, clean: Redactor) -> ReplyCache | None:
    if options.cache is False:
        return None
    from dokimos.judges._cache import ReplyCache  # loads sqlite3

    return ReplyCache(None if options.cache is True else Path(options.cache), clean=clean)
