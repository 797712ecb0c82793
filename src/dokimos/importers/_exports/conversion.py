"""Writes what the importers read, as one data file that is whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from dokimos._core.example import Example
from dokimos.datasets._dataset import Dataset
from dokimos.datasets._source import find_format, stem
from dokimos.datasets._writers import save, write_jsonl
from dokimos.errors import ConfigurationError, DatasetError


def write_examples(examples: Iterable[Example], output: Path, *, source: Path, force: bool) -> int:
    """Write a data set and return how many examples it has; JSONL needs the memory of one example.

    Raises:
        ConfigurationError: if the file exists and is not to be overwritten.
        DatasetError: for an export that cannot be understood; then nothing is written.
    """
    if output.exists() and not force:
        raise ConfigurationError(f"{output} exists already; nothing was written (--force overwrites it).")
    counted = _Counted(examples, source)
    if find_format(os.fspath(output)) == "jsonl":
        write_jsonl(counted, output)
    else:
        save(Dataset(counted, stem(source.name)), output)
    return counted.count


class _Counted:
    """The examples of an export, of which there is at least one and none has the id of another."""

    def __init__(self, examples: Iterable[Example], source: Path) -> None:
        self._examples = examples
        self._source = source
        self.count = 0

    def __iter__(self) -> Iterator[Example]:
        ids: set[str] = set()
        for example in self._examples:
            if example.id is not None and example.id in ids:
                raise DatasetError(f"The id {example.id!r} is given twice.", path=self._source)
            ids.update(() if example.id is None else (example.id,))
            self.count += 1
            yield example
        if not self.count:
            raise DatasetError("There is nothing to import in this file.", path=self._source)
