"""The examples of one repeat, handed out one at a time to its workers."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.fast_constructor import fast_factory
from dokimos._core.text import pluralize
from dokimos._core.tracebacks import format_located_error
from dokimos._runtime.concurrency import call_in_thread
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.datasets._fingerprint import canonical_json, canonical_jsons
from dokimos.errors import ConfigurationError, DatasetError, DokimosError
from dokimos.experiment._redaction import Redact, redact_example

ROWS_AHEAD: Final = 100
"""How many examples of a stream are read before the first is run, to see the names of their inputs."""


@dataclass(frozen=True, slots=True)
class SourcedExample:
    """An example with its index, and with its JSON and hash if a journal needs them.

    Where a resumed run knows the hashes already, there is no JSON until `with_json` makes it.
    """

    index: int
    example: Example
    json: str = ""
    hash: str = ""

    def with_json(self) -> SourcedExample:
        """Return it with the JSON of the example as it is now, if a journal needs it."""
        if self.json or not self.hash:
            return self
        return _with_hash(self.index, self.example)

    def redact_json(self, redact: Redact) -> str:
        """Return the redacted JSON for the journal; the hash is still that of the original."""
        return canonical_json(redact_example(self.example, redact))


_EMPTY_HASH: Final = hashlib.blake2b(digest_size=8)
_new_sourced: Final = fast_factory(SourcedExample)


def content_hash(example_json: str) -> str:
    """Return 16 hex digits that tell whether an example has changed."""
    digest = _EMPTY_HASH.copy()  # in two thirds of the time that a new one takes
    digest.update(example_json.encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def hash_numbers(examples: Sequence[Example]) -> array[int]:
    """Return the content hashes of examples as numbers."""
    digests = []
    for text in canonical_jsons(examples):
        digest = _EMPTY_HASH.copy()
        digest.update(text.encode())  # which is ASCII
        digests.append(digest.digest())
    numbers = array("Q", b"".join(digests))
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _with_hash(index: int, example: Example) -> SourcedExample:
    text = canonical_json(example)
    return _new_sourced(index, example, text, content_hash(text))


def count_examples(dataset: Dataset | DatasetStream, shard: tuple[int, int] | None) -> int | None:
    """Return the number of examples of a shard, None if it is not known before the end."""
    if not isinstance(dataset, Dataset):
        return None
    first, step = shard or (1, 1)
    return len(range(first - 1, len(dataset), step))


class ExampleSource:
    """Iterates over a data set once, selects the shard and counts the examples."""

    def __init__(
        self,
        dataset: Dataset | DatasetStream,
        shard: tuple[int, int] | None,
        *,
        with_json: bool,
        known_hashes: array[int] | None = None,
    ) -> None:
        """Begin to iterate.

        Args:
            dataset: What to iterate over.
            shard: Which shard, from 1, of how many; None for the whole.
            with_json: Whether examples get their JSON and hash.
            known_hashes: The hash of each example, where they have been computed before. To compute them
                again took a tenth of the CPU of a resumed run (`benchmarks/finished_runs.py resume`).
        """
        self.seen = 0
        self.exhausted = False
        self._dataset = dataset
        self._shard = shard
        self._with_json = with_json
        self._known_hashes = known_hashes
        self._examples = iter(dataset)
        self._ahead: deque[Any] = deque()
        """Examples that were read ahead and are still to be handed out."""
        self.waits = isinstance(dataset, DatasetStream) and dataset.waits
        self._turn = asyncio.Lock()

    @property
    def example_count(self) -> int | None:
        """The number of examples, None if it is not known before the end."""
        return count_examples(self._dataset, self._shard)

    async def input_keys(self) -> set[str]:
        """Return the names of the inputs of the first 100 examples, or of the first one of a slow source."""
        if self.waits:
            # Only one: a live source may need minutes for a hundred rows, and nothing would run until then.
            await call_in_thread(self._look_ahead, 1)
        else:
            self._look_ahead(ROWS_AHEAD)
        return {key for row in self._ahead if isinstance(row, Example) for key in row.inputs}

    def _look_ahead(self, count: int) -> None:
        try:
            self._ahead.extend(islice(self._examples, count))
        except Exception as error:
            # Raised when it is its turn: the rows before it are still run.
            self._ahead.append(error)

    def _next(self) -> Any:
        if not self._ahead:
            return next(self._examples)
        row = self._ahead.popleft()
        if isinstance(row, Exception):
            raise row
        return row

    async def take(self) -> SourcedExample | None:
        """Return the next example, None at the end; a slow source does not block the event loop."""
        if not self.waits:
            return next(self, None)
        # Python's iterators cannot be advanced by two threads at once.
        async with self._turn:
            return await call_in_thread(next, self, None)

    def pass_over(self, take: Callable[[range, array[int], Sequence[Example]], int]) -> None:
        """Pass over the examples that come next, as many as `take` has taken, until it takes none.

        It gets the indexes of those that come next, and the hashes and examples of the whole data set. None
        is passed over where their hashes have not been computed before.
        """
        hashes = self._known_hashes
        if hashes is None or type(self._dataset) is not Dataset:
            return
        first, step = self._shard or (1, 1)
        while True:
            start = self.seen + (first - 1 - self.seen) % step
            taken = take(range(start, len(hashes), step), hashes, self._dataset.examples)
            if not taken:
                return
            self._skip(start + (taken - 1) * step + 1 - self.seen)

    def _skip(self, count: int) -> None:
        """Take this many examples that nobody needs."""
        self.seen += count
        while count and self._ahead:
            self._ahead.popleft()
            count -= 1
        next(islice(self._examples, count, count), None)

    def __iter__(self) -> Iterator[SourcedExample]:
        return self

    def __next__(self) -> SourcedExample:
        while True:
            try:
                example = self._next()
            except StopIteration:
                self.exhausted = True
                if not self.seen:
                    raise ConfigurationError(f"The dataset {self._dataset.name!r} has no examples.") from None
                raise
            except DokimosError:
                raise
            except Exception as error:
                message = (
                    f"The data set {self._dataset.name!r} failed after {pluralize(self.seen, 'example')}"
                )
                raise DatasetError(f"{message}: {format_located_error(error)}") from error
            if not isinstance(example, Example):
                kind = type(example).__name__
                raise DatasetError(
                    f"The data set {self._dataset.name!r} gave a {kind} instead of an Example."
                )
            index = self.seen
            self.seen += 1
            if self._shard is None or index % self._shard[1] == self._shard[0] - 1:
                break
        if not self._with_json:
            return _new_sourced(index, example)
        if self._known_hashes is not None:
            return _new_sourced(index, example, "", f"{self._known_hashes[index]:016x}")
        return _with_hash(index, example)
