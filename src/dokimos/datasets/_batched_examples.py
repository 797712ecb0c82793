"""Examples that are read some at a time, and the summary of those that a stream has given out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from dokimos._core.example import Example
from dokimos.datasets._fingerprint import BATCH, Fingerprint, IdCounter
from dokimos.datasets._row_batches import UsualExamples


@dataclass(frozen=True, slots=True)
class BatchedExamples(Iterable[Example]):
    """Examples one by one, and as the batches that they are read in, which costs less for each.

    What fails is raised between batches: an iterator over them has come to its end then, as a generator has.
    """

    batches: Iterator[Sequence[Example]]

    def __iter__(self) -> Iterator[Example]:
        return chain.from_iterable(self.batches)


class StreamSummary:
    """The fingerprint of the examples that it passes on, and how many of their ids came before."""

    def __init__(self) -> None:
        self._fingerprint = Fingerprint()
        self._ids = IdCounter()
        self._pending: list[Example] = []

    def pass_on(self, examples: Iterable[Example]) -> Iterator[Sequence[Example]]:
        """Yield batches of examples, or single ones where the next may take long to come."""
        if isinstance(examples, BatchedExamples):
            batches: Iterable[Sequence[Example]] = examples.batches
        else:
            batches = ((example,) for example in examples)
        pending = self._pending
        for batch in batches:
            yield batch
            if isinstance(batch, UsualExamples):
                self._add_usual(batch)
            else:
                pending += batch
                if len(pending) >= BATCH:
                    self._add_pending()
            del batch
        self._add_pending()

    def fingerprint(self) -> str:
        return self._fingerprint.digest()

    def duplicate_ids(self) -> int:
        return self._ids.duplicates()

    def _add_usual(self, batch: UsualExamples) -> None:
        self._add_pending()
        contents = batch.contents()
        if contents is None:
            self._fingerprint.add_all(batch)
        else:
            self._fingerprint.add_columns(contents)
        self._ids.add_ids(filter(None, batch.ids))

    def _add_pending(self) -> None:
        self._fingerprint.add_all(self._pending)
        self._ids.add_all(self._pending)
        self._pending.clear()
