"""A part of a run: selected items of a data set, which must never be taken for the whole of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dokimos._core.example import Example
from dokimos._core.text import pluralize
from dokimos.datasets._dataset import Dataset, DatasetStream
from dokimos.experiment._example_source import ExampleSource

PartReason = Literal["failed", "estimate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which items of a data set a run was started for."""

    reason: PartReason
    total: int
    """Examples in the whole data set."""
    hashes: tuple[str, ...]
    """Content hashes of the examples that were chosen."""
    of: str | None = None
    """The run in which they had failed."""

    def __str__(self) -> str:
        chosen = f"{len(self.hashes):,} of {pluralize(self.total, 'item')}"
        return (
            f"{chosen} that failed in {self.of}" if self.reason == "failed" else f"{chosen}, for an estimate"
        )

    @classmethod
    def of_tree(cls, tree: Mapping[str, Any]) -> Part:
        """Read what `tree` wrote."""
        return cls(
            reason=tree["reason"], total=tree["total"], hashes=tuple(tree["hashes"]), of=tree.get("of")
        )

    def tree(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"reason": self.reason, "total": self.total, "hashes": list(self.hashes), "of": self.of}

    def select(self, dataset: Dataset | DatasetStream) -> Dataset:
        """Return the chosen examples of a data set, in its order."""
        selected = set(self.hashes)
        chosen = [example for example, mark in hash_examples(dataset) if mark in selected]
        return subset_of(dataset, chosen)


def subset_of(dataset: Dataset | DatasetStream, chosen: Iterable[Example]) -> Dataset:
    """Return examples of a data set as a data set of the same name."""
    if isinstance(dataset, Dataset):
        return dataset.subset(chosen)
    return Dataset(chosen, name=dataset.name, description=dataset.description, source=dataset.source)


def hash_examples(dataset: Dataset | DatasetStream) -> Iterator[tuple[Example, str]]:
    """Yield the examples with the hashes that identify them in journals."""
    for sourced in ExampleSource(dataset, None, with_json=True):
        yield sourced.example, sourced.hash
